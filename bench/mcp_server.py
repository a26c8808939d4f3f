"""A server of the Model Context Protocol that answers fast: over pipes, over HTTP, or stubborn.

Run as a program: `python -m bench.mcp_server stdio|http|stubborn`; over HTTP it prints its port.
"""

import asyncio
import signal
import sys
import threading
from typing import Any

import msgspec

_TEXT = {"content": [{"type": "text", "text": "hello"}]}
_TOOL = {"name": "echo", "description": "Say hello.", "inputSchema": {"type": "object"}}
_RESULTS: dict[str, Any] = {
    "initialize": {
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "bench", "version": "1"},
    },
    "tools/list": {"tools": [_TOOL]},
    "tools/call": _TEXT,
}
_REFUSAL = {"code": -32601, "message": "Method not found"}


def _answer(line: bytes) -> bytes | None:
    message = msgspec.json.decode(line)
    if "id" not in message:
        return None
    result = _RESULTS.get(message["method"])
    body = {"error": _REFUSAL} if result is None else {"result": result}
    return msgspec.json.encode({"jsonrpc": "2.0", "id": message["id"], **body})


def _serve_pipes() -> None:
    for line in sys.stdin.buffer:
        answer = _answer(line)
        if answer is not None:
            sys.stdout.buffer.write(answer + b"\n")
            sys.stdout.buffer.flush()


async def _exchange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Serve the requests of one connection."""
    while head := await _read_head(reader):
        length = next(
            (int(line[15:]) for line in head.lower().split(b"\r\n") if line[:15] == _LENGTH), 0
        )
        body = await reader.readexactly(length)
        answer = _answer(body) if body else None
        status = b"405 No" if head[:4] == b"GET " else b"200 OK" if answer else b"202 Taken"
        kind = b"content-type: application/json\r\n" if answer else b""
        data = answer or b""
        writer.write(
            b"HTTP/1.1 %b\r\n%bcontent-length: %d\r\n\r\n%b" % (status, kind, len(data), data)
        )
    writer.close()


_LENGTH = b"content-length:"


async def _read_head(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return b""


async def _serve_http() -> None:
    server = await asyncio.start_server(_exchange, "127.0.0.1", 0)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


def main() -> None:
    if sys.argv[1] == "http":
        asyncio.run(_serve_http())
    if sys.argv[1] == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _serve_pipes()
    if sys.argv[1] == "stubborn":
        threading.Event().wait()


if __name__ == "__main__":
    main()
