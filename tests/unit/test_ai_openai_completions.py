"""Chat Completions: what is made of the answer, what becomes of failures."""

from typing import Any

import msgspec
import pytest

from ludolf.ai.access import Access
from ludolf.ai.draft import BlockDelta, BlockEnd, BlockStart, Draft, StreamEvent
from ludolf.ai.errors import ProviderError
from ludolf.ai.messages import AssistantMessage, Text, Thinking, ToolCall
from ludolf.ai.models import Model, ModelCost
from ludolf.ai.providers.openai.compat import chat_compat
from ludolf.ai.providers.openai.completions import ChatReader, make
from tests.loopback import JSON_BODY, Canned
from tests.openai_asking import ask, encoded, model, request, sse


def chunk(delta: Any = None, finish: str | None = None, **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta or {}, "finish_reason": finish}
    return {"id": "chatcmpl-1", "model": "mock-model", "choices": [choice], **more}


def read(*events: Any, of: Model | None = None) -> tuple[list[StreamEvent], AssistantMessage]:
    """What the reader makes of events, without a server."""
    draft = Draft(of or model())
    reader = ChatReader(draft, chat_compat(draft.model))
    told = list(reader.take(iter(encoded(*events))))
    told += reader.finish()
    return told, draft.finish()


# ---------------------------------------------------------------- the answer


def test_an_answer_streams_thinking_then_text_and_ends_all_blocks_in_order() -> None:
    body = sse(
        chunk({"role": "assistant", "content": ""}),
        chunk({"reasoning_content": "Let me "}),
        chunk({"reasoning_content": "see."}),
        chunk({"content": "Yes"}),
        chunk({"content": "."}),
        chunk({}, "stop"),
        {
            **chunk(),
            "choices": [],
            "usage": {
                "prompt_tokens": 1300,
                "completion_tokens": 50,
                "prompt_tokens_details": {"cached_tokens": 1000},
                "completion_tokens_details": {"reasoning_tokens": 20},
            },
        },
        b"[DONE]",
    )
    server, answer, told = ask(
        make, request(), Canned(chunks=[body[:70], body[70:300], body[300:]])
    )
    thinking = Thinking(thinking="Let me see.", thinking_signature="reasoning_content")
    assert told == [
        BlockStart("thinking", 0),
        BlockDelta("thinking", 0, "Let me ", b"Let me "),
        BlockDelta("thinking", 0, "see.", b"see."),
        BlockStart("text", 1),
        BlockDelta("text", 1, "Yes", b"Yes"),
        BlockDelta("text", 1, ".", b"."),
        BlockEnd("thinking", 0, thinking),
        BlockEnd("text", 1, Text(text="Yes.")),
    ]
    message = answer.message
    assert (message.stop_reason, message.raw_stop_reason) == ("stop", "stop")
    assert (message.response_id, message.response_model) == ("chatcmpl-1", None)
    usage = message.usage
    assert (usage.input, usage.cache_read, usage.output, usage.reasoning) == (300, 1000, 50, 20)
    assert usage.total_tokens == 1350
    assert usage.cost.output == 8 / 1e6 * 50
    sent = server.requests[0]
    assert (sent.path, sent.headers["authorization"]) == ("/v1/chat/completions", "Bearer secret")


def test_a_draft_never_runs_ahead_of_the_event_that_is_told() -> None:
    draft = Draft(model())
    reader = ChatReader(draft, chat_compat(draft.model))
    data = encoded(*(chunk({"content": text}) for text in ("one ", "two ", "three")))
    texts = [b"".join(draft.segments()) for _ in reader.take(iter(data))]
    assert [b"two" in text for text in texts] == [False, False, True, True]
    assert [b"three" in text for text in texts] == [False, False, False, True]


def test_tool_calls_are_told_apart_by_index_and_begin_with_an_empty_delta() -> None:
    def call(index: int, arguments: str, **more: Any) -> dict[str, Any]:
        function = {"arguments": arguments, **more.pop("function", {})}
        return chunk({"tool_calls": [{"index": index, "function": function, **more}]})

    told, message = read(
        call(0, "", id="call_a", function={"name": "read"}),
        call(1, "", id="call_b", function={"name": "ls"}),
        call(0, '{"path":'),
        call(1, "{}"),
        call(0, '"a"}'),
        chunk({}, "tool_calls"),
    )
    assert told[:4] == [
        BlockStart("toolcall", 0, "call_a", "read"),
        BlockDelta("toolcall", 0, "", b""),
        BlockStart("toolcall", 1, "call_b", "ls"),
        BlockDelta("toolcall", 1, "", b""),
    ]
    assert message.stop_reason == "toolUse"
    assert message.tool_calls == (
        ToolCall(id="call_a", name="read", arguments={"path": "a"}),
        ToolCall(id="call_b", name="ls", arguments={}),
    )


@pytest.mark.parametrize(
    "calls",
    [
        # no index: by id
        [
            {"id": "a", "function": {"name": "read", "arguments": '{"x":'}},
            {"id": "b", "function": {"name": "ls", "arguments": "{}"}},
            {"id": "a", "function": {"arguments": "1}"}},
        ],
        # every call with index 0
        [
            {"index": 0, "id": "a", "function": {"name": "read", "arguments": '{"x":1}'}},
            {"index": 0, "id": "b", "function": {"name": "ls", "arguments": "{}"}},
        ],
        # id and name come late
        [
            {"index": 0, "function": {"arguments": '{"x":'}},
            {"index": 0, "id": "a", "function": {"name": "read", "arguments": "1}"}},
            {"index": 1, "id": "b", "function": {"name": "ls"}},
        ],
        # arguments as an object
        [
            {"index": 0, "id": "a", "function": {"name": "read", "arguments": {"x": 1}}},
            {"index": 1, "id": "b", "function": {"name": "ls", "arguments": {}}},
        ],
    ],
)
def test_tool_calls_of_careless_servers_are_understood(calls: list[Any]) -> None:
    _, message = read(*(chunk({"tool_calls": [call]}) for call in calls), chunk({}, "tool_calls"))
    assert message.tool_calls == (
        ToolCall(id="a", name="read", arguments={"x": 1}),
        ToolCall(id="b", name="ls", arguments={}),
    )


def test_a_call_without_id_is_given_one() -> None:
    call = {"index": 0, "function": {"name": "ls", "arguments": "{}"}}
    told, message = read(chunk({"tool_calls": [call]}), chunk({}, "tool_calls"))
    assert isinstance(told[0], BlockStart)
    assert told[0].call_id == message.tool_calls[0].id != ""


def test_reasoning_details_are_merged_and_become_the_signature() -> None:
    def details(*items: dict[str, Any], **more: Any) -> dict[str, Any]:
        return chunk({"reasoning_details": list(items), **more})

    _, message = read(
        details({"type": "reasoning.text", "text": "One ", "index": 0}, reasoning="One "),
        details({"type": "reasoning.text", "text": "two", "index": 0}, reasoning="two"),
        details({"type": "reasoning.text", "signature": "s", "text": "", "index": 0}),
        details({"type": "reasoning.encrypted", "data": "xyz", "index": 1}),
        chunk({}, "stop"),
    )
    block = message.content[0]
    assert isinstance(block, Thinking)
    assert block.thinking == "One two"
    assert msgspec.json.decode(block.thinking_signature or "") == [
        {"type": "reasoning.text", "text": "One two", "index": 0, "signature": "s"},
        {"type": "reasoning.encrypted", "data": "xyz", "index": 1},
    ]


@pytest.mark.parametrize(
    ("usage", "counts"),
    [
        ({"prompt_tokens": 10, "completion_tokens": 2}, (10, 0, 0, 2)),
        ({"prompt_tokens": 10, "prompt_cache_hit_tokens": 4}, (6, 4, 0, 0)),
        ({"prompt_tokens": 10, "cached_tokens": 4}, (6, 4, 0, 0)),
        ({"prompt_tokens": 3, "prompt_tokens_details": {"cached_tokens": 4}}, (0, 4, 0, 0)),
        (
            {
                "prompt_tokens": 10,
                "prompt_tokens_details": {"cached_tokens": 1, "cache_write_tokens": 2},
            },
            (7, 1, 2, 0),
        ),
    ],
)
def test_cached_tokens_are_not_counted_as_input(
    usage: dict[str, Any], counts: tuple[int, ...]
) -> None:
    _, message = read(chunk({"content": "x"}, "stop", usage=usage))
    got = message.usage
    assert (got.input, got.cache_read, got.cache_write, got.output) == counts
    assert got.total_tokens == sum(counts)


@pytest.mark.parametrize(
    ("told", "total"),
    [
        ({"cost": 0.5}, 0.5),
        ({"cost": 0.01, "is_byok": True, "cost_details": {"upstream_inference_cost": 0.2}}, 0.21),
        ({"cost": 0.5, "is_byok": False, "cost_details": {"upstream_inference_cost": 0.5}}, 0.5),
        ({"cost": 0}, 0),
        ({}, 2.8e-05),
        ({"cost": {"total": 1}}, 2.8e-05),
    ],
)
def test_a_routers_answer_costs_what_the_router_says(told: dict[str, Any], total: float) -> None:
    usage = {"prompt_tokens": 10, "completion_tokens": 1, **told}
    _, message = read(chunk({"content": "x"}, "stop", usage=usage), of=model(provider="openrouter"))
    cost = message.usage.cost
    assert cost.total == pytest.approx(total)
    assert cost.input + cost.output == pytest.approx(total)
    assert cost.input == pytest.approx(total * 20 / 28)


def test_what_a_router_charges_is_known_without_a_price() -> None:
    unpriced = model(provider="openrouter", cost=ModelCost())
    usage = {"prompt_tokens": 10, "cost": 0.5}
    _, message = read(chunk({"content": "x"}, "stop", usage=usage), of=unpriced)
    assert (message.usage.cost.total, message.usage.cost.input) == (0.5, 0)


def test_a_number_called_cost_of_another_server_is_not_taken_for_dollars() -> None:
    usage = {"prompt_tokens": 10, "completion_tokens": 1, "cost": 7}
    _, message = read(chunk({"content": "x"}, "stop", usage=usage))
    assert message.usage.cost.total == pytest.approx(2.8e-05)


def test_usage_on_the_choice_and_another_model_name_are_noted() -> None:
    event = chunk({"content": "x"}, "length", model="other")
    event["choices"][0]["usage"] = {"prompt_tokens": 5}
    _, message = read(event)
    assert (message.usage.input, message.response_model) == (5, "other")
    assert message.stop_reason == "length"


def test_odd_events_are_tolerated() -> None:
    _, message = read(
        b'{"id":7,"choices":[{"delta":{"content":"a","novel":{"x":[1]},"refusal":3}}]}',
        b'{"id":"c","model":["m"],"choices":[{"delta":{"content":"b"},"finish_reason":null}]}',
        b'{"choices":[{"delta":{"content":["no text"],"reasoning":false}}]}',
        b'{"choices":[{"delta":{"content":"\\ud83d"}}]}',
        b'{"choices":[{"delta":{"content":"\\ude00 \xff"}}]}',
        b'{"choices":null}',
        b"null",
        b'{"choices":[{"delta":null,"finish_reason":"stop"}]}',
    )
    assert message.content == (Text(text="ab😀 �"),)
    assert message.response_id == "c"


# ---------------------------------------------------------------- failures


def test_an_answer_without_finish_reason_has_failed_and_keeps_what_arrived() -> None:
    body = sse(chunk({"content": "Half"}), b"[DONE]")
    _, answer, _ = ask(make, request(), Canned(chunks=[body]))
    assert answer.message.error_message == "Stream ended without finish_reason"
    assert answer.kind == "network"
    assert answer.message.content == (Text(text="Half"),)


def test_a_server_without_finish_reasons_can_be_declared() -> None:
    lax = model(compat={"supportsFinishReason": False})
    call = {"index": 0, "id": "a", "function": {"name": "ls", "arguments": "{}"}}
    assert read(chunk({"content": "x"}), of=lax)[1].stop_reason == "stop"
    assert read(chunk({"tool_calls": [call]}), of=lax)[1].stop_reason == "toolUse"


@pytest.mark.parametrize(
    ("reason", "kind"), [("content_filter", "refused"), ("odd", "bad_request")]
)
def test_a_bad_finish_reason_is_an_error_after_the_ends(reason: str, kind: str) -> None:
    body = sse(chunk({"content": "x"}), chunk({}, reason))
    _, answer, told = ask(make, request(), Canned(chunks=[body]))
    assert told[-1] == BlockEnd("text", 0, Text(text="x"))
    assert answer.message.error_message == f"Provider finish_reason: {reason}"
    assert (answer.message.raw_stop_reason, answer.kind) == (reason, kind)


def test_an_error_event_ends_the_answer_in_the_words_of_the_server() -> None:
    error = {"message": "Upstream broke", "code": 502, "metadata": {"raw": "overloaded"}}
    with pytest.raises(ProviderError) as caught:
        read(chunk({"content": "x"}), {"error": error})
    assert str(caught.value) == "Upstream broke\noverloaded"
    assert caught.value.kind == "overloaded"


def test_an_event_that_is_no_json_fails_in_a_way_that_can_be_tried_again() -> None:
    with pytest.raises(ProviderError, match=r"cannot be read: \{oops") as caught:
        read(chunk({"content": "x"}), b"{oops")
    assert caught.value.kind == "garbled"


@pytest.mark.parametrize(
    ("status", "body", "text", "kind"),
    [
        (
            429,
            b'{"error":{"message":"Rate limit reached"}}',
            "429 Rate limit reached",
            "rate_limit",
        ),
        (401, b'{"error":{"message":"Incorrect key"}}', "401 Incorrect key", "auth"),
        (400, b'{"message":"Bad"}', "400 Bad", "bad_request"),
        (400, b"", "400 status code (no body)", "overflow"),
        (502, b"<html>", "502 <html>", "overloaded"),
        (400, b"x" * 4010, f"400 {'x' * 4000}... [truncated 10 chars]", "bad_request"),
    ],
)
def test_http_failures_say_status_and_message(
    status: int, body: bytes, text: str, kind: str
) -> None:
    chunks = [body] if body else []
    reply = Canned(status=status, headers={**JSON_BODY, "retry-after": "7"}, chunks=chunks)
    _, answer, _ = ask(make, request(), reply)
    assert (answer.message.error_message, answer.kind) == (text, kind)
    assert answer.retry_after == 7


def test_a_cut_connection_after_the_last_event_costs_nothing() -> None:
    body = sse(chunk({"content": "x"}), chunk({}, "stop"), b"[DONE]")
    _, answer, _ = ask(make, request(), Canned(chunks=[body], cut=True))
    assert (answer.message.stop_reason, answer.message.error_message) == ("stop", None)


def test_without_key_nothing_is_sent_unless_a_header_lets_in() -> None:
    body = Canned(chunks=[sse(chunk({"content": "x"}, "stop"))])
    server, answer, _ = ask(make, request(access=Access()), body)
    assert (answer.message.error_message, answer.kind) == (
        "No API key for provider: mock",
        "auth",
    )
    assert server.requests == []
    stated = Access(key="secret", headers={"authorization": "Basic abc"})
    server, answer, _ = ask(make, request(access=stated), body)
    assert server.requests[0].headers["authorization"] == "Basic abc"
    assert answer.kind is None
