"""What each command answers: the `data` of its reply, in the dialects of pi."""

from typing import Any, Literal

from ludolf.ai.messages import ThinkingLevel
from ludolf.ai.models import Model
from ludolf.base import Value
from ludolf.protocol.bash import BashResult
from ludolf.protocol.events import CompactionResult
from ludolf.protocol.wire.moving_answers import (
    FastMode,
    HandedOver,
    HostUriSchemes,
    OpenedSession,
)
from ludolf.protocol.wire.stored import StoredEntry, StoredMessage, TreeNode
from ludolf.protocol.wire.subagent_answers import SUBAGENT_ANSWERS
from ludolf.session.finder import SessionRecord
from ludolf.session.stats import SessionStats
from ludolf.session.views import ForkMessage

QueueMode = Literal["all", "one-at-a-time"]
Disposition = Literal["started", "queued", "handled"]
TodoStatus = Literal["pending", "in_progress", "completed", "abandoned", "blocked"]
LoginMethod = Literal["api-key", "oauth", "device"]

# ---------------------------------------------------------------- prompts


class Accepted(Value):
    """What became of a message: `handled` ones lead to no run."""

    disposition: Disposition


class Queued(Value):
    """The texts that were waiting."""

    steering: tuple[str, ...]
    follow_up: tuple[str, ...]


# ---------------------------------------------------------------- state


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


class Todos(Value):
    todo_phases: tuple[TodoPhase, ...]


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


class DeltaState(State, kw_only=True):
    """`model` is missing when none is selected."""

    model: Model | None = None


class Conversation(Value):
    messages: tuple[StoredMessage, ...]


class ConversationPage(Value, kw_only=True):
    """`nextCursor` leads to the next page, if there is one."""

    messages: tuple[StoredMessage, ...]
    next_cursor: str | None = None
    total_messages: int


class LastText(Value):
    """Null before the first answer."""

    text: str | None


# ---------------------------------------------------------------- models


class Models(Value):
    models: tuple[Model, ...]


class CycledModel(Value):
    """`isScoped`: chosen among those of `--models`."""

    model: Model
    thinking_level: ThinkingLevel
    is_scoped: bool


class Levels(Value):
    levels: tuple[ThinkingLevel, ...]


class CycledLevel(Value):
    level: ThinkingLevel


# ---------------------------------------------------------------- sessions


class SessionChange(Value):
    """`cancelled`: an extension said no, and nothing has changed."""

    cancelled: bool


class Forked(Value):
    """`text` is the message that the new session ends before."""

    text: str
    cancelled: bool


class ForkMessages(Value):
    messages: tuple[ForkMessage, ...]


class Entries(Value):
    """`leafId` is the present place; null in an empty session."""

    entries: tuple[StoredEntry, ...]
    leaf_id: str | None


class Tree(Value):
    tree: tuple[TreeNode, ...]
    leaf_id: str | None


class Moved(Value):
    """`text` is that of a user's message gone back to, for editing it anew."""

    cancelled: bool
    text: str | None = None
    summary_entry_id: str | None = None


class Sessions(Value):
    sessions: tuple[SessionRecord, ...]


class Trashed(Value):
    moved_to: str


class Exported(Value):
    path: str


# ---------------------------------------------------------------- the program


class SourceInfo(Value, kw_only=True):
    """Where a command comes from."""

    path: str
    source: str
    scope: str
    origin: str
    base_dir: str | None = None


class CommandItem(Value, kw_only=True):
    """What may stand behind `/` in a prompt."""

    name: str
    description: str | None = None
    source: Literal["extension", "prompt", "skill", "builtin"]
    source_info: SourceInfo | None = None
    path: str | None = None
    location: Literal["user", "project", "path"] | None = None


class CommandList(Value):
    commands: tuple[CommandItem, ...]


class Limits(Value):
    """What one prompt may use; a limit that is missing is none."""

    max_turns: int | None = None
    max_tokens: int | None = None
    max_cost: float | None = None


class Capabilities(Value):
    protocol_version: int
    program: str
    version: str
    dialects: tuple[str, ...]
    commands: tuple[str, ...]
    events: tuple[str, ...]


class EventFilter(Value):
    """The types that are told from now on; null: all."""

    events: tuple[str, ...] | None


class Negotiated(Value):
    protocol_version: int


class ModelService(Value, kw_only=True):
    """Whether the chosen model can be asked, as far as is known without asking it."""

    state: Literal["no_provider", "connected", "auth_error"]
    provider: str | None = None


class Integrations(Value):
    version: str
    model: ModelService
    services: tuple[dict[str, Any], ...]


class HostToolNames(Value):
    tool_names: tuple[str, ...]


class LoginProvider(Value):
    """A provider that one can log in to."""

    id: str
    name: str
    available: bool
    authenticated: bool
    methods: tuple[LoginMethod, ...]


class LoginProviders(Value):
    providers: tuple[LoginProvider, ...]


class LoggedIn(Value):
    provider_id: str


class LoggedOut(Value):
    """`removed`: there was something to forget."""

    provider_id: str
    removed: bool


class AuthStatus(Value, kw_only=True):
    """Where credentials come from; nothing in it is secret.

    `variables` are names; `expires` is in Unix milliseconds, of a login that ends.
    """

    provider: str
    origin: Literal["command line", "stored", "models.json", "environment", "extension", "none"]
    usable: bool
    kind: Literal["api_key", "oauth", "identity"] | None = None
    variables: tuple[str, ...] = ()
    expires: int | None = None


class AuthStatuses(Value):
    providers: tuple[AuthStatus, ...]


# ---------------------------------------------------------------- the table

# Answers themselves: the program says nothing to them, unless they are no such answer at all.
UNANSWERED = frozenset(
    ("extension_ui_response", "host_tool_update", "host_tool_result", "host_uri_result")
)

# Not answered at once: they wait for a turn, for a user, for a process or for the network.
SLOW = frozenset(
    (
        *("prompt", "steer", "follow_up", "abort", "abort_and_prompt", "abort_retry"),
        *("new_session", "switch_session", "fork", "branch", "clone", "navigate_tree"),
        *("open_session", "handoff"),
        *("set_model", "cycle_model", "get_available_models"),
        *("compact", "bash", "export_html", "reload", "set_project_trust", "login", "logout"),
    )
)

# None: success is all that is told.
ANSWERS: dict[str, Any] = {
    "prompt": Accepted,
    "steer": Accepted,
    "follow_up": Accepted,
    "abort": None,
    "abort_and_prompt": Accepted,
    "clear_queue": Queued,
    "new_session": SessionChange,
    "get_state": State,
    "get_messages": Conversation,
    "set_model": Model,
    "cycle_model": CycledModel | None,
    "get_available_models": Models,
    "set_thinking_level": None,
    "cycle_thinking_level": CycledLevel | None,
    "get_available_thinking_levels": Levels,
    "set_steering_mode": None,
    "set_follow_up_mode": None,
    "compact": CompactionResult,
    "set_auto_compaction": None,
    "set_auto_retry": None,
    "abort_retry": None,
    "bash": BashResult,
    "abort_bash": None,
    "get_session_stats": SessionStats,
    "export_html": Exported,
    "switch_session": SessionChange,
    "fork": Forked,
    "branch": Forked,
    "clone": SessionChange,
    "get_fork_messages": ForkMessages,
    "get_branch_messages": ForkMessages,
    "get_entries": Entries,
    "get_tree": Tree,
    "get_last_assistant_text": LastText,
    "set_session_name": None,
    "get_commands": CommandList,
    "set_limits": Limits,
    "set_project_trust": None,
    "list_sessions": Sessions,
    "rename_session": None,
    "delete_session": Trashed,
    "navigate_tree": Moved,
    "reload": None,
    "get_capabilities": Capabilities,
    "set_host_tools": HostToolNames,
    "set_host_uri_schemes": HostUriSchemes,
    "handoff": HandedOver,
    "open_session": OpenedSession,
    "set_fast_mode": FastMode,
    "set_interrupt_mode": None,
    "set_todos": Todos,
    "set_event_filter": EventFilter,
    "set_prompt_results": None,
    "negotiate_protocol": Negotiated,
    "get_messages_page": ConversationPage,
    "get_available_commands": CommandList,
    "set_locale": None,
    "get_login_providers": LoginProviders,
    "login": LoggedIn,
    "logout": LoggedOut,
    "get_auth_status": AuthStatuses,
    "get_integrations": Integrations,
    **SUBAGENT_ANSWERS,
}
PI_DELTA_ANSWERS: dict[str, Any] = {**ANSWERS, "get_state": DeltaState}
