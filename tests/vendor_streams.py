"""The vendors' streams in `tests/fixtures/streams`, and two ways to give them to our providers."""

import asyncio
import os
import re
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import msgspec
from msgspec import structs

from ludolf.ai.access import Access
from ludolf.ai.draft import BlockEnd, Draft, StreamEvent
from ludolf.ai.http.transport import HttpRequest, Raw, Transport
from ludolf.ai.messages import AssistantMessage, Message, Text, UserMessage
from ludolf.ai.models import Model, ModelCost
from ludolf.ai.provider import ModelAnswer, Provider, Request, ToolSpec
from ludolf.ai.providers.anthropic import provider as anthropic
from ludolf.ai.providers.google import provider as google
from ludolf.ai.providers.openai import completions as openai_completions
from ludolf.ai.providers.openai import responses as openai_responses
from ludolf.ai.stream import respond
from ludolf.base import loads
from tests.loopback import JSON_BODY, Asked, Canned, Loopback

STREAMS = Path(__file__).parent / "fixtures" / "streams"
FAMILIES = ("anthropic", "openai-chat", "openai-responses", "google")
_NOWHERE = "http://127.0.0.1:1"
_EVENT_STREAM = {"Content-Type": "text/event-stream"}
CUT = "cut"  # the streams of this name end with a broken connection
READ = ToolSpec("read", "Reads a file.", {"type": "object", "properties": {}})
_MAKERS = {
    "anthropic": anthropic.make,
    "openai-chat": openai_completions.make,
    "openai-responses": openai_responses.make,
    "google": google.make,
}
# id, api, provider, path below the server's address
_MODELS = {
    "anthropic": ("claude-haiku-4-5", "anthropic-messages", "anthropic", ""),
    "openai-chat": ("gpt-5.1", "openai-completions", "openai", "/v1"),
    "openai-responses": ("gpt-5.1", "openai-responses", "openai", "/v1"),
    "google": ("gemini-3.1-pro-preview", "google-generative-ai", "google", "/v1beta"),
}
_MADE_IDS = (
    (re.compile(r"_\d{13}_"), "_<ms>_"),
    (re.compile(r"^call_[0-9a-f]{8}$"), "call_<random>"),
)


# ---------------------------------------------------------------- the files


def names(family: str) -> list[str]:
    return sorted(path.stem for path in (STREAMS / family).glob("*.sse"))


def every() -> list[tuple[str, str]]:
    return [(family, name) for family in FAMILIES for name in names(family)]


def raw(family: str, name: str) -> bytes:
    """A stream as its vendor sends it: Google ends lines with CRLF, the others with LF."""
    data = (STREAMS / family / f"{name}.sse").read_bytes()
    return data.replace(b"\n", b"\r\n") if family == "google" else data


def expected(family: str) -> dict[str, Any]:
    """What our reader must make of each stream: the kind of failure, and the message."""
    found: dict[str, Any] = msgspec.json.decode((STREAMS / family / "expected.json").read_bytes())
    return found


def lines(path: str) -> list[dict[str, Any]]:
    """A table of failures, one JSON object a line."""
    text = (STREAMS / path).read_bytes()
    return [msgspec.json.decode(line) for line in text.splitlines() if line]


# ---------------------------------------------------------------- asking


def model(family: str, **changes: Any) -> Model:
    name, api, provider, path = _MODELS[family]
    plain = Model(
        id=name,
        name=name,
        api=api,
        provider=provider,
        base_url=_NOWHERE + path,
        reasoning=True,
        input=("text", "image"),
        cost=ModelCost(input=3, output=15, cache_read=0.3, cache_write=3.75),
        context_window=200_000,
        max_tokens=32_000,
    )
    return structs.replace(plain, **changes)


def request(family: str, *messages: Message, **changes: Any) -> Request:
    fields: dict[str, Any] = {
        "provider": _MAKERS[family](Transport({})),
        "model": model(family),
        "access": Access(key="sk-test"),
        "system": "Be brief.",
        "messages": messages or (UserMessage(content=(Text(text="Hi"),), timestamp=1),),
        "tools": (READ,),
    }
    return Request(**{"environ": os.environ, **fields, **changes})


class Told(msgspec.Struct):
    """An answer, and the events that told of it."""

    answer: ModelAnswer
    events: list[StreamEvent]
    broken: set[str]

    @property
    def message(self) -> AssistantMessage:
        return self.answer.message


async def listen(asked: Request, check: bool = False) -> Told:
    """Ask and collect; with `check`, what hosts are shown is compared after every event."""
    events: list[StreamEvent] = []
    draft = Draft(asked.model)

    async def take(more: Iterable[StreamEvent]) -> None:
        for event in more:
            events.append(event)
            if check:
                _check_view(draft)

    answer = await respond(asked, draft, take)
    return Told(answer, events, draft.broken)


def _check_view(draft: Draft) -> None:
    shown = loads(b"".join(draft.segments()))
    known = msgspec.to_builtins(draft.snapshot())
    # While a block is open, some of what it will hold is not shown yet: its marks, a namespace.
    assert _texts(shown) == _texts(known)


def _texts(message: Mapping[str, Any]) -> list[Any]:
    keys = ("type", "text", "thinking", "id", "name", "arguments")
    return [[block.get(key) for key in keys] for block in message["content"]]


class Switch(Loopback):
    """A server whose reply to the next request is set before it is asked."""

    def __init__(self) -> None:
        super().__init__(Canned())
        self.reply = Canned()
        handler: Any = self._server.RequestHandlerClass
        # A head and a body in two segments would wait 40 ms for each other.
        handler.disable_nagle_algorithm = True

    def next_reply(self, asked: Asked) -> Canned:
        self.requests.append(asked)
        return self.reply


class Bench:
    """One server and one transport, for many questions over real connections."""

    def __init__(self) -> None:
        self._server = Switch()
        self._runner = asyncio.Runner()
        self._transport = Transport({})

    def __enter__(self) -> Self:
        self._server.__enter__()
        self._runner.__enter__()
        return self

    def __exit__(self, *failure: Any) -> None:
        self._runner.run(self._transport.close())
        self._runner.__exit__(*failure)
        self._server.__exit__(*failure)

    def ask(self, family: str, reply: Canned) -> Told:
        """What our provider makes of a reply."""
        self._server.reply = reply
        access = Access(key="sk-test", base_url=self._server.url + _MODELS[family][3])
        asked = request(family, provider=provider(family, self._transport), access=access)
        return self._runner.run(listen(asked, check=True))


def canned(family: str, name: str) -> Canned:
    return Canned(chunks=[raw(family, name)], cut=name == CUT)


def refusal(row: Mapping[str, Any]) -> Canned:
    """The reply that a row of a table of failures tells of; status 200: inside the stream."""
    body = row["body"]
    data = body.encode() if isinstance(body, str) else msgspec.json.encode(body)
    if row["status"] == 200:
        return Canned(chunks=[b"data: %b\n\n" % data])
    headers = row.get("headers", JSON_BODY)
    return Canned(status=row["status"], headers=headers, chunks=[data] if data else [])


def sent_of(family: str, *messages: Message, **changes: Any) -> Asked:
    """The request that our provider makes for a conversation, as a server sees it."""
    transport = Played()
    asked = request(family, *messages, provider=provider(family, transport), **changes)
    asyncio.run(listen(asked))
    sent = transport.sent[0]
    path = sent.url.removeprefix(_NOWHERE)
    return Asked(path, {name.lower(): value for name, value in sent.headers.items()}, sent.body)


def body_of(family: str, *messages: Message, **changes: Any) -> dict[str, Any]:
    body: dict[str, Any] = sent_of(family, *messages, **changes).json
    return body


def provider(family: str, transport: Transport) -> Provider:
    return _MAKERS[family](transport)


def message_of(family: str, name: str, **changes: Any) -> AssistantMessage:
    """The message that our reader makes of a stream, as a session would store it."""
    return played(family, [raw(family, name)], **changes).message


def played(family: str, chunks: Sequence[bytes], **changes: Any) -> Told:
    """What our provider makes of a body that arrives in exactly these reads."""
    return asyncio.run(
        listen(request(family, provider=provider(family, Played(chunks)), **changes))
    )


# ---------------------------------------------------------------- comparing


def plain(told: Told) -> dict[str, Any]:
    """The outcome as JSON, without what differs each time: the clock, ids that we made up."""
    message = msgspec.to_builtins(told.message)
    del message["timestamp"]
    outcome = {"kind": told.answer.kind, "broken": sorted(told.broken), "message": message}
    stable: dict[str, Any] = _stable(outcome)
    return stable


def ends(told: Told) -> list[Any]:
    """The events with ids that we made up replaced."""
    return [
        _stable(
            msgspec.to_builtins(event if isinstance(event, BlockEnd) else structs.asdict(event))
        )
        for event in told.events
    ]


def _stable(value: Any) -> Any:
    if isinstance(value, str):
        for pattern, name in _MADE_IDS:
            value = pattern.sub(name, value)
        return value
    if isinstance(value, dict):
        return {key: _stable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_stable(item) for item in value]
    return value


# ---------------------------------------------------------------- a server without a socket


class Played(Transport):
    """A transport whose server is a list of byte strings: each is what one read brings."""

    def __init__(self, chunks: Sequence[bytes] = ()) -> None:
        super().__init__(os.environ)
        self.sent: list[HttpRequest] = []
        self._chunks = chunks

    @asynccontextmanager
    async def exchange(self, sent: HttpRequest) -> AsyncIterator[Raw]:
        self.sent.append(sent)
        yield _Answer(_Body(self._chunks))


class _Body:
    def __init__(self, chunks: Sequence[bytes]) -> None:
        self._chunks = [chunk for chunk in chunks if chunk]

    async def readany(self) -> bytes:
        return self._chunks.pop(0) if self._chunks else b""

    async def read(self, n: int = -1) -> bytes:
        return await self.readany()

    def at_eof(self) -> bool:
        return not self._chunks


class _Answer(msgspec.Struct, frozen=True):
    content: _Body
    status: int = 200
    headers: Mapping[str, str] = msgspec.field(default_factory=_EVENT_STREAM.copy)
