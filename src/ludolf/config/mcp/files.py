"""Read the configuration files of MCP servers and merge them by rank."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from ludolf.base import ConfigError, Value
from ludolf.base.project_files import Reader
from ludolf.config.mcp.entries import (
    McpEntry,
    McpSource,
    check_entry,
    overrides_only,
    same_server,
    with_override,
)
from ludolf.config.settings.files import read_object
from ludolf.config.settings.home import Home, reader_of


class McpConfiguration(Value):
    """All entries by name and a warning for each fault in a file.

    Entries of the file with the highest rank come first, those of one file as it has them.
    """

    entries: dict[str, McpEntry] = msgspec.field(default_factory=dict)
    warnings: tuple[str, ...] = ()


class _File(Value):
    """A file of entries; a `shared` one belongs to several programs and has milliseconds."""

    path: Path
    source: McpSource
    shared: bool = False
    changes_others: bool = False
    named: bool = False


def read_mcp_entries(
    home: Home, *, trusted: bool, files: tuple[str, ...] = (), use_files: bool = True
) -> McpConfiguration:
    """Read all files; entries of `files` have the highest rank, then the project's, the user's.

    `.mcp.json`, which other programs share, has the lowest rank. Files of a project that is not
    `trusted` are not read. Without `use_files`, nothing is read.
    """
    found: dict[str, McpEntry] = {}
    ranks: dict[str | None, int] = {}
    warnings: list[str] = []
    read = _files(home, trusted=trusted, named=files) if use_files else ()
    for rank, file in enumerate(read):
        raws = _read(home, file, warnings)
        ranks[str(file.path)] = rank
        seen: dict[str, str] = {}
        for name, raw in raws.items():
            key = same_server(name)
            if key in seen:
                text = f"is ignored: its name means the same as {json.dumps(seen[key])}"
                warnings.append(f"{file.path}: server {json.dumps(name)} {text}")
                continue
            seen[key] = name
            _take_entry(found, file, (name, raw), warnings)
    ordered = sorted(found.values(), key=lambda entry: ranks[entry.path], reverse=True)
    return McpConfiguration(
        entries={entry.name: entry for entry in ordered}, warnings=tuple(warnings)
    )


def read_entry_objects(path: Path, reader: Reader | None = None) -> dict[str, Any]:
    """Return the entries of a file as written; a missing file has none.

    Raises:
        ConfigError: the file cannot be read, or has no object `mcpServers`; the text names it.
    """
    try:
        raw = read_object(path, relaxed=True, reader=reader)
    except ConfigError as error:
        text = str(error)
        raise ConfigError(text if str(path) in text else f"{path}: {text}") from error
    servers = raw.get("mcpServers")
    if servers is None and isinstance(raw.get("servers"), dict):
        raise ConfigError(
            f"{path}: the servers must be in `mcpServers`, not in `servers`. `ludolf mcp import` "
            "takes over servers of other programs"
        )
    if not isinstance(servers, dict | None):
        raise ConfigError(f"{path}: `mcpServers` must be an object")
    return servers or {}


def _files(home: Home, *, trusted: bool, named: tuple[str, ...]) -> Iterator[_File]:
    """Yield the files, the lowest rank first."""
    if trusted:
        yield _File(path=home.shared_mcp_file, source="project", shared=True)
    yield _File(path=home.mcp_file, source="user")
    if trusted:
        yield _File(path=home.project_mcp_file, source="project", changes_others=True)
    for name in named:
        place = Path(os.path.abspath(home.cwd / home.expand(name)))
        yield _File(path=place, source="flag", named=True)


def _read(home: Home, file: _File, warnings: list[str]) -> dict[str, Any]:
    reader = reader_of(home, home.cwd) if file.source == "project" else None
    try:
        if file.named and not file.path.is_file():
            raise ConfigError(f"{file.path} is not a file, but --mcp-config names it")
        return read_entry_objects(file.path, reader)
    except ConfigError as error:
        warnings.append(f"{error}. No server of this file is used")
        return {}


def _take_entry(
    found: dict[str, McpEntry], file: _File, given: tuple[str, Any], warnings: list[str]
) -> None:
    """Add one entry, or change one of a lower rank; report a bad one."""
    name, raw = given
    key = same_server(name)
    try:
        if file.changes_others and overrides_only(raw):
            if key not in found:
                text = "set `command` or `url`, or add a server of this name to your own mcp.json"
                raise ConfigError(f"server {json.dumps(name)}: {text}")
            found[key] = with_override(found[key], raw, str(file.path))
            return
        checked = check_entry(name, raw, file.source, str(file.path), milliseconds=file.shared)
    except ConfigError as error:
        warnings.append(f"{file.path}: {error}")
        return
    warnings += [f"{file.path}: {remark}" for remark in checked.remarks]
    # A replaced entry moves to its place in the new file.
    found.pop(key, None)
    found[key] = checked.entry
