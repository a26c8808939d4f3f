"""Answers of the Anthropic Messages API, whole and broken, over a real connection."""

import json
import threading
from collections.abc import AsyncIterator
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ludolf.ai.access import Access
from ludolf.ai.draft import BlockDelta, BlockEnd, BlockStart, Draft, StreamEvent
from ludolf.ai.http.sse import SseParser
from ludolf.ai.http.transport import Transport
from ludolf.ai.messages import Text, Thinking, ToolCall
from ludolf.ai.provider import Provider
from ludolf.ai.providers.anthropic.provider import AnthropicReader, make
from tests.anthropic_wire import (
    PING,
    STOP,
    ask,
    begin,
    close_block,
    delta,
    ending,
    model,
    open_block,
    sse,
    text_answer,
)
from tests.loopback import JSON_BODY, Canned, Loopback


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    transport = Transport({})
    yield make(transport)
    await transport.close()


async def test_text_arrives_as_events_and_as_a_message(provider: Provider) -> None:
    with Loopback(Canned(chunks=[sse(*text_answer("Hel", "lo"))])) as server:
        told = await ask(provider, server)
    assert told.events == [
        BlockStart("text", 0),
        BlockDelta("text", 0, "Hel", b"Hel"),
        BlockDelta("text", 0, "lo", b"lo"),
        BlockEnd("text", 0, Text(text="Hello")),
    ]
    message = told.message
    assert message.content == (Text(text="Hello"),)
    assert (message.stop_reason, message.raw_stop_reason) == ("stop", "end_turn")
    assert (message.response_id, message.response_model) == ("msg_1", None)
    assert message.error_message is None


async def test_thinking_keeps_its_signature_and_hidden_thinking_its_payload(
    provider: Provider,
) -> None:
    events = [
        begin(),
        open_block(0, type="thinking", thinking="", signature=""),
        delta(0, "thinking", thinking="hm"),
        delta(0, "signature", signature="ab"),
        delta(0, "signature", signature="cd"),
        close_block(0),
        open_block(1, type="redacted_thinking", data="secret"),
        close_block(1),
        ending(),
        STOP,
    ]
    with Loopback(Canned(chunks=[sse(*events)])) as server:
        told = await ask(provider, server)
    hidden = Thinking(thinking="[Reasoning redacted]", thinking_signature="secret", redacted=True)
    assert told.message.content == (Thinking(thinking="hm", thinking_signature="abcd"), hidden)
    assert [type(event).__name__ for event in told.events] == [
        *("BlockStart", "BlockDelta", "BlockEnd"),
        *("BlockStart", "BlockEnd"),
    ]


async def test_tool_calls_get_their_arguments_from_deltas(provider: Provider) -> None:
    events = [
        begin(),
        open_block(0, type="tool_use", id="c1", name="bash", input={}),
        delta(0, "input_json", partial_json=""),
        delta(0, "input_json", partial_json='{"command":'),
        delta(0, "input_json", partial_json='"ls"}'),
        close_block(0),
        open_block(1, type="tool_use", id="c2", name="read", input={"path": "a"}),
        close_block(1),
        ending("tool_use"),
        STOP,
    ]
    with Loopback(Canned(chunks=[sse(*events)])) as server:
        told = await ask(provider, server)
    assert told.message.tool_calls == (
        ToolCall(id="c1", name="bash", arguments={"command": "ls"}),
        ToolCall(id="c2", name="read", arguments={"path": "a"}),
    )
    assert told.message.stop_reason == "toolUse"
    assert told.draft is not None
    assert told.draft.broken == set()


async def test_a_call_cut_in_its_arguments_is_marked_broken(provider: Provider) -> None:
    events = [
        begin(),
        open_block(0, type="tool_use", id="c1", name="bash", input={}),
        delta(0, "input_json", partial_json='{"command":"rm -rf /tmp/bui'),
        close_block(0),
        ending("max_tokens"),
        STOP,
    ]
    with Loopback(Canned(chunks=[sse(*events)])) as server:
        told = await ask(provider, server)
    assert told.draft is not None
    assert (told.draft.broken, told.message.stop_reason) == ({"c1"}, "length")


async def test_counts_are_kept_unless_they_are_told_anew(provider: Provider) -> None:
    first = begin(
        cache_read_input_tokens=50,
        cache_creation_input_tokens=10,
        cache_creation={"ephemeral_5m_input_tokens": 6, "ephemeral_1h_input_tokens": 4},
    )
    last = ending(input_tokens=None, output_tokens_details={"thinking_tokens": 5})
    with Loopback(Canned(chunks=[sse(first, last, STOP)])) as server:
        usage = (await ask(provider, server)).message.usage
    assert (usage.input, usage.output, usage.cache_read, usage.cache_write) == (100, 20, 50, 10)
    assert (usage.total_tokens, usage.cache_write_1h, usage.reasoning) == (180, 4, 5)
    assert usage.cost.total == pytest.approx((300 + 300 + 15 + 22.5 + 24) / 1e6)


async def test_counts_without_a_split_say_that_no_hour_was_written(provider: Provider) -> None:
    with Loopback(Canned(chunks=[sse(*text_answer("a"))])) as server:
        usage = (await ask(provider, server)).message.usage
    assert usage.cache_write_1h == 0
    assert not usage.reasoning


async def test_unknown_events_blocks_and_deltas_are_passed_over(provider: Provider) -> None:
    events = [
        PING,
        begin(),
        {"type": "news", "what": [1]},
        open_block(0, type="server_tool_use", id="s", name="search", input={}),
        delta(0, "input_json", partial_json="{}"),
        close_block(0),
        open_block(1, type="text", text=""),
        delta(1, "citations", citation={}),
        delta(1, "text", text="ok"),
        delta(1, "input_json", partial_json="{"),
        close_block(1),
        delta(1, "text", text="too late"),
        ending(),
        STOP,
    ]
    with Loopback(Canned(chunks=[sse(*events)])) as server:
        told = await ask(provider, server)
    assert told.message.content == (Text(text="ok"),)
    assert told.message.stop_reason == "stop"


async def test_surrogates_and_raw_bytes_in_an_answer_are_taken(provider: Provider) -> None:
    inner = b'{"type":"text_delta","text":"%b"}'
    odd = b'data: {"type":"content_block_delta","index":0,"delta":' + inner + b"}\n\n"
    chunks = [
        sse(begin(), open_block(0, type="text", text="")),
        odd % rb"\ud83d",
        odd % rb"\ude00",
        odd % b"\xff",
        sse(close_block(0), ending(), STOP),
    ]
    with Loopback(Canned(chunks=chunks)) as server:
        told = await ask(provider, server)
    assert told.message.content == (Text(text="😀\ufffd"),)


async def test_the_concrete_model_is_named_when_it_differs(provider: Provider) -> None:
    events = text_answer("a")
    events[0]["message"]["model"] = "claude-20990101"
    with Loopback(Canned(chunks=[sse(*events)])) as server:
        told = await ask(provider, server)
    assert told.message.response_model == "claude-20990101"


@settings(deadline=None)
@given(st.lists(st.integers(0, 99_999), max_size=20))
def test_any_cut_of_the_stream_gives_the_same_answer(places: list[int]) -> None:
    raw = sse(*text_answer("Hel", "lo\n", "wörld"))
    edges = sorted({0, len(raw), *(place % len(raw) for place in places)})
    draft, parser = Draft(model()), SseParser()
    reading = AnthropicReader(draft)
    told: list[StreamEvent] = []
    for start, end in pairwise(edges):
        told += reading.take(parser.feed(raw[start:end]))
    list(reading.finish())
    assert draft.finish().content == (Text(text="Hello\nwörld"),)
    assert len(told) == 5


async def test_an_open_connection_after_the_last_event_does_not_hold_up_the_answer(
    provider: Provider,
) -> None:
    leave = threading.Event()
    with Loopback(Canned(chunks=[sse(*text_answer("a"))], hold=leave)) as server:
        told = await ask(provider, server)
        assert not leave.is_set()
        leave.set()
    assert told.message.stop_reason == "stop"


# ---------------------------------------------------------------- failures


@pytest.mark.parametrize(
    ("reason", "text", "kind"),
    [
        ("refusal", "The model refused to complete the request", "refused"),
        ("sensitive", "Unhandled stop reason: sensitive", "bad_request"),
        (
            "model_context_window_exceeded",
            "Unhandled stop reason: model_context_window_exceeded",
            "overflow",
        ),
        (None, "Anthropic stream ended without a stop reason", "network"),
    ],
)
async def test_an_end_that_is_no_answer_is_an_error_with_the_partial_text(
    provider: Provider, reason: str | None, text: str, kind: str
) -> None:
    events = [*text_answer("I cannot")[:-2], ending(reason), STOP]
    with Loopback(Canned(chunks=[sse(*events)])) as server:
        told = await ask(provider, server)
    assert told.answer is not None
    assert (told.message.stop_reason, told.message.error_message) == ("error", text)
    assert (told.answer.kind, told.message.raw_stop_reason) == (kind, reason)
    assert told.message.content == (Text(text="I cannot"),)
    assert told.message.usage.output == 20


async def test_a_refusal_may_be_explained(provider: Provider) -> None:
    last = ending("refusal")
    last["delta"]["stop_details"] = {"type": "refusal", "explanation": "Not this."}
    with Loopback(Canned(chunks=[sse(begin(), last, STOP)])) as server:
        told = await ask(provider, server)
    assert told.message.error_message == "Not this."


async def test_an_error_event_fails_with_its_own_words(provider: Provider) -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    with Loopback(Canned(chunks=[sse(*text_answer("half")[:3], error)])) as server:
        told = await ask(provider, server)
    assert told.answer is not None
    assert (told.message.error_message, told.answer.kind) == (json.dumps(error), "overloaded")
    assert told.message.content == (Text(text="half"),)


@pytest.mark.parametrize("tail", [b"", b'data: {"type": "content_block_delta", oops\n\n'])
async def test_a_stream_that_ends_early_is_an_error(provider: Provider, tail: bytes) -> None:
    with Loopback(Canned(chunks=[sse(*text_answer("half")[:3]), tail][: 1 + bool(tail)])) as server:
        told = await ask(provider, server)
    assert told.answer is not None
    assert told.message.error_message == "Anthropic stream ended before message_stop"
    assert told.answer.kind == "network"
    assert told.message.content == (Text(text="half"),)


@pytest.mark.parametrize(
    "garbage", [b"data: {oops\n\n", sse({"type": "content_block_delta", "index": "x"})]
)
async def test_half_an_answer_never_passes_for_a_whole_one(
    provider: Provider, garbage: bytes
) -> None:
    events = text_answer("one", "two")
    chunks = [sse(*events[:3]), garbage, sse(*events[3:])]
    with Loopback(Canned(chunks=chunks)) as server:
        told = await ask(provider, server)
    assert told.message.error_message is not None
    assert told.message.error_message.startswith("Malformed event in the answer: {")
    assert told.message.content == (Text(text="one"),)
    assert told.answer is not None
    assert told.answer.kind == "garbled"


async def test_a_broken_connection_is_a_network_error_with_the_partial_text(
    provider: Provider,
) -> None:
    with Loopback(Canned(chunks=[sse(*text_answer("half")[:3])], cut=True)) as server:
        told = await ask(provider, server)
    assert told.answer is not None
    assert (told.answer.kind, told.message.stop_reason) == ("network", "error")
    assert told.message.content == (Text(text="half"),)


@pytest.mark.parametrize(
    ("status", "body", "text", "kind"),
    [
        (
            401,
            b'{"type": "error", "error": {"message": "invalid x-api-key"}}',
            '401 {"type":"error","error":{"message":"invalid x-api-key"}}',
            "auth",
        ),
        (502, b"<html><body>Bad Gateway</body></html>\n", None, "overloaded"),
        (500, b"", "500 status code (no body)", "overloaded"),
        (400, b'{"message": "prompt is too long: 9 tokens > 8 maximum"}', None, "overflow"),
    ],
)
async def test_an_http_failure_is_told_as_status_and_body(
    provider: Provider, status: int, body: bytes, text: str | None, kind: str
) -> None:
    reply = Canned(status=status, headers=JSON_BODY, chunks=[body] if body else [])
    with Loopback(reply) as server:
        told = await ask(provider, server)
    assert told.answer is not None
    assert told.answer.kind == kind
    if text is not None:
        assert told.message.error_message == text
    else:
        assert str(told.message.error_message).startswith(f"{status} ")
    assert told.events == []


async def test_the_wait_that_the_server_asks_for_is_handed_on(provider: Provider) -> None:
    reply = Canned(status=429, headers={**JSON_BODY, "retry-after": "3600"}, chunks=[b"{}"])
    with Loopback(reply) as server:
        told = await ask(provider, server)
    assert told.answer is not None
    assert (told.answer.kind, told.answer.retry_after) == ("rate_limit", 3600.0)


async def test_without_a_key_nothing_is_sent(provider: Provider) -> None:
    with Loopback(Canned()) as server:
        told = await ask(provider, server, access=Access(base_url=server.url))
        assert server.requests == []
    assert told.answer is not None
    assert told.message.error_message == "No API key for provider: anthropic"
    assert told.answer.kind == "auth"
