"""MCP servers of the client, as entries that the engine understands."""

import re
from collections.abc import Sequence
from typing import Any

from ludolf.base import ConfigError, Warn
from ludolf.config.mcp.entries import literal_value, parse_entry
from ludolf.protocol.acp.structs import McpServerParams

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]+")


def read_servers(servers: Sequence[McpServerParams], warn: Warn) -> dict[str, Any]:
    """Return the entries by name; servers that cannot be used are reported."""
    entries: dict[str, Any] = {}
    for server in servers:
        name = _NOT_IN_NAMES.sub("_", server.name).strip("_") or "server"
        try:
            entry = _entry_of(server)
            parse_entry(name, entry, "host")
        except ConfigError as error:
            warn(f"The MCP server {server.name[:100]!r} of the client is not used: {error}")
        else:
            entries[name] = entry
    return entries


def _entry_of(server: McpServerParams) -> dict[str, Any]:
    """Return the entry of a server as in a file; values of the client are literal.

    Raises:
        ConfigError: the transport is not supported.
    """
    if server.type == "stdio":
        return {
            "command": server.command,
            "args": [literal_value(word) for word in server.args],
            "env": {one.name: literal_value(one.value) for one in server.env},
        }
    if server.type == "http":
        headers = {one.name: literal_value(one.value) for one in server.headers}
        return {"type": "http", "url": literal_value(server.url), "headers": headers}
    raise ConfigError(f"the transport {server.type[:40]!r} is not supported; use stdio or http")
