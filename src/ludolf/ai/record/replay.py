"""Replay recorded traffic without any network connection."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, NoReturn
from urllib.parse import unquote, urlsplit

import msgspec

from ludolf.ai.errors import ProviderError
from ludolf.ai.http.transport import HttpRequest, Raw, ResponseBody, Transport
from ludolf.ai.json_text import json_value
from ludolf.ai.record.recording_file import Exchange, RecordedData, Recording
from ludolf.ai.record.scrubbing import REMOVED, harmless_url
from ludolf.base import Warn, dumps

_TOOLS = ("tools", "toolConfig")
_SCHEMAS = frozenset(("parameters", "input_schema", "inputSchema", "parametersJsonSchema"))
_RESULTS = frozenset(("tool_result", "function_call_output", "functionResponse", "toolResult"))
_MODEL_IN_PATH = re.compile(r"/models?/([^/?#:]+)")
_AROUND = 24


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """The properties of a request that must match a recorded one, and its messages."""

    method: str
    path: str
    model: str
    tools: tuple[str, ...]
    count: int
    last_text: str
    messages: bytes

    @property
    def endpoint(self) -> tuple[str, str]:
        """Method and end of the path: gateways change only the start of a path."""
        end = self.path.rpartition("/")[2]
        # Google's paths contain the model.
        return (self.method, end.rpartition(":")[2])

    def __str__(self) -> str:
        model = f" for model {self.model}" if self.model else ""
        question = f", last user text {_quoted(self.last_text)}" if self.last_text else ""
        return f"{self.method} {self.path}{model}{question}"


def shape_of(method: str, url: str, body: Any) -> Shape:
    """Return the shape of a request; a `body` that is not JSON has no messages."""
    fields = body if isinstance(body, dict) else {}
    messages = _messages(fields)
    tools = [fields.get(name) for name in _TOOLS]
    tools += [message.get("toolsAdded") for message in messages if _is_system(message)]
    messages = [message for message in messages if not _is_system(message)]
    return Shape(
        method=method,
        path=urlsplit(url).path,
        model=_model(url, fields),
        tools=tuple(sorted(_names(tools))),
        count=len(messages),
        last_text=_last_text(messages),
        messages=dumps(messages or body),
    )


def difference(recorded: Shape, asked: Shape) -> str | None:
    """Describe the first difference between two requests; None if there is none."""
    if recorded.tools != asked.tools:
        return f"the tools are {_changes(recorded.tools, asked.tools)}"
    if not _same_text(recorded.last_text, asked.last_text):
        now, before = _around(asked.last_text, recorded.last_text)
        return f"the last user text is {now}, the recorded one is {before}"
    if recorded.count != asked.count:
        return f"it has {asked.count} messages, the recorded one has {recorded.count}"
    return None


# ---------------------------------------------------------------- reading bodies


def _model(url: str, body: dict[str, Any]) -> str:
    model = body.get("model")
    in_path = _MODEL_IN_PATH.search(url)
    return model if isinstance(model, str) else unquote(in_path[1]) if in_path else ""


def _messages(body: dict[str, Any]) -> list[Any]:
    inner = body.get("context")
    fields = {**inner, **body} if isinstance(inner, dict) else body
    for name in ("messages", "input", "contents"):
        value = fields.get(name)
        if isinstance(value, list):
            return value
        if isinstance(value, str):
            return [{"role": "user", "content": value}]
    return []


def _is_system(message: Any) -> bool:
    return isinstance(message, dict) and message.get("role") in ("system", "developer")


def _last_text(messages: list[Any]) -> str:
    for message in reversed(messages):
        if isinstance(message, dict) and message.get("role") == "user":
            content = message.get("content", message.get("parts"))
            text = content if isinstance(content, str) else "\n".join(_texts(content))
            if text:
                return text
    return ""


def _texts(content: Any) -> Iterator[str]:
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict) and not _RESULTS & {part.get("type"), *part}:
            text = part.get("text")
            if isinstance(text, str):
                yield text


def _names(tools: Any) -> Iterator[str]:
    if isinstance(tools, list):
        for item in tools:
            yield from _names(item)
    elif isinstance(tools, dict):
        for name, item in tools.items():
            if name == "name" and isinstance(item, str):
                yield item
            elif name not in _SCHEMAS:
                yield from _names(item)


# ---------------------------------------------------------------- words


def _same_text(recorded: str, asked: str) -> bool:
    """Return whether both texts are equal except for values removed from the recorded one."""
    if REMOVED not in recorded:
        return recorded == asked
    pattern = ".*".join(map(re.escape, recorded.split(REMOVED)))
    return re.fullmatch(pattern, asked, re.DOTALL) is not None


def _changes(before: tuple[str, ...], now: tuple[str, ...]) -> str:
    more = [name for name in now if name not in before]
    fewer = [name for name in before if name not in now]
    texts = [f"with {', '.join(more)}"] if more else []
    texts += [f"without {', '.join(fewer)}"] if fewer else []
    return f"not those recorded: {' and '.join(texts) or 'some occur more than once'}"


def _around(one: str, other: str) -> tuple[str, str]:
    """Return both texts from shortly before their first difference."""
    pairs = enumerate(zip(one, other, strict=False))
    index = next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))
    start = max(0, index - _AROUND)
    return _quoted(one, start), _quoted(other, start)


def _quoted(text: str, start: int = 0) -> str:
    end = start + 3 * _AROUND
    piece = " ".join(text[start:end].split())
    return f'"{"…" if start else ""}{piece}{"…" if end < len(text) else ""}"'


# Time that a recorded aborted exchange waits to be aborted again.
ABORT_SECONDS = 30.0


class Replayer(Transport):
    """Answers each request with a recorded response.

    `speed` 0 is as fast as possible, 1 the original speed, 2 twice as fast. With `strict`, a
    request that differs from the recorded one fails.
    """

    plays_back = True

    def __init__(
        self, recording: Recording, warn: Warn, *, strict: bool = False, speed: float = 0
    ) -> None:
        super().__init__({})
        self._path = recording.path
        self._left = [
            (shape_of(one.request.method, one.request.url, one.request.body), one)
            for one in recording.exchanges
        ]
        self._ids = {model.id for model in recording.models}
        self._models = {shape.model for shape, _ in self._left}
        self._warn = warn
        self._strict = strict
        self._speed = speed
        self._warned: set[str] = set()

    @asynccontextmanager
    async def model_exchange(self, sent: HttpRequest) -> AsyncIterator[Raw]:
        exchange = self._take(shape_of(sent.method, sent.url, json_value(sent.body)))
        pace = ReplayClock(self._speed)
        answer = exchange.answer
        if answer is None:
            await pace.until(exchange.end_ms)
            await _end(exchange)
        await pace.until(answer.ms)
        yield Replayed(exchange, pace)

    def exchange(self, sent: HttpRequest) -> NoReturn:
        """Refuse requests to other servers.

        Raises:
            ProviderError: always, because only model traffic is recorded.
        """
        raise self._error(f"no connection is made to {harmless_url(sent.url)}")

    def _take(self, asked: Shape) -> Exchange:
        """Take the best unused exchange: equal messages, else equal question, else the next."""
        candidates = [pair for pair in self._left if self._fits(pair[0], asked)]
        if not candidates:
            raise self._error(f"no recorded exchange is left for {asked}")
        shape, exchange = min(candidates, key=lambda pair: _rank(pair[0], asked))
        other = difference(shape, asked)
        if other is not None:
            text = f"a request differs from recorded exchange {exchange.number}: {other}"
            if self._strict:
                raise self._error(text)
            # Once for each difference: all further requests of a run repeat it.
            if other not in self._warned:
                self._warned.add(other)
                self._warn(f"Warning: replay of {self._path}: {text}")
        self._left.remove((shape, exchange))
        return exchange

    def _fits(self, recorded: Shape, asked: Shape) -> bool:
        """Return whether an exchange has the same endpoint and model.

        A replay does not know the deployment name, which is part of the recorded request.
        """
        if recorded.endpoint != asked.endpoint:
            return False
        renamed = asked.model in self._ids - self._models and recorded.model not in self._ids
        return renamed or recorded.model == asked.model

    def _error(self, text: str) -> ProviderError:
        # The kind prevents retries, whatever the text contains.
        return ProviderError(f"Replay of {self._path}: {text}", kind="bad_request")


def _rank(recorded: Shape, asked: Shape) -> tuple[bool, bool, bool]:
    """Return the sort key of a candidate; smaller is better, and the first of equals wins."""
    return (
        difference(recorded, asked) is not None,
        recorded.messages != asked.messages,
        recorded.path != asked.path,
    )


class ReplayClock:
    """Waits until the recorded time of an event, scaled by the speed."""

    def __init__(self, speed: float) -> None:
        self._speed = speed
        self._began = time.monotonic()

    async def until(self, ms: int) -> None:
        past = time.monotonic() - self._began
        wait = ms / 1000 / self._speed - past if self._speed else 0
        # Yield to other tasks at each read, as the network would.
        await asyncio.sleep(max(0.0, wait))


class Replayed:
    """A recorded response."""

    def __init__(self, exchange: Exchange, pace: ReplayClock) -> None:
        answer = exchange.answer
        assert answer is not None
        self.status = answer.status
        self.headers: Mapping[str, str] = Headers(answer.headers)
        self.content: ResponseBody = _ReplayedBody(exchange, answer.chunks, pace)


class _ReplayedBody:
    def __init__(
        self, exchange: Exchange, chunks: tuple[RecordedData, ...], pace: ReplayClock
    ) -> None:
        self._exchange = exchange
        self._chunks = [chunk for chunk in reversed(chunks) if chunk.raw]
        self._pace = pace
        self._rest = b""

    async def readany(self) -> bytes:
        return await self.read(-1)

    async def read(self, n: int = -1) -> bytes:
        if not self._rest and not await self._next():
            return b""
        end = len(self._rest) if n < 0 else n
        piece, self._rest = self._rest[:end], self._rest[end:]
        return piece

    def at_eof(self) -> bool:
        return not self._rest and not self._chunks and _ends_well(self._exchange)

    async def _next(self) -> bool:
        """Load the next chunk; False at the end of a complete exchange."""
        if self._chunks:
            chunk = self._chunks.pop()
            await self._pace.until(chunk.ms)
            self._rest = chunk.raw
            return True
        await self._pace.until(self._exchange.end_ms)
        if not _ends_well(self._exchange):
            await _end(self._exchange)
        return False


def _ends_well(exchange: Exchange) -> bool:
    return exchange.error is None and exchange.end in ("complete", "left")


async def _end(exchange: Exchange) -> NoReturn:
    """End as the recorded exchange did: raise its error, or wait to be aborted.

    Raises:
        ProviderError: the recorded error, or the run was not aborted in time.
    """
    if exchange.error is not None:
        raise ProviderError(exchange.error.text, kind=exchange.error.kind)
    await asyncio.sleep(ABORT_SECONDS)
    raise ProviderError(
        f"Replay of exchange {exchange.number}: the recorded run was aborted here, this run not",
        kind="bad_request",
    )


class Headers(Mapping[str, str]):
    """Recorded headers, case-insensitive, without those whose value was removed."""

    def __init__(self, recorded: Mapping[str, str]) -> None:
        present = {name: value for name, value in recorded.items() if value != REMOVED}
        self._values = {name.lower(): value for name, value in present.items()}

    def __getitem__(self, name: str) -> str:
        return self._values[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)
