"""Parameters and results of the methods of the Agent Client Protocol, version 1."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from ludolf.base import LudolfError, Value
from ludolf.base.jsonrpc import RequestId

PROTOCOL_VERSION = 1
PARSE_ERROR = -32700
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
REQUEST_CANCELLED = -32800
AUTH_REQUIRED = -32000
NOT_FOUND = -32002

StopCause = Literal["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"]
NoticeSeverity = Literal["info", "warning", "error"]
ToolKind = Literal[
    "read",
    "edit",
    "delete",
    "move",
    "search",
    "execute",
    "think",
    "fetch",
    "switch_mode",
    "other",
]
CallStatus = Literal["pending", "in_progress", "completed", "failed"]
PermissionKind = Literal["allow_once", "allow_always", "reject_once", "reject_always"]
Meta = dict[str, Any] | None


class InvalidParams(LudolfError):
    """The parameters of a request are wrong; the text names the field and the expected type."""


class MethodUnknown(LudolfError):
    """The agent has no such method."""


# ---------------------------------------------------------------- the client


class ClientCapabilities(Value, kw_only=True):
    """What the client offers; anything that it does not mention is off."""

    reads_files: bool = False
    writes_files: bool = False
    terminal: bool = False
    terminal_login: bool = False
    forms: bool = False
    urls: bool = False
    booleans: bool = False
    notices: bool = False
    compaction: bool = False
    terminal_output: bool = False


def read_client_capabilities(raw: Any) -> ClientCapabilities:
    """Read `clientCapabilities`; parts of another shape count as not offered."""
    return ClientCapabilities(
        reads_files=_at(raw, "fs", "readTextFile") is True,
        writes_files=_at(raw, "fs", "writeTextFile") is True,
        terminal=_at(raw, "terminal") is True,
        terminal_login=_is_offered(_at(raw, "auth", "terminal"))
        or _is_offered(_at(raw, "_meta", "terminal-auth")),
        forms=_is_offered(_at(raw, "elicitation", "form")),
        urls=_is_offered(_at(raw, "elicitation", "url")),
        booleans=_is_offered(_at(raw, "session", "configOptions", "boolean")),
        notices=_is_offered(_at(raw, "session", "notices")),
        compaction=_is_offered(_at(raw, "session", "compaction")),
        terminal_output=_is_offered(_at(raw, "_meta", "terminal_output")),
    )


def _at(raw: Any, *names: str) -> Any:
    for name in names:
        if not isinstance(raw, dict):
            return None
        raw = raw.get(name)
    return raw


def _is_offered(value: Any) -> bool:
    """Return whether a capability is there: `true`, or an object, which is usually empty."""
    return value is True or isinstance(value, dict)


# ---------------------------------------------------------------- parameters of the client


class MethodParams(Value, kw_only=True):
    """Base of all parameters; unknown fields are ignored."""

    meta: Meta = msgspec.field(default=None, name="_meta")

    def has_flag(self, name: str) -> bool:
        """Return whether `_meta` has this key with the value true."""
        return self.meta is not None and self.meta.get(name) is True


class InitializeParams(MethodParams, kw_only=True):
    protocol_version: int | str
    client_capabilities: Any = None
    client_info: Any = None


class AuthenticateParams(MethodParams, kw_only=True):
    method_id: str


class NamedValue(Value, kw_only=True):
    """A variable of the environment, or a header."""

    name: str
    value: str


class McpServerParams(Value, kw_only=True):
    """An MCP server of the client. `type` is `stdio` (also if it is missing), `http` or `sse`."""

    name: str
    type: str = "stdio"
    command: str = ""
    args: tuple[str, ...] = ()
    env: tuple[NamedValue, ...] = ()
    url: str = ""
    headers: tuple[NamedValue, ...] = ()


class NewSessionParams(MethodParams, kw_only=True):
    cwd: str
    mcp_servers: tuple[McpServerParams, ...] = ()
    additional_directories: tuple[str, ...] | None = None


class SessionParams(MethodParams, kw_only=True):
    """A request about one session: `session/close`, `session/delete`, `session/cancel`."""

    session_id: str


class OpenSessionParams(SessionParams, kw_only=True):
    """`session/load`, `session/resume` and `session/fork`."""

    cwd: str
    mcp_servers: tuple[McpServerParams, ...] = ()
    additional_directories: tuple[str, ...] | None = None


class ListSessionsParams(MethodParams, kw_only=True):
    cwd: str | None = None
    cursor: str | None = None


class PromptParams(SessionParams, kw_only=True):
    prompt: tuple[Any, ...]


class SetModeParams(SessionParams, kw_only=True):
    mode_id: str


class SetConfigOptionParams(SessionParams, kw_only=True):
    config_id: str
    value: str | bool
    type: str | None = None


class SetModelParams(SessionParams, kw_only=True):
    """`session/set_model` of older clients."""

    model_id: str


class CancelRequestParams(MethodParams, kw_only=True):
    request_id: RequestId


PARAMS: Mapping[str, type[MethodParams]] = {
    "initialize": InitializeParams,
    "authenticate": AuthenticateParams,
    "session/new": NewSessionParams,
    "session/load": OpenSessionParams,
    "session/resume": OpenSessionParams,
    "session/fork": OpenSessionParams,
    "session/list": ListSessionsParams,
    "session/close": SessionParams,
    "session/delete": SessionParams,
    "session/prompt": PromptParams,
    "session/set_mode": SetModeParams,
    "session/set_config_option": SetConfigOptionParams,
    "session/set_model": SetModelParams,
    "session/cancel": SessionParams,
    "$/cancel_request": CancelRequestParams,
}


def decode_params(method: str, raw: Any) -> MethodParams:
    """Convert the parameters of a request or a notification of the client.

    Raises:
        MethodUnknown: there is no such method.
        InvalidParams: a field is missing or has another type; the text names it.
    """
    kind = PARAMS.get(method)
    if kind is None:
        raise MethodUnknown(f"Method not found: {method[:100]}")
    try:
        return msgspec.convert({} if raw is None else raw, kind)
    except msgspec.ValidationError as error:
        raise InvalidParams(f"{method}: {_explained(error)}") from None
    except (RecursionError, UnicodeEncodeError):
        raise InvalidParams(f"{method}: the parameters cannot be read") from None


def _explained(error: msgspec.ValidationError) -> str:
    """Return msgspec's words with the place first: `cwd: Expected `str`, got `int``."""
    text, _, place = str(error).partition(" - at `$")
    place = place.removesuffix("`").removeprefix(".")
    return f"{place}: {text}" if place else text


# ---------------------------------------------------------------- results of the agent


class Implementation(Value, kw_only=True):
    name: str
    title: str | None = None
    version: str


class AuthMethod(Value, kw_only=True):
    """A login. `type` is `terminal` if the client runs its own command again with `args`."""

    id: str
    name: str
    description: str | None = None
    type: Literal["terminal"] | None = None
    args: tuple[str, ...] = ()
    meta: Meta = msgspec.field(default=None, name="_meta")


class InitializeResult(Value, kw_only=True):
    protocol_version: int
    agent_capabilities: dict[str, Any]
    auth_methods: tuple[AuthMethod, ...]
    agent_info: Implementation


AGENT_CAPABILITIES: Mapping[str, Any] = {
    "loadSession": True,
    "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
    "mcpCapabilities": {"http": True, "sse": False},
    "sessionCapabilities": {"list": {}, "resume": {}, "close": {}, "delete": {}, "fork": {}},
    "auth": {},
}


def initialize_result(version: str, auth_methods: Sequence[AuthMethod]) -> InitializeResult:
    """Return the answer to `initialize`; `version` is that of the program."""
    return InitializeResult(
        protocol_version=PROTOCOL_VERSION,
        agent_capabilities=dict(AGENT_CAPABILITIES),
        auth_methods=tuple(auth_methods),
        agent_info=Implementation(name="ludolf", title="Ludolf", version=version),
    )


class SessionMode(Value, kw_only=True):
    id: str
    name: str
    description: str | None = None


class SessionModes(Value, kw_only=True):
    current_mode_id: str
    available_modes: tuple[SessionMode, ...]


class ConfigValue(Value, kw_only=True):
    """One value of a select option."""

    value: str
    name: str
    description: str | None = None


class ConfigValueGroup(Value, kw_only=True):
    group: str
    name: str
    options: tuple[ConfigValue, ...]


class ConfigSelect(Value, tag_field="type", tag="select", kw_only=True):
    """An option with named values. `category` is `mode`, `model`, `thought_level` or another."""

    id: str
    name: str
    description: str | None = None
    category: str | None = None
    current_value: str
    options: tuple[ConfigValue, ...] | tuple[ConfigValueGroup, ...]


class ConfigBoolean(Value, tag_field="type", tag="boolean", kw_only=True):
    id: str
    name: str
    description: str | None = None
    category: str | None = None
    current_value: bool


ConfigOption = ConfigSelect | ConfigBoolean


class OpenedSessionResult(Value, kw_only=True):
    """The answer to `session/new` and `session/fork`, and without an id to load and resume."""

    session_id: str | None = None
    modes: SessionModes | None = None
    config_options: tuple[ConfigOption, ...] | None = None


class ListedSession(Value, kw_only=True):
    session_id: str
    cwd: str
    title: str | None = None
    updated_at: str | None = None
    meta: Meta = msgspec.field(default=None, name="_meta")


class ListSessionsResult(Value, kw_only=True):
    sessions: tuple[ListedSession, ...]
    next_cursor: str | None = None


class ConfigOptionsResult(Value, kw_only=True):
    config_options: tuple[ConfigOption, ...]


class TurnResult(Value, kw_only=True):
    stop_reason: StopCause
    meta: Meta = msgspec.field(default=None, name="_meta")


class CommandHint(Value, kw_only=True):
    hint: str


class AvailableCommand(Value, kw_only=True):
    name: str
    description: str
    input: CommandHint | None = None


# ---------------------------------------------------------------- requests of the agent


class PermissionOption(Value, kw_only=True):
    option_id: str
    name: str
    kind: PermissionKind


class PermissionParams(Value, kw_only=True):
    """`session/request_permission`; `tool_call` has the shape of an update of the call."""

    session_id: str
    tool_call: dict[str, Any]
    options: tuple[PermissionOption, ...]


def read_permission(raw: Any) -> str | None:
    """Return the id of the chosen option; None if the question was cancelled or not answered."""
    outcome = _at(raw, "outcome")
    chosen = _at(outcome, "optionId")
    is_selected = _at(outcome, "outcome") == "selected"
    return chosen if is_selected and isinstance(chosen, str) else None


class ElicitationParams(Value, kw_only=True):
    """`elicitation/create`: a form by its schema, or an address that the user opens.

    The question belongs to a session and possibly a call, or to a request of the client.
    """

    mode: Literal["form", "url"]
    message: str
    session_id: str | None = None
    tool_call_id: str | None = None
    request_id: RequestId | None = None
    requested_schema: dict[str, Any] | None = None
    elicitation_id: str | None = None
    url: str | None = None


class ElicitationAnswer(Value, kw_only=True):
    action: Literal["accept", "decline", "cancel"]
    content: dict[str, Any]


def read_elicitation(raw: Any) -> ElicitationAnswer:
    """Read the answer to a question; an unknown action counts as `cancel`."""
    action, content = _at(raw, "action"), _at(raw, "content")
    if action not in ("accept", "decline"):
        action = "cancel"
    return ElicitationAnswer(action=action, content=content if isinstance(content, dict) else {})


class ReadFileParams(Value, kw_only=True):
    """`fs/read_text_file`; lines count from 1."""

    session_id: str
    path: str
    line: int | None = None
    limit: int | None = None


class WriteFileParams(Value, kw_only=True):
    """`fs/write_text_file`."""

    session_id: str
    path: str
    content: str


def read_file_content(raw: Any) -> str | None:
    """Return the text of a file from the client's answer; None if the answer has another shape."""
    content = _at(raw, "content")
    return content if isinstance(content, str) else None
