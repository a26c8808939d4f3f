"""The `data` of the reply to each command, in the dialects of pi."""

from typing import Any, Literal

from ludolf.ai.messages import ThinkingLevel
from ludolf.ai.models import Model
from ludolf.base import Value
from ludolf.protocol.commands import COMMANDS, CommandSpec, Disposition
from ludolf.protocol.events import CompactionResult
from ludolf.protocol.results import (
    BashResult,
    CommandCompletion,
    CycledModel,
    HandedOver,
    Limits,
    LoginProvider,
    McpServerStatus,
    McpToolStatus,
    Moved,
    OpenedSession,
    ShortcutItem,
    State,
    TodoPhase,
)
from ludolf.protocol.subagent_events import Level, Snapshot
from ludolf.protocol.wire.stored import StoredEntry, StoredMessage, TreeNode
from ludolf.session.finder import SessionRecord
from ludolf.session.stats import SessionStats
from ludolf.session.views import ForkMessage

# ---------------------------------------------------------------- prompts


class Accepted(Value):
    """`handled`: a command handled the message, without a run."""

    disposition: Disposition


class Queued(Value):
    """The texts of the queued messages."""

    steering: tuple[str, ...]
    follow_up: tuple[str, ...]


# ---------------------------------------------------------------- state


class Todos(Value):
    todo_phases: tuple[TodoPhase, ...]


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


class Levels(Value):
    levels: tuple[ThinkingLevel, ...]


class CycledLevel(Value):
    level: ThinkingLevel


class FastMode(Value):
    """`active`: wanted, and the current model has it."""

    enabled: bool
    active: bool


# ---------------------------------------------------------------- sessions


class SessionChange(Value):
    """`cancelled`: an extension refused the change."""

    cancelled: bool


class Forked(Value):
    """`text` is the message that the new session ends before."""

    text: str
    cancelled: bool


class ForkMessages(Value):
    messages: tuple[ForkMessage, ...]


class Entries(Value):
    """`leafId` is the present place; null in an empty session. `more`: older entries exist."""

    entries: tuple[StoredEntry, ...]
    leaf_id: str | None
    more: Literal[True] | None = None


class Tree(Value):
    tree: tuple[TreeNode, ...]
    leaf_id: str | None


class Sessions(Value):
    sessions: tuple[SessionRecord, ...]


class Trashed(Value):
    moved_to: str


class Exported(Value):
    path: str


# ---------------------------------------------------------------- the program


class SourceInfo(Value, kw_only=True):
    """The origin of a command."""

    path: str
    source: str
    scope: str
    origin: str
    base_dir: str | None = None


class CommandItem(Value, kw_only=True):
    """A command that a prompt may call with `/`."""

    name: str
    description: str | None = None
    source: Literal["extension", "prompt", "skill", "builtin", "mcp"]
    source_info: SourceInfo | None = None
    path: str | None = None
    location: Literal["user", "project", "path"] | None = None


class CommandList(Value):
    commands: tuple[CommandItem, ...]


class FileMatch(Value):
    """`path` is relative to the working folder, with slashes."""

    path: str
    is_directory: bool


class FoundFiles(Value):
    """The best match first."""

    files: tuple[FileMatch, ...]


class CommandCompletions(Value):
    """`items` in the order of the extension."""

    items: tuple[CommandCompletion, ...]


class Shortcuts(Value):
    shortcuts: tuple[ShortcutItem, ...]


class Capabilities(Value):
    protocol_version: int
    program: str
    version: str
    dialects: tuple[str, ...]
    commands: tuple[str, ...]
    events: tuple[str, ...]


class EventFilter(Value):
    """The types of events that are sent from now on; null: all."""

    events: tuple[str, ...] | None
    usage: Literal["all", "changes"] | None = None


class Negotiated(Value):
    protocol_version: int


class ModelService(Value, kw_only=True):
    """Whether there are credentials for the current model; no request is made."""

    state: Literal["no_provider", "connected", "auth_error"]
    provider: str | None = None


class Integrations(Value):
    version: str
    model: ModelService
    services: tuple[dict[str, Any], ...]


class HostToolNames(Value):
    tool_names: tuple[str, ...]


class HostUriSchemes(Value):
    schemes: tuple[str, ...]


class LoginProviders(Value):
    providers: tuple[LoginProvider, ...]


class LoggedIn(Value):
    provider_id: str


class LoggedOut(Value):
    """`removed`: there were stored credentials."""

    provider_id: str
    removed: bool


class AuthStatus(Value, kw_only=True):
    """The source of credentials; no field is secret.

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


# ---------------------------------------------------------------- subagents


class Subscription(Value):
    level: Level


class Subagents(Value):
    """The running subagents."""

    subagents: tuple[Snapshot, ...]


class Transcript(Value):
    """The session file of a subagent from a byte on, in whole lines, as stored.

    `reset`: the file is shorter than that, and was read from its start.
    """

    session_file: str
    from_byte: int
    next_byte: int
    reset: bool
    entries: tuple[dict[str, Any], ...]
    messages: tuple[dict[str, Any], ...]


class CancelledSubagent(Value):
    """False if no such agent runs."""

    cancelled: bool


# ---------------------------------------------------------------- MCP servers


class McpServers(Value):
    servers: tuple[McpServerStatus, ...]


class McpServerAnswer(Value):
    server: McpServerStatus


class McpTools(Value):
    """The tools of one server; the tools of a server that was never started are unknown."""

    tools: tuple[McpToolStatus, ...]


class McpLoggedOut(Value):
    """`removed`: a login was stored."""

    name: str
    removed: bool


# ---------------------------------------------------------------- the table


# Structs of other modules that are answers as they are.
_SHARED: tuple[type[Value], ...] = (
    *(BashResult, CompactionResult, CycledModel, HandedOver, Limits, Model, Moved),
    *(OpenedSession, SessionStats, State),
)
_STRUCTS: dict[str, Any] = globals() | {kind.__name__: kind for kind in _SHARED}


def _answer(spec: CommandSpec) -> Any:
    """Return the type of the `data` of a reply; None if the reply has no data."""
    kind: Any = None if spec.answer is None else _STRUCTS[spec.answer]
    return kind | None if spec.nullable else kind


ANSWERS: dict[str, Any] = {
    name: _answer(spec) for name, spec in COMMANDS.items() if not spec.unanswered
}
