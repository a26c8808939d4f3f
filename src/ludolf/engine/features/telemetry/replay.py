"""Report a stored session: the spans of its prompts, with the times of its entries.

A session file has no mark at the end of a prompt: a message of the user after a final answer
begins the next one. First chunks, waits and addresses of servers are not stored.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from ludolf.agent.events import MessageEnd, ToolEnd, ToolStart
from ludolf.agent.loop import ABORTED_BETWEEN
from ludolf.agent.tool import ToolOutput
from ludolf.ai.messages import AssistantMessage, ToolResultMessage, Usage, UserMessage
from ludolf.engine.features.telemetry.items import (
    RequestEnded,
    RequestSent,
    RunStarted,
    SessionClosing,
)
from ludolf.engine.features.telemetry.recorder import RunRecorder
from ludolf.protocol.events import (
    AgentSettled,
    AutoRetryEnd,
    AutoRetryStart,
    CompactionEnd,
    CompactionResult,
    CompactionStart,
)
from ludolf.session.entries import Entry, fields, message_of, text_field, time_ms
from ludolf.session.reader import read_session, require_header

_NANOSECONDS = 1_000_000
# An entry may hold many tool calls; the queue of the SDK takes 2,048 spans.
_ENTRIES_AT_ONCE = 50


def replay_session(path: Path, recorder: RunRecorder, make_room: Callable[[], None]) -> int:
    """Report the prompts of a session file; return their number.

    `make_room` is called often enough that no queue of spans overflows.

    Raises:
        CommandError: the file is not a session.
    """
    loaded = read_session(path)
    header = loaded.header or require_header(path)
    replay = _Replay(recorder, header.id)
    for number, entry in enumerate(loaded.entries):
        replay.take(entry)
        if number % _ENTRIES_AT_ONCE == 0:
            make_room()
    replay.end()
    return replay.prompts


class _Replay:
    def __init__(self, recorder: RunRecorder, session_id: str) -> None:
        self._recorder = recorder
        self._session_id = session_id
        self._now = 0
        self._key = 0
        self._failures = 0
        self._provider, self._model, self._level = "", "", "off"
        # The last message is a final answer.
        self._is_over = True
        self.prompts = 0

    def take(self, entry: Entry) -> None:
        at = max(self._now, time_ms(entry.timestamp) * _NANOSECONDS)
        match entry.type:
            case "message":
                self._message(message_of(entry), at)
            case "model_change":
                body = fields(entry)
                self._provider = text_field(body, "provider")
                self._model = text_field(body, "modelId")
            case "thinking_level_change":
                self._level = text_field(fields(entry), "thinkingLevel") or "off"
            case "compaction":
                self._compact(entry, at)
        self._now = at

    def end(self) -> None:
        self._note(SessionClosing(), self._now)

    # ------------------------------------------------------------ private

    def _note(self, item: Any, at: int) -> None:
        self._recorder.note(item, at)

    def _message(self, message: Any, at: int) -> None:
        if isinstance(message, UserMessage):
            if self._is_over:
                self._note(AgentSettled(), self._now)
                self._start(self._when(message.timestamp, at))
            self._is_over = False
            self._note(MessageEnd(message=message), at)
        elif isinstance(message, AssistantMessage):
            self._answer(message, at)
        elif isinstance(message, ToolResultMessage):
            output = ToolOutput(content=message.content, details=message.details)
            self._note(
                ToolEnd(
                    tool_call_id=message.tool_call_id,
                    tool_name=message.tool_name,
                    result=output,
                    is_error=message.is_error,
                ),
                self._when(message.timestamp, at),
            )

    def _start(self, at: int) -> None:
        self.prompts += 1
        self._failures = 0
        self._note(
            RunStarted(
                session_id=self._session_id,
                provider=self._provider or None,
                model=self._model or None,
                mode="replay",
            ),
            at,
        )

    def _answer(self, message: AssistantMessage, at: int) -> None:
        self._provider, self._model = message.provider, message.model
        if message.content or message.error_message != ABORTED_BETWEEN:
            self._ask(self._when(message.timestamp, at), is_turn=True)
        self._note(MessageEnd(message=message), at)
        self._is_over = message.failed or not message.tool_calls
        if message.stop_reason == "error":
            self._failures += 1
            text = message.error_message or ""
            retry = AutoRetryStart(
                attempt=self._failures, max_attempts=self._failures, delay_ms=0, error_message=text
            )
            self._note(retry, at)
        elif self._failures:
            self._note(AutoRetryEnd(success=True, attempt=self._failures), at)
            self._failures = 0
        for call in () if message.failed else message.tool_calls:
            started = ToolStart(tool_call_id=call.id, tool_name=call.name, args=call.arguments)
            self._note(started, at)

    def _ask(self, at: int, *, is_turn: bool) -> int:
        self._key += 1
        self._note(
            RequestSent(
                key=self._key,
                provider=self._provider,
                model=self._model,
                level=self._level,
                session_id=self._session_id,
                is_turn=is_turn,
            ),
            at,
        )
        return self._key

    def _compact(self, entry: Entry, at: int) -> None:
        body = fields(entry)
        tokens = body.get("tokensBefore")
        before = tokens if isinstance(tokens, int) else 0
        self._note(CompactionStart(reason="manual"), self._now)
        usage = _usage(body.get("usage"))
        if usage is not None:
            key = self._ask(self._now, is_turn=False)
            answer = AssistantMessage(
                content=(), api="", provider=self._provider, model=self._model,
                usage=usage, stop_reason="stop", timestamp=0,
            )  # fmt: skip
            self._note(RequestEnded(key=key, message=answer), at)
        result = CompactionResult(summary="", first_kept_entry_id="", tokens_before=before)
        ended = CompactionEnd(reason="manual", result=result, aborted=False, will_retry=False)
        self._note(ended, at)

    def _when(self, stamp: int, at: int) -> int:
        """Return the time of a message, between the entry before it and its own."""
        return min(max(stamp * _NANOSECONDS, self._now), at)


def _usage(value: Any) -> Usage | None:
    try:
        return None if value is None else msgspec.convert(value, Usage)
    except msgspec.ValidationError:
        return None
