"""Write the files of MCP servers that are known: mcp.json and a filled mcp-cache.json."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from ludolf.base import dumps
from ludolf.config.mcp.cache import store_cached_server
from ludolf.config.mcp.entries import parse_entry
from ludolf.config.mcp.resolution import server_cache_key
from ludolf.engine.features.mcp.servers import Catalog
from ludolf.mcp.catalog import read_tools
from ludolf.mcp.wire import ServerFacts

_VERBS = ("list", "create", "read", "update", "delete", "search", "merge", "close")
_NOUNS = ("issue", "branch", "file", "comment", "release", "label", "user", "page", "event")


def write_known_servers(
    file: Path, agent: Path, cwd: Path, command: Sequence[str], *, servers: int = 6, tools: int = 12
) -> Path:
    """Write servers with this command and as many tools each; returns the file of the entries.

    The cache is in the folder `agent`; the servers need not run, and their tools are deferred.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    fixed = {"command": command[0], "args": list(command[1:]), "exposure": "deferred"}
    entries = {f"{file.stem}{number}": fixed for number in range(servers)}
    file.write_bytes(dumps({"mcpServers": entries}))
    facts = ServerFacts(era="legacy", version="2025-11-25", name="bench", instructions="Ask us.")
    for name, fields in entries.items():
        entry = parse_entry(name, fields, "user")
        key = server_cache_key(entry, os.environ, cwd)
        catalog = Catalog(facts=facts, tools=read_tools(name, definitions(tools)).tools)
        store_cached_server(agent / "mcp-cache.json", key, msgspec.to_builtins(catalog))
    return file


def definitions(count: int) -> list[dict[str, Any]]:
    """Return definitions as large as those of common servers, some 600 bytes each."""
    return [_definition(number) for number in range(count)]


def _definition(number: int) -> dict[str, Any]:
    verb, noun = _VERBS[number % len(_VERBS)], _NOUNS[number // len(_VERBS) % len(_NOUNS)]
    properties = {
        "owner": {"type": "string", "description": "Owner of the repository"},
        "repo": {"type": "string", "description": "Name of the repository"},
        f"{noun}_number": {"type": "integer", "minimum": 1, "description": f"Which {noun}"},
        "state": {"type": "string", "enum": ["open", "closed", "all"], "default": "open"},
    }
    return {
        "name": f"{verb}_{noun}_{number}",
        "description": f"{verb.title()} a {noun} of a repository (case {number}). Returns the "
        f"{noun} with its author, its labels and the time of its last change.",
        "inputSchema": {"type": "object", "properties": properties, "required": ["owner", "repo"]},
        "annotations": {"readOnlyHint": verb in ("list", "read", "search")},
    }
