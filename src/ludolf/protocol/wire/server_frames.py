"""Frames of `ludolf serve` with their stricter types: the shared dialect, numbered or private."""

from typing import Any

from msgspec import UNSET, UnsetType

from ludolf.base import Value
from ludolf.protocol import host_events as host
from ludolf.protocol.events import AutoRetryStart, CompactionStart
from ludolf.protocol.server import (
    SERVER_ROWS,
    Attached,
    AttachedClients,
    ClientJoined,
    ClientLeft,
    Resync,
    ServerClosing,
    SessionClosed,
    SessionMoved,
    SessionSummaries,
    Underway,
    Welcome,
)
from ludolf.protocol.ui import UiRequest
from ludolf.protocol.wire.frames import PI_DELTA_FRAMES, BegunMessage, Header, PromptResult
from ludolf.protocol.wire.stored import StoredEntry


class SessionWork(Underway):
    """The work that has begun and not ended; `message` is the answer so far."""

    message: BegunMessage | None = None
    dialogs: tuple[UiRequest, ...] = ()
    retry: AutoRetryStart | None = None
    compaction: CompactionStart | None = None
    widgets: tuple[UiRequest, ...] = ()


class SessionAttached(Attached):
    entries: tuple[StoredEntry, ...] | UnsetType = UNSET
    underway: SessionWork | UnsetType = UNSET


SessionAttached.__doc__ = Attached.__doc__


class SessionResync(Resync):
    """The client was too far behind; `data` is a snapshot, and live frames follow it."""

    data: SessionAttached  # type: ignore[assignment]  # made of pieces by the server


class Serving(Value, tag_field="type", tag="serving"):
    """The first line of the program on stdout; it is not sent to clients on sockets."""

    pid: int
    socket: str | None = None
    url: str | None = None


# For the client that provides the tool or the document, or that wants results of its prompts.
FOR_ONE_CLIENT: tuple[type[Any], ...] = (
    host.HostToolCall,
    host.HostToolCancel,
    host.HostUriRequest,
    host.HostUriCancel,
    host.SessionSettled,
    PromptResult,
)
NUMBERED_FRAMES = tuple(
    kind for kind in PI_DELTA_FRAMES if kind not in FOR_ONE_CLIENT and kind is not Header
)
PRIVATE_FRAMES: tuple[type[Any], ...] = (
    *FOR_ONE_CLIENT,
    ClientJoined,
    ClientLeft,
    SessionClosed,
    SessionMoved,
    SessionResync,
)
SERVER_FRAMES: tuple[type[Any], ...] = (ServerClosing, Serving)
_TYPED: dict[str | None, Any] = {
    "Attached": SessionAttached,
    "AttachedClients": AttachedClients,
    "SessionSummaries": SessionSummaries,
    "Welcome": Welcome,
}
SERVER_ANSWERS: dict[str, Any] = {row.name: _TYPED.get(row.answer) for row in SERVER_ROWS}
