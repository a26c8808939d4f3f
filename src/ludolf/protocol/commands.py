"""Commands of a host, typed. Every name and shape of every dialect is accepted always."""

import functools
import re
from typing import Any, Literal

import msgspec
from msgspec import UNSET

from ludolf.base import CommandError, Value
from ludolf.protocol.framing import Body, Head, repair


class BadCommand(CommandError):
    """A known command with a missing or ill-typed parameter."""


class Bare(Value):
    """A command without parameters."""


class Prompt(Value):
    message: str
    images: list[Any] | None = None
    attachments: list[Any] | None = None
    streaming_behavior: Literal["steer", "followUp"] | None = None


class QueueMessage(Value):
    message: str
    images: list[Any] | None = None


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
    since: str | None = None


class SetSessionName(Value):
    name: str


class UiAnswer(Value):
    """The answer of a user to a dialog; an id that nobody waits for changes nothing.

    What does not fit the dialog gives its default.
    """

    id: Any = None
    value: Any = UNSET
    confirmed: Any = UNSET
    cancelled: Any = False


class SetProjectTrust(Value):
    trusted: bool
    remember: bool = True


class SetLimits(Value):
    """A limit that is absent or null is lifted."""

    max_turns: int | None = None
    max_tokens: int | None = None
    max_cost: float | None = None


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


class NegotiateProtocol(Value):
    protocol_version: Any = None


class GetMessagesPage(Value):
    cursor: Any = None
    limit: Any = None


class SetLocale(Value):
    locale: str


class Login(Value):
    """A key is stored; without one the user is asked to log in. `domain` is an enterprise's."""

    provider_id: str
    method: Literal["api-key", "oauth", "device"] | None = None
    api_key: str | None = None
    domain: str | None = None


class Logout(Value):
    provider_id: str


class SetSubagentSubscription(Value):
    level: Any = None


class GetSubagentMessages(Value):
    """One of both names the agent; what its file holds before `from_byte` is left out."""

    subagent_id: str | None = None
    session_file: str | None = None
    from_byte: Any = None


class CancelSubagent(Value):
    subagent_id: str


class SteerSubagent(Value):
    subagent_id: str
    message: str


Command = Any
COMMANDS: dict[str, type[Value]] = {
    "prompt": Prompt,
    "steer": QueueMessage,
    "follow_up": QueueMessage,
    "abort": Bare,
    "abort_and_prompt": Prompt,
    "clear_queue": Bare,
    "new_session": NewSession,
    "get_state": Bare,
    "get_messages": Bare,
    "set_model": SetModel,
    "cycle_model": Bare,
    "get_available_models": Bare,
    "set_thinking_level": SetThinkingLevel,
    "cycle_thinking_level": Bare,
    "get_available_thinking_levels": Bare,
    "set_steering_mode": SetMode,
    "set_follow_up_mode": SetMode,
    "compact": Compact,
    "set_auto_compaction": SetEnabled,
    "set_auto_retry": SetEnabled,
    "abort_retry": Bare,
    "bash": Bash,
    "abort_bash": Bare,
    "get_session_stats": Bare,
    "export_html": ExportHtml,
    "switch_session": SwitchSession,
    "fork": Fork,
    "branch": Fork,
    "clone": Bare,
    "get_fork_messages": Bare,
    "get_branch_messages": Bare,
    "get_entries": GetEntries,
    "get_tree": Bare,
    "get_last_assistant_text": Bare,
    "set_session_name": SetSessionName,
    "get_commands": Bare,
    "set_limits": SetLimits,
    "set_project_trust": SetProjectTrust,
    "extension_ui_response": UiAnswer,
    "list_sessions": ListSessions,
    "rename_session": RenameSession,
    "delete_session": DeleteSession,
    "navigate_tree": NavigateTree,
    "reload": Bare,
    "get_capabilities": Bare,
    "set_host_tools": SetHostTools,
    "host_tool_update": HostToolUpdate,
    "host_tool_result": HostToolResult,
    "handoff": Handoff,
    "open_session": OpenSession,
    "set_fast_mode": SetEnabled,
    "set_host_uri_schemes": SetHostUriSchemes,
    "host_uri_result": HostUriResult,
    "set_interrupt_mode": SetMode,
    "set_todos": SetTodos,
    "set_event_filter": SetEventFilter,
    "set_prompt_results": SetEnabled,
    "negotiate_protocol": NegotiateProtocol,
    "get_messages_page": GetMessagesPage,
    "get_available_commands": Bare,
    "set_locale": SetLocale,
    "get_login_providers": Bare,
    "login": Login,
    "logout": Logout,
    "get_auth_status": Bare,
    "get_integrations": Bare,
    "set_subagent_subscription": SetSubagentSubscription,
    "get_subagents": Bare,
    "get_subagent_messages": GetSubagentMessages,
    "cancel_subagent": CancelSubagent,
    "steer_subagent": SteerSubagent,
}
_BARE = Bare()
_FIELD = re.compile(r"`\$?\.?([A-Za-z]+)[^`]*`$|field `([A-Za-z]+)`")


@functools.cache
def _decoder(kind: type[Value]) -> "msgspec.json.Decoder[Value]":
    return msgspec.json.Decoder(kind)


def read_command(head: Head, body: Body) -> Command:
    """The typed command of a line whose head names a known one.

    Raises:
        BadCommand: a parameter is missing or has the wrong type.
        BadFrame: the rest of the line is no JSON.
    """
    kind = COMMANDS[head.type]
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
        found = _FIELD.search(str(error))
        field = (found.group(1) or found.group(2)) if found else "parameters"
        raise BadCommand(f'{head.type}: missing or invalid "{field}"') from None
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
            raise BadCommand(f'{head.type}: missing or invalid "{name}"') from None
        except msgspec.ValidationError:
            continue  # reported below, as for every other line
    return msgspec.convert(values, kind)
