"""Change entries of a file of MCP servers; everything else in the file stays as it is written."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ludolf.base import CommandError, ConfigError
from ludolf.base.project_files import Reader
from ludolf.config.mcp.entries import same_server
from ludolf.config.settings.files import read_object, replace_text
from ludolf.config.settings.home import OWN, Home, reader_of
from ludolf.config.settings.json_edit import with_value, without
from ludolf.config.settings.lock import settings_lock

_TOP = "mcpServers"
_Change = Callable[[str, dict[str, Any]], str]


def set_entry(home: Home, path: Path, name: str, entry: Mapping[str, Any]) -> bool:
    """Add or replace an entry; return whether one was replaced.

    An entry whose name means the same server (`a-b`, `a_b`) is replaced.

    Raises:
        CommandError: the file is invalid or cannot be written.
    """
    replaced = False

    def change(text: str, servers: dict[str, Any]) -> str:
        nonlocal replaced
        for old in _same(servers, name):
            replaced = True
            if old != name:
                text = without(text, (_TOP, old))
        return with_value(text, (_TOP, name), dict(entry))

    _change(home, path, change)
    return replaced


def remove_entry(home: Home, path: Path, name: str) -> bool:
    """Remove an entry; return whether there was one.

    Raises:
        CommandError: the file is invalid or cannot be written.
    """
    removed = False

    def change(text: str, servers: dict[str, Any]) -> str:
        nonlocal removed
        for old in _same(servers, name):
            removed = True
            text = without(text, (_TOP, old))
        return text

    if path.exists():
        _change(home, path, change)
    return removed


def set_entry_key(home: Home, path: Path, name: str, changes: Mapping[str, Any]) -> None:
    """Set keys of an entry, and add it if it is missing; None removes a key.

    A missing entry is added for a project that only changes an entry of the user.

    Raises:
        CommandError: the file is invalid or cannot be written.
    """

    def change(text: str, servers: dict[str, Any]) -> str:
        found = next(iter(_same(servers, name)), name)
        if not isinstance(servers.get(found), dict):
            given = {key: value for key, value in changes.items() if value is not None}
            return with_value(text, (_TOP, found), given)
        for key, value in changes.items():
            if value is not None:
                text = with_value(text, (_TOP, found, key), value)
            elif len(servers[found]) > 1 or key not in servers[found]:
                text = without(text, (_TOP, found, key))
            else:
                text = with_value(text, (_TOP, found), {})
        return text

    _change(home, path, change)


def _same(servers: dict[str, Any], name: str) -> list[str]:
    return [old for old in servers if same_server(old) == same_server(name)]


def _change(home: Home, path: Path, edit: _Change) -> None:
    """Change the file under its lock; a project that is trusted stays so."""
    from ludolf.config.settings.trust import save_decision, trust_state

    own = path == home.mcp_file
    reader = OWN if own else reader_of(home, home.cwd)
    try:
        was_trusted = not own and trust_state(home) == "trusted"
        path.parent.mkdir(mode=0o700 if own else 0o777, parents=True, exist_ok=True)
        with settings_lock(path) as lock:
            servers = _entries(path, reader)
            old = reader.text(path) or ""
            new = edit(old, servers)
            lock.check()
            if new != old:
                replace_text(path, new)
        if was_trusted and new != old:
            save_decision(home, trusted=True)
    except ConfigError as error:
        raise CommandError(f"{path} was not changed: {error}") from error
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror or error}") from error


def _entries(path: Path, reader: Reader) -> dict[str, Any]:
    try:
        raw = read_object(path, reader=reader)
    except ConfigError as error:
        try:
            read_object(path, relaxed=True, reader=reader)
        except ConfigError:
            raise error from None
        raise ConfigError("it has comments or trailing commas. Edit it by hand") from error
    servers = raw.get(_TOP)
    servers = {} if servers is None else servers
    if not isinstance(servers, dict):
        raise ConfigError(f"`{_TOP}` must be an object")
    return servers
