"""Parse the command line: all flags of pi, with pi's parsing rules."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from msgspec import field

from ludolf.ai.messages import THINKING_LEVELS
from ludolf.base import ConfigError
from ludolf.config.settings.options import Options

OutputMode = Literal["text", "json", "rpc", "acp"]


class Arguments(Options, kw_only=True):
    """The parsed command line; the caller sets `cwd`."""

    cwd: Path = Path()
    mode: OutputMode | None = None
    print_mode: bool = False
    help: bool = False
    version: bool = False
    list_models: str | None = None
    export: str | None = None
    output_format: Literal["text", "json"] = "text"
    output_schema: str | None = None
    offline: bool = False
    rpc_dialect: str | None = None
    # a session of a server, in RPC mode and at a terminal
    connect: str | None = None
    on_eof: Literal["detach", "abort"] | None = None
    # at a terminal
    plain: bool = False
    no_color: bool = False
    theme: str | None = None
    messages: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


Setter = Callable[[Arguments, str], None]
Switch = Callable[[Arguments], None]


def parse(words: Sequence[str]) -> Arguments:
    """Parse the arguments after the program name.

    Raises:
        ConfigError: a flag has an invalid value or lacks one, or a short one is unknown.
    """
    arguments = Arguments()
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--":
            for later in rest:
                _positional(arguments, later)
            break
        _take(arguments, word, rest)
    return arguments


def first_word(words: Sequence[str]) -> int | None:
    """Return the place of the first word after the options; None if it can only be a message.

    Raises:
        ConfigError: as `parse`.
    """
    arguments, rest = Arguments(), list(words)
    while rest and all(
        each is None for each in (arguments.mode, arguments.list_models, arguments.export)
    ):
        if not rest[0].startswith(("-", "@")):
            return len(words) - len(rest)
        word = rest.pop(0)
        if word in ("--", "-p", "--print"):
            return None
        _take(arguments, word, rest)
    return None


def unknown_option(flag: str) -> str:
    """Return the error text for an unknown option, with the one that it resembles."""
    from difflib import get_close_matches

    flags = (*VALUES, *SWITCHES, "--print", "--list-models")
    names = [each.removeprefix("--") for each in flags if each.startswith("--")]
    given = flag.strip("-")
    near = get_close_matches(given, names, 3, 0.75)
    near.sort(key=lambda name: sorted(name) != sorted(given))  # exchanged letters come first
    return f"Unknown option: {flag}" + "".join(f". Did you mean --{name}?" for name in near[:1])


def _take(arguments: Arguments, word: str, rest: list[str]) -> None:
    flag, equals, value = word.partition("=")
    if not flag.startswith("--"):
        flag, equals = word, ""
    if word in ("-p", "--print"):
        arguments.print_mode = True
        if rest and (rest[0].startswith("---") or not rest[0].startswith(("@", "-"))):
            arguments.messages.append(rest.pop(0))
    elif word == "--list-models":
        arguments.list_models = ""
        if rest and not rest[0].startswith(("@", "-")):
            arguments.list_models = rest.pop(0)
    elif flag in SWITCHES and not equals:
        SWITCHES[flag](arguments)
    elif flag in VALUES:
        if not equals and not rest:
            raise ConfigError(f"{flag} {_NEEDS.get(flag, 'needs a value')}")
        VALUES[flag](arguments, value if equals else rest.pop(0))
    elif word.startswith("--") and len(word) > 2:
        _unknown(arguments, flag, value if equals else None, rest)
    elif word.startswith("-") and len(word) > 1:
        raise ConfigError(unknown_option(word))
    else:
        _positional(arguments, word)


def _positional(arguments: Arguments, word: str) -> None:
    if word.startswith("@") and len(word) > 1:
        arguments.files.append(word[1:])
    else:
        arguments.messages.append(word)


def _unknown(arguments: Arguments, flag: str, value: str | None, rest: list[str]) -> None:
    """Keep a flag for extensions; the next word is its value unless it is a flag or a file."""
    if value is None and rest and not rest[0].startswith(("-", "@")):
        value = rest.pop(0)
    arguments.flags[flag] = True if value is None else value


# ---------------------------------------------------------------- values


def _text(field: str) -> Setter:
    return lambda arguments, value: setattr(arguments, field, value)


def _list(field: str) -> Setter:
    def put(arguments: Arguments, value: str) -> None:
        items = tuple(item.strip() for item in value.split(",") if item.strip())
        setattr(arguments, field, items)

    return put


def _more(field: str) -> Setter:
    def put(arguments: Arguments, value: str) -> None:
        setattr(arguments, field, (*getattr(arguments, field), value))

    return put


def _mode(arguments: Arguments, value: str) -> None:
    if value == "rpc-ui":
        value = "rpc"
    if value not in ("text", "json", "rpc", "acp"):
        raise ConfigError(f'Invalid mode "{value}". Valid values: text, json, rpc, acp')
    arguments.mode = value  # type: ignore[assignment]  # checked above


def _output_format(arguments: Arguments, value: str) -> None:
    if value == "stream-json":
        raise ConfigError(
            'Invalid output format "stream-json". --mode json prints every event as it happens.'
        )
    if value not in ("text", "json"):
        raise ConfigError(f'Invalid output format "{value}". Valid values: text, json')
    arguments.output_format = value  # type: ignore[assignment]  # checked above


def _on_eof(arguments: Arguments, value: str) -> None:
    if value not in ("detach", "abort"):
        raise ConfigError(f'Invalid value "{value}" of --on-eof. Valid values: detach, abort')
    arguments.on_eof = value  # type: ignore[assignment]  # checked above


def _thinking(arguments: Arguments, value: str) -> None:
    if value in THINKING_LEVELS:
        arguments.thinking = value
    else:
        valid = ", ".join(THINKING_LEVELS)
        arguments.warnings.append(f'Invalid thinking level "{value}". Valid values: {valid}')


def _number(flag: str, field: str, kind: type[int] | type[float]) -> Setter:
    def put(arguments: Arguments, value: str) -> None:
        try:
            number = kind(value)
        except ValueError:
            raise ConfigError(f'{flag} needs a number, not "{value}"') from None
        if flag.startswith("--max") and not number > 0:
            raise ConfigError(f'{flag} must be greater than 0, not "{value}"')
        setattr(arguments, field, number)

    return put


def _ignored(arguments: Arguments, value: str = "") -> None:
    """Accepted for compatibility; no effect."""


def _on(field: str, value: bool = True) -> Switch:
    return lambda arguments: setattr(arguments, field, value)


_NEEDS = {"--mode": "requires text, json, rpc, or acp"}
VALUES: dict[str, Setter] = {
    "--mode": _mode,
    "--provider": _text("provider"),
    "--model": _text("model"),
    "--models": _list("models"),
    "--api-key": _text("api_key"),
    "--thinking": _thinking,
    "--session": _text("session"),
    "--session-id": _text("session_id"),
    "--fork": _text("fork"),
    "--session-dir": _text("session_dir"),
    "--name": _text("name"),
    "-n": _text("name"),
    "--tools": _list("tools"),
    "-t": _list("tools"),
    "--exclude-tools": _list("exclude_tools"),
    "-xt": _list("exclude_tools"),
    "--extension": _more("extensions"),
    "-e": _more("extensions"),
    "--skill": _more("skills"),
    "--prompt-template": _more("prompt_templates"),
    "--mcp-config": _more("mcp_config"),
    "--system-prompt": _text("system_prompt"),
    "--append-system-prompt": _more("append_system_prompt"),
    "--approval": _text("approval"),
    "--sandbox": _text("sandbox"),
    "--sandbox-network": _text("sandbox_network"),
    "--export": _text("export"),
    "--output-format": _output_format,
    "--output-schema": _text("output_schema"),
    "--rpc-dialect": _text("rpc_dialect"),
    "--connect": _text("connect"),
    "--on-eof": _on_eof,
    "--record": _text("record"),
    "--replay": _text("replay"),
    "--replay-speed": _number("--replay-speed", "replay_speed", float),
    "--max-turns": _number("--max-turns", "max_turns", int),
    "--max-tokens": _number("--max-tokens", "max_tokens", int),
    "--max-cost": _number("--max-cost", "max_cost", float),
    "--theme": _text("theme"),
    "--use-theme": _text("theme"),
    "--tui-mode": _ignored,
}
SWITCHES: dict[str, Switch] = {
    "--help": _on("help"),
    "-h": _on("help"),
    "--version": _on("version"),
    "-v": _on("version"),
    "--continue": _on("continue_last"),
    "-c": _on("continue_last"),
    "--resume": _on("continue_last"),
    "-r": _on("continue_last"),
    "--no-session": _on("no_session"),
    "--no-tools": _on("no_tools"),
    "-nt": _on("no_tools"),
    "--no-builtin-tools": _on("no_builtin_tools"),
    "-nbt": _on("no_builtin_tools"),
    "--no-extensions": _on("no_extensions"),
    "-ne": _on("no_extensions"),
    "--no-skills": _on("no_skills"),
    "-ns": _on("no_skills"),
    "--no-prompt-templates": _on("no_prompt_templates"),
    "-np": _on("no_prompt_templates"),
    "--no-context-files": _on("no_context_files"),
    "-nc": _on("no_context_files"),
    "--no-mcp": _on("no_mcp"),
    "--approve": _on("approve"),
    "-a": _on("approve"),
    "--no-approve": _on("approve", False),
    "-na": _on("approve", False),
    "--mask-secrets": _on("mask_secrets"),
    "--telemetry": _on("telemetry"),
    "--plain": _on("plain"),
    "--no-color": _on("no_color"),
    "--offline": _on("offline"),
    "--replay-strict": _on("replay_strict"),
    "--no-themes": _ignored,
    "--verbose": _ignored,
}
