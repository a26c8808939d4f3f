"""The WebSocket protocol of a server (RFC 6455): the handshake, frames in, frames out.

A message is cut into lines while it arrives, so that a line over the limit is dropped without
being kept, and the connection stays open. Compression is never agreed on.
"""

import struct
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Mapping
from hashlib import sha1

import msgspec

from ludolf.base import LudolfError
from ludolf.rpc.line_reader import TOO_LONG

_NORMAL, _PROTOCOL_ERROR, _UNSUPPORTED = 1000, 1002, 1003
_KEY_SUFFIX = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_CONTINUED, _TEXT, _BINARY, _CLOSE, _PING, _PONG = 0, 1, 2, 8, 9, 10
_FINAL, _MASKED, _RESERVED = 0x80, 0x80, 0x70
_MOST_CONTROL = 125


class BrokenSocket(LudolfError):
    """The client does not keep to the protocol; `code` is the one to close with."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class SocketInput(msgspec.Struct):
    """What some bytes of a client contained.

    `answers` are frames to send back. `close_code` is set by a closing frame, after which nothing
    is read.
    """

    lines: list[bytes] = []
    answers: bytearray = bytearray()
    close_code: int | None = None


class _Head(msgspec.Struct):
    """The head of a frame; `left` bytes of its content have not been read."""

    opcode: int
    is_final: bool
    left: int
    mask: bytes
    size: int


def accept_handshake(headers: Mapping[str, str]) -> dict[str, str] | None:
    """Return the headers of the answer to an upgrade; None if it is not a valid one.

    `headers` finds names in any case.
    """
    wanted = {token.strip().lower() for token in headers.get("Connection", "").split(",")}
    upgrade = headers.get("Upgrade", "").strip().lower()
    key = headers.get("Sec-WebSocket-Key", "").strip()
    if upgrade != "websocket" or "upgrade" not in wanted or not _is_key(key):
        return None
    if headers.get("Sec-WebSocket-Version", "").strip() != "13":
        return None
    accept = b64encode(sha1(key.encode() + _KEY_SUFFIX).digest()).decode()
    return {"Connection": "upgrade", "Upgrade": "websocket", "Sec-WebSocket-Accept": accept}


def _is_key(key: str) -> bool:
    try:
        return len(b64decode(key, validate=True)) == 16
    except (NotBase64, ValueError):
        return False


def text_frame(lines: bytes) -> bytes:
    """Return one text message."""
    return _frame(_TEXT, lines)


def ping_frame() -> bytes:
    return _frame(_PING, b"")


def close_frame(code: int) -> bytes:
    return _frame(_CLOSE, struct.pack("!H", code))


def _frame(opcode: int, content: bytes) -> bytes:
    size, first = len(content), _FINAL | opcode
    if size <= _MOST_CONTROL:
        return struct.pack("!BB", first, size) + content
    if size < 1 << 16:
        return struct.pack("!BBH", first, 126, size) + content
    return struct.pack("!BBQ", first, 127, size) + content


class SocketReader:
    """Read the bytes of a client; a line over `longest` bytes becomes `TOO_LONG`."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._unread = b""  # the beginning of a head
        self._head: _Head | None = None
        self._in_message = False
        self._control = b""
        self._line = bytearray()
        self._is_too_long = False

    def feed(self, data: bytes) -> SocketInput:
        """Return what is complete now.

        Raises:
            BrokenSocket: the bytes are not those of a client that keeps to the protocol.
        """
        found = SocketInput()
        data, at = self._unread + data, 0
        while at < len(data) and found.close_code is None:
            if self._head is None:
                self._head = _read_head(data, at)
                if self._head is None:
                    break
                self._check(self._head)
                at += self._head.size
            chunk = data[at : at + self._head.left]
            at += len(chunk)
            self._take(self._head, chunk, found)
        self._unread = data[at:]
        return found

    def _check(self, head: _Head) -> None:
        if head.opcode >= _CLOSE:
            if not head.is_final or head.left > _MOST_CONTROL:
                raise BrokenSocket(_PROTOCOL_ERROR, "A control frame is too long or in parts.")
        elif (head.opcode == _CONTINUED) != self._in_message:
            raise BrokenSocket(_PROTOCOL_ERROR, "A message does not begin where it should.")
        else:
            self._in_message = not head.is_final

    def _take(self, head: _Head, chunk: bytes, found: SocketInput) -> None:
        """Take a part of the content of a frame, and end the frame with its last part."""
        content = _unmask(chunk, head.mask)
        turn = len(chunk) % 4
        head.mask = head.mask[turn:] + head.mask[:turn]
        head.left -= len(chunk)
        if head.opcode < _CLOSE:
            self._add(content, found.lines)
        else:
            self._control += content
        if head.left:
            return
        self._head = None
        if head.opcode >= _CLOSE:
            self._end_control(head.opcode, found)
        elif head.is_final and (self._line or self._is_too_long):
            found.lines.append(self._whole_line())

    def _end_control(self, opcode: int, found: SocketInput) -> None:
        content, self._control = self._control, b""
        if opcode == _PING:
            found.answers += _frame(_PONG, content)
        elif opcode == _CLOSE:
            if len(content) == 1:
                raise BrokenSocket(_PROTOCOL_ERROR, "A closing frame has half a code.")
            found.close_code = struct.unpack("!H", content[:2])[0] if content else _NORMAL

    # ------------------------------------------------------------ lines

    def _add(self, content: bytes, lines: list[bytes]) -> None:
        *whole, rest = content.split(b"\n")
        for piece in whole:
            self._grow(piece)
            lines.append(self._whole_line())
        self._grow(rest)

    def _grow(self, piece: bytes) -> None:
        if self._is_too_long:
            return
        if len(self._line) + len(piece) > self._longest:
            self._is_too_long = True
            self._line = bytearray()
        else:
            self._line += piece

    def _whole_line(self) -> bytes:
        line = TOO_LONG if self._is_too_long else bytes(self._line).removesuffix(b"\r")
        self._line = bytearray()
        self._is_too_long = False
        return line


def _read_head(data: bytes, at: int) -> _Head | None:
    """Return the head of the frame at this place; None if it is not complete."""
    if len(data) < at + 2:
        return None
    first, second = data[at], data[at + 1]
    opcode, length = first & 0x0F, second & 0x7F
    if opcode == _BINARY:
        raise BrokenSocket(_UNSUPPORTED, "Frames are text, not binary.")
    if first & _RESERVED or opcode not in (_CONTINUED, _TEXT, _CLOSE, _PING, _PONG):
        raise BrokenSocket(_PROTOCOL_ERROR, "A frame of an unknown kind.")
    if not second & _MASKED:
        raise BrokenSocket(_PROTOCOL_ERROR, "A frame of a client has a mask.")
    extended = {126: 2, 127: 8}.get(length, 0)
    size = 2 + extended + 4
    if len(data) < at + size:
        return None
    if extended:
        length = int.from_bytes(data[at + 2 : at + 2 + extended], "big")
    if length >= 1 << 63:
        raise BrokenSocket(_PROTOCOL_ERROR, "A frame has an impossible length.")
    mask = data[at + size - 4 : at + size]
    return _Head(opcode, bool(first & _FINAL), length, mask, size)


def _unmask(chunk: bytes, mask: bytes) -> bytes:
    size = len(chunk)
    key = (mask * (size // 4 + 1))[:size]
    plain = int.from_bytes(chunk, "little") ^ int.from_bytes(key, "little")
    return plain.to_bytes(size, "little")
