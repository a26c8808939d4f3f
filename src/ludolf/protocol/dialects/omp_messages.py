"""Messages as oh-my-pi writes them, with what it notes beside them: times, origins, raw arguments.

What the core does not keep is measured here as events pass by, and is known for messages of this
process only.
"""

import re
from time import perf_counter
from typing import Any

import msgspec

from ludolf.agent.events import QueueUpdate, ToolEnd, ToolStart
from ludolf.ai.messages import (
    AssistantMessage,
    Message,
    ToolCall,
    UserMessage,
    text_of,
)
from ludolf.base import dumps

Record = dict[str, Any]
INTERRUPTED = "Interrupted by user"
# Kinds of failure, as `errorId`: hosts may compare it with 0, which is none.
ABORTED, FAILED = 1, 2
REMINDER = "todo-reminder"
_REFUSED = 'Validation failed for tool "'
_STATUS = re.compile(r"\s*(\d{3})\b")


class OmpMessages:
    """One per connection. `render` gives a message as a record; the rest takes notes for it."""

    interrupted = INTERRUPTED

    def __init__(self) -> None:
        self._times: dict[int, Record] = {}
        self._steered: set[int] = set()
        self._waiting: tuple[str, ...] = ()
        self._due: list[str] = []
        self._steer_next = False
        self._asked = perf_counter()
        self._first: float | None = None
        self._calls: dict[str, Record] = {}

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

    def saw(self, message: Message, *, is_start: bool) -> None:
        """A message begins or ends."""
        if isinstance(message, UserMessage) and is_start:
            self._saw_user(message)
        elif isinstance(message, AssistantMessage) and is_start and not message.failed:
            self._first = None
        elif isinstance(message, AssistantMessage):
            times = {"duration": _since(self._asked, perf_counter())}
            if self._first is not None:
                times["ttft"] = _since(self._asked, self._first)
            self._times[message.timestamp] = times
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
        self._calls[event.tool_call_id] = {"at": perf_counter(), "limit": args.get("timeout")}

    def call_ended(self, event: ToolEnd) -> None:
        began = self._calls.pop(event.tool_call_id, None)
        if began is not None and event.tool_name == "bash" and not event.is_error:
            limit = began["limit"]
            self._calls[event.tool_call_id] = {
                "timeoutSeconds": limit if isinstance(limit, int | float) else 0,
                "wallTimeMs": _since(began["at"], perf_counter()),
            }

    # ------------------------------------------------------------ rendering

    def render(self, message: Message) -> Record:
        return self.complete(msgspec.to_builtins(message))

    def complete(self, record: Record) -> Record:
        """A message of the neutral core with what this family adds."""
        role = record.get("role")
        if role == "user":
            return self._user(record)
        if role == "assistant":
            return self._assistant(record)
        if role == "toolResult":
            return self.with_details(record["toolCallId"], record)
        if role == "custom":
            return _custom(record)
        if role == "compactionSummary":
            return {**record, "shortSummary": short_summary(record["summary"])}
        return record

    def _user(self, record: Record) -> Record:
        steered = {"steering": True} if record.get("timestamp") in self._steered else {}
        stamp = record.pop("timestamp", 0)
        return {**record, **steered, "attribution": "user", "timestamp": stamp}

    def _assistant(self, record: Record) -> Record:
        place = 0
        for block in record["content"]:
            if block.get("type") == "toolCall":
                block.update(_call_fields(block["arguments"], place))
                place += 1
        if record["stopReason"] == "aborted" and _by_user(record):
            record["errorMessage"] = self.interrupted
        return {**record, **_failure(record), **self._times.get(record["timestamp"], {})}

    def with_details(self, call_id: str, record: Record) -> Record:
        noted = {**self._calls.get(call_id, {}), **_invalid(record["content"])}
        own = record.get("details")
        if own is not None and not isinstance(own, dict):
            return record
        return {**record, "details": {**(own or {}), **noted}}


def short_summary(summary: str) -> str:
    """The first sentence-like line of a summary: what comes before any list or heading."""
    lines = [text.strip() for text in summary.splitlines()]
    plain = [text for text in lines if text and not text.startswith(("#", "-", "*", "<"))]
    return (plain or [summary.strip()])[0][:200]


def call_fields(call: ToolCall, place: int) -> bytes:
    """What is added to a finished call, as the rest of a JSON object."""
    return b"," + dumps(_call_fields(call.arguments, place))[1:-1]


def _call_fields(arguments: Any, place: int) -> Record:
    return {"partialArgs": dumps(arguments).decode(), "streamIndex": place}


def _by_user(record: Record) -> bool:
    """Aborted, and not cut by a rule: that text names the rule."""
    return not str(record.get("errorMessage")).startswith("TTSR ")


def _stop_details(record: Record) -> Record:
    """A rule cut the answer in the midst of a call, behind other content."""
    content = record["content"]
    if _by_user(record) or len(content) < 2 or content[-1].get("type") != "toolCall":
        return {}
    kind = "stream_interrupted_after_content"
    explained = {"type": kind, "category": None, "explanation": record["errorMessage"]}
    return {"stopDetails": explained}


def _failure(record: Record) -> Record:
    """A failed answer says which kind it is, and the server's status where there is one."""
    if record["stopReason"] == "aborted":
        return {"errorId": ABORTED, **_stop_details(record)}
    if record["stopReason"] != "error":
        return {}
    status = _STATUS.match(str(record.get("errorMessage")))
    return {"errorId": FAILED, **({"errorStatus": int(status[1])} if status else {})}


def _invalid(content: list[Record]) -> Record:
    """Arguments that were refused are named in the details too."""
    text = str(content[0].get("text", "")) if content else ""
    return {"isError": True, "error": text} if text.startswith(_REFUSED) else {}


def _custom(record: Record) -> Record:
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
