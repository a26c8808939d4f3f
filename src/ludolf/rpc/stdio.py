"""One ear and one mouth: sole owner of the process's stdin and stdout.

Invariants: the wire lives on private descriptors; fd 0 is the null device and fd 1 is stderr, so
neither a child nor a stray print can eat a command or spoil a frame. Frames leave whole and in
order. The loop writes what a pipe takes without waiting, and a thread the rest, which also works
for files and terminals; a shared descriptor is never made non-blocking.
"""

import asyncio
import contextlib
import errno
import os
import select
import stat
import threading
from collections import deque
from collections.abc import Callable
from types import TracebackType

from ludolf.protocol.framing import Frame
from ludolf.rpc.line_reader import Ear

UNSENT_LIMIT = 1 << 20
# Bytes that one turn of the loop may add; a reply waits for all of them.
BURST_LIMIT = 8 << 20
# Unread output in bytes; beyond this input is paused too, so that memory stays bounded.
UNREAD_LIMIT = 32 << 20
_SEGMENTS = 1024
_PIPE_BUF = 4096
# Larger bursts are written by the thread, while the loop continues.
_AT_ONCE = 1 << 16
_PIPE_SIZE = 1 << 20


class Stdio:
    """Use it with `with`; `lines` starts reading, `send` writes."""

    def __init__(self, on_broken: Callable[[], None]) -> None:
        self._on_broken = on_broken
        self._pending: list[Frame] = []
        self._pending_size = 0
        self._queue: deque[list[Frame]] = deque()
        self._wake = threading.Semaphore(0)
        self._busy = False
        self._unsent = 0
        self._lock = threading.Lock()
        # They wait until little is unsent, or nothing.
        self._waiters: list[asyncio.Future[None]] = []
        self._last_waiters: list[asyncio.Future[None]] = []
        self._ear: Ear | None = None
        # Nothing is read: too much is unsent, or the owner has paused it.
        self._deaf = False
        self._paused = False
        self._hearing = False
        self._nowait = hasattr(os, "RWF_NOWAIT")
        self._broken = False
        self._leaving = False

    def __enter__(self) -> "Stdio":
        self._loop = asyncio.get_running_loop()
        self._in, self._out = os.dup(0), os.dup(1)
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        os.close(null)
        os.dup2(2, 1)
        self._is_pipe = stat.S_ISFIFO(os.fstat(self._out).st_mode)
        if self._is_pipe:
            _enlarge(self._out)
            self._poll = select.poll()
            self._poll.register(self._out, select.POLLOUT)
        self._writer = threading.Thread(target=self._write_all, daemon=True)
        self._writer.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.dup2(self._in, 0)
        os.dup2(self._out, 1)

    # ------------------------------------------------------------ the ear

    def lines(self, feed: Callable[[list[bytes]], None], end: Callable[[], None]) -> None:
        """Pass lines to `feed` on the loop, in order; `end` follows the last one."""

        def heard(lines: list[bytes]) -> None:
            self._hearing = True
            try:
                feed(lines)
            finally:
                self._hearing = False
                self._flush()  # what is answered at once leaves at once

        self._ear = Ear(self._in, heard, end)
        self._ear.open()

    def pause_input(self) -> None:
        """Pass on no more lines until `resume_input`."""
        self._paused = True
        if self._ear is not None:
            self._ear.pause()

    def resume_input(self) -> None:
        if self._paused:
            self._paused = False
            self._hear_again()

    # ------------------------------------------------------------ the mouth

    def send(self, frame: Frame) -> None:
        """Speak a frame; never blocks. All frames of one turn of the loop leave in one write."""
        if not self._pending and not self._hearing:
            self._loop.call_soon(self._flush)
        self._pending.append(frame)
        self._pending_size += len(frame) if isinstance(frame, bytes) else sum(map(len, frame))

    def flush(self) -> None:
        """Write now what was sent in this turn of the loop."""
        self._flush()

    @property
    def unsent_bytes(self) -> int:
        """Return how much waits for a reader that has left so much unread that the pipe is full."""
        return self._unsent

    def has_room(self) -> bool:
        return self._unsent + self._pending_size <= BURST_LIMIT

    async def room(self) -> None:
        """Wait while more than 1 MiB is unsent."""
        while self._is_behind() and not self._broken and not self._leaving:
            self._flush()
            waiter: asyncio.Future[None] = self._loop.create_future()
            with self._lock:
                if self._unsent <= UNSENT_LIMIT:
                    return
                self._waiters.append(waiter)
            await waiter

    def _is_behind(self) -> bool:
        return self._unsent + self._pending_size > UNSENT_LIMIT

    async def all_sent(self) -> None:
        """Wait until the reader has taken so much that nothing is unsent."""
        while self._unsent and not self._broken and not self._leaving:
            waiter: asyncio.Future[None] = self._loop.create_future()
            with self._lock:
                if not self._unsent:
                    return
                self._last_waiters.append(waiter)
            await waiter

    def leave(self) -> None:
        """Stop waiting for a slow reader: the program is about to end."""
        self._leaving = True
        self._release_all()

    async def drain(self, seconds: float) -> None:
        """Wait until everything is written, within a limit."""
        self._flush()
        deadline = self._loop.time() + seconds
        while self._unsent and not self._broken:
            if self._loop.time() > deadline:
                return
            await asyncio.sleep(0.002)

    def _flush(self) -> None:
        frames, self._pending = self._pending, []
        size, self._pending_size = self._pending_size, 0
        if not frames or self._broken:
            return
        if not self._busy and size <= _AT_ONCE:
            rest = self._write_at_once(_joined(frames))
            if not rest:
                return
            frames, size = [rest], len(rest)
        with self._lock:
            self._unsent += size
            self._busy = True
            self._queue.append(frames)
        if self._unsent > UNREAD_LIMIT and self._ear is not None and not self._deaf:
            self._deaf = True
            self._ear.pause()
        self._wake.release()

    def _write_at_once(self, data: bytes) -> bytes:
        """Write as much as the pipe takes without waiting; returns the rest."""
        try:
            if self._nowait:
                return data[os.pwritev(self._out, [data], -1, os.RWF_NOWAIT) :]
            if self._is_free(len(data)):
                return data[os.write(self._out, data) :]
        except BlockingIOError:
            return data
        except OSError as problem:
            if self._nowait and problem.errno == errno.EOPNOTSUPP:
                self._nowait = False
                return self._write_at_once(data)
            self._broken = True
            self._break()
            return b""
        return data

    def _is_free(self, size: int) -> bool:
        """Whether a pipe surely takes it: poll promises PIPE_BUF bytes."""
        if not self._is_pipe or size > _PIPE_BUF:
            return False
        ready = self._poll.poll(0)
        return bool(ready) and ready[0][1] == select.POLLOUT

    def _write_all(self) -> None:
        while True:
            self._wake.acquire()
            frames = self._queue.popleft()
            pieces = _segments(frames)
            try:
                self._write(pieces)
            except OSError:
                self._broken = True
                self._loop.call_soon_threadsafe(self._break)
                return
            self._written(sum(map(len, pieces)))

    def _write(self, pieces: list[bytes]) -> None:
        for start in range(0, len(pieces), _SEGMENTS):
            group = pieces[start : start + _SEGMENTS]
            left = sum(map(len, group)) - self._write_some(group)
            if left:
                _write_rest(self._out, b"".join(group)[-left:])

    def _write_some(self, group: list[bytes]) -> int:
        try:
            return os.writev(self._out, group)
        except BlockingIOError:
            return 0

    def _written(self, size: int) -> None:
        with self._lock:
            self._unsent -= size
            self._busy = bool(self._queue)
            if self._deaf and self._unsent <= UNREAD_LIMIT:
                self._deaf = False
                self._loop.call_soon_threadsafe(self._hear_again)
            waiters: list[asyncio.Future[None]] = []
            if self._unsent <= UNSENT_LIMIT // 2:
                waiters, self._waiters = self._waiters, []
            if not self._unsent:
                waiters, self._last_waiters = waiters + self._last_waiters, []
        if waiters:
            self._loop.call_soon_threadsafe(_release, waiters)

    def _hear_again(self) -> None:
        if self._ear is not None and not self._deaf and not self._paused:
            self._ear.resume()

    def _break(self) -> None:
        self._deaf = False
        self._hear_again()
        self._release_all()
        self._on_broken()

    def _release_all(self) -> None:
        _release(self._waiters)
        _release(self._last_waiters)


def _joined(frames: list[Frame]) -> bytes:
    first = frames[0]
    if len(frames) == 1 and isinstance(first, bytes):
        return first
    return b"".join(_segments(frames))


def _segments(frames: list[Frame]) -> list[bytes]:
    pieces: list[bytes] = []
    for frame in frames:
        if isinstance(frame, bytes):
            pieces.append(frame)
        else:
            pieces.extend(frame)
    return pieces


def _write_rest(fd: int, rest: bytes) -> None:
    """Write all bytes, also to a descriptor that was made non-blocking."""
    view = memoryview(rest)
    while view:
        try:
            view = view[os.write(fd, view) :]
        except BlockingIOError:
            select.select([], [fd], [])


def _release(waiters: list["asyncio.Future[None]"]) -> None:
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(None)


def _enlarge(fd: int) -> None:
    import fcntl

    with contextlib.suppress(OSError, AttributeError):  # a smaller pipe is only slower
        fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, _PIPE_SIZE)
