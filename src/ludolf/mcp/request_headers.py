"""HTTP headers that repeat parts of a modern request (revision 2026-07-28)."""

import base64
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from ludolf.mcp.paging import Listing
from ludolf.mcp.wire import MODERN_VERSION, Json

_ANNOTATION = "x-mcp-header"
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,100}")
_PLAIN = re.compile(r"[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?")
_NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_SAFE_INTEGER = 2**53
_MOST_DEEP = 20

# Where an argument is: the names of properties from the outermost one.
ArgumentPath = tuple[str, ...]


def modern_headers(method: str, params: Json) -> dict[str, str]:
    """Return the headers that every modern request has."""
    headers = {"MCP-Protocol-Version": MODERN_VERSION, "Mcp-Method": method}
    name = params.get(_NAMED_BY.get(method, ""))
    if isinstance(name, str):
        headers["Mcp-Name"] = encode_header(name)
    return headers


def encode_header(value: str) -> str:
    """Return the value, in Base64 if it is not a plain ASCII header value."""
    is_marked = value.startswith("=?base64?") and value.endswith("?=")
    if not is_marked and (not value or _PLAIN.fullmatch(value)):
        return value
    data = base64.b64encode(value.encode("utf-8", "replace")).decode("ascii")
    return f"=?base64?{data}?="


class MirroredTools:
    """The tools of a server whose schemas ask for arguments in headers (`x-mcp-header`)."""

    def __init__(self) -> None:
        self._paths: dict[str, Mapping[str, ArgumentPath]] = {}

    def learn(self, listing: Listing) -> Listing:
        """Remember the annotations; return the list without tools that annotate wrongly."""
        self._paths = {}
        kept, wrong = [], []
        for tool in listing.items:
            name = tool.get("name")
            try:
                paths = dict(_annotated(tool.get("inputSchema"), ()))
                _check(tool.get("inputSchema"), paths)
            except ValueError:
                wrong.append(str(name)[:100])
                continue
            kept.append(tool)
            if paths and isinstance(name, str):
                self._paths[name] = paths
        if not wrong:
            return listing
        reasons = (listing.cut, f"tools with an invalid {_ANNOTATION}: {', '.join(wrong[:20])}")
        return msgspec.structs.replace(
            listing, items=tuple(kept), cut="; ".join(filter(None, reasons))
        )

    def headers(self, method: str, params: Json) -> dict[str, str]:
        """Return the headers for the arguments of a call."""
        paths = self._paths.get(params["name"], {}) if method == "tools/call" else {}
        found = {f"Mcp-Param-{name}": _at(params, path) for name, path in paths.items()}
        return {name: value for name, value in found.items() if value is not None}


def _annotated(schema: Any, path: ArgumentPath) -> Iterator[tuple[str, ArgumentPath]]:
    """Yield the annotations that are reached by properties only."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict) or len(path) > _MOST_DEEP:
        return
    for name, inner in properties.items():
        if not isinstance(inner, dict):
            continue
        if _ANNOTATION in inner:
            header = inner[_ANNOTATION]
            is_primitive = inner.get("type") in ("string", "integer", "boolean")
            if not is_primitive or not isinstance(header, str) or not _TOKEN.fullmatch(header):
                raise ValueError(header)
            yield header, (*path, name)
        yield from _annotated(inner, (*path, name))


def _check(schema: Any, paths: Mapping[str, ArgumentPath]) -> None:
    """Raise ValueError for a name that is used twice, or for an annotation elsewhere."""
    if len({name.lower() for name in paths}) < len(paths) or _count(schema, 0) != len(paths):
        raise ValueError(_ANNOTATION)


def _count(value: Any, depth: int) -> int:
    """Return how many annotations a schema has anywhere."""
    if depth > 10 * _MOST_DEEP:
        return 0
    if isinstance(value, list):
        return sum(_count(item, depth + 1) for item in value)
    if not isinstance(value, dict):
        return 0
    inner = sum(_count(item, depth + 1) for item in value.values())
    return inner + (_ANNOTATION in value and "type" in value)


def _at(params: Json, path: ArgumentPath) -> str | None:
    value: Any = params.get("arguments")
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and abs(value) < _SAFE_INTEGER:
        return str(value)
    return encode_header(value) if isinstance(value, str) else None
