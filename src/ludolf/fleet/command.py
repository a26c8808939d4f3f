"""The command line of `ludolf batch`: its own options, and those of a session."""

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ludolf.base import ConfigError, is_nested_deeper, loads
from ludolf.base.near import did_you_mean
from ludolf.config.settings.arguments import VALUES as SESSION_VALUES
from ludolf.config.settings.arguments import Arguments, parse
from ludolf.config.settings.home import current_folder
from ludolf.config.settings.session_request import session_choices
from ludolf.fleet.orders import FleetSetup, ItemLimits
from ludolf.fleet.plan import BatchPlan, ItemChoice, absolute_paths, batch_name
from ludolf.fleet.tasks import items_of_glob, items_of_lines, read_lines_of
from ludolf.fleet.worker_hosts import ray_address
from ludolf.fleet.workspace import WORKSPACE_KINDS, WorkspaceKind

_MAX_SCHEMA_BYTES = 1 << 20
# Options of other modes, by the fields of the arguments.
_NOT_HERE = {
    "mode": "--mode",
    "session": "--session",
    "session_id": "--session-id",
    "fork": "--fork",
    "session_dir": "--session-dir",
    "continue_last": "--continue",
    "no_session": "--no-session",
    "name": "--name",
    "output_schema": "--output-schema (use --schema)",
    "connect": "--connect",
    "export": "--export",
    "list_models": "--list-models",
    "record": "--record",
    "print_mode": "-p",
}
_LIMITS = ("max_turns", "max_tokens", "max_cost")


class BatchWords(msgspec.Struct, kw_only=True):
    """The options of `ludolf batch` itself."""

    each: str | None = None
    lines: str | None = None
    jobs: int = 8
    workers: int | None = None
    kind: WorkspaceKind | None = None
    via: str | None = None
    via_end: str | None = None
    schema: str | None = None
    check: str | None = None
    check_rounds: int = 0
    max_seconds: float = 3600.0
    budget: float | None = None
    retries: int = 2
    out: str | None = None
    only: tuple[str, ...] = ()
    first: int | None = None
    redo: tuple[str, ...] = ()
    shard: tuple[int, int] | None = None
    on: str | None = None
    dry_run: bool = False
    json: bool = False
    help: bool = False


class BatchCommand(msgspec.Struct, kw_only=True):
    """A parsed command line."""

    plan: BatchPlan
    out: Path
    dry_run: bool
    json: bool
    plain: bool
    warnings: tuple[str, ...]


WordSetter = Callable[[BatchWords, str], None]


# ---------------------------------------------------------------- values


def _text(field: str) -> WordSetter:
    return lambda words, value: setattr(words, field, value)


def _more(field: str) -> WordSetter:
    def put(words: BatchWords, value: str) -> None:
        setattr(words, field, (*getattr(words, field), value))

    return put


def _count(flag: str, field: str, least: int) -> WordSetter:
    def put(words: BatchWords, value: str) -> None:
        if not value.isdecimal() or int(value) < least:
            raise ConfigError(f'{flag} needs a number of at least {least}, not "{value}".')
        setattr(words, field, int(value))

    return put


def _amount(flag: str, field: str) -> WordSetter:
    def put(words: BatchWords, value: str) -> None:
        try:
            number = float(value)
        except ValueError:
            number = 0.0
        if not 0 < number < float("inf"):
            raise ConfigError(f'{flag} needs a number greater than 0, not "{value}".')
        setattr(words, field, number)

    return put


def _kind(words: BatchWords, value: str) -> None:
    for kind in WORKSPACE_KINDS:
        if kind == value:
            words.kind = kind
            return
    raise ConfigError(f'Invalid value "{value}" of --in. Values: {", ".join(WORKSPACE_KINDS)}.')


def _shard(words: BatchWords, value: str) -> None:
    words.shard = read_shard(value)


def read_shard(value: str) -> tuple[int, int]:
    """Return index and number of shards.

    Raises:
        ConfigError: the text is not I/N with I from 0 to N-1.
    """
    index, slash, count = value.partition("/")
    if slash and index.isdecimal() and count.isdecimal() and int(index) < int(count):
        return int(index), int(count)
    raise ConfigError(f'--shard needs I/N with I from 0 to N-1, such as 0/4, not "{value}".')


def _on(words: BatchWords, value: str) -> None:
    ray_address(value)
    words.on = value


_VALUES: dict[str, WordSetter] = {
    "--each": _text("each"),
    "--lines": _text("lines"),
    "-j": _count("-j", "jobs", 1),
    "--jobs": _count("--jobs", "jobs", 1),
    "--workers": _count("--workers", "workers", 1),
    "--in": _kind,
    "--via": _text("via"),
    "--via-end": _text("via_end"),
    "--schema": _text("schema"),
    "--check": _text("check"),
    "--check-rounds": _count("--check-rounds", "check_rounds", 0),
    "--max-seconds": _amount("--max-seconds", "max_seconds"),
    "--budget": _amount("--budget", "budget"),
    "--retries": _count("--retries", "retries", 0),
    "--out": _text("out"),
    "--only": _more("only"),
    "--first": _count("--first", "first", 1),
    "--redo": _more("redo"),
    "--shard": _shard,
    "--on": _on,
}
_SWITCHES = {"--dry-run": "dry_run", "--json": "json", "--help": "help", "-h": "help"}


# ---------------------------------------------------------------- parsing


def split_words(words: Sequence[str]) -> tuple[BatchWords, list[str]]:
    """Take the options of the batch out of the command line; returns them and the other words.

    Raises:
        ConfigError: a value is missing or invalid.
    """
    own, rest, left = BatchWords(), list[str](), list(words)
    while left:
        word = left.pop(0)
        flag, equals, value = word.partition("=")
        if word == "--":
            rest += (word, *left)
            break
        if word.startswith("-j") and word[2:].isdecimal() and word != "-j":
            flag, equals, value = "-j", "=", word[2:]
        if flag in _VALUES:
            if not equals and not left:
                raise ConfigError(f"{flag} needs a value.")
            _VALUES[flag](own, value if equals else left.pop(0))
        elif word in _SWITCHES:
            setattr(own, _SWITCHES[word], True)
        else:
            rest.append(word)
            if flag in SESSION_VALUES and not equals and left:
                rest.append(left.pop(0))
    return own, rest


def read_command(own: BatchWords, rest: Sequence[str]) -> BatchCommand:
    """Return the batch that a command line asks for.

    Raises:
        ConfigError: an option is invalid, or a file does not exist.
    """
    arguments = parse(rest)
    arguments.cwd = current_folder()
    _check_arguments(arguments)
    items, name, messages = _items(own, arguments)
    out = Path(arguments.cwd, os.path.expanduser(own.out) if own.out else _out_of(name))
    plan = BatchPlan(
        items=items,
        prompt=_prompt(arguments, messages),
        setup=_setup(own, arguments, out),
        choice=ItemChoice(only=own.only, first=own.first, redo=own.redo, shard=own.shard),
        jobs=own.jobs,
        workers=own.workers,
        budget=own.budget,
        retries=own.retries,
        on=own.on,
    )
    plan.check()
    return BatchCommand(
        plan=plan,
        out=out,
        dry_run=own.dry_run,
        json=own.json,
        plain=arguments.plain,
        warnings=tuple(arguments.warnings),
    )


def _check_arguments(arguments: Arguments) -> None:
    defaults = Arguments()
    for field, flag in _NOT_HERE.items():
        if getattr(arguments, field) != getattr(defaults, field):
            raise ConfigError(f"ludolf batch has no option {flag}.")
    if arguments.flags and not arguments.extensions:
        flag = next(iter(arguments.flags))
        raise ConfigError(f"Unknown option: {flag}.{did_you_mean(flag, (*_VALUES, *_SWITCHES))}")


def _setup(own: BatchWords, arguments: Arguments, out: Path) -> FleetSetup:
    choices = session_choices(arguments)
    limits = {name: getattr(arguments, name) for name in _LIMITS}
    for name in ("maxTurns", "maxTokens", "maxCost"):
        choices.pop(name, None)
    if own.via is None:
        choices = absolute_paths(choices, arguments.cwd)
    return FleetSetup(
        start=str(arguments.cwd),
        out=str(out),
        name=batch_name(out),
        choices=choices,
        limits=ItemLimits(max_seconds=own.max_seconds, **limits),
        kind=own.kind,
        via=own.via,
        via_end=own.via_end,
        schema=read_schema(arguments.cwd, own.schema) if own.schema else None,
        check=own.check,
        check_rounds=own.check_rounds,
        offline=arguments.offline,
        telemetry=arguments.telemetry,
    )


def _items(own: BatchWords, arguments: Arguments) -> tuple[Any, str, list[str]]:
    """Return the items, the name of their source and the messages that are left."""
    messages, cwd = list(arguments.messages), arguments.cwd
    if own.each is not None and own.lines is not None:
        raise ConfigError("--each and --lines cannot be combined.")
    if own.each is not None:
        return items_of_glob(own.each, cwd), "", messages
    if own.lines is not None:
        return _read(cwd, own.lines, items_of_lines), own.lines, messages
    if not messages:
        raise ConfigError("No items. Pass a file of JSON lines, --each GLOB, --lines FILE, or -.")
    name = messages.pop(0)
    if name == "-":
        return read_lines_of(sys.stdin.buffer, "stdin"), "", messages
    return _read(cwd, name, read_lines_of), name, messages


def _read(cwd: Path, name: str, read: Callable[..., Any]) -> "FileItems":
    path = Path(cwd, os.path.expanduser(name))
    if not path.is_file():
        raise ConfigError(f"{path} is not a file of items.")
    return FileItems(path, read)


class FileItems:
    """The items of a file, read when they are iterated over."""

    def __init__(self, path: Path, read: Callable[..., Any]) -> None:
        self._path = path
        self._read = read

    def __iter__(self) -> Any:
        try:
            with self._path.open("rb") as file:
                yield from self._read(file, self._path.name)
        except OSError as error:
            raise ConfigError(f"{self._path}: {error.strerror}") from error


def _out_of(name: str) -> str:
    if not name:
        return "ludolf.batch"
    return f"{os.path.splitext(name)[0]}.batch"


def _prompt(arguments: Arguments, messages: list[str]) -> str | None:
    given = len(messages) + len(arguments.files)
    if given > 1:
        raise ConfigError("Pass one prompt: quote it, or name one file as @FILE.")
    if messages:
        return messages[0]
    if not arguments.files:
        return None
    path = Path(arguments.cwd, os.path.expanduser(arguments.files[0]))
    try:
        return path.read_text("utf-8", "replace")
    except OSError as error:
        raise ConfigError(f"@{arguments.files[0]}: {error.strerror}") from error


def read_schema(cwd: Path, name: str) -> dict[str, Any]:
    """Return the JSON Schema in a file.

    Raises:
        ConfigError: the file cannot be read, or does not hold a usable schema.
    """
    try:
        with Path(cwd, os.path.expanduser(name)).open("rb") as file:
            data = file.read(_MAX_SCHEMA_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"--schema {name}: {error.strerror}") from error
    if len(data) > _MAX_SCHEMA_BYTES or is_nested_deeper(data):
        raise ConfigError(f"--schema {name}: too large.")
    try:
        schema = loads(data)
    except ValueError as error:
        raise ConfigError(f"--schema {name}: this is not JSON: {error}.") from error
    if not isinstance(schema, dict):
        raise ConfigError(f"--schema {name}: a JSON Schema must be an object.")
    return schema
