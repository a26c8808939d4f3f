"""A gateway that speaks pi's own messages: what it is sent, and what it answers."""

import json
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ludolf.ai.access import Access
from ludolf.ai.draft import BlockDelta, BlockEnd, BlockStart, Draft
from ludolf.ai.errors import ErrorKind
from ludolf.ai.http.sse import SseParser
from ludolf.ai.http.transport import Transport
from ludolf.ai.messages import (
    AssistantMessage,
    Cost,
    Image,
    Text,
    Thinking,
    ToolCall,
    Usage,
    UserMessage,
)
from ludolf.ai.models import Model
from ludolf.ai.provider import Provider, ToolSpec
from ludolf.ai.providers.pi_messages import PiMessagesReader, make
from ludolf.ai.registry import Providers
from ludolf.ai.sampling import PREFER_STRICT
from tests.anthropic_wire import ask, assistant, result, user
from tests.anthropic_wire import model as claude
from tests.loopback import JSON_BODY, Canned, Loopback

COST = {"input": 0.1, "output": 0.2, "cacheRead": 0, "cacheWrite": 0, "total": 0.3}
USAGE = {
    "input": 3,
    "output": 4,
    "cacheRead": 1,
    "cacheWrite": 2,
    "cacheWrite1h": 1,
    "totalTokens": 10,
    "cost": COST,
}
HIDDEN = "[Reasoning redacted]"


def model(**changes: Any) -> Model:
    fields: dict[str, Any] = {"id": "balanced", "api": "pi-messages", "provider": "gate"}
    return claude(**{**fields, **changes})


def event(kind: str, index: int | None = None, **fields: Any) -> dict[str, Any]:
    place = {} if index is None else {"contentIndex": index}
    return {"type": kind, **place, **fields}


def sse(*events: Any) -> bytes:
    return b"".join(
        b"data: %b\n\n"
        % (event if isinstance(event, bytes) else json.dumps(event, ensure_ascii=False).encode())
        for event in events
    )


DONE = event("done", reason="stop", usage=USAGE, responseId="r1")
TEXT = (
    event("start"),
    event("text_start", 0),
    event("text_delta", 0, delta="Hel"),
    event("text_delta", 0, delta="lo"),
    event("text_end", 0, content="Hello", contentSignature="ts"),
)
CALL = {
    "type": "toolCall",
    "id": "c1",
    "name": "read",
    "arguments": {"path": "ä"},
    "thoughtSignature": "q",
}
RICH = sse(
    event("start"),
    event("thinking_start", 0),
    event("thinking_delta", 0, delta="hm"),
    event("thinking_end", 0, content="hm!", contentSignature="sg"),
    event("thinking_start", 1),
    event("thinking_end", 1, content=HIDDEN, contentSignature="AAEC", redacted=True),
    event("thinking_start", 2),
    event("thinking_delta", 2, delta=HIDDEN),
    event("thinking_end", 2, content=HIDDEN, contentSignature="BBEC", redacted=True),
    event("text_start", 3),
    event("text_delta", 3, delta="Héllo 🦆"),
    event("text_end", 3, content="Héllo 🦆"),
    event("toolcall_start", 4, id="c1", toolName="read"),
    event("toolcall_delta", 4, delta='{"path"'),
    event("toolcall_delta", 4, delta=':"ä"}'),
    event("toolcall_end", 4, toolCall=CALL),
    event("toolcall_start", 5, id="c2", toolName="ls"),
    event("toolcall_end", 5, toolCall={**CALL, "id": "c2", "name": "ls"}),
    event("future", 6),
    event("done", reason="toolUse", usage=USAGE, responseId="r1"),
)


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    transport = Transport({})
    yield make(transport)
    await transport.close()


# ---------------------------------------------------------------- answers


async def test_text_arrives_as_events_and_costs_what_the_gateway_says(provider: Provider) -> None:
    with Loopback(Canned(chunks=[sse(*TEXT, DONE)])) as server:
        told = await ask(provider, server, model=model())
    block = Text(text="Hello", text_signature="ts")
    assert told.events == [
        BlockStart("text", 0),
        BlockDelta("text", 0, "Hel", b"Hel"),
        BlockDelta("text", 0, "lo", b"lo"),
        BlockEnd("text", 0, block),
    ]
    message = told.message
    assert (message.content, message.stop_reason) == ((block,), "stop")
    assert message.response_id == "r1"
    assert message.usage == Usage(
        input=3,
        output=4,
        cache_read=1,
        cache_write=2,
        total_tokens=10,
        cost=Cost(input=0.1, output=0.2, total=0.3),
        cache_write_1h=1,
    )
    assert told.draft is not None
    assert json.loads(told.draft.usage_json)["cost"]["total"] == 0.3
    assert server.requests[0].path == "/messages"
    assert server.requests[0].headers["authorization"] == "Bearer sk-test"


async def test_usage_without_a_cost_is_priced_here(provider: Provider) -> None:
    free = {**DONE, "usage": {**USAGE, "cacheWrite1h": 0, "cost": {**COST, "total": 0}}}
    with Loopback(Canned(chunks=[sse(*TEXT, free)])) as server:
        usage = (await ask(provider, server, model=model())).message.usage
    assert usage.cost.total == pytest.approx((9 + 60 + 0.3 + 7.5) / 1e6)


async def test_thoughts_and_parallel_calls_are_read_with_their_marks(provider: Provider) -> None:
    with Loopback(Canned(chunks=[RICH])) as server:
        told = await ask(provider, server, model=model())
    assert told.message.content == (
        Thinking(thinking="hm!", thinking_signature="sg"),
        Thinking(thinking=HIDDEN, thinking_signature="AAEC", redacted=True),
        Thinking(thinking=HIDDEN, thinking_signature="BBEC", redacted=True),
        Text(text="Héllo 🦆"),
        ToolCall(id="c1", name="read", arguments={"path": "ä"}, thought_signature="q"),
        ToolCall(id="c2", name="ls", arguments={"path": "ä"}, thought_signature="q"),
    )
    assert told.message.stop_reason == "toolUse"
    assert told.draft is not None
    assert not told.draft.broken


async def test_a_thought_that_only_looks_hidden_is_shown(provider: Provider) -> None:
    events = (
        event("thinking_start", 0),
        event("thinking_delta", 0, delta=HIDDEN),
        event("thinking_delta", 0, delta=" no"),
        event("thinking_end", 0),
        event("thinking_start", 1),
        event("text_start", 2),
        event("text_delta", 2, delta="a"),
    )
    with Loopback(Canned(chunks=[sse(*events, DONE)])) as server:
        told = await ask(provider, server, model=model())
    assert told.message.content == (
        Thinking(thinking=f"{HIDDEN} no"),
        Thinking(thinking=""),
        Text(text="a"),
    )


@given(st.lists(st.integers(1, len(RICH) - 1), unique=True, max_size=30).map(sorted))
def test_a_stream_may_be_split_anywhere(cuts: list[int]) -> None:
    pieces = [RICH[a:b] for a, b in pairwise([0, *cuts, len(RICH)])]
    assert _read(pieces).content == _read([RICH]).content


def _read(pieces: list[bytes]) -> AssistantMessage:
    draft = Draft(model())
    parser, reading = SseParser(), PiMessagesReader(draft)
    for piece in pieces:
        list(reading.take(parser.feed(piece)))
    list(reading.finish())
    return draft.finish()


# ---------------------------------------------------------------- failures


@pytest.mark.parametrize(
    ("last", "expected", "kind"),
    [
        (
            event("error", reason="error", usage=USAGE, errorMessage="overloaded"),
            "overloaded",
            "overloaded",
        ),
        (event("error", reason="aborted"), "gate ended with an error", "bad_request"),
        (event("done", reason="odd"), "Provider stopped with: odd", "bad_request"),
        (event("start"), "gate stream ended without a terminal event", "network"),
        (b"{garbage", "An event of the answer cannot be read: {garbage", "garbled"),
    ],
)
async def test_a_failing_answer_keeps_what_came_before(
    provider: Provider, last: Any, expected: str, kind: ErrorKind
) -> None:
    with Loopback(Canned(chunks=[sse(*TEXT, last)])) as server:
        told = await ask(provider, server, model=model())
    assert told.answer is not None
    assert (told.message.error_message, told.answer.kind) == (expected, kind)
    assert told.message.content == (Text(text="Hello", text_signature="ts"),)
    if isinstance(last, dict) and "usage" in last:
        assert told.message.usage.total_tokens == 10


async def test_a_broken_connection_may_be_asked_for_again(provider: Provider) -> None:
    with Loopback(Canned(chunks=[sse(*TEXT)], cut=True)) as server:
        told = await ask(provider, server, model=model())
    assert told.answer is not None
    assert told.answer.kind == "network"


@pytest.mark.parametrize(
    ("status", "body", "expected", "kind"),
    [
        (
            400,
            '{"error":{"message":"bad thing","code":"x"}}',
            "400 Bad Request: bad thing (x)",
            "bad_request",
        ),
        (401, '{"error":"no key"}', '401 Unauthorized: {"error":"no key"}', "auth"),
        (500, "boom", "500 Internal Server Error: boom", "overloaded"),
        (599, "", "599: no body", "bad_request"),
    ],
)
async def test_a_refused_request_is_told_with_its_words(
    provider: Provider, status: int, body: str, expected: str, kind: ErrorKind
) -> None:
    chunks = [body.encode()] if body else []
    with Loopback(Canned(status=status, headers=JSON_BODY, chunks=chunks)) as server:
        told = await ask(provider, server, model=model())
    assert told.answer is not None
    assert (told.message.error_message, told.answer.kind) == (expected, kind)


async def test_without_a_key_nothing_is_sent(provider: Provider) -> None:
    with Loopback(Canned(chunks=[sse(*TEXT, DONE)])) as server:
        told = await ask(provider, server, model=model(), access=Access(base_url=server.url))
    assert told.message.error_message == "No API key for provider: gate"
    assert not server.requests


# ---------------------------------------------------------------- requests


async def test_a_request_holds_messages_as_hosts_know_them(provider: Provider) -> None:
    schema = {"type": "object", "properties": {}}
    tools = (ToolSpec("read", "Reads.", schema), ToolSpec("ls", "Lists.", schema, PREFER_STRICT))
    said = assistant(
        Thinking(thinking="hm", thinking_signature="sg"),
        ToolCall(id="c1", name="read", arguments={"a": 1}, thought_signature="q"),
    ).replace(api="pi-messages", provider="gate", model="balanced")
    picture = Image(data="QUJD", mime_type="image/png")
    told = result("c1", Text(text="one"), picture).replace(details={"secret": 1})
    with Loopback(Canned(chunks=[sse(*TEXT, DONE)])) as server:
        await ask(
            provider,
            server,
            model=model(),
            messages=(UserMessage(content="hi", timestamp=1), said, told),
            tools=tools,
            thinking="medium",
            session_id="s1",
            cache="long",
            max_tokens=99,
        )
    sent = server.requests[0].json
    assert sent["model"] == "balanced"
    assert sent["options"] == {
        "maxTokens": 99,
        "reasoning": "medium",
        "sessionId": "s1",
        "cacheRetention": "long",
    }
    system, first, second, third = sent["context"]["messages"]
    assert (system["role"], system["content"]) == ("system", "Be brief.")
    assert system["toolsAdded"] == [
        {"name": "read", "description": "Reads.", "parameters": schema},
        {
            "name": "ls",
            "description": "Lists.",
            "parameters": schema,
            "constrainedSampling": {"type": "json_schema", "strict": "prefer"},
        },
    ]
    assert first == {"role": "user", "content": "hi", "timestamp": 1}
    assert second["content"] == [
        {"type": "thinking", "thinking": "hm", "thinkingSignature": "sg"},
        {
            "type": "toolCall",
            "id": "c1",
            "name": "read",
            "arguments": {"a": 1},
            "thoughtSignature": "q",
        },
    ]
    assert third == {
        "role": "toolResult",
        "toolCallId": "c1",
        "toolName": "bash",
        "content": [
            {"type": "text", "text": "one"},
            {"type": "image", "data": "QUJD", "mimeType": "image/png"},
        ],
        "isError": False,
        "timestamp": 3,
    }


async def test_the_registry_knows_the_api_and_little_is_said_by_default() -> None:
    transport = Transport({})
    with Loopback(Canned(chunks=[sse(*TEXT, DONE)])) as server:
        provider = Providers(transport).get("pi-messages")
        await ask(provider, server, model=model(), system="", messages=(user(),))
    await transport.close()
    sent = server.requests[0].json
    assert sent["options"] == {}
    assert [message["role"] for message in sent["context"]["messages"]] == ["user"]
