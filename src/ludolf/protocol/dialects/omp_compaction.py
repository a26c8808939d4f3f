"""Compaction events as oh-my-pi writes them: automatic compactions only."""

from typing import Any

from msgspec import UNSET

from ludolf.protocol.dialects.dialect import line
from ludolf.protocol.dialects.omp_messages import short_summary
from ludolf.protocol.events import CompactionEnd, CompactionStart
from ludolf.protocol.replies import Frame

ACTION = "context-full"


def compaction_start(event: CompactionStart) -> Frame | None:
    if event.reason == "manual":
        return None
    return line({"type": "auto_compaction_start", "reason": event.reason, "action": ACTION})


def compaction_end(event: CompactionEnd) -> Frame | None:
    if event.reason == "manual":
        return None
    record: dict[str, Any] = {
        "type": "auto_compaction_end",
        "action": ACTION,
        "result": None,
        "aborted": event.aborted,
        "willRetry": event.will_retry,
    }
    if event.result is not None:
        details = {} if event.result.details is UNSET else event.result.details
        record["result"] = {
            "summary": event.result.summary,
            "shortSummary": short_summary(event.result.summary),
            "firstKeptEntryId": event.result.first_kept_entry_id,
            "tokensBefore": event.result.tokens_before,
            "details": details,
        }
    if event.error_message is not None:
        record["errorMessage"] = event.error_message
    return line(record)
