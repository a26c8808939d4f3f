"""Message ids in frames, so that a host can match frames with messages."""

from ludolf.protocol.framing import Frame

_START, _UPDATE, _END = (b'{"type":"message_%b"' % kind for kind in (b"start", b"update", b"end"))
_ANY = b'{"type":"message_'
_RUN_END = b'{"type":"agent_end"'


class MessageIds:
    """One id from a `message_start` to its `message_end`; messages may be nested."""

    def __init__(self) -> None:
        self._count = 0
        self._open: list[bytes] = []

    def stamp(self, frame: Frame) -> Frame:
        """Return the frame with a `messageId` in its lines about messages."""
        if not isinstance(frame, bytes):
            return self._stamp_pieces(frame)
        if _ANY not in frame and not frame.startswith(_RUN_END):
            return frame
        lines = frame.splitlines(keepends=True)
        ids = [self._id_of(line) for line in lines]
        return b"".join(
            line if id is None else _with(line, id) for line, id in zip(lines, ids, strict=True)
        )

    def _stamp_pieces(self, pieces: list[bytes]) -> list[bytes]:
        stamped: list[bytes] = []
        id: bytes | None = None
        begins = True
        for piece in pieces:
            if begins:
                id = self._id_of(piece)
            begins = piece.endswith(b"\n")
            stamped.append(_with(piece, id) if begins and id is not None else piece)
        return stamped

    def _id_of(self, line: bytes) -> bytes | None:
        if line.startswith(_UPDATE):
            return self._open[-1] if self._open else self._begin()
        if line.startswith(_START):
            return self._begin()
        if line.startswith(_END):
            return self._open.pop() if self._open else self._new()
        if line.startswith(_RUN_END):
            self._open.clear()
        return None

    def _begin(self) -> bytes:
        self._open.append(self._new())
        return self._open[-1]

    def _new(self) -> bytes:
        self._count += 1
        return b"msg-%d" % self._count


def _with(end: bytes, id: bytes) -> bytes:
    return b'%b,"messageId":"%b"}\n' % (end.removesuffix(b"}\n"), id)
