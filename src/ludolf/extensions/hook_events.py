"""Convert hub events to payloads of extension events."""

from collections.abc import Callable
from typing import Any

from ludolf.agent import events
from ludolf.ai.draft import BlockDelta, BlockEnd, BlockStart, StreamEvent
from ludolf.ai.messages import Text, Thinking, ToolCall
from ludolf.base import now_ms
from ludolf.extensions import payloads
from ludolf.protocol.events import AgentSettled, SessionInfoChanged

# Without message_end and turn_end: handlers may change these, so they are dispatched separately.
NAMES: dict[type, str] = {
    events.AgentStart: "agent_start",
    events.AgentEnd: "agent_end",
    events.TurnStart: "turn_start",
    events.MessageStart: "message_start",
    events.MessageUpdate: "message_update",
    events.ToolStart: "tool_execution_start",
    events.ToolUpdate: "tool_execution_update",
    events.ToolEnd: "tool_execution_end",
    AgentSettled: "agent_settled",
    SessionInfoChanged: "session_info_changed",
}


class Teller:
    """Converts events and counts turns. Pass every event of a run to `note`, in order."""

    def __init__(self) -> None:
        self.turn_index = -1

    def note(self, event: Any) -> None:
        kind = type(event)
        if kind is events.TurnStart:
            self.turn_index += 1
        elif kind is events.AgentStart:
            self.turn_index = -1

    def payload(self, event: Any) -> payloads.Payload:
        """Return the payload of an event whose type is in `NAMES`."""
        return _MAKERS[type(event)](self, event)


def answer_piece(event: StreamEvent) -> payloads.AnswerPiece:
    """Convert a stream event to the payload form."""
    if isinstance(event, BlockDelta):
        return payloads.AnswerPiece(
            type=f"{event.kind}_delta", content_index=event.index, delta=event.delta
        )
    if isinstance(event, BlockStart):
        return payloads.AnswerPiece(type=f"{event.kind}_start", content_index=event.index)
    assert isinstance(event, BlockEnd)
    end = payloads.AnswerPiece(type=f"{event.kind}_end", content_index=event.index)
    match event.block:
        case Text(text=text) | Thinking(thinking=text):
            return payloads.AnswerPiece(
                type=end.type, content_index=end.content_index, content=text
            )
        case ToolCall():
            return payloads.AnswerPiece(
                type=end.type, content_index=end.content_index, tool_call=event.block
            )


Maker = Callable[[Teller, Any], payloads.Payload]
_MAKERS: dict[type, Maker] = {
    events.AgentStart: lambda teller, event: payloads.AgentStart(),
    events.AgentEnd: lambda teller, event: payloads.AgentEnd(messages=event.messages),
    events.TurnStart: lambda teller, event: payloads.TurnStart(
        turn_index=teller.turn_index, timestamp=now_ms()
    ),
    events.MessageStart: lambda teller, event: payloads.MessageStart(message=event.message),
    events.MessageUpdate: lambda teller, event: payloads.MessageUpdate(
        message=event.draft.snapshot(), assistant_message_event=answer_piece(event.event)
    ),
    events.ToolStart: lambda teller, event: payloads.ToolExecutionStart(
        tool_call_id=event.tool_call_id, tool_name=event.tool_name, args=event.args
    ),
    events.ToolUpdate: lambda teller, event: payloads.ToolExecutionUpdate(
        tool_call_id=event.tool_call_id,
        tool_name=event.tool_name,
        args=event.args,
        partial_result=event.partial_result,
    ),
    events.ToolEnd: lambda teller, event: payloads.ToolExecutionEnd(
        tool_call_id=event.tool_call_id,
        tool_name=event.tool_name,
        result=event.result,
        is_error=event.is_error,
    ),
    AgentSettled: lambda teller, event: payloads.AgentSettled(),
    SessionInfoChanged: lambda teller, event: payloads.SessionInfoChanged(name=event.name),
}
