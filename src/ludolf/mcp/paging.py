"""Read lists that a server divides into pages, within limits."""

from collections.abc import Awaitable, Callable

import msgspec

from ludolf.base import dumps
from ludolf.mcp.wire import Json, McpError

MAX_ENTRIES = 1_000
MAX_PAGES = 100
MAX_LIST_BYTES = 8 << 20
_MAX_CURSOR = 64 << 10

# Reads one page: (parameters) -> the result and its size in bytes.
ReadPage = Callable[[Json], Awaitable[tuple[Json, int]]]


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """Entries of a list as the server sent them; `cut` says why some are missing, if any are."""

    items: tuple[Json, ...] = ()
    cut: str = ""


async def read_pages(key: str, read_page: ReadPage) -> Listing:
    """Return the entries of all pages that fit into the limits.

    Raises:
        McpError: a page cannot be read, or is not a list.
    """
    items: list[Json] = []
    seen: set[object] = set()
    params: Json = {}
    left = MAX_LIST_BYTES
    for _ in range(MAX_PAGES):
        result, size = await read_page(params)
        page = result.get(key)
        if not isinstance(page, list):
            raise McpError(f"The server's list of {key} has no array `{key}`")
        entries: list[Json] = [entry for entry in page if isinstance(entry, dict)]
        fitting = entries if size <= left else _fitting(entries, left)
        items += fitting
        left -= size
        if len(fitting) < len(entries) or left < 0:
            return _cut(items, f"the list of {key} is larger than {MAX_LIST_BYTES >> 20} MiB")
        cursor = result.get("nextCursor")
        if len(items) > MAX_ENTRIES or (len(items) == MAX_ENTRIES and cursor):
            return _cut(items, f"only the first {MAX_ENTRIES:,} {key} were read")
        if not isinstance(cursor, str) or not cursor:
            return Listing(items=tuple(items))
        if cursor in seen or len(cursor) > _MAX_CURSOR:
            return _cut(items, f"the server repeated a page of its list of {key}")
        seen.add(cursor)
        params = {"cursor": cursor}
    return _cut(items, f"only the first {MAX_PAGES} pages of {key} were read")


def _cut(items: list[Json], reason: str) -> Listing:
    return Listing(items=tuple(items[:MAX_ENTRIES]), cut=reason)


def _fitting(entries: list[Json], limit: int) -> list[Json]:
    """Return the first entries whose JSON fits into `limit` bytes."""
    fitting = []
    for entry in entries:
        limit -= len(dumps(entry))
        if limit < 0:
            break
        fitting.append(entry)
    return fitting
