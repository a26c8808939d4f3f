"""Events of a run, in the order of their grammar.

run     = AgentStart turn { turn } AgentEnd
turn    = TurnStart { QueueUpdate } { MessageStart MessageEnd }
          MessageStart(assistant) { MessageUpdate } MessageEnd(assistant) { tools } TurnEnd
tools   = { ToolStart } { ToolUpdate | ToolEnd } { MessageStart MessageEnd (toolResult) }
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from ludolf.agent.tool import ToolOutput
from ludolf.ai.draft import Draft, StreamEvent
from ludolf.ai.messages import AssistantMessage, Message, ToolResultMessage
from ludolf.base import Value


# ---------------------------------------------------------------- the run
class AgentStart(Value, tag_field="type", tag="agent_start"):
    """First event of a run; `traceparent` names its span if telemetry is on."""

    traceparent: str | None = None


class AgentEnd(Value, tag_field="type", tag="agent_end"):
    """Last event of a run; `messages` are those of this run only."""

    messages: tuple[Message, ...]
    will_retry: bool


# ---------------------------------------------------------------- turns
class TurnStart(Value, tag_field="type", tag="turn_start"):
    """Start of a turn, before its injected messages and the model's answer."""


class TurnEnd(Value, tag_field="type", tag="turn_end"):
    """End of a turn, after the answer and all results of its tool calls."""

    message: AssistantMessage
    tool_results: tuple[ToolResultMessage, ...]


# ---------------------------------------------------------------- messages
class MessageStart(Value, tag_field="type", tag="message_start"):
    """Start of a message; an assistant message is empty unless it failed before its first token."""

    message: Message


class MessageUpdate(msgspec.Struct, frozen=True):
    """A piece of an assistant's answer, between its MessageStart and MessageEnd.

    `draft` is the live answer. A sink must read it immediately, while its state matches `event`.
    """

    event: StreamEvent
    draft: Draft


class MessageEnd(Value, tag_field="type", tag="message_end"):
    """End of a message. The message is on disk before any sink receives this event."""

    message: Message


# ---------------------------------------------------------------- tools
class ToolStart(Value, tag_field="type", tag="tool_execution_start"):
    """Start of a tool call, before its checks; `args` are unchanged from the model."""

    tool_call_id: str
    tool_name: str
    args: Mapping[str, Any]


class ToolUpdate(Value, tag_field="type", tag="tool_execution_update"):
    """The partial result of a call; replaces the previous one."""

    tool_call_id: str
    tool_name: str
    args: Mapping[str, Any]
    partial_result: ToolOutput


class ToolEnd(Value, tag_field="type", tag="tool_execution_end"):
    """End of a call, in order of completion; its message follows in call order."""

    tool_call_id: str
    tool_name: str
    result: ToolOutput
    is_error: bool


class QueueUpdate(Value, tag_field="type", tag="queue_update"):
    """The queued messages, emitted after every change of the queue."""

    steering: tuple[str, ...]
    follow_up: tuple[str, ...]


AgentEvent = (
    AgentStart
    | AgentEnd
    | TurnStart
    | TurnEnd
    | MessageStart
    | MessageUpdate
    | MessageEnd
    | ToolStart
    | ToolUpdate
    | ToolEnd
    | QueueUpdate
)
