"""Frames as server-sent events: the id of an event is the cursor of its frame."""

import re
from collections.abc import Iterable

import msgspec

from ludolf.base import dumps

BEAT = b":\n\n"
_NUMBERED = re.compile(rb'\{"session":"[^"\\]*","seq":([0-9]+),')
_RESYNC = re.compile(rb'\{"session":"[^"\\]*","type":"resync",')


class _Attached(msgspec.Struct):
    """The part of an attachment, or of a snapshot, that the stream needs."""

    cursor: str
    session: str = ""
    mode: str = "snapshot"


class _Resync(msgspec.Struct):
    data: _Attached


class EventStream:
    """The events of one client; `attached` is the data of the reply to its `attach`."""

    def __init__(self, attached: bytes) -> None:
        found = msgspec.json.decode(attached, type=_Attached)
        self._epoch = _epoch(found.cursor)
        frame = b'{"session":%b,"type":"resync","data":%b}' % (dumps(found.session), attached)
        self.first = _snapshot(found.cursor, frame) if found.mode == "snapshot" else BEAT

    def events(self, frames: Iterable[bytes]) -> bytes:
        """Return the frames, each a line without LF, as events."""
        return b"".join(map(self._event, frames))

    def _event(self, frame: bytes) -> bytes:
        if numbered := _NUMBERED.match(frame):
            return b"id: %b-%b\ndata: %b\n\n" % (self._epoch, numbered[1], frame)
        if _RESYNC.match(frame):
            cursor = msgspec.json.decode(frame, type=_Resync).data.cursor
            self._epoch = _epoch(cursor)
            return _snapshot(cursor, frame)
        return b"data: %b\n\n" % frame


def _epoch(cursor: str) -> bytes:
    return cursor.rpartition("-")[0].encode()


def _snapshot(cursor: str, frame: bytes) -> bytes:
    return b"id: %b\nevent: snapshot\ndata: %b\n\n" % (cursor.encode(), frame)
