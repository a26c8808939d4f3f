"""Options of an SDK session, and their conversion to engine options."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict, get_args

from ludolf.agent.workplace import Workplace
from ludolf.ai.builtin.scripted import Scripted
from ludolf.ai.gate import RequestGate
from ludolf.ai.messages import THINKING_LEVELS, ThinkingLevel
from ludolf.ai.models import Model
from ludolf.base import ConfigError
from ludolf.config.settings.home import has_global_provider
from ludolf.config.settings.options import Options
from ludolf.sdk.backend import ModelBackend, Speaker

Store = Literal["memory", "files"]
# An extension function: `def extension(api)`.
Factory = Callable[..., Any]


class SessionOptions(TypedDict, total=False):
    """Options of `create_session`. All are optional.

    model           `provider/id` or part of an id; a `Model`; a `Scripted` model; an async
                    generator function that answers; or an object with `id`, `models()` and
                    `stream(...)`
    api_key         API key for the model, for this session only
    thinking        thinking level, `off` to `max`
    cwd             working folder of the tools; default: the current folder
    workplace       object with `cwd`, `read`, `write` and `run`: the built-in tools work there and
                    not on this machine; see `CommandWorkplace`
    tools           functions that the model may call; their type hints become the schema
    builtin_tools   names of built-in tools; default: read, bash, edit, write; `()` for none
    system_prompt   replaces the built-in system prompt
    append_system_prompt  text appended to the system prompt
    store           "memory" (default) or "files": where the conversation is stored
    session         session file, id or its beginning; "last" for the last one of the folder
    session_dir     folder of session files
    name            name of the session
    settings        settings.json as a dict; settings files are then neither read nor written
    agent_dir       folder to use instead of ~/.pi/agent
    extensions      extension functions, or paths of extension files
    mcp_servers     MCP servers by name, each in the form of an entry of mcp.json
    discover        load the user's and project's extensions, skills, templates, context files
                    and MCP servers; default: False
    trust_project   whether to load the project's .pi folder; default: as the user decided
    max_turns, max_tokens, max_cost  limits per prompt; the cost is in US dollars
    approval        "never" (default), "on-command", "on-write", "always" or "rules": which tool
                    calls need approval; `on_dialog` answers, and without it they are denied
    sandbox         "off" (default), "workspace" or "read-only": what bash and file tools may write
    sandbox_network "on" (default) or "off"
    mask_secrets    replace secret values with placeholders in requests to the model
    telemetry       True, False or an OpenTelemetry `TracerProvider`: where runs are reported;
                    default: to the global provider if the program has set one
    gate            a `RequestGate` that requests to the model wait at; sessions of one event loop
                    that use the same key share one
    on_dialog       function that answers dialogs and approvals: takes the request, returns the
                    value, or None to dismiss it
    on_warning      function that receives warnings; default: the `warnings` module

    >>> from ludolf import sync
    >>> reader: SessionOptions = {
    ...     "model": "ludolf/offline",
    ...     "builtin_tools": ("read", "ls"),
    ...     "settings": {},
    ... }
    >>> with sync.create_session(**reader, max_turns=1) as session:
    ...     session.prompt("read a.txt").stop_reason
    'toolUse'
    """

    model: str | Model | Scripted | Speaker | ModelBackend
    api_key: str
    thinking: ThinkingLevel
    cwd: str | os.PathLike[str]
    workplace: Workplace
    tools: Sequence[Callable[..., Any]]
    builtin_tools: Sequence[str]
    system_prompt: str
    append_system_prompt: str
    store: Store
    session: str | os.PathLike[str]
    session_dir: str | os.PathLike[str]
    name: str
    settings: Mapping[str, Any]
    agent_dir: str | os.PathLike[str]
    extensions: Sequence[Factory | str | os.PathLike[str]]
    mcp_servers: Mapping[str, Mapping[str, Any]]
    discover: bool
    trust_project: bool
    max_turns: int
    max_tokens: int
    max_cost: float
    approval: Literal["never", "on-command", "on-write", "always", "rules"]
    sandbox: Literal["off", "workspace", "read-only"]
    sandbox_network: Literal["on", "off"]
    mask_secrets: bool
    telemetry: object
    gate: RequestGate
    on_dialog: Callable[..., Any]
    on_warning: Callable[[str], None]


# Options that the engine has under the same name.
_SAME = (
    *("thinking", "system_prompt", "name", "max_turns", "max_tokens", "max_cost", "api_key"),
    *("approval", "sandbox", "sandbox_network", "mask_secrets", "gate"),
)


def start_options(given: SessionOptions) -> Options:
    """Convert session options to engine options.

    Raises:
        ConfigError: an option is unknown or invalid, or two of them contradict each other.
    """
    unknown = set(given) - SessionOptions.__optional_keys__
    if unknown:
        names = ", ".join(sorted(SessionOptions.__optional_keys__))
        raise ConfigError(f"Unknown option: {', '.join(sorted(unknown))}. Options: {names}.")
    cwd = Path(given.get("cwd") or os.getcwd()).expanduser().absolute()
    if not cwd.is_dir():
        raise ConfigError(f"The working folder does not exist: {cwd}")
    if "thinking" in given:
        check_level(given["thinking"])
    if wrong := wrong_limit(given):
        raise ConfigError(wrong)
    if "workplace" in given and given.get("sandbox", "off") != "off":
        raise ConfigError("The sandbox is for this machine: remove sandbox or workplace.")
    options = Options(cwd=cwd)
    for name in _SAME:
        if name in given:
            setattr(options, name, given[name])  # type: ignore[literal-required]  # all are keys
    options.telemetry = given.get("telemetry", has_global_provider())
    _place(options, given)
    _resources(options, given)
    if "settings" in given:
        options.settings = dict(given["settings"])
    if "agent_dir" in given:
        options.agent_dir = Path(given["agent_dir"]).expanduser().absolute()
    return options


def wrong_limit(given: Mapping[str, Any]) -> str | None:
    """Return a text for a limit that is not a positive number, or None."""
    for name in ("max_turns", "max_tokens", "max_cost"):
        value = given.get(name)
        if value is not None and not (isinstance(value, int | float) and value > 0):
            return f"{name} must be a number greater than 0, not {value!r}."
    return None


def check_level(level: str) -> ThinkingLevel:
    """Return a valid thinking level.

    Raises:
        ConfigError: the level is unknown; the text lists the valid ones.
    """
    for known in THINKING_LEVELS:
        if known == level:
            return known
    levels = ", ".join(THINKING_LEVELS)
    raise ConfigError(f'Unknown thinking level "{level}". Levels: {levels}.')


def _place(options: Options, given: SessionOptions) -> None:
    session = given.get("session")
    store = given.get("store", "memory" if session is None else "files")
    if store not in get_args(Store):
        raise ConfigError(f'Unknown store "{store}". Use "memory" or "files".')
    if store == "memory" and session is not None:
        raise ConfigError('Only stored sessions can be continued: remove store="memory".')
    options.no_session = store == "memory"
    if session == "last":
        options.continue_last = True
    elif session is not None:
        options.session = os.fspath(session)
    if "session_dir" in given:
        options.session_dir = os.fspath(given["session_dir"])


def _resources(options: Options, given: SessionOptions) -> None:
    discover = given.get("discover", False)
    options.no_extensions = options.no_skills = not discover
    options.no_prompt_templates = options.no_context_files = options.no_mcp = not discover
    options.approve = given.get("trust_project", None if discover else False)
    extensions = given.get("extensions", ())
    options.factories = tuple(each for each in extensions if callable(each))
    options.extensions = tuple(os.fspath(each) for each in extensions if not callable(each))
    if "append_system_prompt" in given:
        options.append_system_prompt = (given["append_system_prompt"],)
    if "builtin_tools" in given:
        if isinstance(given["builtin_tools"], str):
            name = given["builtin_tools"]
            raise ConfigError(f'builtin_tools takes a list of names: write ["{name}"].')
        options.tools = tuple(given["builtin_tools"])
