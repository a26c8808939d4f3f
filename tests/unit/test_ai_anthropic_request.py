"""Requests to the Anthropic Messages API, as a server reads them."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from ludolf.ai.access import Access
from ludolf.ai.http.transport import Transport
from ludolf.ai.messages import Image, Message, Text, Thinking, ToolCall, UserMessage
from ludolf.ai.provider import Provider, ToolSpec
from ludolf.ai.providers.anthropic.provider import make
from ludolf.ai.providers.anthropic.request import AnthropicRequestBuilder
from tests.anthropic_wire import ask, assistant, model, request, result, sse, text_answer, user
from tests.loopback import Canned, Loopback


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    transport = Transport({})
    yield make(transport)
    await transport.close()


async def sent(provider: Provider, **changes: Any) -> Any:
    """The body that a request with these changes has on the wire."""
    with Loopback(Canned(chunks=[sse(*text_answer("ok"))])) as server:
        await ask(provider, server, **changes)
        return server.requests[0].json


async def test_a_plain_request_has_this_body_and_these_headers(provider: Provider) -> None:
    tools = (ToolSpec("bash", "Run.", {"type": "object", "properties": {"c": {}}}),)
    with Loopback(Canned(chunks=[sse(*text_answer("a"))])) as server:
        await ask(provider, server, tools=tools)
        (asked,) = server.requests
    mark = {"cache_control": {"type": "ephemeral"}}
    assert asked.path == "/v1/messages"
    assert asked.json == {
        "model": "claude",
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hello", **mark}]}],
        "max_tokens": 16_384,
        "system": [{"type": "text", "text": "Be brief.", **mark}],
        "tools": [
            {
                "name": "bash",
                "description": "Run.",
                "input_schema": {"type": "object", "properties": {"c": {}}},
                "eager_input_streaming": True,
                **mark,
            }
        ],
        "thinking": {"type": "disabled"},
        "stream": True,
    }
    assert asked.headers["x-api-key"] == "sk-test"
    assert asked.headers["anthropic-version"] == "2023-06-01"
    assert asked.headers["content-type"] == "application/json"
    assert asked.headers["user-agent"].startswith("ludolf/")
    assert "anthropic-beta" not in asked.headers


@pytest.mark.parametrize(
    ("access", "expected"),
    [
        (Access(key="sk-ant-oat-1"), {"authorization": "Bearer sk-ant-oat-1"}),
        (Access(headers={"Authorization": "Bearer t"}), {"authorization": "Bearer t"}),
        (
            Access(key="k", headers={"Anthropic-Beta": "own", "X-Mine": "1"}),
            {"x-api-key": "k", "anthropic-beta": "own", "x-mine": "1"},
        ),
    ],
)
async def test_configured_headers_and_tokens_win(
    provider: Provider, access: Access, expected: dict[str, str]
) -> None:
    with Loopback(Canned(chunks=[sse(*text_answer("a"))])) as server:
        here = model(base_url=server.url + "/")
        await ask(provider, server, access=access, model=here, thinking="low")
        (asked,) = server.requests
    assert asked.path == "/v1/messages"
    assert expected.items() <= asked.headers.items()
    assert ("x-api-key" in asked.headers) == ("x-api-key" in expected)


PICTURE = Image(data="aGk=", mime_type="image/png")


def _of_every_kind() -> tuple[Message, ...]:
    return (
        UserMessage(content="as a string", timestamp=1),
        UserMessage(content=(Text(text=" "), PICTURE), timestamp=1),
        UserMessage(content="  ", timestamp=1),
        assistant(
            Thinking(thinking="hm", thinking_signature="sig"),
            Thinking(thinking="[hidden]", thinking_signature="secret", redacted=True),
            Thinking(thinking="unsigned"),
            Text(text=""),
            ToolCall(id="c1", name="bash", arguments={"command": "ls"}),
            ToolCall(id="c2", name="read", arguments={}),
            ToolCall(id="c3", name="read", arguments={}),
        ),
        result("c1", Text(text="a"), Text(text="b")),
        result("c2", PICTURE),
        result("c3", Text(text="seen"), PICTURE, is_error=True),
        assistant(Text(text=" ")),
        user("next"),
    )


async def test_messages_take_the_forms_of_this_api(provider: Provider) -> None:
    shown = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": "aGk="},
    }
    body = await sent(provider, messages=_of_every_kind(), cache="none")
    see = {"type": "text", "text": "(see attached image)"}
    seen = {"type": "text", "text": "seen"}
    assert body["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "as a string"}]},
        {"role": "user", "content": [shown]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "sig"},
                {"type": "redacted_thinking", "data": "secret"},
                {"type": "text", "text": "unsigned"},
                {"type": "tool_use", "id": "c1", "name": "bash", "input": {"command": "ls"}},
                {"type": "tool_use", "id": "c2", "name": "read", "input": {}},
                {"type": "tool_use", "id": "c3", "name": "read", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                _tool_result("c1", "a\nb"),
                _tool_result("c2", [see, shown]),
                _tool_result("c3", [seen, shown], is_error=True),
            ],
        },
        {"role": "user", "content": [{"type": "text", "text": "next"}]},
    ]


def _tool_result(call_id: str, content: Any, *, is_error: bool = False) -> dict[str, Any]:
    return {
        "type": "tool_result",
        "tool_use_id": call_id,
        "content": content,
        "is_error": is_error,
    }


async def test_only_the_last_block_of_the_last_user_message_is_marked(provider: Provider) -> None:
    asked = assistant(
        ToolCall(id="c1", name="b", arguments={}), ToolCall(id="c2", name="b", arguments={})
    )
    messages = (user(), asked, result("c1", Text(text="1")), result("c2", Text(text="2")))
    body = await sent(provider, messages=messages)
    first, _, last = body["messages"]
    assert "cache_control" not in first["content"][0]
    marks = [block.get("cache_control") for block in last["content"]]
    assert marks == [None, {"type": "ephemeral"}]


async def test_a_growing_conversation_has_an_unchanged_beginning(provider: Provider) -> None:
    messages: list[Message] = [user("one")]
    bodies = []
    with Loopback(Canned(chunks=[sse(*text_answer("ok"))])) as server:
        for number in range(3):
            await ask(provider, server, messages=tuple(messages), cache="none")
            bodies.append(server.requests[-1].body.split(b'],"max_tokens"')[0])
            messages += [assistant(Text(text=f"answer {number}")), user(f"question {number}")]
    assert bodies[1].startswith(bodies[0])
    assert bodies[2].startswith(bodies[1])


def test_a_conversation_that_grew_or_changed_gives_the_body_of_a_new_one() -> None:
    asked = assistant(ToolCall(id="c1", name="b", arguments={}))
    answer = result("c1", Text(text="1"))
    conversations: list[list[Message]] = [
        [user("a")],
        [user("a"), asked],
        [user("a"), asked, answer, user(" ")],
        [user("a"), asked, answer, user("b")],
        [user("a"), asked, answer, user("b")],
        [user("z"), asked, answer],
        [],
        [user("a")],
    ]
    bodies, known = AnthropicRequestBuilder(), dict[str, Message]()
    for messages in conversations:
        same = [known.setdefault(repr(message), message) for message in messages]
        new = request(make(Transport({})), "", messages=tuple(same))
        assert bodies.build(new) == AnthropicRequestBuilder().build(new)
        assert msgspec.json.decode(bodies.build(new))["model"] == "claude"


async def test_a_long_cache_is_asked_for_one_hour(provider: Provider) -> None:
    body = await sent(provider, cache="long")
    assert body["system"][0]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
    unable = model(compat={"supportsLongCacheRetention": False})
    body = await sent(provider, cache="long", model=unable)
    assert body["system"][0]["cache_control"] == {"type": "ephemeral"}


async def test_ids_of_other_models_are_made_fit(provider: Provider) -> None:
    foreign = assistant(ToolCall(id="call|1" + "x" * 80, name="b", arguments={}), by="other")
    answer = result("call|1" + "x" * 80, Text(text="1"))
    body = await sent(provider, messages=(foreign, answer))
    used = body["messages"][0]["content"][0]["id"]
    assert used == ("call_1" + "x" * 80)[:64]
    assert body["messages"][1]["content"][0]["tool_use_id"] == used


def _budget(tokens: int) -> dict[str, Any]:
    return {"type": "enabled", "budget_tokens": tokens, "display": "summarized"}


@pytest.mark.parametrize(
    ("changes", "limit", "thinking"),
    [
        ({"thinking": "minimal"}, 16_384, _budget(1024)),
        ({"thinking": "medium"}, 16_384, _budget(8192)),
        ({"thinking": "high"}, 16_384, _budget(15_360)),
        ({"thinking": "low", "thinking_budgets": {"low": 3000}}, 16_384, _budget(3000)),
        ({"thinking": "low", "max_tokens": 800}, 2848, _budget(1824)),
        ({"max_tokens": 800}, 800, {"type": "disabled"}),
        ({"max_tokens": 99_999}, 16_384, {"type": "disabled"}),
        ({"model": model(reasoning=False)}, 16_384, None),
        ({"model": model(thinking_level_map={"off": None})}, 16_384, None),
        ({"model": model(max_tokens=2000), "thinking": "high"}, 2000, {"type": "disabled"}),
    ],
)
async def test_thinking_and_answer_share_the_output_limit(
    provider: Provider, changes: dict[str, Any], limit: int, thinking: dict[str, Any] | None
) -> None:
    body = await sent(provider, **changes)
    assert (body["max_tokens"], body.get("thinking")) == (limit, thinking)


@pytest.mark.parametrize(
    ("level", "effort"),
    [("minimal", "low"), ("medium", "medium"), ("high", "high"), ("max", "top")],
)
async def test_an_adaptive_model_is_told_an_effort(
    provider: Provider, level: str, effort: str
) -> None:
    adaptive = model(compat={"forceAdaptiveThinking": True}, thinking_level_map={"max": "top"})
    body = await sent(provider, model=adaptive, thinking=level)
    assert body["thinking"] == {"type": "adaptive", "display": "summarized"}
    assert body["output_config"] == {"effort": effort}


async def test_features_in_test_are_asked_for_by_header(provider: Provider) -> None:
    plain = model(compat={"supportsEagerToolInputStreaming": False})
    with Loopback(Canned(chunks=[sse(*text_answer("a"))])) as server:
        tools = (ToolSpec("bash", "Run.", {}),)
        await ask(provider, server, model=plain, tools=tools, thinking="low")
        (asked,) = server.requests
    assert asked.headers["anthropic-beta"] == (
        "fine-grained-tool-streaming-2025-05-14,interleaved-thinking-2025-05-14"
    )
    assert "eager_input_streaming" not in asked.json["tools"][0]
    assert asked.json["tools"][0]["input_schema"] == {"type": "object", "properties": {}}


async def test_one_connection_serves_several_requests(provider: Provider) -> None:
    with Loopback(Canned(chunks=[sse(*text_answer("a"))])) as server:
        for _ in range(3):
            await ask(provider, server)
        assert server.connections == 1
