"""Responses: what is made of the answer, what becomes of failures."""

from typing import Any

import msgspec
import pytest

from ludolf.ai.access import Access
from ludolf.ai.draft import BlockDelta, BlockEnd, BlockStart, Draft, StreamEvent
from ludolf.ai.errors import ProviderError
from ludolf.ai.http.sse import SseParser
from ludolf.ai.messages import AssistantMessage, Text, Thinking, ToolCall
from ludolf.ai.models import Model
from ludolf.ai.providers.openai.responses import ResponsesReader, make
from tests.loopback import JSON_BODY, Canned
from tests.openai_asking import ask, encoded, model, request, sse

OURS = {"api": "openai-responses"}
REASONING = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "Let me see."}],
    "encrypted_content": "c2ln",
}
SPOKEN = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "Yes."}],
}
CALL = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "call_1",
    "name": "read",
    "arguments": '{"path":"a"}',
}
USAGE = {
    "input_tokens": 1300,
    "input_tokens_details": {"cached_tokens": 1000},
    "output_tokens": 50,
    "output_tokens_details": {"reasoning_tokens": 20},
    "total_tokens": 1350,
}


def event(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}", "sequence_number": 0, **more}


def added(place: int, kind: str, **more: Any) -> dict[str, Any]:
    return event("output_item.added", output_index=place, item={"type": kind, **more})


def done(place: int, item: dict[str, Any]) -> dict[str, Any]:
    return event("output_item.done", output_index=place, item=item)


def delta(place: int, kind: str, text: str) -> dict[str, Any]:
    return event(f"{kind}.delta", output_index=place, delta=text)


def completed(**more: Any) -> dict[str, Any]:
    response = {"id": "resp_1", "model": "mock-model", "status": "completed", **more}
    return event("completed", response=response)


def whole_answer() -> list[dict[str, Any]]:
    return [
        event("created", response={"id": "resp_1", "status": "in_progress"}),
        added(0, "reasoning", id="rs_1"),
        delta(0, "reasoning_summary_text", "Let me see."),
        event("reasoning_summary_part.done", output_index=0, summary_index=0),
        done(0, REASONING),
        added(1, "message", id="msg_1"),
        delta(1, "output_text", "Yes"),
        delta(1, "output_text", "."),
        done(1, SPOKEN),
        completed(usage=USAGE),
    ]


def read(*events: Any, of: Model | None = None) -> tuple[list[StreamEvent], AssistantMessage]:
    """What the reader makes of events, without a server."""
    draft = Draft(of or model(**OURS))
    reader = ResponsesReader(draft)
    told = list(reader.take(iter(encoded(*events))))
    told += reader.finish()
    return told, draft.finish()


# ---------------------------------------------------------------- the answer


def test_an_answer_streams_thinking_then_text_as_pi_tells_it() -> None:
    body = sse(*whole_answer())
    server, answer, told = ask(
        make, request(model=model(**OURS)), Canned(chunks=[body[:99], body[99:500], body[500:]])
    )
    signature = msgspec.json.encode(REASONING).decode()
    thinking = Thinking(thinking="Let me see.", thinking_signature=signature)
    text = Text(text="Yes.", text_signature='{"v":1,"id":"msg_1"}')
    assert told == [
        BlockStart("thinking", 0),
        BlockDelta("thinking", 0, "Let me see.", b"Let me see."),
        BlockDelta("thinking", 0, "\n\n", b"\\n\\n"),
        BlockEnd("thinking", 0, thinking),
        BlockStart("text", 1),
        BlockDelta("text", 1, "Yes", b"Yes"),
        BlockDelta("text", 1, ".", b"."),
        BlockEnd("text", 1, text),
    ]
    message = answer.message
    assert message.content == (thinking, text)
    assert (message.stop_reason, message.raw_stop_reason) == ("stop", "completed")
    assert message.response_id == "resp_1"
    usage = message.usage
    assert (usage.input, usage.cache_read, usage.output, usage.reasoning) == (300, 1000, 50, 20)
    assert usage.total_tokens == 1350
    sent = server.requests[0]
    assert (sent.path, sent.headers["authorization"]) == ("/v1/responses", "Bearer secret")


def test_an_answer_is_the_same_however_it_is_cut() -> None:
    body = b"".join(b"event: x\r\ndata: %b\r\n\r\n" % data for data in encoded(*whole_answer()))
    expected = read(*whole_answer())[1].content
    for size in (1, 7, 64):
        draft = Draft(model(**OURS))
        reader, parser = ResponsesReader(draft), SseParser()
        for start in range(0, len(body), size):
            list(reader.take(parser.feed(body[start : start + size])))
        assert draft.finish().content == expected


def test_an_open_block_shows_no_signature_and_the_draft_does_not_run_ahead() -> None:
    draft = Draft(model(**OURS))
    reader = ResponsesReader(draft)
    data = iter(encoded(*whole_answer()))
    seen = [msgspec.json.decode(b"".join(draft.segments())) for _ in reader.take(data)]
    assert seen[1]["content"] == [{"type": "thinking", "thinking": "Let me see."}]
    assert seen[3]["content"][0]["thinkingSignature"] == msgspec.json.encode(REASONING).decode()
    assert seen[5]["content"][1] == {"type": "text", "text": "Yes"}


def test_a_tool_call_has_both_ids_and_gets_only_the_missing_tail_at_the_end() -> None:
    told, message = read(
        added(0, "function_call", id="fc_1", call_id="call_1", name="read", arguments=""),
        delta(0, "function_call_arguments", '{"path":'),
        event("function_call_arguments.done", output_index=0, arguments='{"path":"a"}'),
        done(0, CALL),
        completed(),
    )
    call = ToolCall(id="call_1|fc_1", name="read", arguments={"path": "a"})
    assert told == [
        BlockStart("toolcall", 0, "call_1|fc_1", "read"),
        BlockDelta("toolcall", 0, '{"path":', b'{\\"path\\":'),
        BlockDelta("toolcall", 0, '"a"}', b'\\"a\\"}'),
        BlockEnd("toolcall", 0, call),
    ]
    assert (message.stop_reason, message.content) == ("toolUse", (call,))


def test_items_that_arrive_interleaved_are_kept_apart() -> None:
    _, message = read(
        added(0, "message", id="msg_1"),
        added(1, "message", id="msg_2"),
        delta(1, "output_text", "second"),
        delta(0, "output_text", "first"),
        done(1, {"type": "message", "id": "msg_2", "phase": "final_answer"}),
        done(0, {"type": "message", "id": "msg_1"}),
        completed(),
    )
    assert message.content == (
        Text(text="first", text_signature='{"v":1,"id":"msg_1"}'),
        Text(text="second", text_signature='{"v":1,"id":"msg_2","phase":"final_answer"}'),
    )


def test_items_that_were_never_announced_are_told_whole() -> None:
    told, message = read(done(0, SPOKEN), done(1, CALL), completed())
    assert [type(item) for item in told] == [BlockStart, BlockDelta, BlockEnd] * 2
    assert message.content == (
        Text(text="Yes.", text_signature='{"v":1,"id":"msg_1"}'),
        ToolCall(id="call_1|fc_1", name="read", arguments={"path": "a"}),
    )


def test_a_refusal_is_text() -> None:
    refusal = {"type": "message", "id": "m", "content": [{"type": "refusal", "refusal": "No."}]}
    _, message = read(
        added(0, "message"), delta(0, "refusal", "No."), done(0, refusal), completed()
    )
    assert message.content == (Text(text="No.", text_signature='{"v":1,"id":"m"}'),)


def test_encrypted_reasoning_that_comes_late_is_filled_in() -> None:
    bare = {"type": "reasoning", "id": "rs_1", "summary": []}
    _, message = read(added(0, "reasoning"), done(0, bare), completed(output=[REASONING]))
    block = message.content[0]
    assert isinstance(block, Thinking)
    assert msgspec.json.decode(block.thinking_signature or "") == {
        **bare,
        "encrypted_content": "c2ln",
    }


@pytest.mark.parametrize(
    ("tier", "model_id", "factor"),
    [
        ("default", "gpt-5", 1),
        ("flex", "gpt-5", 0.5),
        ("priority", "gpt-5", 2),
        ("priority", "gpt-5.5", 2.5),
    ],
)
def test_service_tiers_change_the_cost(tier: str, model_id: str, factor: float) -> None:
    usage = {"input_tokens": 1_000_000, "output_tokens": 0}
    _, message = read(completed(usage=usage, service_tier=tier), of=model(id=model_id, **OURS))
    assert message.usage.cost.total == 2 * factor
    assert message.usage.total_tokens == 1_000_000


def test_odd_events_are_tolerated() -> None:
    _, message = read(
        b'{"type":"response.novel","item":7,"response":[]}',
        added(0, "message", id=5),
        added(1, "web_search_call", id="ws_1"),
        b'{"type":"response.output_text.delta","output_index":0,"delta":"a","code":3}',
        b'{"type":"response.output_text.delta","output_index":0,"delta":"\\ud83d\xff"}',
        delta(1, "output_text", "lost"),
        b"3",
        b"[DONE]",
        completed(usage={"input_tokens": "many", "output_tokens": 2}),
    )
    assert message.content == (Text(text="a\ud83d�"),)
    assert message.usage.output == 2


# ---------------------------------------------------------------- failures


def test_an_answer_that_is_cut_by_its_length_is_kept() -> None:
    incomplete = event(
        "incomplete",
        response={"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
    )
    told, message = read(added(0, "message"), delta(0, "output_text", "Ha"), incomplete)
    assert (message.stop_reason, message.raw_stop_reason) == (
        "length",
        "incomplete.max_output_tokens",
    )
    assert told[-1] == BlockEnd("text", 0, Text(text="Ha"))


@pytest.mark.parametrize(
    ("last", "text", "kind"),
    [
        (
            event(
                "incomplete",
                response={
                    "status": "incomplete",
                    "incomplete_details": {"reason": "content_filter"},
                },
            ),
            "Response incomplete: content_filter",
            "refused",
        ),
        (
            event(
                "failed",
                response={
                    "status": "failed",
                    "error": {"code": "server_error", "message": "It broke."},
                },
            ),
            "server_error: It broke.",
            "overloaded",
        ),
        (
            {"type": "error", "code": "rate_limit_exceeded", "message": "Slow down."},
            "Error Code rate_limit_exceeded: Slow down.",
            "rate_limit",
        ),
        (
            {"type": "error", "error": {"code": "x", "message": "Nested."}},
            "Error Code x: Nested.",
            "bad_request",
        ),
    ],
)
def test_failures_in_the_stream_keep_what_arrived(last: Any, text: str, kind: str) -> None:
    body = sse(added(0, "message"), delta(0, "output_text", "Half"), last)
    _, answer, _ = ask(make, request(model=model(**OURS)), Canned(chunks=[body]))
    assert (answer.message.error_message, answer.kind) == (text, kind)
    assert answer.message.content == (Text(text="Half"),)
    assert answer.message.stop_reason == "error"


def test_a_stream_without_a_last_event_has_failed() -> None:
    with pytest.raises(ProviderError) as caught:
        read(added(0, "message"), delta(0, "output_text", "Half"))
    assert str(caught.value) == "OpenAI Responses stream ended before a terminal response event"
    assert caught.value.kind == "network"


@pytest.mark.parametrize(
    ("status", "body", "text", "kind"),
    [
        (
            400,
            b'{"error":{"message":"Your input exceeds the context window of this model."}}',
            "OpenAI API error (400): 400 Your input exceeds the context window of this model.",
            "overflow",
        ),
        (503, b"busy", "OpenAI API error (503): 503 busy", "overloaded"),
    ],
)
def test_http_failures_say_status_and_message(
    status: int, body: bytes, text: str, kind: str
) -> None:
    reply = Canned(status=status, headers=JSON_BODY, chunks=[body])
    _, answer, told = ask(make, request(model=model(**OURS)), reply)
    assert (answer.message.error_message, answer.kind, told) == (text, kind, [])


def test_without_key_nothing_is_sent() -> None:
    asked = request(model=model(**OURS), access=Access())
    server, answer, _ = ask(make, asked, Canned())
    assert answer.message.error_message == "No API key for provider: mock"
    assert server.requests == []
