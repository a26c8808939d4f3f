"""Model server on a loopback port that streams the same words in the formats of three APIs.

It speaks Anthropic's Messages API and OpenAI's Chat Completions and Responses APIs, as fast as it
is read. The last user text selects the answer; see `answer`. It runs as a separate program, so that
its load does not count for the driver, and prints its port. `GET /overhead` returns the largest
overhead of a request since it was last asked for.
"""

import asyncio
import itertools
import json
import sys
import time
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

from bench import speech, speech_chat, speech_responses
from bench.model_requests import (
    WORD,
    ModelRequest,
    ShellTool,
    read_anthropic,
    read_chat,
    read_responses,
)

_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
    b"cache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n"
)
_NOTHING = b"HTTP/1.1 404 Not Found\r\ncontent-type: text/plain\r\ncontent-length: 0\r\n\r\n"
# Numbers of deltas whose time is measured.
_PREPARED = (1000, 5000, 20_000)
_PIECE = 1 << 16


class ModelApi(NamedTuple):
    """How a request is read, and how an answer is written, whole or as separate deltas."""

    read: Callable[[dict[str, Any]], ModelRequest]
    said: Callable[[int], bytes]
    pieces_of_text: Callable[[int], Sequence[bytes]]
    called: Callable[[str, str, Sequence[str]], bytes]


# By the end of the path.
APIS = {
    b"/messages": ModelApi(read_anthropic, speech.said, speech.pieces_of_text, speech.called),
    b"/chat/completions": ModelApi(
        read_chat, speech_chat.said, speech_chat.pieces_of_text, speech_chat.called
    ),
    b"/responses": ModelApi(
        read_responses,
        speech_responses.said,
        speech_responses.pieces_of_text,
        speech_responses.called,
    ),
}


class ModelServer:
    def __init__(self) -> None:
        self._overhead = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                body = await reader.readexactly(_length(head))
                method, path = head.split(b" ", 2)[:2]
                await self._reply(method, path.partition(b"?")[0], body, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the agent has closed the connection
        finally:
            writer.close()

    async def _reply(
        self, method: bytes, path: bytes, body: bytes, writer: asyncio.StreamWriter
    ) -> None:
        api = next((api for end, api in APIS.items() if path.endswith(end)), None)
        if method == b"POST" and api is not None:
            request = api.read(json.loads(body))
            self._overhead = max(self._overhead, request.overhead)
            await _answer(request, api, writer)
        elif path == b"/overhead":
            text, self._overhead = str(self._overhead).encode(), 0
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(text), text))
        else:
            writer.write(_NOTHING)
        await writer.drain()


def _length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0


async def _answer(request: ModelRequest, api: ModelApi, writer: asyncio.StreamWriter) -> None:
    writer.write(_HEAD)
    kind, number, rate = [*request.prompt.split(" ")[1:], "", "", ""][:3]
    if not request.has_tools:  # a title or a summary
        await _speak(writer, api.said(1))
    elif kind == "paced":
        await _speak_at(writer, api.pieces_of_text(int(number)), int(rate))
    elif kind == "markdown":
        await _speak_at(writer, speech.pieces_of_markdown(int(number)), int(rate))
    else:
        await _speak(writer, answer(api, request.prompt, request.results, _shell_of(request)))
    writer.write(b"0\r\n\r\n")


def _shell_of(request: ModelRequest) -> tuple[str, str]:
    """Return the name of the shell tool and the arguments of the call that the prompt asks for."""
    shell = request.shell or ShellTool("bash", {})
    command = request.prompt.split(" ", 3)[3:]
    return shell.name, shell.arguments(command[0] if command else "true")


@cache
def answer(api: ModelApi, asked: str, results: int, shell: tuple[str, str]) -> bytes:
    """Return the answer to a prompt.

    `text N`: N deltas. `arguments N`: a call with its arguments in N deltas. `loop N COMMAND`: N
    calls of the shell tool, one per turn. `paced N RATE`: N deltas, RATE per second (not handled
    here). After the result of a call, or for any other prompt: one word.
    """
    kind, _, rest = asked.removeprefix(WORD).partition(" ")
    number = rest.partition(" ")[0]
    name, arguments = shell
    if kind == "loop" and results < int(number):
        return api.called(f"toolu_{results:06d}", name, [arguments])
    if kind == "text" and not results:
        return _said(api, int(number))
    if kind == "arguments" and not results:
        pieces = speech.argument_pieces(int(number))
        return api.called("toolu_arguments", "write", pieces)
    return api.said(1)


@cache
def _said(api: ModelApi, count: int) -> bytes:
    return api.said(count)


async def _speak(writer: asyncio.StreamWriter, data: bytes) -> None:
    for start in range(0, len(data), _PIECE):
        piece = data[start : start + _PIECE]
        writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        await writer.drain()


async def _speak_at(writer: asyncio.StreamWriter, pieces: Sequence[bytes], rate: int) -> None:
    start = time.monotonic()
    first, *middle, last = pieces
    await _speak(writer, first)
    for number, piece in enumerate(middle, 1):
        await _speak(writer, piece)
        await asyncio.sleep(max(0.0, start + number / rate - time.monotonic()))
    await _speak(writer, last)


async def main() -> None:
    # Else the first program that asks would wait for the answer to be written.
    for api, count in itertools.product(APIS.values(), _PREPARED):
        _said(api, count)
    server = await asyncio.start_server(ModelServer().serve, "127.0.0.1", 0, limit=1 << 26)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
