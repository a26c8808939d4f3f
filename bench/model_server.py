"""Model server on a loopback port that streams Anthropic's format as fast as it is read.

Codex gets the format of OpenAI's Responses API. The last user text selects the answer; see
`answer`. It runs as a separate program, so that its load does not count for the driver, and prints
its port.
"""

import asyncio
import json
import sys
import time
from collections.abc import Sequence
from functools import cache
from typing import Any

from bench import speech, speech_responses

WORD = "Bench "
_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
    b"cache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n"
)
_NOTHING = b"HTTP/1.1 404 Not Found\r\ncontent-type: text/plain\r\ncontent-length: 0\r\n\r\n"
_PIECE = 1 << 16


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            body = await reader.readexactly(_length(head))
            asks = head.split(b"\r\n", 1)[0]
            if asks.startswith(b"POST ") and b"/messages" in asks:
                await _answer(json.loads(body)["messages"], writer)
            elif asks.startswith(b"POST ") and b"/responses" in asks:
                await _answer_response(json.loads(body)["input"], writer)
            else:
                writer.write(_NOTHING)
                await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass  # the agent has closed the connection
    finally:
        writer.close()


def _length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0


async def _answer(messages: Sequence[dict[str, Any]], writer: asyncio.StreamWriter) -> None:
    asked, results = _asked(messages)
    writer.write(_HEAD)
    words = asked.split(" ", 3)
    if words[1:2] == ["paced"]:
        await _speak_at(writer, speech.pieces_of_text(int(words[2])), int(words[3]))
    elif words[1:2] == ["markdown"]:
        await _speak_at(writer, speech.pieces_of_markdown(int(words[2])), int(words[3]))
    else:
        await _speak(writer, answer(asked, results))
    writer.write(b"0\r\n\r\n")
    await writer.drain()


async def _answer_response(items: Sequence[dict[str, Any]], writer: asyncio.StreamWriter) -> None:
    """Answer `text` and `paced`, or any other prompt with one word."""
    asked, _ = _asked([item for item in items if item.get("type", "message") == "message"])
    kind, number, rate = [*asked.split(" ")[1:], "", "", ""][:3]
    writer.write(_HEAD)
    if kind == "paced":
        pieces = list(speech_responses.answer_pieces(int(number)))
        await _speak_at(writer, pieces, int(rate))
    else:
        count = int(number) if kind == "text" else 1
        await _speak(writer, speech_responses.answered(count))
    writer.write(b"0\r\n\r\n")
    await writer.drain()


@cache
def answer(asked: str, results: int) -> bytes:
    """Return the answer to a prompt.

    `text N`: N deltas, a quarter of them thinking. `arguments N`: a call with its arguments in N
    deltas. `loop N COMMAND`: N calls of bash, one per turn. `paced N RATE`: N deltas, RATE per
    second (not handled here). After the result of a call, or for any other prompt: one word.
    """
    kind, _, rest = asked.removeprefix(WORD).partition(" ")
    number, _, command = rest.partition(" ")
    if kind == "loop" and results < int(number):
        call = json.dumps({"command": command or "true"})
        return speech.called(f"toolu_{results:06d}", "bash", [call])
    if kind == "text" and not results:
        return speech.said(int(number))
    if kind == "arguments" and not results:
        return speech.called("toolu_arguments", "write", speech.argument_pieces(int(number)))
    return speech.said(1)


def _asked(messages: Sequence[dict[str, Any]]) -> tuple[str, int]:
    """Return the last prompt and the number of calls since."""
    results = 0
    for message in reversed(messages):
        if message["role"] != "user":
            continue
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        results += sum(block["type"] == "tool_result" for block in blocks)
        for block in reversed(blocks):
            text = block.get("text", "")
            if block["type"] in ("text", "input_text") and WORD in text:
                return text[text.index(WORD) :].split("\n")[0].strip(), results
    return "", results


async def _speak(writer: asyncio.StreamWriter, data: bytes) -> None:
    for start in range(0, len(data), _PIECE):
        piece = data[start : start + _PIECE]
        writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        await writer.drain()


async def _speak_at(writer: asyncio.StreamWriter, pieces: list[bytes], rate: int) -> None:
    start = time.monotonic()
    first, *middle, last = pieces
    await _speak(writer, first)
    for number, piece in enumerate(middle, 1):
        await _speak(writer, piece)
        await asyncio.sleep(max(0.0, start + number / rate - time.monotonic()))
    await _speak(writer, last)


async def main() -> None:
    server = await asyncio.start_server(_serve, "127.0.0.1", 0, limit=1 << 26)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
