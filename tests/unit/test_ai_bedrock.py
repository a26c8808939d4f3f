"""Answers of Bedrock's ConverseStream, whole and broken, over a real connection."""

import threading
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ludolf.ai.draft import BlockDelta, BlockEnd, BlockStart, Draft
from ludolf.ai.errors import ErrorKind, ProviderError
from ludolf.ai.http.sse import MAX_EVENT_BYTES
from ludolf.ai.http.transport import Transport
from ludolf.ai.messages import AssistantMessage, Text, Thinking, ToolCall
from ludolf.ai.provider import Provider
from ludolf.ai.providers.bedrock.provider import BedrockReader, FrameParser, make
from ludolf.ai.registry import Providers
from ludolf.config.models.catalog import catalog_models
from tests.anthropic_wire import ask
from tests.bedrock_wire import (
    EVENT_STREAM,
    RICH,
    answer,
    call,
    close,
    delta,
    event,
    exception,
    frame,
    model,
    text,
)
from tests.loopback import JSON_BODY, Canned, Loopback

SHORT = answer(text(0, "Hel", "lo"), inputTokens=1, outputTokens=2)


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    transport = Transport({})
    yield make(transport)
    await transport.close()


def said(*chunks: bytes, cut: bool = False) -> Canned:
    return Canned(headers=EVENT_STREAM, chunks=[chunk for chunk in chunks if chunk], cut=cut)


# ---------------------------------------------------------------- whole answers


async def test_text_arrives_as_events_and_as_a_message(provider: Provider) -> None:
    with Loopback(said(SHORT)) as server:
        told = await ask(provider, server, model=model())
    assert told.events == [
        BlockStart("text", 0),
        BlockDelta("text", 0, "Hel", b"Hel"),
        BlockDelta("text", 0, "lo", b"lo"),
        BlockEnd("text", 0, Text(text="Hello")),
    ]
    message = told.message
    assert (message.stop_reason, message.raw_stop_reason) == ("stop", "end_turn")
    assert (message.usage.input, message.usage.output, message.usage.total_tokens) == (1, 2, 3)
    assert message.usage.cache_write_1h is not None
    assert not message.usage.cache_write_1h
    assert server.requests[0].path == (
        "/model/anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse-stream"
    )


async def test_thoughts_text_and_parallel_calls_are_read_with_what_they_cost(
    provider: Provider,
) -> None:
    with Loopback(said(RICH)) as server:
        told = await ask(provider, server, model=model())
    assert told.message.content == (
        Thinking(thinking="hm", thinking_signature="abcd"),
        Thinking(thinking="[Reasoning redacted]", thinking_signature="AAEC", redacted=True),
        Text(text="Héllo 🦆"),
        ToolCall(id="t1", name="read", arguments={"path": "ä"}),
        ToolCall(id="t2", name="ls", arguments={}),
    )
    usage = told.message.usage
    assert (usage.input, usage.output, usage.cache_read, usage.cache_write) == (10, 5, 30, 15)
    assert (usage.total_tokens, usage.cache_write_1h) == (60, 9)
    assert usage.cost.total == pytest.approx((30 + 75 + 9 + 6 * 3.75 + 9 * 6) / 1e6)
    assert told.message.stop_reason == "toolUse"
    assert told.draft is not None
    assert not told.draft.broken


async def test_hidden_thoughts_in_pieces_are_one_payload(provider: Provider) -> None:
    hidden = (delta(0, reasoningContent={"redactedContent": piece}) for piece in ("AAE=", "Ag=="))
    with Loopback(said(answer(*hidden, close(0)))) as server:
        told = await ask(provider, server, model=model())
    (block,) = told.message.content
    assert isinstance(block, Thinking)
    assert block.thinking_signature == "AAEC"


async def test_blocks_may_interleave_and_an_unclosed_one_is_closed(provider: Provider) -> None:
    body = answer(
        delta(0, text="a"),
        delta(1, reasoningContent={"text": "b"}),
        delta(0, text="c"),
        close(0),
    )
    with Loopback(said(body)) as server:
        told = await ask(provider, server, model=model())
    assert [block for block in told.message.content if isinstance(block, Text)] == [Text(text="ac")]
    assert isinstance(told.events[-1], BlockEnd)


async def test_a_call_cut_in_its_arguments_is_marked_broken(provider: Provider) -> None:
    body = answer(call(0, "t1", "bash", '{"command":"rm -r'), stop="max_tokens")
    with Loopback(said(body)) as server:
        told = await ask(provider, server, model=model())
    assert told.draft is not None
    assert (told.draft.broken, told.message.stop_reason) == ({"t1"}, "length")


async def test_unknown_events_and_pieces_are_passed_over(provider: Provider) -> None:
    body = answer(
        event("futureEvent", a=1),
        delta(0, image={"x": 1}),
        delta(7, toolUse={"input": "{}"}),
        close(9),
        delta(0, text=""),
        delta(0, text="a\ud800"),
    )
    with Loopback(said(body)) as server:
        told = await ask(provider, server, model=model())
    assert told.message.error_message is None
    assert len(told.message.content) == 1


@given(st.lists(st.integers(1, len(RICH) - 1), unique=True, max_size=30).map(sorted))
def test_a_stream_may_be_split_anywhere(cuts: list[int]) -> None:
    pieces = [RICH[a:b] for a, b in zip([0, *cuts], [*cuts, len(RICH)], strict=True)]
    assert _read(pieces).content == _read([RICH]).content


def _read(pieces: list[bytes]) -> AssistantMessage:
    draft = Draft(model())
    draft.timestamp = 1
    parser, reading = FrameParser(), BedrockReader(draft)
    for piece in pieces:
        list(reading.take(parser.feed(piece)))
    list(parser.close())
    list(reading.finish())
    assert reading.done
    return draft.finish()


# ---------------------------------------------------------------- odd ends


@pytest.mark.parametrize(
    ("reason", "stop", "kind"),
    [
        ("stop_sequence", "stop", None),
        ("model_context_window_exceeded", "length", None),
        ("guardrail_intervened", "error", "refused"),
        ("content_filtered", "error", "refused"),
        ("malformed_tool_use", "error", "bad_request"),
    ],
)
async def test_reasons_to_stop_are_told_apart(
    provider: Provider, reason: str, stop: str, kind: ErrorKind | None
) -> None:
    with Loopback(said(answer(text(0, "a"), stop=reason))) as server:
        told = await ask(provider, server, model=model())
    assert told.answer is not None
    assert (told.message.stop_reason, told.answer.kind) == (stop, kind)
    assert told.message.raw_stop_reason == reason
    assert told.message.usage.output == 5
    if stop == "error":
        assert told.message.error_message == f"Provider stopped with: {reason}"


@pytest.mark.parametrize(
    ("name", "message", "expected", "kind"),
    [
        ("throttlingException", "Too fast", "Throttling error: Too fast", "rate_limit"),
        ("modelStreamErrorException", "broke", "Model stream error: broke", "overloaded"),
        ("internalServerException", "oops", "Internal server error: oops", "overloaded"),
        ("serviceUnavailableException", "later", "Service unavailable: later", "overloaded"),
        (
            "validationException",
            "Input is too long for requested model.",
            "Validation error: Input is too long for requested model.",
            "overflow",
        ),
        ("newException", "w", "NewException: w", "bad_request"),
    ],
)
async def test_an_exception_in_the_stream_keeps_what_came_before_it(
    provider: Provider, name: str, message: str, expected: str, kind: ErrorKind
) -> None:
    with Loopback(said(delta(0, text="a") + exception(name, message=message))) as server:
        told = await ask(provider, server, model=model())
    assert told.answer is not None
    assert (told.message.error_message, told.answer.kind) == (expected, kind)
    assert told.message.content == (Text(text="a"),)


async def test_an_error_frame_without_a_payload_is_reported(provider: Provider) -> None:
    headers = {
        ":message-type": "error",
        ":error-code": "InternalFailure",
        ":error-message": "gone",
    }
    with Loopback(said(frame(headers, b""))) as server:
        told = await ask(provider, server, model=model())
    assert told.message.error_message == "InternalFailure: gone"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", "ended without a stop reason"),
        (delta(0, text="a"), "ended without a stop reason"),
        (SHORT[:-3], "ended before the end of an event"),
        (SHORT[:40], "ended before the end of an event"),
        (SHORT[:-1] + b"\0", "its checksum is wrong"),
        (b"hello, this is no event stream", "the checksum of its head is wrong"),
        (frame({":message-type": "event", ":event-type": "messageStop"}, b"{no"), "{no"),
    ],
)
async def test_a_cut_or_spoilt_stream_may_be_asked_for_again(
    provider: Provider, body: bytes, expected: str
) -> None:
    with Loopback(said(body)) as server:
        told = await ask(provider, server, model=model())
    assert told.answer is not None
    assert told.answer.kind == ("network" if "ended" in expected else "garbled")
    assert expected in (told.message.error_message or "")


async def test_a_broken_connection_may_be_asked_for_again(provider: Provider) -> None:
    with Loopback(said(delta(0, text="a"), cut=True)) as server:
        told = await ask(provider, server, model=model())
    assert told.answer is not None
    assert (told.answer.kind, told.message.content) == ("network", (Text(text="a"),))


def test_a_frame_that_claims_too_much_is_refused() -> None:
    huge = frame({":message-type": "event"}, b"x" * (MAX_EVENT_BYTES + 1))
    with pytest.raises(ProviderError, match="it claims"):
        list(FrameParser().feed(huge[:64]))


async def test_the_answer_ends_with_its_counts_though_the_connection_stays(
    provider: Provider,
) -> None:
    hold = threading.Event()
    with Loopback(Canned(headers=EVENT_STREAM, chunks=[SHORT], hold=hold)) as server:
        told = await ask(provider, server, model=model())
        hold.set()
    assert told.message.stop_reason == "stop"


# ---------------------------------------------------------------- refused requests


@pytest.mark.parametrize(
    ("status", "code", "body", "expected", "kind"),
    [
        (
            400,
            "ValidationException:http://internal",
            '{"message":"bad"}',
            "Validation error: bad",
            "bad_request",
        ),
        (429, "ThrottlingException", '{"message":"slow"}', "Throttling error: slow", "rate_limit"),
        (403, "AccessDeniedException", '{"Message":"no"}', "AccessDeniedException: no", "auth"),
        (
            429,
            "ModelNotReadyException",
            '{"message":"w"}',
            "ModelNotReadyException: w",
            "overloaded",
        ),
        (
            400,
            "",
            '{"__type":"com.x#ValidationException","message":"m"}',
            "Validation error: m",
            "",
        ),
        (500, "", '{"message":"nope"}', "500 nope", "overloaded"),
        (502, "", "<html>oops</html>", "502 <html>oops</html>", "overloaded"),
        (400, "", "", "400 status code (no body)", "overflow"),
    ],
)
async def test_a_refused_request_is_told_by_its_code(
    provider: Provider, status: int, code: str, body: str, expected: str, kind: str
) -> None:
    headers = {**JSON_BODY, **({"x-amzn-errortype": code} if code else {})}
    chunks = [body.encode()] if body else []
    with Loopback(Canned(status=status, headers=headers, chunks=chunks)) as server:
        told = await ask(provider, server, model=model())
    assert told.answer is not None
    assert told.message.error_message == expected
    assert told.answer.kind == (kind or "bad_request")


async def test_a_failure_carries_what_the_support_of_aws_asks_for(provider: Provider) -> None:
    headers = {**JSON_BODY, "x-amzn-errortype": "ThrottlingException", "x-amzn-requestid": "r7"}
    reply = Canned(
        status=429, headers={**headers, "retry-after": "9"}, chunks=[b'{"message":"slow"}']
    )
    with Loopback(reply) as server:
        told = await ask(provider, server, model=model())
    (noted,) = told.message.diagnostics
    assert noted.type == "bedrock_response_failure"
    assert noted.details == {
        "status": 429,
        "errorCode": "ThrottlingException",
        "requestId": "r7",
    }
    assert told.answer is not None
    assert told.answer.retry_after == 9


async def test_a_page_instead_of_a_stream_says_to_check_the_address(provider: Provider) -> None:
    page = Canned(headers={"content-type": "text/html"}, chunks=[b"<html>login</html>"])
    with Loopback(page) as server:
        told = await ask(provider, server, model=model())
    assert "Check the base URL" in (told.message.error_message or "")


# ---------------------------------------------------------------- the catalog


async def test_a_model_of_the_catalog_runs_through_the_registry() -> None:
    transport = Transport({})
    chosen = next(
        entry
        for entry in catalog_models("amazon-bedrock")
        if entry.id == "us.anthropic.claude-opus-4-6-v1"
    )
    assert chosen.base_url == "https://bedrock-runtime.us-east-1.amazonaws.com"
    with Loopback(said(SHORT)) as server:
        told = await ask(Providers(transport).get(chosen.api), server, model=chosen)
    await transport.close()
    assert told.message.content == (Text(text="Hello"),)
    assert {entry.api for entry in catalog_models("amazon-bedrock")} == {"bedrock-converse-stream"}
