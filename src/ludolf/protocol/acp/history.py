"""Replay the path of a session to a client that loads it."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from ludolf.ai.messages import (
    AssistantMessage,
    BashExecutionMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    CustomMessage,
    Text,
    Thinking,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    text_of,
)
from ludolf.protocol.acp.call_sources import TODO_TOOLS
from ludolf.protocol.acp.content import session_title, text_block
from ludolf.protocol.acp.tool_view import text_content, view_call
from ludolf.protocol.acp.updates import MESSAGE, THOUGHT, USER_MESSAGE, UpdateWriter, parts_of
from ludolf.session.entries import Entry, message_of, role_of

# Results by the id of the call; a provider may repeat an id in one answer.
CallResults = dict[str, list[ToolResultMessage]]
_CALL_ENDS = ("assistant", "user")


def replay(path: Sequence[Entry], writer: UpdateWriter) -> Iterator[bytes]:
    """Return the notifications for all entries from the root to the leaf, in their order.

    A call is one `tool_call` with its end and its content. A call without a result was cut off and
    counts as failed.
    """
    return _Replay(path, writer).frames()


class _Replay:
    def __init__(self, path: Sequence[Entry], writer: UpdateWriter) -> None:
        self._path = path
        self._writer = writer
        self._plan: bytes | None = None
        self._usage: bytes | None = None

    def frames(self) -> Iterator[bytes]:
        for place, entry in enumerate(self._path):
            if role_of(entry):
                yield from self._entry(place, entry)
        yield from (frame for frame in (self._plan, self._usage) if frame is not None)

    def _entry(self, place: int, entry: Entry) -> Iterator[bytes]:
        writer = self._writer
        match message_of(entry):
            case UserMessage() as message:
                writer.title = writer.title or session_title(text_of(message.parts))
                yield from writer.parts(USER_MESSAGE, message.parts, entry.id)
            case AssistantMessage() as message:
                yield from self._answer(message, entry.id, self._results(place))
            case ToolResultMessage() as result if result.tool_name in TODO_TOOLS:
                details = result.details
                if isinstance(details, dict):
                    self._plan = writer.plan(details.get("phases")) or self._plan
            case BashExecutionMessage() as command:
                yield self._command(command)
            case CustomMessage(display=True) as message:
                yield from writer.parts(MESSAGE, parts_of(message.content), entry.id)
            case CompactionSummaryMessage() as message:
                yield writer.compacted(entry.id, message.summary)
            case BranchSummaryMessage() as message:
                text = f"Summary of another branch:\n\n{message.summary}\n"
                yield writer.chunk(THOUGHT, text_block(text), entry.id)

    def _answer(
        self,
        message: AssistantMessage,
        message_id: str,
        results: CallResults,
    ) -> Iterator[bytes]:
        for block in message.content:
            match block:
                case Text(text=text) if text:
                    yield self._writer.chunk(MESSAGE, text_block(text), message_id)
                case Thinking(thinking=text) if text:
                    yield self._writer.chunk(THOUGHT, text_block(text), message_id)
                case ToolCall() as call:
                    found = results.get(call.id)
                    yield self._writer.calls.replayed(call, found.pop(0) if found else None)
        self._usage = self._writer.usage(message.usage) or self._usage

    def _results(self, place: int) -> CallResults:
        """Return the results that follow an answer, by the id of the call."""
        results: CallResults = {}
        for later in range(place + 1, len(self._path)):
            entry = self._path[later]
            role = role_of(entry)
            if role in _CALL_ENDS:
                break
            result = message_of(entry) if role == "toolResult" else None
            if isinstance(result, ToolResultMessage):
                results.setdefault(result.tool_call_id, []).append(result)
        return results

    def _command(self, command: BashExecutionMessage) -> bytes:
        ended = not command.cancelled and not command.exit_code
        return self._writer.frame(
            {
                "sessionUpdate": "tool_call",
                "toolCallId": self._writer.calls.new_id("bash"),
                "title": view_call("bash", {"command": command.command}, Path("/")).title,
                "name": "bash",
                "kind": "execute",
                "status": "completed" if ended else "failed",
                "content": [text_content(command.output)],
                "rawInput": {"command": command.command},
            }
        )
