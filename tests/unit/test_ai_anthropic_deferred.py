"""Tools that a search declares in the middle of a conversation, as the Anthropic API sees them."""

import json
from typing import Any

import msgspec
import pytest

from ludolf.ai.access import Access
from ludolf.ai.builtin.scripted import Scripted
from ludolf.ai.messages import Message, Text, ToolCall, ToolResultMessage
from ludolf.ai.models import Model
from ludolf.ai.provider import Request, ToolSpec
from ludolf.ai.providers.anthropic.request import AnthropicRequestBuilder
from tests.anthropic_wire import assistant, model, request, result, user

OFFICIAL = "https://api.anthropic.com"
SHAPE = {"type": "object", "properties": {"q": {"type": "string"}}}
OWN = (ToolSpec("bash", "Run.", SHAPE), ToolSpec("tool_search", "Find tools.", SHAPE))
ISSUES = ToolSpec("mcp__git__issues", "List issues.", SHAPE, deferred=True)
FORKS = ToolSpec("mcp__git__forks", "List forks.", SHAPE, deferred=True)
MARK = {"cache_control": {"type": "ephemeral"}}


def claude(**changes: Any) -> Model:
    return model(**{"id": "claude-opus-4-8", "base_url": OFFICIAL, **changes})


def found(*names: Any, call: str = "c1", more: tuple[str, ...] = ()) -> ToolResultMessage:
    parts = (Text(text=f"found {', '.join(map(str, names))}"), *(Text(text=text) for text in more))
    return msgspec.structs.replace(result(call, *parts), details={"loaded": list(names)})


def searched(*answers: Message, name: str = "tool_search") -> tuple[Message, ...]:
    calls = (
        ToolCall(id=answer.tool_call_id, name=name, arguments={})
        for answer in answers
        if isinstance(answer, ToolResultMessage)
    )
    return user("start"), assistant(*calls), *answers


def asked(**changes: Any) -> Request:
    return request(Scripted(), OFFICIAL, **{"model": claude(), "tools": OWN, **changes})


def body(builder: AnthropicRequestBuilder | None = None, **changes: Any) -> Any:
    return json.loads((builder or AnthropicRequestBuilder()).build(asked(**changes)))


def references(*names: str) -> list[dict[str, str]]:
    return [{"type": "tool_reference", "tool_name": name} for name in names]


def test_a_search_keeps_the_bytes_of_the_system_prompt_and_of_the_first_tools() -> None:
    builder = AnthropicRequestBuilder()
    before = builder.build(asked(messages=(user("start"),), cache="short"))
    after = builder.build(
        asked(messages=searched(found("mcp__git__issues")), tools=(*OWN, ISSUES), cache="short")
    )
    start, end = before.index(b'"system":'), before.index(b'],"thinking"')
    prefix = before[start:end]
    assert prefix.endswith(b'"cache_control":{"type":"ephemeral"}}')
    late = {
        "name": "mcp__git__issues",
        "description": "List issues.",
        "input_schema": SHAPE,
        "eager_input_streaming": True,
        "defer_loading": True,
    }
    assert prefix in after
    assert json.loads(after)["tools"][2:] == [late]


def test_the_result_of_a_search_refers_to_the_tools_of_the_request() -> None:
    messages = searched(found("mcp__git__issues", "mcp__git__gone", "bash", "mcp__git__issues", 7))
    sent = body(messages=messages, tools=(*OWN, ISSUES))
    assert sent["messages"][-1]["content"] == [
        {
            "type": "tool_result",
            "tool_use_id": "c1",
            "content": references("mcp__git__issues"),
            "is_error": False,
            **MARK,
        }
    ]


def test_further_texts_of_a_search_follow_all_results_of_the_turn() -> None:
    messages = searched(
        found("mcp__git__issues", more=("Use labels.",)),
        result("c2", Text(text="plain")),
        found("mcp__git__forks", call="c3", more=("Ask first.",)),
    )
    sent = body(messages=(*messages, user("next")), tools=(*OWN, ISSUES, FORKS), cache="none")
    kinds = [(block["type"], block.get("text")) for block in sent["messages"][-2]["content"]]
    assert kinds == [
        *[("tool_result", None)] * 3,
        ("text", "Use labels."),
        ("text", "Ask first."),
    ]
    assert sent["messages"][-1] == {"role": "user", "content": [{"type": "text", "text": "next"}]}


@pytest.mark.parametrize(
    ("tools", "named"),
    [
        ((*OWN, ISSUES, FORKS), ("mcp__git__issues", "mcp__git__forks")),
        ((*OWN, FORKS), ("mcp__git__forks",)),
        (OWN, ()),
    ],
)
def test_a_tool_that_comes_or_goes_changes_the_references_of_an_encoded_search(
    tools: tuple[ToolSpec, ...], named: tuple[str, ...]
) -> None:
    builder = AnthropicRequestBuilder()
    messages = searched(found("mcp__git__issues", "mcp__git__forks"))
    body(builder, messages=messages, tools=(*OWN, ISSUES))
    sent = body(builder, messages=messages, tools=tools)
    (block,) = sent["messages"][-1]["content"]
    text = "found mcp__git__issues, mcp__git__forks"
    assert block["content"] == (references(*named) if named else text)
    assert sent == body(messages=messages, tools=tools)


@pytest.mark.parametrize(
    ("changes", "supported"),
    [
        ({"id": "claude-sonnet-5"}, True),
        ({"id": "claude-fable-5-1"}, True),
        ({"id": "claude-opus-4-5-20251101"}, True),
        ({"id": "claude-opus-4-1-20250805"}, False),
        ({"id": "claude-sonnet-4-20250514"}, False),
        ({"id": "claude-haiku-4-5"}, False),
        ({"id": "claude-haiku-4-5", "compat": {"supportsToolReferences": True}}, True),
        ({"compat": {"supportsToolReferences": False}}, False),
    ],
)
def test_only_models_that_know_references_get_them(
    changes: dict[str, Any], supported: bool
) -> None:
    messages, tools = searched(found("mcp__git__issues")), (*OWN, ISSUES)
    sent = body(model=claude(**changes), messages=messages, tools=tools)
    (block,) = sent["messages"][-1]["content"]
    assert ("defer_loading" in sent["tools"][-1]) == supported
    assert ("cache_control" in sent["tools"][-1]) == (not supported)
    assert (block["content"] == "found mcp__git__issues") == (not supported)


def test_another_server_gets_deferred_tools_as_ordinary_ones_at_the_end() -> None:
    messages, tools = searched(found("mcp__git__issues")), (*OWN, ISSUES)
    proxy = Access(key="k", base_url="https://proxy.example.com")
    sent = body(access=proxy, messages=messages, tools=tools)
    plain = (*OWN, msgspec.structs.replace(ISSUES, deferred=False))
    assert sent == body(access=proxy, messages=messages, tools=plain)


@pytest.mark.parametrize(
    "answer",
    [
        msgspec.structs.replace(found("mcp__git__issues"), is_error=True),
        msgspec.structs.replace(found(), details={"loaded": "mcp__git__issues"}),
        msgspec.structs.replace(found(), details=["mcp__git__issues"]),
        result("c1", Text(text="no details")),
    ],
)
def test_a_deferred_tool_that_no_result_refers_to_is_sent_as_an_ordinary_one(
    answer: ToolResultMessage,
) -> None:
    sent = body(messages=searched(answer), tools=(*OWN, ISSUES))
    assert [tool["name"] for tool in sent["tools"]] == ["bash", "tool_search", ISSUES.name]
    assert not any("defer_loading" in tool for tool in sent["tools"])
    assert isinstance(sent["messages"][-1]["content"][0]["content"], str)


def test_a_request_has_a_tool_that_is_not_deferred() -> None:
    sent = body(messages=searched(found("mcp__git__issues")), tools=(ISSUES,))
    (tool,) = sent["tools"]
    assert "defer_loading" not in tool
    assert sent["messages"][-1]["content"][0]["content"] == "found mcp__git__issues"
