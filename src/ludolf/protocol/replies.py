"""Answers to commands."""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import UNSET

from ludolf.base import ErrorCode, dumps
from ludolf.protocol.framing import NO_ID


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """One reply: success with optional data, or an error. Data may be JSON already (`Raw`).

    `code` is the reason of an error, and `field` the parameter that was wrong. `more` computes
    fields that only some dialects write. `untyped`: the line named no command.
    """

    command: str
    id: msgspec.Raw = NO_ID
    data: Any = UNSET
    error: str | None = None
    code: ErrorCode | None = None
    field: str | None = None
    more: Callable[[], dict[str, Any]] | None = None
    untyped: bool = False


Frame = bytes | list[bytes]
# Codes that are written into replies; the others only choose the wording of a dialect.
PUBLIC_CODES = frozenset(("session_busy", "stale_cursor"))


def render_reply(reply: Reply, *, with_id: bool = True) -> Frame:
    """The `response` record of the pi family."""
    head = (
        b'{"id":%b,"type":"response","command":' % reply.id
        if reply.id and with_id
        else (b'{"type":"response","command":')
    )
    head += dumps(reply.command)
    if reply.error is not None:
        code = b"" if reply.code not in PUBLIC_CODES else b',"code":' + dumps(reply.code)
        return head + b',"success":false,"error":' + dumps(reply.error) + code + b"}\n"
    if reply.data is UNSET:
        return head + b',"success":true}\n'
    if isinstance(reply.data, list) and all(isinstance(part, bytes) for part in reply.data):
        return [head + b',"success":true,"data":', *reply.data, b"}\n"]
    return head + b',"success":true,"data":' + dumps(reply.data) + b"}\n"
