"""Send one small JSON request over a plain socket, without loading an HTTP library."""

import asyncio
from typing import Any
from urllib.parse import SplitResult, urlsplit

import msgspec

from ludolf.base import dumps, loads

MAX_BYTES = 8 << 20
UNAUTHORIZED = 401
# TimeoutError is an OSError.
_ODD = (OSError, EOFError, ValueError, asyncio.LimitOverrunError)


class Heard(msgspec.Struct, frozen=True):
    """The status of a response, and its body if that is JSON."""

    status: int
    value: Any = None


async def ask(
    url: str, seconds: float | None, *, key: str | None = None, body: Any = None
) -> Heard | None:
    """Send one request; None without an HTTP response in time. With a body it is a POST."""
    parts = urlsplit(url)
    try:
        async with asyncio.timeout(seconds):
            return await _exchange(parts, _request(parts, key, body))
    except _ODD:
        return None


async def _exchange(parts: SplitResult, request: bytes) -> Heard | None:
    secure = parts.scheme == "https"
    reader, writer = await asyncio.open_connection(
        parts.hostname, parts.port or (443 if secure else 80), ssl=secure or None, limit=MAX_BYTES
    )
    try:
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        status, headers = _head(head)
        return Heard(status, _json(await _body(reader, headers)))
    finally:
        writer.close()


def _request(parts: SplitResult, key: str | None, body: Any) -> bytes:
    data = b"" if body is None else dumps(body)
    lines = [
        f"{'GET' if body is None else 'POST'} {parts.path or '/'} HTTP/1.1",
        f"Host: {parts.netloc.rpartition('@')[2]}",
        "Accept: application/json",
        "Connection: close",
    ]
    if body is not None:
        lines += ["Content-Type: application/json", f"Content-Length: {len(data)}"]
    if key:
        lines.append(f"Authorization: Bearer {key}")
    return "\r\n".join((*lines, "", "")).encode() + data


def _head(head: bytes) -> tuple[int, dict[str, str]]:
    first, *lines = head.decode("latin-1").split("\r\n")
    version, status, *_ = first.split(" ")
    if not version.startswith("HTTP/"):
        raise ValueError("not HTTP")
    pairs = (line.partition(":") for line in lines if line)
    return int(status), {name.strip().lower(): value.strip() for name, _, value in pairs}


async def _body(reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
    if "chunked" in headers.get("transfer-encoding", "").lower():
        return await _chunks(reader)
    size = headers.get("content-length")
    if size is None:
        return await _rest(reader)
    if int(size) > MAX_BYTES:
        raise ValueError("too long")
    return await reader.readexactly(int(size))


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    pieces: list[bytes] = []
    total = 0
    while size := int((await reader.readline()).split(b";")[0], 16):
        total += size
        if total > MAX_BYTES:
            raise ValueError("too long")
        pieces.append(await reader.readexactly(size))
        await reader.readline()
    return b"".join(pieces)


async def _rest(reader: asyncio.StreamReader) -> bytes:
    data = b""
    while piece := await reader.read(1 << 16):
        data += piece
        if len(data) > MAX_BYTES:
            raise ValueError("too long")
    return data


def _json(body: bytes) -> Any:
    try:
        return loads(body)
    except ValueError:
        return None
