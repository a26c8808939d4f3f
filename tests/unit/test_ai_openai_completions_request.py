"""Chat Completions: what a request holds, and how servers differ in it."""

from typing import Any

import msgspec
import pytest
from msgspec import structs

from ludolf.ai.access import Access
from ludolf.ai.errors import ProviderError
from ludolf.ai.messages import Image, Text, Thinking, ToolCall, UserMessage
from ludolf.ai.provider import Request
from ludolf.ai.providers.openai.compat import chat_compat
from ludolf.ai.providers.openai.completions import ChatMessages, chat_id, make, options_of
from ludolf.ai.providers.openai.shared import headers_for
from tests.loopback import Canned
from tests.openai_asking import READ, ask, assistant, model, request, result, sse


def messages_of(asked: Request) -> list[Any]:
    pieces = ChatMessages().encode(asked, chat_compat(asked.model))
    found: list[Any] = msgspec.json.decode(b"[%b]" % b",".join(pieces))
    return found


# ---------------------------------------------------------------- the request


def test_a_request_has_the_form_that_pi_sends() -> None:
    fields = options_of(request(tools=(READ,), thinking="medium"), chat_compat(model()))
    assert fields == {
        "model": "mock-model",
        "stream": True,
        "stream_options": {"include_usage": True},
        "store": False,
        "max_completion_tokens": 8192,
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "read",
                    "description": "Reads a file.",
                    "parameters": {"type": "object", "properties": {}},
                },
            }
        ],
        "reasoning_effort": "medium",
    }


def test_a_conversation_becomes_messages() -> None:
    call = ToolCall(id="call_1", name="read", arguments={"path": "ü"})
    sent = messages_of(
        request(
            UserMessage(
                content=(Text(text="Look"), Image(data="AA==", mime_type="image/png")), timestamp=1
            ),
            assistant(
                Thinking(thinking="Hm.", thinking_signature="reasoning"),
                Text(text="I "),
                Text(text="do."),
                call,
            ),
            result("call_1", Text(text="a"), Text(text="b")),
            UserMessage(content="", timestamp=4),
            UserMessage(content="Go \ud800on", timestamp=5),
        )
    )
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    function = {"name": "read", "arguments": '{"path":"ü"}'}
    assert sent == [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Look"}, image]},
        {
            "role": "assistant",
            "content": "I do.",
            "reasoning": "Hm.",
            "tool_calls": [{"id": "call_1", "type": "function", "function": function}],
        },
        {"role": "tool", "content": "a\nb", "tool_call_id": "call_1"},
        {"role": "user", "content": "Go on"},
    ]


def test_images_of_tool_results_follow_the_whole_batch() -> None:
    calls = [ToolCall(id=name, name="read", arguments={}) for name in "abc"]
    image = Image(data="AA==", mime_type="image/png")
    sent = messages_of(
        request(
            assistant(*calls), result("a", image), result("b"), result("c", Text(text="t"), image)
        )
    )
    assert [message["role"] for message in sent[1:]] == [
        "assistant",
        "tool",
        "tool",
        "tool",
        "user",
    ]
    assert [message["content"] for message in sent[1:5]] == [
        None,
        "(see attached image)",
        "(no tool output)",
        "t",
    ]
    assert [part["type"] for part in sent[5]["content"]] == ["text", "image_url", "image_url"]


def test_flags_of_the_model_change_its_messages() -> None:
    strict = model(
        compat={
            "requiresToolResultName": True,
            "requiresAssistantAfterToolResult": True,
            "requiresThinkingAsText": True,
            "requiresReasoningContentOnAssistantMessages": True,
            "supportsDeveloperRole": False,
        }
    )
    thinking = Thinking(thinking="Hm.", thinking_signature="reasoning_content")
    sent = messages_of(
        request(
            assistant(thinking, Text(text="Yes.")),
            assistant(ToolCall(id="a", name="read", arguments={})),
            result("a", Text(text="t")),
            UserMessage(content="Next", timestamp=4),
            model=strict,
        )
    )
    assert [message["role"] for message in sent] == [
        "system",
        "assistant",
        "assistant",
        "tool",
        "assistant",
        "user",
    ]
    assert (sent[1]["content"], sent[1]["reasoning_content"]) == ("Hm.\n\nYes.", "")
    assert (sent[2]["content"], sent[3]["name"]) == ("", "read")


def test_each_message_is_encoded_once() -> None:
    conversation = ChatMessages()
    asked = request(UserMessage(content="Hi", timestamp=1), assistant(Text(text="Hello")))
    compat = chat_compat(asked.model)
    first = conversation.encode(asked, compat)
    longer = structs.replace(
        asked, messages=(*asked.messages, UserMessage(content="More", timestamp=3))
    )
    again = conversation.encode(longer, compat)
    assert all(old is new for old, new in zip(first[1:], again[1:], strict=False))
    assert len(again) == len(first) + 1


def test_history_with_calls_but_no_tools_sends_an_empty_list() -> None:
    asked = request(assistant(ToolCall(id="a", name="read", arguments={})))
    assert options_of(asked, chat_compat(asked.model))["tools"] == []
    assert "tools" not in options_of(request(), chat_compat(model()))


def test_anthropic_models_behind_a_router_get_cache_marks() -> None:
    routed = model(
        id="anthropic/claude", provider="openrouter", base_url="https://openrouter.ai/api/v1"
    )
    asked = request(
        UserMessage(content="One", timestamp=1),
        UserMessage(content="Two", timestamp=2),
        model=routed,
        tools=(READ, READ),
        cache="long",
        session_id="s1",
    )
    mark = {"type": "ephemeral", "ttl": "1h"}
    sent = messages_of(asked)
    assert sent[0]["content"][0]["cache_control"] == mark
    assert sent[1]["content"] == "One"
    assert sent[2]["content"] == [{"type": "text", "text": "Two", "cache_control": mark}]
    tools = options_of(asked, chat_compat(routed))["tools"]
    assert [tool.get("cache_control") for tool in tools] == [None, mark]
    assert "cache_control" not in str(messages_of(structs.replace(asked, cache="none")))


def test_long_caching_names_the_session() -> None:
    def cached(**changes: Any) -> tuple[Any, Any]:
        asked = request(session_id="s" * 70, **changes)
        fields = options_of(asked, chat_compat(asked.model))
        return fields.get("prompt_cache_key"), fields.get("prompt_cache_retention")

    openai = model(base_url="https://api.openai.com/v1")
    assert cached() == (None, None)
    assert cached(cache="long") == ("s" * 64, "24h")
    assert cached(model=openai) == ("s" * 64, None)
    assert cached(model=openai, cache="none") == (None, None)


def test_a_configured_header_replaces_ours_whatever_its_case() -> None:
    stated = Access(key="secret", headers={"AUTHORIZATION": "Basic abc", "X-Team": "a"})
    headers = headers_for(request(access=stated), chat_compat(model()))
    assert {name: value for name, value in headers.items() if name.lower() == "authorization"} == {
        "AUTHORIZATION": "Basic abc"
    }
    assert headers["X-Team"] == "a"


def test_sessions_are_named_in_headers_where_wanted() -> None:
    done = Canned(chunks=[sse({"choices": [{"delta": {"content": "x"}, "finish_reason": "stop"}]})])
    bound = model(compat={"sendSessionAffinityHeaders": True})
    server, _, _ = ask(make, request(model=bound, session_id="s1"), done)
    headers = server.requests[0].headers
    names = ("session_id", "x-client-request-id", "x-session-affinity")
    assert [headers.get(name) for name in names] == ["s1"] * 3
    server, _, _ = ask(make, request(session_id="s1"), done)
    assert not set(names) & set(server.requests[0].headers)


def test_reasoning_details_go_back_as_they_came() -> None:
    details = [{"type": "reasoning.text", "text": "Hm."}, {"type": "reasoning.encrypted"}]
    block = Thinking(thinking="Hm.", thinking_signature=msgspec.json.encode(details).decode())
    sent = messages_of(request(assistant(block, Text(text="Hello"))))
    assert sent[1]["reasoning_details"] == details


def test_foreign_call_ids_are_made_acceptable() -> None:
    assert chat_id("call_1|fc_2", "groq") == "call_1_fc_2"
    long = chat_id(f"call_1|{'x' * 60}", "groq")
    assert len(long) == 40
    assert long.startswith("call_1_xxx")
    assert chat_id("y" * 50, "openai") == "y" * 40
    assert chat_id("y" * 50, "groq") == "y" * 50


# ---------------------------------------------------------------- differences between servers


def test_servers_are_known_by_name_or_address() -> None:
    by_name = chat_compat(model(provider="deepseek"))
    by_address = chat_compat(model(base_url="https://api.deepseek.com"))
    assert by_name == by_address
    assert by_name.max_tokens_field == "max_tokens"
    assert by_name.thinking_format == "deepseek"
    assert not by_name.supports_store
    assert by_name.requires_reasoning_content_on_assistant_messages
    assert chat_compat(model(provider="deepseek", compat={"supportsStore": True})).supports_store
    router = chat_compat(model(provider="openrouter", id="qwen/qwen3"))
    assert (router.supports_store, router.supports_developer_role) == (True, False)
    assert chat_compat(model(provider="openrouter", id="openai/gpt-5")).supports_developer_role


def test_a_flag_of_the_wrong_kind_names_the_model() -> None:
    with pytest.raises(ProviderError, match=r"mock/mock-model.*supportsStore"):
        chat_compat(model(compat={"supportsStore": "yes"}))


TEMPLATE = {
    "enable": {"$var": "thinking.enabled"},
    "effort": {"$var": "thinking.effort", "omitWhenOff": True},
    "budget": {"$var": "thinking.budget"},
    "fixed": 1,
}


@pytest.mark.parametrize(
    ("style", "on", "off"),
    [
        ("openai", {"reasoning_effort": "high"}, {}),
        ("openrouter", {"reasoning": {"effort": "high"}}, {"reasoning": {"effort": "none"}}),
        (
            "deepseek",
            {"thinking": {"type": "enabled"}, "reasoning_effort": "high"},
            {"thinking": {"type": "disabled"}},
        ),
        (
            "zai",
            {"thinking": {"type": "enabled", "clear_thinking": False}, "reasoning_effort": "high"},
            {"thinking": {"type": "disabled"}},
        ),
        ("qwen", {"enable_thinking": True, "reasoning_effort": "high"}, {"enable_thinking": False}),
        (
            "qwen-chat-template",
            {"chat_template_kwargs": {"enable_thinking": True, "preserve_thinking": True}},
            {"chat_template_kwargs": {"enable_thinking": False, "preserve_thinking": True}},
        ),
        (
            "chat-template",
            {
                "chat_template_kwargs": {
                    "enable": True,
                    "effort": "high",
                    "budget": 7168,
                    "fixed": 1,
                }
            },
            {"chat_template_kwargs": {"enable": False, "fixed": 1}},
        ),
        (
            "baseten",
            {
                "chat_template_args": {
                    "enable": True,
                    "effort": "high",
                    "budget": 7168,
                    "fixed": 1,
                },
                "reasoning_effort": "high",
            },
            {"chat_template_args": {"enable": False, "fixed": 1}},
        ),
        (
            "together",
            {"reasoning": {"enabled": True}, "reasoning_effort": "high"},
            {"reasoning": {"enabled": False}},
        ),
        ("string-thinking", {"thinking": "high"}, {"thinking": "none"}),
        ("ant-ling", {}, {}),
    ],
)
def test_thinking_is_asked_for_in_the_words_of_the_server(
    style: str, on: dict[str, Any], off: dict[str, Any]
) -> None:
    flags = {
        "thinkingFormat": style,
        "chatTemplateKwargs": TEMPLATE,
        "chatTemplateArgs": TEMPLATE,
    }
    asked = request(model=model(compat=flags))
    compat = chat_compat(asked.model)
    plain = options_of(structs.replace(asked, model=model(reasoning=False)), compat)

    def extra(level: str) -> dict[str, Any]:
        fields = options_of(structs.replace(asked, thinking=level), compat)
        return {name: value for name, value in fields.items() if name not in plain}

    assert (extra("high"), extra("off")) == (on, off)


def test_levels_go_by_the_names_that_the_model_gives_them() -> None:
    def fields(level: str, style: str, **names: str | None) -> dict[str, Any]:
        named = model(thinking_level_map=names, compat={"thinkingFormat": style})
        sent = options_of(request(model=named, thinking=level), chat_compat(named))
        asked = ("reasoning_effort", "reasoning", "thinking")
        return {name: sent[name] for name in asked if name in sent}

    assert fields("high", "openai", high="most") == {"reasoning_effort": "most"}
    assert fields("off", "openai", off="none") == {"reasoning_effort": "none"}
    assert fields("max", "openai") == {"reasoning_effort": "high"}
    assert fields("off", "openrouter", off=None) == {}
    assert fields("off", "deepseek", off=None) == {}
    assert fields("high", "ant-ling", high="max") == {"reasoning": {"effort": "max"}}


def test_other_fields_come_from_flags_and_sampling_comes_last() -> None:
    tuned = model(
        compat={
            "openRouterRouting": {"only": ["a"]},
            "vercelGatewayRouting": {"order": ["b"], "x": 1},
            "vllmPriority": 3,
            "zaiToolStream": True,
            "thinkingTokenBudgetField": "thinking_budget",
            "supportsUsageInStreaming": False,
            "supportsStore": False,
            "maxTokensField": "max_tokens",
        },
        sampling_params={"temperature": 0.2, "max_tokens": 5},
    )
    asked = request(model=tuned, tools=(READ,), thinking="low", thinking_budgets={"low": 99})
    fields = options_of(asked, chat_compat(tuned))
    del fields["tools"]
    assert fields == {
        "model": "mock-model",
        "stream": True,
        "max_tokens": 5,
        "tool_stream": True,
        "reasoning_effort": "low",
        "thinking_budget": 99,
        "provider": {"only": ["a"]},
        "providerOptions": {"gateway": {"order": ["b"]}},
        "priority": 3,
        "temperature": 0.2,
    }
