"""Tools of servers and their names for models.

Loaded at the start if a server is configured, so it imports little: `catalog.py` reads definitions.
"""

import re
from collections import Counter
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Any

import msgspec

from ludolf.base import Value

NAME_PREFIX = "mcp__"
MAX_TOOL_NAME = 64
_DIGITS = 6


class ToolDefinition(Value):
    """A tool of a server.

    `tool` is the name that the server knows, `name` the one that models use. `arguments` is the
    schema of the server, None if it accepts anything or cannot be applied. `renamed` maps names
    of parameters in `parameters` to those of the server.
    """

    server: str
    tool: str
    name: str
    description: str
    parameters: dict[str, Any]
    digest: str
    arguments: dict[str, Any] | None = None
    renamed: dict[str, str] = msgspec.field(default_factory=dict)
    read_only: bool = False
    title: str = ""


def server_key(name: str) -> str:
    """Return the form of a server's name in the names of its tools: `a-b` and `a_b` are one."""
    return _safe(name)


def tool_name(server: str, tool: str) -> str:
    """Return the name of a tool for models, at most 64 letters, digits and underscores."""
    name = f"{NAME_PREFIX}{_safe(server)}__{_safe(tool)}"
    return name if len(name) <= MAX_TOOL_NAME else _with_digits(name, server, tool)


def distinct_names(
    tools: Iterable[ToolDefinition], reserved: AbstractSet[str]
) -> tuple[ToolDefinition, ...]:
    """Return the tools with names that differ from each other and from the reserved ones.

    All tools that share a name get six hexadecimal digits of their original names.
    """
    listed = tuple(tools)
    counts = Counter(tool.name for tool in listed)
    taken = {name for name, count in counts.items() if count == 1} | reserved
    return tuple(
        _renamed(tool, taken) if counts[tool.name] > 1 or tool.name in reserved else tool
        for tool in listed
    )


def _renamed(tool: ToolDefinition, taken: set[str]) -> ToolDefinition:
    """Give the tool a name that is not taken, and take it."""
    name = _with_digits(tool.name, tool.server, tool.tool)
    attempt = 1
    while name in taken:
        name = _with_digits(tool.name, tool.server, tool.tool, str(attempt))
        attempt += 1
    taken.add(name)
    return tool.replace(name=name)


def _with_digits(name: str, *original: str) -> str:
    key = "\0".join(original).encode("utf-8", "surrogatepass")
    ending = f"_{digest_of(key)[:_DIGITS]}"
    return name[: MAX_TOOL_NAME - len(ending)] + ending


def _safe(name: str) -> str:
    return re.sub(r"[^a-zA-Z0-9_]", "_", name)


def digest_of(data: bytes) -> str:
    """Return the SHA-256 of data in hexadecimal digits."""
    # Loaded here: tools from the cache have their names and digests.
    from hashlib import sha256

    return sha256(data).hexdigest()
