"""Results of commands that the engine computes and replies carry as `data`."""

from typing import Any, Literal

from ludolf.agent.io import QueueMode
from ludolf.agent.tool import LeftBehind
from ludolf.ai.messages import ThinkingLevel, Usage
from ludolf.ai.models import Model
from ludolf.base import CommandError, Value

TodoStatus = Literal["pending", "in_progress", "completed", "abandoned", "blocked"]
LoginMethod = Literal["api-key", "oauth", "device"]
McpState = Literal["disabled", "known", "starting", "ready", "failed", "needs_login"]
McpServerSource = Literal["user", "project", "host", "extension", "flag"]
McpToolExposure = Literal["auto", "direct", "deferred", "hidden"]


class TodoTask(Value, kw_only=True):
    id: str
    content: str
    status: TodoStatus
    notes: str | None = None
    blocker: str | None = None


class TodoPhase(Value, kw_only=True):
    id: str
    name: str
    tasks: tuple[TodoTask, ...]


class State(Value, kw_only=True):
    """`model` is null when none is selected; `todoPhases` is there once there was a plan."""

    model: Model | None
    thinking_level: ThinkingLevel
    is_streaming: bool
    is_compacting: bool
    steering_mode: QueueMode
    follow_up_mode: QueueMode
    session_file: str | None = None
    session_id: str
    session_name: str | None = None
    auto_compaction_enabled: bool
    message_count: int
    pending_message_count: int
    todo_phases: tuple[TodoPhase, ...] | None = None
    has_pending_async_work: bool | None = None
    fast_mode_enabled: bool | None = None
    fast_mode_active: bool | None = None


class CycledModel(Value):
    """`isScoped`: chosen among those of `--models`."""

    model: Model
    thinking_level: ThinkingLevel
    is_scoped: bool


class Moved(Value):
    """`text` is that of the selected user message, for editing."""

    cancelled: bool
    text: str | None = None
    summary_entry_id: str | None = None


class HandedOver(Value, kw_only=True):
    """The new session and the document that it begins with."""

    cancelled: bool
    document: str | None = None
    session_id: str | None = None
    session_file: str | None = None
    usage: Usage | None = None


class OpenedSession(Value):
    """`resumed`: the folder held a conversation."""

    cancelled: bool
    resumed: bool
    session_id: str
    session_file: str


class Limits(Value):
    """Limits of one prompt, follow-ups and retries included. A missing limit does not apply."""

    max_turns: int | None = None
    max_tokens: int | None = None
    max_cost: float | None = None

    def check(self) -> "Limits":
        """Return the limits.

        Raises:
            CommandError: a limit is not a positive number.
        """
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value is not None and value <= 0:
                shown = "max" + name.removeprefix("max_").capitalize()
                raise CommandError(f"{shown} must be greater than 0")
        return self


class LoginProvider(Value):
    """A provider that a user can log in to."""

    id: str
    name: str
    available: bool
    authenticated: bool
    methods: tuple[LoginMethod, ...]


class BashResult(Value, kw_only=True):
    output: str
    exit_code: int | None = None
    cancelled: bool
    truncated: bool
    full_output_path: str | None = None
    # Of the whole output, where `output` is only its end.
    total_lines: int | None = None
    total_bytes: int | None = None
    # The signal that killed the command, such as SIGKILL, and processes that it left running.
    signal: str | None = None
    background: tuple[LeftBehind, ...] = ()


class McpServerStatus(Value, kw_only=True):
    """One MCP server. `known`: its tools are known from an earlier start, and it does not run.

    `tools`, `prompts` and `resources` are counts. `stderr` is the end of what it wrote there.
    """

    name: str
    source: McpServerSource
    path: str | None = None
    transport: Literal["stdio", "http"]
    state: McpState
    exposure: McpToolExposure
    tools: int
    prompts: int
    resources: int
    protocol_version: str | None = None
    server_info: dict[str, str] | None = None
    pid: int | None = None
    error: str | None = None
    stderr: str | None = None


class McpToolStatus(Value, kw_only=True):
    """A tool of an MCP server: its name for the model and for the server, and how it is shown."""

    name: str
    tool: str
    description: str
    exposure: McpToolExposure
    input_schema: dict[str, Any]
    read_only: bool = False


class CommandCompletion(Value):
    """A completion of the arguments of a command: `value` replaces the typed text."""

    value: str
    label: str
    description: str | None = None


class ShortcutItem(Value, kw_only=True):
    """A key of an extension, written as in `ctrl+shift+x`."""

    key: str
    description: str | None = None
    extension_path: str
