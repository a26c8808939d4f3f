"""pi of December 2025: no replies at all; what went wrong is an `error` record."""

import re
from typing import TYPE_CHECKING, Any

import msgspec

from ludolf.agent.events import (
    AgentEnd,
    AgentStart,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    QueueUpdate,
    ToolEnd,
    ToolUpdate,
    TurnEnd,
)
from ludolf.ai.messages import text_of
from ludolf.base import dumps, iso_time, now_ms
from ludolf.protocol.dialects.dialect import Dialect, ServerInfo, Traits
from ludolf.protocol.dialects.eager_ends import EagerEnds
from ludolf.protocol.dialects.pi import Pi
from ludolf.protocol.dialects.pi_delta import stream_event
from ludolf.protocol.events import (
    AgentSettled,
    AutoRetryEnd,
    AutoRetryStart,
    BashUpdate,
    CompactionEnd,
    CompactionResult,
    CompactionStart,
    EntryAppended,
    ExtensionError,
    SessionInfoChanged,
    SummaryRetryFinished,
    SummaryRetryScheduled,
    SummaryRetryStart,
    ThinkingLevelChanged,
    Warned,
)
from ludolf.protocol.replies import Frame, Reply
from ludolf.protocol.subagent_events import AgentWaiting

if TYPE_CHECKING:
    from ludolf.protocol.ui import UiRequest

_FAILED = {"compact": "Compaction failed: ", "bash": "Bash command failed: "}
_PARSE = "Failed to parse command: "
# A prompt or command without its text is passed over without a word.
_WITHOUT_TEXT = re.compile(r'(prompt: missing or invalid "message"|bash: .* "command")$')


def _line(record: dict[str, Any]) -> bytes:
    return dumps(record) + b"\n"


class PiEarly(Pi):
    """The end of a run is held until it is sure that no other attempt follows."""

    name = "pi-early"
    traits = Traits(queues_when_busy=True, skips_empty=True, ends_after_run=True)

    def __init__(self) -> None:
        super().__init__()
        self._ends = EagerEnds()
        self._held: Frame | None = None
        self._info = ServerInfo("")
        self._table.update(
            {
                AgentStart: self._agent_start,
                AgentEnd: self._agent_end,
                AgentSettled: self._agent_settled,
                AgentWaiting: self._agent_waiting,
                CompactionStart: self._compaction_start,
                CompactionEnd: self._compaction_end,
                MessageStart: _plain,
                MessageUpdate: self._updates,
                MessageEnd: _plain,
                TurnEnd: _plain,
                ToolEnd: _tool_end,
                ExtensionError: _extension_error,
                Warned: _warned,
            }
        )
        for unspoken in (
            ToolUpdate,
            QueueUpdate,
            AutoRetryStart,
            AutoRetryEnd,
            BashUpdate,
            EntryAppended,
            SessionInfoChanged,
            SummaryRetryScheduled,
            SummaryRetryStart,
            SummaryRetryFinished,
            ThinkingLevelChanged,
        ):
            self._table[unspoken] = _silent

    def greeting(self, info: ServerInfo) -> Frame | None:
        self._info = info
        return None

    def reply(self, reply: Reply) -> Frame | None:
        if _WITHOUT_TEXT.match(reply.error or ""):
            return None
        if reply.error is not None:
            text = _FAILED.get(reply.command, "") + reply.error.removeprefix(_PARSE)
            return _line({"type": "error", "error": text})
        if reply.command == "bash":
            return _bash_end(reply)
        if reply.command == "compact" and isinstance(reply.data, CompactionResult):
            return self._compaction(reply.data, auto=False)
        return None

    def ui(self, request: "UiRequest") -> Frame | None:
        return None

    # ------------------------------------------------------------ the run

    def _updates(self, update: MessageUpdate) -> Frame | None:
        pieces = [piece for item in self._ends.order(update) for piece in _update(item)]
        return pieces or None

    def _agent_start(self, event: AgentStart) -> Frame:
        self._held = None
        return _line({"type": "agent_start"})

    def _agent_end(self, event: AgentEnd) -> None:
        record = msgspec.to_builtins(event)
        del record["willRetry"]
        self._held = _line(record)

    def _agent_settled(self, event: AgentSettled) -> Frame | None:
        held, self._held = self._held, None
        return held

    def _agent_waiting(self, event: AgentWaiting) -> Frame | None:
        return self._agent_settled(AgentSettled())

    def _compaction_start(self, event: CompactionStart) -> Frame | None:
        return self._agent_settled(AgentSettled()) if event.reason == "threshold" else None

    def _compaction_end(self, event: CompactionEnd) -> Frame | None:
        if event.reason == "manual":
            return None
        if event.result is not None:
            return self._compaction(event.result, auto=True)
        return _line({"type": "error", "error": event.error_message or "Auto-compaction failed"})

    def _compaction(self, result: CompactionResult, *, auto: bool) -> Frame:
        record = {
            "type": "compaction",
            "timestamp": iso_time(),
            "summary": result.summary,
            "firstKeptEntryIndex": self._info.place_of(result.first_kept_entry_id),
            "tokensBefore": result.tokens_before,
        }
        return _line({**record, "auto": True} if auto else record)


def _silent(event: Any) -> None:
    """This family has no word for it."""


def _plain(event: Any) -> Frame:
    return dumps(event) + b"\n"


def _update(update: MessageUpdate) -> list[bytes]:
    message = update.draft.segments()
    return [
        b'{"type":"message_update","message":',
        *message,
        b',"assistantMessageEvent":{%b,"partial":' % stream_event(update.event),
        *message,
        b"}}\n",
    ]


def _tool_end(event: ToolEnd) -> Frame:
    record = msgspec.to_builtins(event)
    if event.is_error:
        record["result"] = text_of(event.result.content, "\n")
    return _line(record)


def _bash_end(reply: Reply) -> Frame:
    data = msgspec.to_builtins(reply.data)
    message = {
        "role": "bashExecution",
        "command": reply.more()["command"] if reply.more else "",
        "output": data["output"],
        "exitCode": data.get("exitCode"),
        "cancelled": data["cancelled"],
        "truncated": data["truncated"],
        "timestamp": now_ms(),
    }
    if "fullOutputPath" in data:
        message["fullOutputPath"] = data["fullOutputPath"]
    return _line({"type": "bash_end", "message": message})


def _extension_error(event: ExtensionError) -> Frame:
    return _line({"type": "error", "error": f"{event.extension_path}: {event.error}"})


def _warned(event: Warned) -> Frame:
    return _line({"type": "error", "error": event.message})


if TYPE_CHECKING:
    _proof: Dialect = PiEarly()
