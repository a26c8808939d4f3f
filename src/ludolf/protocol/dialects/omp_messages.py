"""Messages as oh-my-pi writes them, with durations, origins and raw arguments.

The core does not keep these: they are measured here as events pass, and exist only for messages of
this process.
"""

from collections.abc import Callable, Sequence
from itertools import groupby
from time import perf_counter
from typing import Any, ClassVar

import msgspec

from ludolf.agent.events import QueueUpdate, ToolEnd, ToolStart
from ludolf.ai.draft import BlockDelta
from ludolf.ai.messages import AssistantMessage, Message, ToolCall, UserMessage, text_of
from ludolf.base import dumps
from ludolf.base.patterns import lazy_pattern
from ludolf.protocol.dialects.omp_tools import (
    JsonObject,
    details_of,
    displayed,
    progress_of,
    refused,
    with_wall_time,
)
from ludolf.protocol.host_events import RULE_MATCHED

INTERRUPTED, DROPPED = "Interrupted by user", "Request was aborted"
# Kinds of failure, as `errorId`: the numbers that this family is known to send; 0 is none.
INTERRUPT_ID, ABORT_ID, FAILED = 0x400_1000, 0x800_1000, 0x2_1000
CANCELLED = "[Command cancelled]\n"
REMINDER = "todo-reminder"
ABORTED_COMMAND = "Command aborted"
_STATUS = lazy_pattern(r"\s*(\d{3})\b")


class OmpMessages:
    """One per connection. `render` gives a message as a record; the rest takes notes for it."""

    interrupted = INTERRUPTED
    tells_wall_time = True
    # The `attribution` of messages of the user.
    speaker = "user"
    # Fields that are added to tool results and ends of tool calls.
    marks: ClassVar[JsonObject] = {}

    def __init__(self) -> None:
        self._times: dict[int, JsonObject] = {}
        self._steered: set[int] = set()
        self._waiting: tuple[str, ...] = ()
        self._due: list[str] = []
        self._steer_next = False
        self._asked = perf_counter()
        self._first: float | None = None
        self.cwd: Callable[[], str] = str
        self.home = "~"
        self._calls: dict[str, JsonObject] = {}
        # The place of every call among those that have ended.
        self._ended: dict[str, int] = {}
        self._shells: dict[str, JsonObject] = {}
        # Arguments as the model wrote them: of the answer under way, and of calls of this prompt.
        self._pieces: dict[int, list[str]] = {}
        self._written: dict[str, str] = {}
        # Answers that were aborted without a command of the host, as at the end of input.
        self._dropped: set[int] = set()
        self.is_interrupted = False

    # ------------------------------------------------------------ notes

    def steer_next(self) -> None:
        """The next message of the user was sent as steering."""
        self._steer_next = True

    def queue(self, update: QueueUpdate) -> None:
        gone = len(self._waiting) - len(update.steering)
        if gone > 0 and self._waiting[gone:] == update.steering:
            self._due += self._waiting[:gone]
        self._waiting = update.steering

    def first_token(self) -> None:
        if self._first is None:
            self._first = perf_counter()

    def new_prompt(self) -> None:
        self._written.clear()

    def argument(self, piece: BlockDelta) -> None:
        self._pieces.setdefault(piece.index, []).append(piece.delta)

    def arguments_ended(self, index: int, call: ToolCall) -> None:
        self._written[call.id] = "".join(self._pieces.pop(index, ()))

    def saw(self, message: Message, *, is_start: bool) -> None:
        """A message begins or ends."""
        if isinstance(message, UserMessage) and is_start:
            self._saw_user(message)
        elif isinstance(message, AssistantMessage) and is_start and not message.failed:
            self._first = None
            self._pieces.clear()
        elif isinstance(message, AssistantMessage):
            times = {"duration": _since(self._asked, perf_counter())}
            if self._first is not None:
                times["ttft"] = _since(self._asked, self._first)
            self._times[message.timestamp] = times
            if message.stop_reason == "aborted" and not self.is_interrupted:
                self._dropped.add(message.timestamp)
        if not is_start:
            self._asked = perf_counter()

    def _saw_user(self, message: UserMessage) -> None:
        text = text_of(message.content)
        if self._steer_next or text in self._due:
            self._steered.add(message.timestamp)
        if text in self._due:
            self._due.remove(text)
        self._steer_next = False

    def call_began(self, event: ToolStart) -> None:
        args = event.args if isinstance(event.args, dict) else {}
        self._calls[event.tool_call_id] = {"at": perf_counter(), "args": args}

    def call_ended(self, event: ToolEnd) -> JsonObject | None:
        """Return the progress that is sent before the end of the call, if any."""
        self._ended[event.tool_call_id] = len(self._ended)
        began = self._calls.pop(event.tool_call_id, None)
        if began is None:
            return None
        noted = details_of(event, began["args"], self.cwd(), self.home)
        if "timeoutSeconds" in noted:
            noted["wallTimeMs"] = _since(began["at"], perf_counter())
        if noted:
            self._calls[event.tool_call_id] = noted
        return progress_of(event, began["args"], noted)

    def shell_ended(self, path: str, counted: JsonObject) -> None:
        """The output of a direct command was cut; `path` holds the whole of it."""
        lines, shown = counted["totalLines"], counted["outputLines"]
        self._shells[path] = {
            "direction": "tail",
            "truncatedBy": "tail",
            **counted,
            "headRange": {"start": 1, "end": 0},
            "tailRange": {"start": lines - shown + 1, "end": lines},
        }

    # ------------------------------------------------------------ rendering

    def render(self, message: Message) -> JsonObject:
        return self.complete(msgspec.to_builtins(message))

    def render_all(self, messages: Sequence[Message]) -> list[JsonObject]:
        return self.complete_all([msgspec.to_builtins(message) for message in messages])

    def complete_all(self, records: Sequence[JsonObject]) -> list[JsonObject]:
        """Results of one answer stand in the order in which their calls ended."""
        made: list[JsonObject] = []
        for is_result, run in groupby(records, lambda one: one.get("role") == "toolResult"):
            group = list(run)
            made += sorted(group, key=self._place) if is_result else group
        return [self.complete(record) for record in made]

    def _place(self, record: JsonObject) -> int:
        return self._ended.get(record["toolCallId"], -1)

    def complete(self, record: JsonObject) -> JsonObject:
        """Return a message of the core with the fields of this family."""
        role = record.get("role")
        if role == "user":
            return self._user(record)
        if role == "assistant":
            return self._assistant(record)
        if role == "toolResult":
            name, failed = record["toolName"], record["isError"]
            made = self.result(record["toolCallId"], record, name=name, failed=failed)
            return {**made, **self.marks}
        if role == "bashExecution":
            return self._shell(record)
        if role == "custom":
            return _custom(record)
        if role == "compactionSummary":
            return {**record, "shortSummary": short_summary(record["summary"])}
        return record

    def _user(self, record: JsonObject) -> JsonObject:
        steered = {"steering": True} if record.get("timestamp") in self._steered else {}
        stamp = record.pop("timestamp", 0)
        return {**record, **steered, "attribution": self.speaker, "timestamp": stamp}

    def _assistant(self, record: JsonObject) -> JsonObject:
        place = 0
        for block in record["content"]:
            if block.get("type") == "toolCall":
                block.update(self._call_fields(block["id"], block["arguments"], place))
                place += 1
        dropped = record["timestamp"] in self._dropped
        if record["stopReason"] == "aborted" and _by_user(record):
            record["errorMessage"] = DROPPED if dropped else self.interrupted
        failure = _failure(record, ABORT_ID if dropped else INTERRUPT_ID)
        return {**record, **failure, **self._times.get(record["timestamp"], {})}

    def result(self, call_id: str, record: JsonObject, *, name: str, failed: bool) -> JsonObject:
        """Return the result of a tool with the details of its call."""
        noted = self._calls.get(call_id, {})
        content = record["content"]
        if name == "bash" and failed and not noted:
            content = _cancelled(content)
        elif self.tells_wall_time and "wallTimeMs" in noted:
            content = with_wall_time(content, noted["wallTimeMs"] / 1000)
        own = record.get("details")
        if own is not None and not isinstance(own, dict):
            return {**record, "content": content}
        details = {**(own or {}), **noted, **refused(content)}
        return {**record, "content": content, "details": displayed(content, details)}

    def call_fields(self, call: ToolCall, place: int) -> bytes:
        """Return the fields that are added to a finished call, as the rest of a JSON object."""
        return b"," + dumps(self._call_fields(call.id, call.arguments, place))[1:-1]

    def _call_fields(self, call_id: str, arguments: Any, place: int) -> JsonObject:
        written = self._written.get(call_id) or dumps(arguments).decode()
        return {"partialArgs": written, "streamIndex": place}

    def _shell(self, record: JsonObject) -> JsonObject:
        """Return a shell command of the user with its cancellation and the size of the cut part."""
        if record["cancelled"]:
            record["output"] = CANCELLED + record["output"]
        cut = self._shells.get(record.get("fullOutputPath", ""))
        return record if cut is None else {**record, "meta": {"truncation": cut}}


def short_summary(summary: str) -> str:
    """Return the first line of a summary that is not a list or heading; 200 characters at most."""
    lines = [text.strip() for text in summary.splitlines()]
    plain = [text for text in lines if text and not text.startswith(("#", "-", "*", "<"))]
    return (plain or [summary.strip()])[0][:200]


def _by_user(record: JsonObject) -> bool:
    """Whether the user aborted an answer; an answer that a stream rule cut names the rule."""
    return not str(record.get("errorMessage")).startswith(RULE_MATCHED)


def _stop_details(record: JsonObject) -> JsonObject:
    """A rule cut the answer in the midst of a call."""
    content = record["content"]
    if not content or content[-1].get("type") != "toolCall":
        return {}
    kind = "stream_interrupted_after_content"
    explained = {"type": kind, "category": None, "explanation": record["errorMessage"]}
    return {"stopDetails": explained}


def _failure(record: JsonObject, abort_id: int) -> JsonObject:
    """Return the kind of a failure as `errorId`, and the HTTP status if there is one."""
    if record["stopReason"] == "aborted":
        return {"errorId": abort_id} if _by_user(record) else _stop_details(record)
    if record["stopReason"] != "error":
        return {}
    status = _STATUS.match(str(record.get("errorMessage")))
    return {"errorId": FAILED, **({"errorStatus": int(status[1])} if status else {})}


def _cancelled(content: list[JsonObject]) -> list[JsonObject]:
    """Move the output of an aborted command after the note that it was cancelled.

    Session files hold only the text of a result, so the abort is recognised by its text.
    """
    text = str(content[-1].get("text", "")) if content else ""
    if not text.endswith(ABORTED_COMMAND):
        return content
    output = text.removesuffix(ABORTED_COMMAND).rstrip("\n")
    note = CANCELLED + (output + "\n" if output else "")
    return [*content[:-1], {**content[-1], "text": note}]


def _custom(record: JsonObject) -> JsonObject:
    if record.get("customType") != REMINDER:
        return {**record, "attribution": "agent"}
    content = record["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return {
        "role": "developer",
        "content": blocks,
        "attribution": "agent",
        "timestamp": record["timestamp"],
    }


def _since(start: float, end: float) -> float:
    return round((end - start) * 1000, 3)
