"""Events of what a host lends and what omp's family tells: host tools, todos, stream rules."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from ludolf.ai.messages import ThinkingLevel
from ludolf.ai.models import Model
from ludolf.base import Value


class HostToolCall(Value, tag_field="type", tag="host_tool_call"):
    """The host is to run one of its tools; its answer names this id."""

    id: str
    tool_call_id: str
    tool_name: str
    arguments: Mapping[str, Any]


class HostToolCancel(Value, tag_field="type", tag="host_tool_cancel"):
    """The result of a call is no longer wanted; one that comes all the same is ignored."""

    id: str
    target_id: str


class HostUriRequest(Value, tag_field="type", tag="host_uri_request", kw_only=True):
    """The host is to read or write one of its documents; its answer names this id."""

    id: str
    operation: Literal["read", "write"]
    url: str
    content: str | None = None


class HostUriCancel(Value, tag_field="type", tag="host_uri_cancel"):
    """The answer to a request is no longer wanted; one that comes all the same is ignored."""

    id: str
    target_id: str


class TodoReminder(Value, tag_field="type", tag="todo_reminder"):
    """The run would stop with work left; it goes on instead."""

    todos: tuple[dict[str, Any], ...]
    attempt: int
    max_attempts: int


class TodoAutoClear(Value, tag_field="type", tag="todo_auto_clear"):
    """Finished todos were taken off the list."""


class StreamRuleHit(Value, tag_field="type", tag="ttsr_triggered"):
    """The answer broke a rule of the user's: told once for each hit."""

    rules: tuple[dict[str, Any], ...]


class CommandOutput(Value, tag_field="type", tag="command_output"):
    """What a prompt that is a command of the program itself gives back."""

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


class PromptResult(Value, tag_field="type", tag="prompt_result", kw_only=True):
    """The end of one prompt, whatever became of it; exactly one for each that was accepted."""

    id: msgspec.Raw | None = None
    agent_invoked: bool
    status: Literal["completed", "aborted", "error"]
    error: dict[str, Any] | None = None
    session_settled: bool


class SessionSettled(Value, tag_field="type", tag="session_settled"):
    """Nothing goes on, nothing waits and nothing will begin by itself; once after each work."""


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
    | PromptResult
    | SessionSettled
)
