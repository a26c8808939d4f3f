"""`ludolf mcp list` and `get`: what is configured and cached; no server is started."""

import os
import shlex
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from ludolf.base import CommandError, ConfigError, Value
from ludolf.base.near import did_you_mean
from ludolf.cli.terminal import one_line, say, say_json, table
from ludolf.config.mcp.auth_file import ServerLogin
from ludolf.config.mcp.cache import mcp_cache_file, read_cached_servers
from ludolf.config.mcp.entries import McpEntry, has_syntax, same_server
from ludolf.config.mcp.files import McpConfiguration, read_entry_objects, read_mcp_entries
from ludolf.config.mcp.resolution import ResolvedEntry, entry_digest, resolve_entry
from ludolf.config.settings.home import Home, reader_of
from ludolf.config.settings.trust import trusted_settings

_LONGEST_ADDRESS = 60
_HIDDEN = "***"


class ListedServer(Value):
    """One server; `tools` is None if its list of tools is not cached."""

    name: str
    source: str
    path: str | None
    transport: Literal["stdio", "http"]
    address: str
    enabled: bool
    exposure: str
    tools: int | None = None
    prompts: int | None = None
    login: bool = False
    error: str | None = None


def list_servers(home: Home, arguments: Namespace) -> int:
    """Print all servers; returns 1 if a file or an entry is invalid."""
    found = read_servers(home)
    rows = _listed(home, tuple(found.entries.values()))
    for row in rows:
        if row.error is not None and row.enabled:
            sys.stderr.write(f"Warning: {row.error}\n")
        if arguments.json:
            say_json(row)
    if rows and not arguments.json:
        head = ("name", "source", "transport", "enabled", "tools", "login", "address")
        say(table([head, *map(_cells, rows)]))
    if not rows:
        sys.stderr.write("No MCP server is configured. Add one with `ludolf mcp add`.\n")
    return 1 if found.warnings else 0


def show_server(home: Home, arguments: Namespace) -> int:
    """Print one entry; literal values of variables and headers are hidden.

    Raises:
        CommandError: there is no server of this name.
    """
    entry = find_server(read_servers(home), arguments.name)
    raw: dict[str, Any] = msgspec.to_builtins(entry)
    for key in ("env", "headers"):
        if key in raw:
            raw[key] = {name: _shown(text) for name, text in raw[key].items()}
    secret = raw.get("oauth", {}).get("clientSecret")
    if secret:
        raw["oauth"]["clientSecret"] = _shown(secret)
    say(msgspec.json.format(msgspec.json.encode(raw), indent=2).decode())
    return 0


def find_server(found: McpConfiguration, name: str) -> McpEntry:
    """Return the entry of a name.

    Raises:
        CommandError: there is none.
    """
    for entry in found.entries.values():
        if same_server(entry.name) == same_server(name):
            return entry
    hint = did_you_mean(name, tuple(found.entries))
    raise CommandError(f'There is no MCP server "{name}".{hint} See: ludolf mcp list')


def read_servers(home: Home) -> McpConfiguration:
    """Return the servers that a session here would have; warnings go to stderr."""
    try:
        trusted = trusted_settings(home).trusted
    except ConfigError as error:
        sys.stderr.write(f"Warning: {home.cwd} is not trusted: {error}\n")
        trusted = False
    found = read_mcp_entries(home, trusted=trusted)
    for text in found.warnings:
        sys.stderr.write(f"Warning: {text}\n")
    for path in (home.project_mcp_file, home.shared_mcp_file):
        if not trusted and path.is_file() and _has_entries(home, path):
            sys.stderr.write(
                f"Warning: {path} is ignored, since the folder is not trusted. Trust it with "
                "`ludolf trust`.\n"
            )
    return found


def entry_problem(entry: McpEntry, home: Home) -> str | None:
    """Return why a server cannot start: a variable is not set, its program is not found."""
    from ludolf.mcp.stdio import server_program
    from ludolf.mcp.wire import McpError, StdioServer

    try:
        resolved = resolve_entry(entry, os.environ, runs_commands=False)
        if resolved.command and not resolved.command.startswith("!"):
            env = {**os.environ, **resolved.env}
            argv, folder = (resolved.command, *resolved.args), resolved.folder(home.cwd)
            server_program(StdioServer(argv=argv, env=env, cwd=folder))
    except (ConfigError, McpError) as error:
        return str(error).removeprefix(f'server "{entry.name}": ')
    return None


def _has_entries(home: Home, path: Path) -> bool:
    """Return whether a file of the project names a server, or cannot be read."""
    try:
        return bool(read_entry_objects(path, reader_of(home, home.cwd)))
    except ConfigError:
        return True


def _listed(home: Home, entries: Sequence[McpEntry]) -> list[ListedServer]:
    resolved = [_resolved(entry) for entry in entries]
    keys = [None if isinstance(one, str) else entry_digest(one, home.cwd) for one in resolved]
    known = read_cached_servers(mcp_cache_file(home), filter(None, keys), dict[str, Any])
    rows = []
    for entry, one, key in zip(entries, resolved, keys, strict=True):
        row = _row(entry)
        if isinstance(one, str):
            rows.append(row.replace(error=one))
            continue
        record = known.get(key or "")
        if record is not None:
            row = row.replace(tools=_count(record, "tools"), prompts=_count(record, "prompts"))
        rows.append(row.replace(login=_has_login(home, row.name, one.url)))
    return rows


def _resolved(entry: McpEntry) -> ResolvedEntry | str:
    """Return the entry with its values expanded, or why that is impossible."""
    try:
        return resolve_entry(entry, os.environ, runs_commands=False)
    except ConfigError as error:
        return str(error)


def _row(entry: McpEntry) -> ListedServer:
    return ListedServer(
        name=entry.name,
        source=entry.source,
        path=entry.path,
        transport=entry.transport,
        address=entry.url or shlex.join((entry.command or "", *entry.args)),
        enabled=entry.enabled,
        exposure=entry.exposure,
    )


def _count(record: dict[str, Any], key: str) -> int:
    items = record.get(key)
    return len(items) if isinstance(items, list) else 0


def _has_login(home: Home, name: str, url: str | None) -> bool:
    if url is None or url.startswith("!"):
        return False
    try:
        stored = ServerLogin(home.agent, name, url).load()
    except ConfigError as error:
        sys.stderr.write(f"Warning: {error}\n")
        return False
    return stored is not None and bool(stored.get("tokens"))


def _cells(row: ListedServer) -> tuple[str, ...]:
    return (
        row.name,
        row.source,
        row.transport,
        "yes" if row.enabled else "no",
        "-" if row.tools is None else str(row.tools),
        "yes" if row.login else "-",
        one_line(row.address, _LONGEST_ADDRESS),
    )


def _shown(text: str) -> str:
    return text if has_syntax(text) else _HIDDEN
