"""Decide which tools of servers a request declares, and which only a search finds."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, cast

import msgspec

from ludolf.base import dumps
from ludolf.mcp.definitions import ToolDefinition

Exposure = Literal["auto", "direct", "deferred", "hidden"]
# pi's word for tools that only scripts call; here a search finds them.
_READ_AS: Mapping[str, Exposure] = {"codemode": "deferred"}
_WORDS: Sequence[str] = ("auto", "direct", "deferred", "hidden")
_SHARE_OF_WINDOW = 0.02
_BYTES_PER_TOKEN = 4


class ServerTools(msgspec.Struct, frozen=True, kw_only=True):
    """Tools of one server with its settings; names in `tool_exposure` may contain `*`."""

    tools: tuple[ToolDefinition, ...]
    exposure: Exposure = "auto"
    tool_exposure: Mapping[str, Exposure] = {}


class ExposedTools(msgspec.Struct, frozen=True, kw_only=True):
    """`direct` tools are declared, `deferred` ones are found by a search, `hidden` ones by none."""

    direct: tuple[ToolDefinition, ...]
    deferred: tuple[ToolDefinition, ...]
    hidden: tuple[ToolDefinition, ...]


def read_exposure(value: Any) -> Exposure | None:
    """Return the exposure that a configuration file names; None if it is not one."""
    if not isinstance(value, str):
        return None
    return _READ_AS.get(value) or (cast("Exposure", value) if value in _WORDS else None)


def expose(servers: Iterable[ServerTools], context_window: int) -> ExposedTools:
    """Sort tools by their settings; `auto` ones are direct if all fit.

    They fit if all direct definitions take at most 2 % of the context window, which is a number of
    tokens. Otherwise the largest servers are deferred first.
    """
    listed = tuple(servers)
    set_by_user = [[exposure_of(tool, each) for tool in each.tools] for each in listed]
    deferred = _deferred_servers(listed, set_by_user, context_window)
    found: dict[Exposure, list[ToolDefinition]] = {"direct": [], "deferred": [], "hidden": []}
    for at, each in enumerate(listed):
        automatic: Exposure = "deferred" if at in deferred else "direct"
        for tool, exposure in zip(each.tools, set_by_user[at], strict=True):
            found[automatic if exposure == "auto" else exposure].append(tool)
    return ExposedTools(
        direct=tuple(found["direct"]),
        deferred=tuple(found["deferred"]),
        hidden=tuple(found["hidden"]),
    )


def exposure_of(tool: ToolDefinition, server: ServerTools) -> Exposure:
    """Return the setting of a tool: its own, that of the longest pattern, or the server's."""
    patterns = sorted(server.tool_exposure, key=lambda each: ("*" in each, -len(each)))
    for pattern in patterns:
        if name_matches(pattern, tool.tool) or name_matches(pattern, tool.name):
            return server.tool_exposure[pattern]
    return server.exposure


def definition_bytes(tool: ToolDefinition) -> int:
    """Return the size of a tool's definition in a request."""
    return len(dumps((tool.name, tool.description, tool.parameters)))


def name_matches(pattern: str, name: str) -> bool:
    """Return whether a name is that of the pattern, in which `*` stands for any characters."""
    if "*" not in pattern:
        return pattern == name
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), name, re.DOTALL) is not None


def _deferred_servers(
    servers: Sequence[ServerTools],
    exposures: Sequence[Sequence[Exposure]],
    context_window: int,
) -> set[int]:
    """Return the indexes of servers whose automatic tools are deferred."""
    budget = context_window * _SHARE_OF_WINDOW * _BYTES_PER_TOKEN
    automatic: dict[int, int] = {}
    total = 0
    for at, each in enumerate(servers):
        for tool, exposure in zip(each.tools, exposures[at], strict=True):
            if exposure in ("auto", "direct"):
                size = definition_bytes(tool)
                total += size
                automatic[at] = automatic.get(at, 0) + (size if exposure == "auto" else 0)
    deferred: set[int] = set()
    for at in sorted(automatic, key=lambda each: -automatic[each]):
        if total <= budget:
            break
        deferred.add(at)
        total -= automatic[at]
    return deferred
