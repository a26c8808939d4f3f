"""The table of commands. Names and shapes of all dialects are accepted in every dialect."""

import functools
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET

from ludolf.base import CommandError, Value
from ludolf.base.patterns import lazy_pattern
from ludolf.protocol.framing import Body, Head, repair
from ludolf.protocol.results import Limits

# How a message of the user was accepted.
Disposition = Literal["started", "queued", "handled"]


class BadCommand(CommandError):
    """A parameter of a command is missing or has the wrong type; `field` is its name, if known."""

    def __init__(self, text: str, field: str | None = None) -> None:
        super().__init__(text, code="invalid_parameter" if field else None)
        self.field = field


def invalid_parameter(command: str, field: str) -> BadCommand:
    """Return the error for a parameter that is missing or has the wrong type."""
    return BadCommand(f'{command}: missing or invalid "{field}"', field)


class Bare(Value):
    """A command without parameters."""


class Prompt(Value):
    """The last three fields are the W3C trace context of the host: its span is the parent."""

    message: str
    images: list[Any] | None = None
    attachments: list[Any] | None = None
    streaming_behavior: Literal["steer", "followUp"] | None = None
    output_schema: Any = None
    traceparent: str | None = None
    tracestate: str | None = None
    baggage: str | None = None


class QueueMessage(Value):
    message: str
    images: list[Any] | None = None
    traceparent: str | None = None
    tracestate: str | None = None
    baggage: str | None = None


class NewSession(Value):
    parent_session: str | None = None


class SetModel(Value):
    provider: str
    model_id: str


class SetThinkingLevel(Value):
    level: str


class SetMode(Value):
    mode: str


class SetEnabled(Value):
    enabled: bool


class Compact(Value):
    custom_instructions: str | None = None


class Bash(Value):
    command: str
    exclude_from_context: bool = False


class ExportHtml(Value):
    output_path: str | None = None


class SwitchSession(Value):
    session_path: str


class Fork(Value):
    entry_id: str


class GetEntries(Value):
    """`since`: of all branches, in file order. `before` and `limit`: a page of the active path."""

    since: str | None = None
    before: str | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] | None = None


class FindFiles(Value):
    """Without a query, the paths nearest to the working folder."""

    query: Annotated[str, msgspec.Meta(max_length=1000)] = ""
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 20


class CompleteCommand(Value):
    """`prefix` is the text between the name of the command and the cursor."""

    name: Annotated[str, msgspec.Meta(max_length=1000)]
    prefix: Annotated[str, msgspec.Meta(max_length=100_000)] = ""


class RunShortcut(Value):
    key: Annotated[str, msgspec.Meta(max_length=1000)]


class SetSessionName(Value):
    name: str


class UiAnswer(Value):
    """The answer of a user to a dialog; an unknown id is ignored.

    A value that does not fit the dialog is replaced by the default of the dialog.
    """

    id: Any = None
    value: Any = UNSET
    confirmed: Any = UNSET
    cancelled: Any = False


class SetProjectTrust(Value):
    trusted: bool
    remember: bool = True


class SetLimits(Limits):
    """A limit that is absent or null is lifted."""


class ListSessions(Value):
    all: bool = False


class RenameSession(Value):
    session_path: str
    name: str


class DeleteSession(Value):
    session_path: str


class NavigateTree(Value):
    target_id: str
    summarize: bool = False
    custom_instructions: str | None = None
    replace_instructions: bool = False
    label: str | None = None


class SetHostTools(Value):
    tools: list[Any]


class HostToolUpdate(Value):
    id: Any = None
    partial_result: Any = None


class HostToolResult(Value):
    id: Any = None
    result: Any = None
    is_error: Any = False


class SetHostUriSchemes(Value):
    schemes: list[Any]


class HostUriResult(Value):
    id: Any = None
    content: Any = None
    content_type: Any = None
    notes: Any = None
    immutable: Any = None
    is_error: Any = False
    error: Any = None


class Handoff(Value):
    """Both names of the instructions are in use."""

    custom_instructions: str | None = None
    instructions: str | None = None


class OpenSession(Value):
    session_dir: str


class SetTodos(Value):
    phases: Any = None


class SetEventFilter(Value):
    """Null or absent lifts the filter."""

    events: list[str] | None = None
    usage: Any = None


class NegotiateProtocol(Value):
    protocol_version: Any = None


class GetMessagesPage(Value):
    cursor: Any = None
    limit: Any = None


class SetLocale(Value):
    locale: str


class Login(Value):
    """Store a key, or start a login if there is none. `domain` is that of an enterprise."""

    provider_id: str
    method: Literal["api-key", "oauth", "device"] | None = None
    api_key: str | None = None
    domain: str | None = None


class Logout(Value):
    provider_id: str


class SetSubagentSubscription(Value):
    level: Any = None


class GetSubagentMessages(Value):
    """Either field names the subagent; the file is read from `from_byte` on."""

    subagent_id: str | None = None
    session_file: str | None = None
    from_byte: Any = None


class CancelSubagent(Value):
    subagent_id: str


class SteerSubagent(Value):
    subagent_id: str
    message: str


class McpServerName(Value):
    name: str


class SetMcpServer(Value):
    """Change a server; what is absent or null stays. `save`: also in the user's mcp.json."""

    name: str
    enabled: bool | None = None
    exposure: Literal["auto", "direct", "deferred", "hidden"] | None = None
    save: bool = False


class ReconnectMcp(Value):
    """Without a name: all servers that run, failed or need a login."""

    name: str | None = None


class SetMcpServers(Value):
    """Entries by name, in the form of mcp.json; they replace those of an earlier call."""

    servers: dict[str, Any]


Command = Any
Order = Literal["now", "in_turn", "own_task"]


class CommandSpec(msgspec.Struct, frozen=True):
    """One command of the protocol: parameters, answer, and the order in which it is handled.

    order      now: answered before the next line is read
               in_turn: begins when earlier commands of this order have been answered
               own_task: runs in a task of its own from the start

    `answer` names a struct of `protocol/wire`, which the server does not load: the `data` of the
    reply (None: the reply has no data).
    """

    name: str
    params: type[Value] = Bare
    answer: str | None = None
    order: Order = "now"
    aliases: tuple[str, ...] = ()
    # The answer may be null.
    nullable: bool = False
    # The command is itself an answer of the host, and gets no reply.
    unanswered: bool = False
    # A command with the order `now` that may wait for the network.
    waits: bool = False
    # The command runs up to its first wait before the next line is read, whatever its order.
    eager: bool = False
    # Commands with the order `in_turn` wait until this one has been answered.
    holds: bool = False
    # The command aborts the run.
    interrupts: bool = False
    # Another session is open when the command has been answered ...
    changes_session: bool = False
    # ... and the command, sent after such a change, acts on the new session.
    about_session: bool = False
    # The command changes nothing except what this connection is sent.
    reads: bool = False

    @property
    def is_slow(self) -> bool:
        """Whether the reply may take longer than a read of the state."""
        return self.waits or self.order != "now"

    @property
    def is_prompt(self) -> bool:
        """Whether the command hands a message to the agent."""
        return self.answer == "Accepted"


ROWS: tuple[CommandSpec, ...] = (
    CommandSpec("prompt", Prompt, "Accepted", "in_turn", eager=True),
    CommandSpec("steer", QueueMessage, "Accepted", "in_turn", eager=True),
    CommandSpec("follow_up", QueueMessage, "Accepted", "in_turn", eager=True),
    CommandSpec("abort", Bare, None, "own_task", holds=True, interrupts=True),
    CommandSpec("abort_and_prompt", Prompt, "Accepted", "in_turn", interrupts=True),
    CommandSpec("clear_queue", Bare, "Queued"),
    CommandSpec("new_session", NewSession, "SessionChange", "in_turn", changes_session=True),
    CommandSpec("get_state", Bare, "State", reads=True),
    CommandSpec("get_messages", Bare, "Conversation", reads=True),
    CommandSpec("set_model", SetModel, "Model", waits=True, holds=True, about_session=True),
    CommandSpec(
        "cycle_model",
        Bare,
        "CycledModel",
        nullable=True,
        waits=True,
        holds=True,
        about_session=True,
    ),
    CommandSpec("get_available_models", Bare, "Models", waits=True, reads=True),
    CommandSpec("set_thinking_level", SetThinkingLevel, about_session=True),
    CommandSpec("cycle_thinking_level", Bare, "CycledLevel", nullable=True, about_session=True),
    CommandSpec("get_available_thinking_levels", Bare, "Levels", reads=True),
    CommandSpec("set_steering_mode", SetMode),
    CommandSpec("set_follow_up_mode", SetMode),
    CommandSpec("compact", Compact, "CompactionResult", "own_task"),
    CommandSpec("set_auto_compaction", SetEnabled),
    CommandSpec("set_auto_retry", SetEnabled),
    CommandSpec("abort_retry", Bare, None, "own_task"),
    CommandSpec("bash", Bash, "BashResult", "own_task", eager=True),
    CommandSpec("abort_bash"),
    CommandSpec("get_session_stats", Bare, "SessionStats", reads=True),
    CommandSpec("export_html", ExportHtml, "Exported", "own_task"),
    CommandSpec("switch_session", SwitchSession, "SessionChange", "in_turn", changes_session=True),
    CommandSpec("fork", Fork, "Forked", "in_turn", aliases=("branch",), changes_session=True),
    CommandSpec("clone", Bare, "SessionChange", "in_turn", changes_session=True),
    CommandSpec(
        "get_fork_messages", Bare, "ForkMessages", aliases=("get_branch_messages",), reads=True
    ),
    CommandSpec("get_entries", GetEntries, "Entries", reads=True),
    CommandSpec("get_tree", Bare, "Tree", reads=True),
    CommandSpec("find_files", FindFiles, "FoundFiles", "own_task", reads=True),
    CommandSpec("get_last_assistant_text", Bare, "LastText", reads=True),
    CommandSpec("set_session_name", SetSessionName, about_session=True),
    CommandSpec("get_commands", Bare, "CommandList", reads=True),
    CommandSpec(
        "complete_command",
        CompleteCommand,
        "CommandCompletions",
        "own_task",
        nullable=True,
        reads=True,
    ),
    CommandSpec("get_shortcuts", Bare, "Shortcuts", reads=True),
    CommandSpec("run_shortcut", RunShortcut, None, "own_task"),
    CommandSpec("set_limits", SetLimits, "Limits"),
    CommandSpec("set_project_trust", SetProjectTrust, None, "in_turn"),
    CommandSpec("extension_ui_response", UiAnswer, unanswered=True),
    CommandSpec("list_sessions", ListSessions, "Sessions", reads=True),
    CommandSpec("rename_session", RenameSession),
    CommandSpec("delete_session", DeleteSession, "Trashed"),
    CommandSpec("navigate_tree", NavigateTree, "Moved", "in_turn"),
    CommandSpec("reload", Bare, None, "in_turn"),
    CommandSpec("get_capabilities", Bare, "Capabilities", reads=True),
    CommandSpec("set_host_tools", SetHostTools, "HostToolNames"),
    CommandSpec("host_tool_update", HostToolUpdate, unanswered=True),
    CommandSpec("host_tool_result", HostToolResult, unanswered=True),
    CommandSpec("set_host_uri_schemes", SetHostUriSchemes, "HostUriSchemes"),
    CommandSpec("host_uri_result", HostUriResult, unanswered=True),
    CommandSpec("handoff", Handoff, "HandedOver", "in_turn", changes_session=True),
    CommandSpec("open_session", OpenSession, "OpenedSession", "in_turn", changes_session=True),
    CommandSpec("set_fast_mode", SetEnabled, "FastMode"),
    CommandSpec("set_interrupt_mode", SetMode),
    CommandSpec("set_todos", SetTodos, "Todos", about_session=True),
    CommandSpec("set_event_filter", SetEventFilter, "EventFilter", reads=True),
    CommandSpec("set_prompt_results", SetEnabled, reads=True),
    CommandSpec("negotiate_protocol", NegotiateProtocol, "Negotiated", reads=True),
    CommandSpec("get_messages_page", GetMessagesPage, "ConversationPage", reads=True),
    CommandSpec("get_available_commands", Bare, "CommandList", reads=True),
    CommandSpec("set_locale", SetLocale),
    CommandSpec("get_login_providers", Bare, "LoginProviders", reads=True),
    CommandSpec("login", Login, "LoggedIn", "in_turn"),
    CommandSpec("logout", Logout, "LoggedOut", "in_turn"),
    CommandSpec("get_auth_status", Bare, "AuthStatuses", reads=True),
    CommandSpec("get_integrations", Bare, "Integrations", reads=True),
    CommandSpec("set_subagent_subscription", SetSubagentSubscription, "Subscription", reads=True),
    CommandSpec("get_subagents", Bare, "Subagents", reads=True),
    CommandSpec("get_subagent_messages", GetSubagentMessages, "Transcript", reads=True),
    CommandSpec("cancel_subagent", CancelSubagent, "CancelledSubagent"),
    CommandSpec("steer_subagent", SteerSubagent),
    CommandSpec("get_mcp_servers", Bare, "McpServers", reads=True),
    CommandSpec("get_mcp_tools", McpServerName, "McpTools", reads=True),
    CommandSpec("set_mcp_server", SetMcpServer, "McpServerAnswer"),
    CommandSpec("set_mcp_servers", SetMcpServers, "McpServers"),
    CommandSpec("mcp_reconnect", ReconnectMcp, "McpServers", "own_task"),
    CommandSpec("mcp_login", McpServerName, "McpServerAnswer", "own_task"),
    CommandSpec("mcp_logout", McpServerName, "McpLoggedOut", waits=True),
)
COMMANDS: dict[str, CommandSpec] = {
    name: spec for spec in ROWS for name in (spec.name, *spec.aliases)
}
_BARE = Bare()
_FIELD = lazy_pattern(r"`\$?\.?([A-Za-z]+)[^`]*`$|field `([A-Za-z]+)`")


@functools.cache
def _decoder(kind: type[Value]) -> "msgspec.json.Decoder[Value]":
    return msgspec.json.Decoder(kind)


def read_command(head: Head, body: Body, spec: CommandSpec | None = None) -> Command:
    """Return the parameters of a line whose head names a known command; `spec` is its row.

    Raises:
        BadCommand: a parameter is missing or has the wrong type.
        BadFrame: the rest of the line is not JSON.
    """
    kind = (spec or COMMANDS[head.type]).params
    if kind is Bare:
        return _BARE  # the line was read to its end for its head
    try:
        if isinstance(body, bytes):
            try:
                return _decoder(kind).decode(body)
            except msgspec.ValidationError:
                raise
            except (msgspec.DecodeError, UnicodeDecodeError):
                body = repair(body)
        return _convert(head, body, kind)
    except msgspec.ValidationError as error:
        match = _FIELD.search(str(error))
        field = (match.group(1) or match.group(2)) if match else "parameters"
        raise invalid_parameter(head.type, field) from None
    except RecursionError:
        raise BadCommand(f"{head.type}: nested too deeply") from None


def _convert(head: Head, body: dict[str, Any], kind: type[Value]) -> Command:
    """Convert an object that may hold lone surrogates; unknown keys are ignored.

    Text keeps lone surrogates. msgspec cannot compare them with the names of fields or choices.
    """
    fields = {field.encode_name: field.type for field in msgspec.structs.fields(kind)}
    values = {name: body[name] for name in fields if name in body}
    for name, value in values.items():
        try:
            msgspec.convert(value, fields[name])
        except UnicodeEncodeError:
            raise invalid_parameter(head.type, name) from None
        except msgspec.ValidationError:
            continue  # reported below, as for every other line
    return msgspec.convert(values, kind)
