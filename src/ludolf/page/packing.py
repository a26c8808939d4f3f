"""Compress the session file for the page in a second thread, while the page is rendered."""

from binascii import b2a_base64
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from ludolf.base import dumps
from ludolf.session.entries import Entry, SessionHeader, entry_line

# Bytes of the session that are compressed in one call, during which other threads run. There are
# few calls, since this thread waits for the one that renders after each.
_STEP = 1 << 21


def start_packing(
    pool: ThreadPoolExecutor, header: SessionHeader, entries: Sequence[Entry]
) -> Iterator[str]:
    """Start to compress the session file in a thread of the pool; yield the result as Base64."""
    return _encoded(pool.submit(_packed, header, entries))


def _encoded(packed: Future[list[bytes]]) -> Iterator[str]:
    rest = b""
    for piece in packed.result():
        data = rest + piece
        whole = len(data) - len(data) % 3
        yield b2a_base64(memoryview(data)[:whole], newline=False).decode()
        rest = data[whole:]
    yield b2a_base64(rest, newline=False).decode()


def _packed(header: SessionHeader, entries: Sequence[Entry]) -> list[bytes]:
    import zlib

    packer = zlib.compressobj(3, zlib.DEFLATED, 31)
    return [*map(packer.compress, _steps(header, entries)), packer.flush()]


def _steps(header: SessionHeader, entries: Sequence[Entry]) -> Iterator[bytes]:
    """Yield the lines of the session file in large pieces."""
    lines, size = [dumps(header), b"\n"], 0
    for entry in entries:
        line = entry_line(entry)
        lines.append(line)
        size += len(line)
        if size >= _STEP:
            yield b"".join(lines)
            lines, size = [], 0
    yield b"".join(lines)
