"""Take over MCP servers from the files of other programs."""

import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import msgspec

from ludolf.base import ConfigError, Value
from ludolf.base.project_files import Reader
from ludolf.config.mcp.converters import (
    Converted,
    from_claude,
    from_codex,
    from_cursor,
    from_gemini,
    from_opencode,
    from_vscode,
)
from ludolf.config.mcp.entries import check_entry, same_server
from ludolf.config.settings.files import read_object, read_text
from ludolf.config.settings.home import Home, reader_of

ForeignProgram = Literal["claude", "cursor", "vscode", "codex", "opencode", "gemini"]
FOREIGN_PROGRAMS: tuple[str, ...] = get_args(ForeignProgram)
_CONVERTERS: dict[str, Callable[[dict[str, Any], Home], Converted]] = {
    "claude": from_claude,
    "cursor": from_cursor,
    "vscode": from_vscode,
    "codex": from_codex,
    "opencode": from_opencode,
    "gemini": from_gemini,
}


class ForeignEntries(Value):
    """Entries in the form of `mcp.json` by name, the files they are from, and remarks.

    A remark names what could not be taken over, and what the user has to do.
    """

    entries: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)
    origins: dict[str, str] = msgspec.field(default_factory=dict)
    files: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


class _Place(NamedTuple):
    """A file of a program; `is_project` if it belongs to the working folder."""

    path: Path
    is_project: bool = False


def read_foreign_entries(
    program: ForeignProgram,
    home: Home,
    environ: Mapping[str, str],
    *,
    project_only: bool = False,
) -> ForeignEntries:
    """Return the servers of another program; an entry of the project replaces one of the user.

    With `project_only`, servers that the program has for all folders are left out.
    """
    entries: dict[str, dict[str, Any]] = {}
    origins: dict[str, str] = {}
    files: list[str] = []
    remarks: list[str] = []
    for place in _places(program, home, environ):
        try:
            content = _content(place, home)
        except ConfigError as error:
            remarks.append(f"{place.path} cannot be used: {error}")
            continue
        if content is None:
            continue
        files.append(str(place.path))
        for given, raw, is_project in _servers(program, content, home, place):
            if is_project or not project_only:
                name = _take(program, (given, raw), home, entries, remarks)
                origins |= {} if name is None else {name: str(place.path)}
    return ForeignEntries(
        entries=entries, origins=origins, files=tuple(files), remarks=tuple(remarks)
    )


def foreign_files(
    program: ForeignProgram, home: Home, environ: Mapping[str, str]
) -> tuple[Path, ...]:
    """Return the files that are searched for servers of a program; they may be missing."""
    return tuple(place.path for place in _places(program, home, environ))


def _take(
    program: ForeignProgram,
    given: tuple[str, Any],
    home: Home,
    entries: dict[str, dict[str, Any]],
    remarks: list[str],
) -> str | None:
    """Convert one entry and add it; return its name, or None if it is left out."""
    name = _usable_name(given[0])
    if not isinstance(given[1], dict):
        remarks.append(f"{name} is left out: expected an object")
        return None
    converted = _CONVERTERS[program](given[1], home)
    try:
        check_entry(name, converted.entry, "user")
    except ConfigError as error:
        reason = str(error).removeprefix(f'server "{name}": ')
        remarks.append(f"{name} is left out: {reason}")
        return None
    if name != given[0]:
        remarks.append(f"{name}: renamed from {given[0]!r}")
    remarks += [f"{name}: {remark}" for remark in converted.remarks]
    for old in [each for each in entries if same_server(each) == same_server(name)]:
        del entries[old]
    entries[name] = converted.entry
    return name


def _usable_name(name: str) -> str:
    kept = (sign if sign.isascii() and (sign.isalnum() or sign in "_-") else "_" for sign in name)
    return "".join(kept) or "server"


# ---------------------------------------------------------------- places


def _places(program: str, home: Home, environ: Mapping[str, str]) -> Iterator[_Place]:
    """Yield the files of a program, those of the project last."""

    def own(variable: str, default: str) -> Path:
        named = environ.get(variable)
        return home.expand(named) if named else home.user / default

    match program:
        case "claude":
            # Without the variable, the file is next to the folder, not in it.
            yield _Place(own("CLAUDE_CONFIG_DIR", "") / ".claude.json")
        case "cursor":
            yield _Place(home.user / ".cursor" / "mcp.json")
            yield _Place(home.cwd / ".cursor" / "mcp.json", True)
        case "vscode":
            for name in (".config", "Library/Application Support"):
                yield _Place(home.user / name / "Code" / "User" / "mcp.json")
            yield _Place(home.cwd / ".vscode" / "mcp.json", True)
        case "codex":
            yield _Place(own("CODEX_HOME", ".codex") / "config.toml")
            yield _Place(home.cwd / ".codex" / "config.toml", True)
        case "opencode":
            folder = own("XDG_CONFIG_HOME", ".config") / "opencode"
            yield from (_Place(folder / name) for name in ("opencode.json", "opencode.jsonc"))
            for name in ("opencode.json", "opencode.jsonc"):
                yield _Place(home.cwd / name, True)
        case "gemini":
            yield _Place(home.user / ".gemini" / "settings.json")
            yield _Place(home.cwd / ".gemini" / "settings.json", True)


def _content(place: _Place, home: Home) -> dict[str, Any] | None:
    """Return the content of a file; None if it does not exist.

    Raises:
        ConfigError: the file cannot be read or parsed.
    """
    reader = reader_of(home, home.cwd) if place.is_project else None
    if place.path.suffix != ".toml":
        found = read_object(place.path, relaxed=True, reader=reader)
        return found if found or place.path.is_file() else None
    text = _text(place.path, reader)
    if text is None:
        return None
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(str(error)) from error


def _text(path: Path, reader: Reader | None) -> str | None:
    return read_text(path) if reader is None else reader.text(path)


def _servers(
    program: str, content: dict[str, Any], home: Home, place: _Place
) -> Iterator[tuple[str, Any, bool]]:
    """Yield name, entry and whether it belongs to the working folder."""
    if program == "claude":
        yield from _servers_of_claude(content, home)
        return
    key = {"vscode": "servers", "codex": "mcp_servers", "opencode": "mcp"}.get(program)
    servers = _object(content, key or "mcpServers")
    if program == "opencode" and isinstance(servers.get("servers"), dict):
        servers = servers["servers"]
    excluded = _object(content, "mcp").get("excluded") if program == "gemini" else None
    off = tuple(excluded) if isinstance(excluded, list) else ()
    for name, raw in servers.items():
        if name in off and isinstance(raw, dict):
            raw = {**raw, "enabled": False}
        yield name, raw, place.is_project


def _servers_of_claude(content: dict[str, Any], home: Home) -> Iterator[tuple[str, Any, bool]]:
    project = _object(_object(content, "projects"), str(home.cwd))
    disabled = project.get("disabledMcpServers")
    off = tuple(disabled) if isinstance(disabled, list) else ()
    for is_project, servers in ((False, content), (True, project)):
        for name, raw in _object(servers, "mcpServers").items():
            if is_project and name in off and isinstance(raw, dict):
                raw = {**raw, "enabled": False}
            yield name, raw, is_project


def _object(value: Mapping[str, Any], key: str) -> dict[str, Any]:
    inner = value.get(key)
    return inner if isinstance(inner, dict) else {}
