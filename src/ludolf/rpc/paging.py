"""Pages of the conversation. A cursor is valid until the session changes."""

from typing import Any

from ludolf.base import CommandError
from ludolf.session.tree import Session

DEFAULT_LIMIT = 100
MAX_LIMIT = 256
MAX_BYTES = 768 << 10


class PagingError(CommandError):
    """A page was refused; the code says whether to wait or to start with the first page again."""


def messages_page(session: Session, cursor: Any, limit: Any, *, busy: bool) -> list[bytes]:
    """One page as pieces of JSON: `messages`, `totalMessages`, and `nextCursor` if more follow.

    Raises:
        PagingError: the limit or the cursor is invalid, or the session is changing.
    """
    size = DEFAULT_LIMIT if limit is None else limit
    if not isinstance(size, int) or isinstance(size, bool) or not 1 <= size <= MAX_LIMIT:
        raise PagingError(f"RPC message page limit must be between 1 and {MAX_LIMIT}")
    stamp = f"{session.id}.{session.leaf or ''}"
    start = 0 if cursor is None else _start(cursor, stamp)
    if busy:
        text = "Cannot page messages while the session is changing"
        raise PagingError(text, code="session_busy")
    return _page(session, start, size, stamp)


def _start(cursor: Any, stamp: str) -> int:
    head, dot, place = cursor.rpartition(".") if isinstance(cursor, str) else ("", "", "")
    if not dot or "." not in head or not place.isdigit():
        raise PagingError("Invalid RPC message cursor")
    if head != stamp:
        raise PagingError("RPC message cursor is stale", code="stale_cursor")
    return int(place)


def _page(session: Session, start: int, size: int, stamp: str) -> list[bytes]:
    every = [bytes(message) for message in session.context.messages_json()]
    chosen: list[bytes] = []
    taken = 0
    for message in every[start : start + size]:
        taken += len(message)
        if chosen and taken > MAX_BYTES:
            break
        chosen.append(message)
    pieces = [b'{"messages":[']
    for place, message in enumerate(chosen):
        pieces += (b"," if place else b"", message)
    end = start + len(chosen)
    following = b',"nextCursor":"%b.%d"' % (stamp.encode(), end) if end < len(every) else b""
    return [*pieces, b"]", following, b',"totalMessages":%d}' % len(every)]
