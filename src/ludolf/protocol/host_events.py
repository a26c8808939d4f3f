"""Events of host tools, host documents, todos, stream rules and prompts of omp's family."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from ludolf.ai.messages import ThinkingLevel
from ludolf.ai.models import Model
from ludolf.base import Value

# The error of an answer that a stream rule cut begins so, also in session files.
RULE_MATCHED = "TTSR matched rule"


class HostToolCall(Value, tag_field="type", tag="host_tool_call"):
    """The host is to run one of its tools; its answer names this id.

    With telemetry on, the trace context is that of the call.
    """

    id: str
    tool_call_id: str
    tool_name: str
    arguments: Mapping[str, Any]
    traceparent: str | None = None
    tracestate: str | None = None


class HostToolCancel(Value, tag_field="type", tag="host_tool_cancel"):
    """A call was cancelled; a result that still arrives is ignored."""

    id: str
    target_id: str


class HostUriRequest(Value, tag_field="type", tag="host_uri_request", kw_only=True):
    """The host is to read or write one of its documents; its answer names this id."""

    id: str
    operation: Literal["read", "write"]
    url: str
    content: str | None = None


class HostUriCancel(Value, tag_field="type", tag="host_uri_cancel"):
    """A request was cancelled; an answer that still arrives is ignored."""

    id: str
    target_id: str


class TodoReminder(Value, tag_field="type", tag="todo_reminder"):
    """The run would stop with open todos; it continues instead."""

    todos: tuple[dict[str, Any], ...]
    attempt: int
    max_attempts: int


class TodoAutoClear(Value, tag_field="type", tag="todo_auto_clear"):
    """Finished todos were removed from the list."""


class StreamRuleHit(Value, tag_field="type", tag="ttsr_triggered"):
    """The answer matched stream rules; one event for each hit."""

    rules: tuple[dict[str, Any], ...]


class CommandOutput(Value, tag_field="type", tag="command_output"):
    """The output of a prompt that is a command of the program, such as `/model`."""

    text: str


class SessionInfoUpdate(Value, tag_field="type", tag="session_info_update", kw_only=True):
    """A command in a prompt changed the name of the session."""

    title: str | None = None
    session_id: str


class ModelChanged(Value, tag_field="type", tag="model_changed"):
    """A command in a prompt chose another model."""


class ConfigUpdate(Value, tag_field="type", tag="config_update"):
    """The model and its level, after a command in a prompt changed them."""

    model: Model
    thinking_level: ThinkingLevel


class PromptEnded(Value, tag_field="type", tag="prompt_result", kw_only=True):
    """The end of a prompt; exactly one for each accepted prompt."""

    id: msgspec.Raw | None = None
    agent_invoked: bool
    status: Literal["completed", "aborted", "error"]
    error: dict[str, Any] | None = None
    session_settled: bool


class SessionSettled(Value, tag_field="type", tag="session_settled"):
    """Nothing runs, is queued or will start without a command; sent once after each run."""


HostEvent = (
    HostToolCall
    | HostToolCancel
    | HostUriRequest
    | HostUriCancel
    | TodoReminder
    | TodoAutoClear
    | StreamRuleHit
    | CommandOutput
    | SessionInfoUpdate
    | ModelChanged
    | ConfigUpdate
    | PromptEnded
    | SessionSettled
)
