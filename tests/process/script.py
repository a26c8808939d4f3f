"""What a scripted model says, in no provider's words: blocks, gates, faults, usage."""

import socket
import struct
import threading
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec

from ludolf.base import dumps

Kind = Literal["text", "thinking", "toolcall"]
Stop = Literal["stop", "length", "toolUse"]

# A command writes to the descriptors of the processes above it: reaper, supervisor and the program.
STRAY = (
    "p=$PPID; for level in 1 2 3; do for n in 0 1 2; do echo STRAY > /proc/$p/fd/$n; done; "
    "p=$(awk '/^PPid/ {print $2}' /proc/$p/status); done; echo hi"
)


class Gate:
    """Holds the stream at a point until a test opens it; `reached` tells that it stands there."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self._open = threading.Event()

    def open(self) -> None:
        self._open.set()

    def pass_through(self) -> None:
        self.reached.set()
        self._open.wait(120)


class Cut:
    """The connection ends here, without a word."""


class Reset:
    """The connection is reset here."""

    def do(self, connection: socket.socket) -> None:
        linger_no_time = struct.pack("ii", 1, 0)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger_no_time)
        connection.close()


class Raw(msgspec.Struct, frozen=True):
    """Bytes that are put into the stream as they are."""

    data: bytes


GARBAGE = Raw(b'data: {"type": "content_block_delta", nonsense\n\n')
Act = Gate | Cut | Reset | Raw
Piece = str | Act


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """One block of an answer; acts between its pieces happen in the midst of it."""

    kind: Kind
    pieces: tuple[Piece, ...]
    id: str = ""
    name: str = ""

    @property
    def whole(self) -> str:
        return "".join(piece for piece in self.pieces if isinstance(piece, str))


class Tokens(msgspec.Struct, frozen=True):
    """`input` leaves out what was read from the cache."""

    input: int = 100
    output: int = 20
    cache_read: int = 0


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """One answer of the model. `size` cuts its text into deltas of so many characters."""

    blocks: tuple[Block | Act, ...] = ()
    tokens: Tokens = Tokens()
    size: int = 8
    stop: Stop | None = None
    # Many events in one write, where their number counts and not their timing.
    bulk: bool = False

    @property
    def stop_reason(self) -> Stop:
        calls = any(isinstance(b, Block) and b.kind == "toolcall" for b in self.blocks)
        return self.stop or ("toolUse" if calls else "stop")

    def cut(self, block: Block) -> Iterator[Piece]:
        """The deltas and acts of a block, in order."""
        for piece in block.pieces:
            if isinstance(piece, str):
                yield from (piece[at : at + self.size] for at in range(0, len(piece), self.size))
            else:
                yield piece


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """An HTTP answer that is no stream."""

    status: int
    body: bytes = b'{"error":{"type":"error","message":"it failed"}}'
    kind: str = "application/json"
    headers: Mapping[str, str] = {}


Reply = Answer | Failure


def say(*pieces: Piece) -> Block:
    return Block(kind="text", pieces=pieces)


def think(*pieces: Piece) -> Block:
    return Block(kind="thinking", pieces=pieces)


def call(name: str, args: Mapping[str, Any], call_id: str = "call_1") -> Block:
    return raw_call(name, dumps(args).decode(), call_id=call_id)


def raw_call(name: str, *pieces: Piece, call_id: str = "call_1") -> Block:
    """A call whose arguments are just these pieces, JSON or not."""
    return Block(kind="toolcall", pieces=pieces, id=call_id, name=name)


def bash(command: str, call_id: str = "call_1", **more: Any) -> Block:
    return call("bash", {"command": command, **more}, call_id)


def answer(*blocks: Block | Act | str, **about: Any) -> Answer:
    """An answer of these blocks; a plain text is a text block."""
    return Answer(blocks=tuple(say(b) if isinstance(b, str) else b for b in blocks), **about)


def flood(text: str, end: Gate, size: int = 100) -> Answer:
    """A long answer with so much between its pieces that no buffer takes it in unread."""
    # Each is passed over by whoever reads the stream.
    comment = Raw(b": %b\n\n" % (b"-" * 64_000))
    pieces: list[Piece] = []
    for at in range(0, len(text), 40 * size):
        pieces += (text[at : at + 40 * size], comment)
    return answer(say(*pieces, end), size=size, bulk=True)
