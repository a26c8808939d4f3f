"""The ear: lines from pipes, sockets and files, in order; a pause holds them back."""

import asyncio
import os
import socket
from pathlib import Path

import pytest

from ludolf.rpc.line_reader import MAX_FRAME, TOO_LONG, Ear, LineSplitter


class Heard:
    """An ear at one end of something, and what it has passed on."""

    def __init__(self, descriptor: int) -> None:
        self.lines: list[bytes] = []
        self._ended = asyncio.Event()
        self._more = asyncio.Event()
        self.ear = Ear(descriptor, self._feed, self._ended.set)
        self.ear.open()

    def _feed(self, lines: list[bytes]) -> None:
        self.lines += lines
        self._more.set()

    async def until(self, count: int) -> list[bytes]:
        async with asyncio.timeout(30):
            while len(self.lines) < count:
                self._more.clear()
                await self._more.wait()
        return self.lines

    async def whole(self) -> list[bytes]:
        await asyncio.wait_for(self._ended.wait(), 30)
        return self.lines

    @property
    def ended(self) -> bool:
        return self._ended.is_set()


def _ends(kind: str) -> tuple[int, int]:
    if kind == "pipe":
        return os.pipe()
    mine, other = socket.socketpair()
    return mine.detach(), other.detach()


@pytest.mark.parametrize("kind", ["pipe", "socket"])
async def test_lines_come_whole_and_in_order_and_the_end_comes_last(kind: str) -> None:
    mine, other = _ends(kind)
    heard = Heard(mine)
    os.write(other, b"one\r\ntw")
    assert await heard.until(1) == [b"one"]
    os.write(other, b"o\n\nthree\nfour")
    assert await heard.until(4) == [b"one", b"two", b"", b"three"]
    assert not heard.ended
    os.close(other)
    assert await heard.whole() == [b"one", b"two", b"", b"three", b"four"]
    os.close(mine)


async def test_a_file_is_heard_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "commands"
    path.write_bytes(b"one\ntwo\nthree")
    descriptor = os.open(path, os.O_RDONLY)
    assert await Heard(descriptor).whole() == [b"one", b"two", b"three"]
    os.close(descriptor)


async def test_a_pause_holds_lines_back_until_it_is_over() -> None:
    mine, other = os.pipe()
    heard = Heard(mine)
    os.write(other, b"one\n")
    await heard.until(1)
    heard.ear.pause()
    os.write(other, b"two\n")
    os.close(other)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(heard.whole(), 0.05)
    assert heard.lines == [b"one"]
    heard.ear.resume()
    assert await heard.whole() == [b"one", b"two"]
    os.close(mine)


async def test_the_end_of_input_is_noticed_in_a_pause() -> None:
    mine, other = os.pipe()
    heard = Heard(mine)
    heard.ear.pause()
    os.close(other)
    assert await heard.whole() == []
    os.close(mine)


def test_a_line_over_the_limit_is_replaced_and_the_next_one_is_whole() -> None:
    lines = LineSplitter()
    piece = b"x" * (1 << 20)
    for _ in range((MAX_FRAME >> 20) + 2):
        assert lines.add(piece) == []
    assert lines.add(b"x\nnext\nre") == [TOO_LONG, b"next"]
    assert lines.end() == [b"re"]
