"""What happens in a run, in the order in which it can happen.

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
from ludolf.ai.messages import AssistantMessage, Message, OpaqueMessage, ToolResultMessage
from ludolf.base import Value


# ---------------------------------------------------------------- the run
class AgentStart(Value, tag_field="type", tag="agent_start"):
    """First event of a run."""


class AgentEnd(Value, tag_field="type", tag="agent_end"):
    """Last event of a run; `messages` are those of this run only."""

    messages: tuple[Message, ...]
    will_retry: bool


# ---------------------------------------------------------------- turns
class TurnStart(Value, tag_field="type", tag="turn_start"):
    """Before the messages that a turn injects and the answer that it asks for."""


class TurnEnd(Value, tag_field="type", tag="turn_end"):
    """After the answer and all results of its tool calls."""

    message: AssistantMessage
    tool_results: tuple[ToolResultMessage, ...]


# ---------------------------------------------------------------- messages
class MessageStart(Value, tag_field="type", tag="message_start"):
    """A message begins; an assistant's is empty unless it failed before its first token."""

    message: Message


class MessageUpdate(msgspec.Struct, frozen=True):
    """A piece of an assistant's answer, between its MessageStart and MessageEnd.

    `draft` is the live answer: a sink reads it at once, while it stands exactly after `event`.
    """

    event: StreamEvent
    draft: Draft


class MessageEnd(Value, tag_field="type", tag="message_end"):
    """A message is whole. It is on disk before any sink sees this event."""

    message: Message


# ---------------------------------------------------------------- tools
class ToolStart(Value, tag_field="type", tag="tool_execution_start"):
    """A call is looked at; `args` are as the model gave them."""

    tool_call_id: str
    tool_name: str
    args: Mapping[str, Any]


class ToolUpdate(Value, tag_field="type", tag="tool_execution_update"):
    """The result so far; it replaces the one before."""

    tool_call_id: str
    tool_name: str
    args: Mapping[str, Any]
    partial_result: ToolOutput


class ToolEnd(Value, tag_field="type", tag="tool_execution_end"):
    """A call has ended, in order of completion; its message follows in the order of the calls."""

    tool_call_id: str
    tool_name: str
    result: ToolOutput
    is_error: bool


class QueueUpdate(Value, tag_field="type", tag="queue_update"):
    """The waiting messages, after any change."""

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
AnyMessage = Message | OpaqueMessage
