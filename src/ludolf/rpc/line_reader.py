"""The ear: lines from a descriptor to the loop, in order, without ever blocking it."""

import asyncio
import errno
import os
import select
import threading
from collections.abc import Callable

MAX_FRAME = 128 << 20
# What stands in for a line over the limit; no JSON begins so, and the reply names the limit.
TOO_LONG = b"\x00too long"
_READ = 1 << 18


class LineSplitter:
    """Cuts a stream at LF only: one trailing CR is dropped, an oversized line is replaced."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def add(self, chunk: bytes) -> list[bytes]:
        """The lines that are whole now."""
        if not self._size and chunk.endswith(b"\n") and b"\r" not in chunk:
            return chunk[:-1].split(b"\n")  # whole lines, as most hosts write them
        head, newline, rest = chunk.partition(b"\n")
        if self._size <= MAX_FRAME:
            self._parts.append(head)
        self._size += len(head)
        if not newline:
            return []
        lines = [self._joined()]
        *whole, rest = rest.split(b"\n")
        lines += map(_without_cr, whole)
        self._parts, self._size = [rest], len(rest)
        return lines

    def end(self) -> list[bytes]:
        """The bytes after the last LF."""
        return [self._joined()] if self._size else []

    def _joined(self) -> bytes:
        return TOO_LONG if self._size > MAX_FRAME else _without_cr(b"".join(self._parts))


class Ear:
    """Gives lines to `feed`; `end` follows the last one.

    Pipes and sockets are read by the loop itself, which saves a thread's wake-up at each command;
    files, and systems that cannot read without waiting, have a thread.
    """

    def __init__(
        self, descriptor: int, feed: Callable[[list[bytes]], None], end: Callable[[], None]
    ) -> None:
        self._descriptor = descriptor
        self._feed = feed
        self._end = end
        self._loop = asyncio.get_running_loop()
        self._lines = LineSplitter()
        self._buffer = bytearray(_READ)
        self._calm = threading.Event()
        self._calm.set()
        self._held: list[bytes] = []
        self._in_loop = False

    def open(self) -> None:
        if hasattr(os, "RWF_NOWAIT") and self._watch():
            self._in_loop = True
        else:
            threading.Thread(target=self._read_all, daemon=True).start()

    def pause(self) -> None:
        """Pass on nothing until `resume`. The end of input is noticed if nothing stands before."""
        self._calm.clear()

    def resume(self) -> None:
        self._calm.set()
        if self._in_loop:
            self._watch()
            lines, self._held = self._held, []
            self._give(lines)

    # ------------------------------------------------------------ in the loop

    def _watch(self) -> bool:
        try:
            self._loop.add_reader(self._descriptor, self._read_now)
        except OSError:  # a file is always ready, which the loop cannot watch
            return False
        return True

    def _read_now(self) -> None:
        try:
            size = os.preadv(self._descriptor, [self._buffer], -1, os.RWF_NOWAIT)
        except BlockingIOError:
            return  # someone else has read it
        except OSError as problem:
            if problem.errno == errno.EOPNOTSUPP:
                self._change_to_thread()
                return
            size = 0
        if not size:
            self._loop.remove_reader(self._descriptor)
            self._in_loop = False
            self._give(self._lines.end())
            self._end()
            return
        lines = self._lines.add(bytes(memoryview(self._buffer)[:size]))
        if self._calm.is_set():
            self._give(lines)
        else:
            self._held += lines
            self._loop.remove_reader(self._descriptor)

    def _give(self, lines: list[bytes]) -> None:
        if lines:
            self._feed(lines)

    def _change_to_thread(self) -> None:
        self._loop.remove_reader(self._descriptor)
        self._in_loop = False
        threading.Thread(target=self._read_all, daemon=True).start()

    # ------------------------------------------------------------ in a thread

    def _read_all(self) -> None:
        while chunk := _read(self._descriptor):
            self._pass(self._lines.add(chunk))
        self._pass(self._lines.end())
        self._loop.call_soon_threadsafe(self._end)

    def _pass(self, lines: list[bytes]) -> None:
        if lines:
            self._calm.wait()
            self._loop.call_soon_threadsafe(self._feed, lines)


def _without_cr(line: bytes) -> bytes:
    return line[:-1] if line.endswith(b"\r") else line


def _read(descriptor: int) -> bytes:
    while True:
        try:
            return os.read(descriptor, _READ)
        except BlockingIOError:
            select.select([descriptor], [], [])
        except OSError:
            return b""  # a vanished terminal is the end of input
