"""Mistral's API: what is sent to it, and its answers, whole and broken, over a real connection."""

import re
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
    Image,
    Message,
    Text,
    Thinking,
    ToolCall,
    UserMessage,
)
from ludolf.ai.provider import Provider, ToolSpec
from ludolf.ai.providers.mistral import Ids, MistralReader, make
from ludolf.ai.registry import Providers
from ludolf.ai.sampling import PREFER_STRICT
from ludolf.config.models.catalog import catalog_models
from tests.anthropic_wire import ask, assistant, result, user
from tests.loopback import JSON_BODY, Canned, Loopback
from tests.mistral_wire import RICH, USAGE, call, chunk, model, sse, thought

SHORT = sse(chunk(content="Hel"), chunk(content="lo"), chunk("stop", USAGE), b"[DONE]")
PICTURE = Image(data="QUJD", mime_type="image/png")
SENT_PICTURE = {"type": "image_url", "image_url": "data:image/png;base64,QUJD"}
OWN = {"api": "mistral-conversations", "provider": "mistral", "model": "mistral-small-latest"}


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    transport = Transport({})
    yield make(transport)
    await transport.close()


# ---------------------------------------------------------------- answers


async def test_text_arrives_as_events_and_as_a_message(provider: Provider) -> None:
    with Loopback(Canned(chunks=[SHORT])) as server:
        told = await ask(provider, server, model=model())
    assert told.events == [
        BlockStart("text", 0),
        BlockDelta("text", 0, "Hel", b"Hel"),
        BlockDelta("text", 0, "lo", b"lo"),
        BlockEnd("text", 0, Text(text="Hello")),
    ]
    message = told.message
    assert (message.stop_reason, message.raw_stop_reason) == ("stop", "stop")
    assert (message.response_id, message.response_model) == ("r1", "mistral-small-2603")
    usage = message.usage
    assert (usage.input, usage.cache_read, usage.output, usage.total_tokens) == (6, 4, 5, 15)
    assert server.requests[0].path == "/v1/chat/completions"
    assert server.requests[0].headers["authorization"] == "Bearer sk-test"


async def test_thoughts_text_and_parallel_calls_are_read(provider: Provider) -> None:
    with Loopback(Canned(chunks=[RICH])) as server:
        told = await ask(provider, server, model=model())
    assert told.message.content == (
        Thinking(thinking="hm öfter"),
        Text(text="Héllo 🦆"),
        ToolCall(id="abc123def", name="read", arguments={"path": "ä"}),
        ToolCall(id="abc123deg", name="ls", arguments={"a": 1}),
    )
    assert told.message.stop_reason == "toolUse"
    assert told.draft is not None
    assert not told.draft.broken


async def test_text_and_thoughts_may_alternate_and_keep_their_signatures(
    provider: Provider,
) -> None:
    body = sse(
        chunk(content=[thought("a"), {"type": "text", "text": "b"}, thought("c", signature="s")]),
        chunk(content=[{"type": "reference", "reference_ids": [1]}, {"type": "thinking"}]),
        chunk("model_length"),
        b"[DONE]",
    )
    with Loopback(Canned(chunks=[body])) as server:
        told = await ask(provider, server, model=model())
    assert told.message.content == (
        Thinking(thinking="a"),
        Text(text="b"),
        Thinking(thinking="c", thinking_signature="s"),
    )
    assert told.message.stop_reason == "length"


async def test_calls_without_an_id_get_one_and_one_index_may_serve_two_calls(
    provider: Provider,
) -> None:
    body = sse(
        chunk(tool_calls=[call(0, "aaaaaaaaa", "read", "{}")]),
        chunk(tool_calls=[call(0, "bbbbbbbbb", "ls", "{}")]),
        chunk(tool_calls=[call(2, None, "bash", '{"command":')]),
        chunk(tool_calls=[call(2, None, "", '"ls"}')]),
        chunk("tool_calls"),
        b"[DONE]",
    )
    with Loopback(Canned(chunks=[body])) as server:
        told = await ask(provider, server, model=model())
    assert [made.name for made in told.message.tool_calls] == ["read", "ls", "bash"]
    last = told.message.tool_calls[-1]
    assert last.arguments == {"command": "ls"}
    assert re.fullmatch("[a-z0-9]{9}", last.id)


@given(st.lists(st.integers(1, len(RICH) - 1), unique=True, max_size=30).map(sorted))
def test_a_stream_may_be_split_anywhere(cuts: list[int]) -> None:
    pieces = [RICH[a:b] for a, b in pairwise([0, *cuts, len(RICH)])]
    assert _read(pieces).content == _read([RICH]).content


def _read(pieces: list[bytes]) -> AssistantMessage:
    draft = Draft(model())
    parser, reading = SseParser(), MistralReader(draft)
    for piece in pieces:
        list(reading.take(parser.feed(piece)))
    list(reading.finish())
    assert reading.done
    return draft.finish()


# ---------------------------------------------------------------- failures


@pytest.mark.parametrize(
    ("events", "expected", "kind"),
    [
        ([chunk("error", content="a")], "Provider stopped with: error", "overloaded"),
        ([chunk("odd", content="a")], "Provider stopped with: odd", "bad_request"),
        ([chunk(content="a")], "Mistral stream ended without a finish reason", "network"),
        (
            [chunk(content="a"), {"object": "error", "message": "Service unavailable"}],
            "Service unavailable",
            "overloaded",
        ),
        ([chunk(content="a"), {"error": {"message": "Rate limit"}}], "Rate limit", "rate_limit"),
        (
            [chunk(content="a"), b"{garbage"],
            "An event of the answer cannot be read: {garbage",
            "garbled",
        ),
    ],
)
async def test_a_failing_answer_keeps_what_came_before(
    provider: Provider, events: list[Any], expected: str, kind: ErrorKind
) -> None:
    with Loopback(Canned(chunks=[sse(*events)])) as server:
        told = await ask(provider, server, model=model())
    assert told.answer is not None
    assert (told.message.error_message, told.answer.kind) == (expected, kind)
    assert told.message.content == (Text(text="a"),)


async def test_a_broken_connection_may_be_asked_for_again(provider: Provider) -> None:
    with Loopback(Canned(chunks=[sse(chunk(content="a"))], cut=True)) as server:
        told = await ask(provider, server, model=model())
    assert told.answer is not None
    assert told.answer.kind == "network"


@pytest.mark.parametrize(
    ("status", "body", "expected", "kind"),
    [
        (401, '{"detail":"x"}', 'Mistral API error (401): {"detail":"x"}', "auth"),
        (429, '{"message":"m"}', 'Mistral API error (429): {"message":"m"}', "rate_limit"),
        (503, "", "Mistral API error (503): no body", "overloaded"),
        (422, "y" * 4007, f"Mistral API error (422): {'y' * 4000}... [truncated 7 chars]", ""),
    ],
)
async def test_a_refused_request_is_told_with_its_body(
    provider: Provider, status: int, body: str, expected: str, kind: str
) -> None:
    chunks = [body.encode()] if body else []
    with Loopback(Canned(status=status, headers=JSON_BODY, chunks=chunks)) as server:
        told = await ask(provider, server, model=model())
    assert told.answer is not None
    assert told.message.error_message == expected
    assert told.answer.kind == (kind or "bad_request")


async def test_without_a_key_nothing_is_sent(provider: Provider) -> None:
    with Loopback(Canned(chunks=[SHORT])) as server:
        told = await ask(provider, server, model=model(), access=Access(base_url=server.url))
    assert told.message.error_message == "No API key for provider: mistral"
    assert not server.requests


# ---------------------------------------------------------------- requests


async def sent(provider: Provider, *messages: Message, **changes: Any) -> dict[str, Any]:
    fields = {"model": model(), **changes}
    with Loopback(Canned(chunks=[SHORT])) as server:
        await ask(provider, server, messages=messages or (user(),), **fields)
    body: dict[str, Any] = server.requests[0].json
    return body


async def test_own_thoughts_go_back_as_thoughts(provider: Provider) -> None:
    said = assistant(
        Thinking(thinking="hm"),
        Thinking(thinking="", thinking_signature="s"),
        Text(text=" "),
        Text(text="ok"),
    ).replace(**OWN)
    messages = (await sent(provider, user(), said, user()))["messages"]
    assert messages[0] == {"role": "system", "content": "Be brief."}
    assert messages[2] == {
        "role": "assistant",
        "content": [thought("hm"), thought("", signature="s"), {"type": "text", "text": "ok"}],
    }


async def test_results_hold_text_and_images_and_an_answer_stands_before_the_user(
    provider: Provider,
) -> None:
    said = assistant(
        ToolCall(id="abcdefgh1", name="read", arguments={"a": 1}),
        ToolCall(id="call_2", name="read", arguments={}),
        ToolCall(id="call_3", name="read", arguments={}),
    )
    messages = (
        await sent(
            provider,
            UserMessage(content=(Text(text="look"), PICTURE), timestamp=1),
            said,
            result("abcdefgh1", Text(text="one"), Text(text="two"), PICTURE),
            result("call_2", is_error=True),
            result("call_3", PICTURE),
            user("go on"),
        )
    )["messages"]
    assert messages[1]["content"] == [{"type": "text", "text": "look"}, SENT_PICTURE]
    first, second, third = messages[2]["tool_calls"]
    assert messages[2]["content"] == ""
    assert first == {
        "id": "abcdefgh1",
        "type": "function",
        "function": {"name": "read", "arguments": '{"a":1}'},
    }
    assert messages[3] == {
        "role": "tool",
        "name": "bash",
        "content": [{"type": "text", "text": "one\ntwo"}, SENT_PICTURE],
        "tool_call_id": "abcdefgh1",
    }
    assert messages[4]["content"] == [{"type": "text", "text": "[tool error] (no tool output)"}]
    assert messages[4]["tool_call_id"] == second["id"]
    assert messages[5]["content"] == [
        {"type": "text", "text": "(see attached image)"},
        SENT_PICTURE,
    ]
    assert messages[5]["tool_call_id"] == third["id"]
    assert [message["role"] for message in messages[6:]] == ["assistant", "user"]


@given(st.lists(st.text(min_size=1, max_size=12), min_size=1, max_size=40))
def test_foreign_ids_become_nine_letters_and_stay_apart(ids: list[str]) -> None:
    made = Ids()
    sources = [assistant().replace(timestamp=at) for at in range(len(ids))]
    short = [made.normal(call_id, source) for call_id, source in zip(ids, sources, strict=True)]
    assert all(re.fullmatch("[A-Za-z0-9]{9}", call_id) for call_id in short)
    assert len(set(short)) == len(ids)
    again = [made.normal(call_id, source) for call_id, source in zip(ids, sources, strict=True)]
    assert again == short


@pytest.mark.parametrize(
    ("model_id", "level", "expected"),
    [
        ("mistral-small-latest", "low", {"reasoning_effort": "high"}),
        ("mistral-small-2603", "high", {"reasoning_effort": "high"}),
        ("mistral-medium-3.5", "high", {"reasoning_effort": "high"}),
        ("magistral-medium-latest", "high", {"prompt_mode": "reasoning"}),
        ("mistral-small-latest", "off", {}),
        ("magistral-medium-latest", "off", {}),
    ],
)
async def test_thinking_is_asked_for_in_the_way_of_the_model(
    provider: Provider, model_id: str, level: str, expected: dict[str, str]
) -> None:
    body = await sent(provider, model=model(id=model_id), thinking=level)
    asked = {name: body[name] for name in ("reasoning_effort", "prompt_mode") if name in body}
    assert asked == expected


async def test_a_session_is_named_for_the_cache_unless_it_is_off(provider: Provider) -> None:
    with Loopback(Canned(chunks=[SHORT])) as server:
        for cache in ("short", "none"):
            await ask(provider, server, model=model(), session_id="s1", cache=cache)
    on, off = server.requests
    assert (on.headers["x-affinity"], on.json["prompt_cache_key"]) == ("s1", "s1")
    assert "x-affinity" not in off.headers
    assert "prompt_cache_key" not in off.json


async def test_tools_are_strict_where_they_prefer_it(provider: Provider) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    plain = ToolSpec("read", "Reads.", schema)
    strict = ToolSpec("write", "Writes.", schema, PREFER_STRICT)
    first, second = (await sent(provider, tools=(plain, strict)))["tools"]
    assert first["function"] == {
        "name": "read",
        "description": "Reads.",
        "parameters": schema,
        "strict": False,
    }
    assert second["function"]["strict"] is True
    assert second["function"]["parameters"]["additionalProperties"] is False


async def test_a_model_of_the_catalog_runs_through_the_registry() -> None:
    transport = Transport({})
    entries = catalog_models("mistral")
    assert {(entry.api, entry.base_url) for entry in entries} == {
        ("mistral-conversations", "https://api.mistral.ai")
    }
    chosen = next(entry for entry in entries if entry.id == "devstral-medium-latest")
    with Loopback(Canned(chunks=[SHORT])) as server:
        told = await ask(Providers(transport).get(chosen.api), server, model=chosen)
    await transport.close()
    assert told.message.content == (Text(text="Hello"),)
