"""Compress the session file for the page in a second thread, while the page is rendered."""

import os
from binascii import b2a_base64
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from ludolf.base import dumps
from ludolf.session.entries import Entry, SessionHeader, entry_line

_READING = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
# Bytes of the session that are compressed in one call, during which other threads run. There are
# few calls, since this thread waits for the one that renders after each.
_STEP = 1 << 22


class _Changed(Exception):
    """The file is not what the session in memory is."""


def start_packing(
    pool: ThreadPoolExecutor, path: Path, header: SessionHeader, entries: Sequence[Entry]
) -> Iterator[str]:
    """Start to compress the session file in a thread of the pool; yield the result as Base64."""
    return _encoded(pool.submit(_packed, path, header, entries))


def _encoded(packed: Future[list[bytes]]) -> Iterator[str]:
    rest = b""
    for piece in packed.result():
        data = rest + piece
        whole = len(data) - len(data) % 3
        yield b2a_base64(memoryview(data)[:whole], newline=False).decode()
        rest = data[whole:]
    yield b2a_base64(rest, newline=False).decode()


def _packed(path: Path, header: SessionHeader, entries: Sequence[Entry]) -> list[bytes]:
    first = dumps(header) + b"\n"
    try:
        # Other threads can run while a file is read, but not while lines are joined.
        return _compressed(_file_steps(path, len(first) + sum(len(each.line) for each in entries)))
    except (OSError, _Changed):
        return _compressed(_steps(first, entries))


def _compressed(steps: Iterable[bytes]) -> list[bytes]:
    import zlib

    packer = zlib.compressobj(3, zlib.DEFLATED, 31)
    return [*map(packer.compress, steps), packer.flush()]


def _file_steps(path: Path, size: int) -> Iterator[bytes]:
    """Yield a file of this size in large pieces.

    Raises:
        OSError: the file cannot be read.
        _Changed: it has another size.
    """
    descriptor = os.open(path, _READING)
    try:
        if os.fstat(descriptor).st_size != size:
            raise _Changed
        while size:
            data = os.read(descriptor, min(size, _STEP))
            if not data:
                raise _Changed
            yield data
            size -= len(data)
    finally:
        os.close(descriptor)


def _steps(first: bytes, entries: Iterable[Entry]) -> Iterator[bytes]:
    """Yield the lines of the session in large pieces."""
    lines, size = [first], 0
    for entry in entries:
        line = entry_line(entry)
        lines.append(line)
        size += len(line)
        if size >= _STEP:
            yield b"".join(lines)
            lines, size = [], 0
    yield b"".join(lines)
