"""Append-only bytes that a writer receives as few immutable pieces, without a copy."""

_SMALL = 4096
_GROUP = 16


class Rope:
    """Buffer of small pieces; the number of parts grows with size / 64 KiB, not with the pieces."""

    __slots__ = ("_big", "_middle", "_tail")

    def __init__(self) -> None:
        self._big: list[bytes] = []
        self._middle: list[bytes] = []
        self._tail = b""

    def add(self, piece: bytes) -> None:
        tail = self._tail + piece
        if len(tail) < _SMALL:
            self._tail = tail
            return
        self._tail = b""
        self._middle.append(tail)
        if len(self._middle) == _GROUP:
            self._big.append(b"".join(self._middle))
            self._middle = []

    def parts(self) -> list[bytes]:
        return [*self._big, *self._middle, self._tail]
