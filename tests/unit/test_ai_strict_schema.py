"""Strict sampling and grammars: what is sent for a tool that asks, and what comes back."""

from typing import Any

import pytest

from ludolf.ai.errors import ProviderError
from ludolf.ai.messages import Text, ToolCall, UserMessage
from ludolf.ai.provider import ModelAnswer, ToolSpec
from ludolf.ai.providers.anthropic import provider as anthropic
from ludolf.ai.providers.google import provider as google
from ludolf.ai.providers.openai import completions as openai_completions
from ludolf.ai.providers.openai import responses as openai_responses
from ludolf.ai.sampling import PREFER_STRICT, GrammarSampling, Sampling, StrictSampling
from ludolf.ai.strict_schema import grammar_for, sampled_schema
from ludolf.ai.tool_schema import portable_schema
from ludolf.tools import BuiltinToolOptions, BuiltinTools
from ludolf.tools.schema import check_arguments
from tests.loopback import Canned
from tests.openai_asking import ask, assistant, model, request, result, sse

REQUIRE = StrictSampling(strict="require")
LARK = GrammarSampling(variants={"openai_lark": "start: /a+/"})
NULL = {"type": "null"}
ONE_TEXT = {"type": "object", "properties": {"code": {"type": "string"}}, "required": ["code"]}
LOOKUP: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "most": {"type": "integer"}},
    "required": ["name"],
}
STRICT_LOOKUP = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "most": {"anyOf": [{"type": "integer"}, NULL]},
    },
    "required": ["name", "most"],
    "additionalProperties": False,
}


def strict(schema: dict[str, Any]) -> dict[str, Any] | None:
    """The strict form, or None where the schema stays as it is."""
    made, enforced = sampled_schema("t", schema, PREFER_STRICT, supported=True)
    assert enforced or made == portable_schema(schema)
    return dict(made) if enforced else None


def with_property(shape: Any, *, required: bool = False) -> dict[str, Any]:
    named = {"type": "object", "properties": {"a": shape}}
    return {**named, "required": ["a"]} if required else named


# ---------------------------------------------------------------- schemas


def test_every_property_becomes_required_and_optional_ones_may_be_null() -> None:
    assert strict(LOOKUP) == STRICT_LOOKUP


def test_objects_inside_objects_and_lists_become_strict_too() -> None:
    inner = {"type": "object", "properties": {"s": {"type": "string"}}}
    made = strict(with_property({"type": "array", "items": inner}, required=True))
    assert made is not None
    assert made["properties"]["a"]["items"] == {
        "type": "object",
        "properties": {"s": {"anyOf": [{"type": "string"}, NULL]}},
        "required": ["s"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    "shape",
    [
        {"type": ["string", "null"]},
        {"anyOf": [{"type": "string"}, NULL]},
        {"type": "null"},
    ],
)
def test_what_may_be_null_already_stays_as_it_is(shape: dict[str, Any]) -> None:
    made = strict(with_property(shape))
    assert made is not None
    assert made["properties"]["a"] == shape


@pytest.mark.parametrize(
    "schema",
    [
        with_property({"$ref": "#/$defs/x"}),
        {**with_property({"type": "string"}), "$defs": {}},
        with_property({"allOf": [{"type": "string"}]}),
        with_property({"oneOf": [{"type": "string"}]}),
        with_property({"not": {"type": "string"}}),
        with_property({"anyOf": [{"type": "string"}, {"type": "object", "properties": {}}]}),
        with_property({"type": "array", "items": [{"type": "string"}]}),
        with_property({"type": "array", "prefixItems": [{"type": "string"}]}),
        with_property({"type": "array", "items": {"type": "string"}, "contains": {}}),
        with_property({"type": "object", "additionalProperties": {"type": "string"}}),
        with_property(True),
        {**with_property({"type": "string"}), "additionalProperties": True},
        {**with_property({"type": "string"}), "patternProperties": {"^x": {}}},
        {**with_property({"type": "string"}), "propertyNames": {}},
        {**with_property({"type": "string"}), "if": {}, "then": {}},
        {"anyOf": [{"type": "object", "properties": {}}]},
        {"properties": {"a": {"type": "string"}}},
    ],
)
def test_a_schema_that_cannot_be_strict_is_sent_plain(schema: dict[str, Any]) -> None:
    assert strict(schema) is None


@pytest.mark.parametrize(
    ("schema", "supported", "reason"),
    [
        (LOOKUP, False, "strict tools"),
        (with_property({"$ref": "#/x"}), True, "$ref schemas"),
        (with_property({"oneOf": []}), True, "oneOf schemas"),
    ],
)
def test_a_tool_that_requires_strict_sampling_is_refused_without_it(
    schema: dict[str, Any], supported: bool, reason: str
) -> None:
    with pytest.raises(ProviderError) as refusal:
        sampled_schema("find", schema, REQUIRE, supported=supported)
    assert str(refusal.value) == (
        f'Tool "find" requires JSON-schema constrained sampling, but {reason} are unsupported.'
    )


def test_without_a_wish_nothing_is_enforced() -> None:
    assert sampled_schema("t", LOOKUP, None, supported=True) == (LOOKUP, False)


def test_null_for_an_optional_argument_reaches_the_tool_as_left_out() -> None:
    assert check_arguments("t", LOOKUP, {"name": "x", "most": None}) == {"name": "x"}


def test_the_four_usual_tools_prefer_strict_sampling_and_can_be_strict() -> None:
    tools = BuiltinTools(BuiltinToolOptions())
    asking = {name for name, tool in tools.items() if tool.sampling}
    assert asking == {"read", "bash", "edit", "write"}
    for name in asking:
        assert strict(dict(tools[name].parameters)) is not None


# ---------------------------------------------------------------- on the wire


def asked_for(
    make: Any, *tools: ToolSpec, replies: tuple[Canned, ...] = (), **changes: Any
) -> tuple[Any, ModelAnswer]:
    """The body that a server gets for these tools, and the answer."""
    asked = request(tools=tools, model=model(**changes))
    canned = replies or (Canned(status=400, chunks=[b"{}"]),)
    server, answer, _ = ask(make, asked, *canned)
    return (server.requests[0].json if server.requests else None), answer


def tool(sampling: Sampling | None = PREFER_STRICT, **schema: Any) -> ToolSpec:
    return ToolSpec("find", "Finds.", schema or LOOKUP, sampling)


@pytest.mark.parametrize("supported", [True, False])
def test_chat_completions_get_strict_tools_where_the_server_knows_them(supported: bool) -> None:
    body, _ = asked_for(openai_completions.make, tool(), compat={"supportsStrictMode": supported})
    function: dict[str, Any] = {"name": "find", "description": "Finds.", "parameters": LOOKUP}
    if supported:
        function |= {"parameters": STRICT_LOOKUP, "strict": True}
    assert body["tools"] == [{"type": "function", "function": function}]


def test_responses_get_strict_tools_and_say_so_of_others() -> None:
    body, _ = asked_for(
        openai_responses.make,
        tool(),
        tool(sampling=None),
        api="openai-responses",
        compat={"supportsStrictMode": True},
    )
    first, second = body["tools"]
    assert (first["strict"], first["parameters"]) == (True, STRICT_LOOKUP)
    assert (second["strict"], second["parameters"]) == (False, LOOKUP)


def test_claude_gets_strict_tools_unless_their_schema_has_limits_it_refuses() -> None:
    limited = with_property({"type": "string", "maxLength": 5})
    body, _ = asked_for(
        anthropic.make,
        tool(),
        ToolSpec("short", "Short.", limited, PREFER_STRICT),
        api="anthropic-messages",
        compat={"supportsStrictTools": True},
    )
    first, second = body["tools"]
    assert (first["strict"], first["input_schema"]) == (True, STRICT_LOOKUP)
    assert "strict" not in second
    assert second["input_schema"] == limited


@pytest.mark.parametrize(("model_id", "enforced"), [("gemini-3-pro", True), ("gemini-2.5", False)])
def test_gemini_validates_calls_from_the_third_generation_on(model_id: str, enforced: bool) -> None:
    body, _ = asked_for(google.make, tool(), api="google-generative-ai", id=model_id)
    declared = body["tools"][0]["functionDeclarations"][0]
    assert declared["parametersJsonSchema"] == (STRICT_LOOKUP if enforced else LOOKUP)
    mode = {"functionCallingConfig": {"mode": "VALIDATED"}}
    assert body.get("toolConfig") == (mode if enforced else None)


def test_a_tool_that_requires_more_than_the_server_can_ends_the_request_before_it_is_sent() -> None:
    body, answer = asked_for(openai_completions.make, tool(REQUIRE))
    assert body is None
    assert answer.message.stop_reason == "error"
    assert "strict tools are unsupported" in (answer.message.error_message or "")


# ---------------------------------------------------------------- grammars


def test_a_grammar_needs_one_text_to_fill() -> None:
    grammar = grammar_for("t", ONE_TEXT, LARK, supported=True)
    assert grammar is not None
    assert (grammar.syntax, grammar.definition, grammar.argument) == ("lark", "start: /a+/", "code")
    assert grammar_for("t", ONE_TEXT, LARK, supported=False) is None
    with pytest.raises(ProviderError, match="property a must have type string"):
        grammar_for("t", with_property({"type": "number"}, required=True), LARK, supported=True)
    with pytest.raises(ProviderError, match="exactly one required property"):
        two = {"a": {"type": "string"}, "b": {"type": "string"}}
        grammar_for("t", {"type": "object", "properties": two}, LARK, supported=True)


CODE = ToolSpec("code", "Code.", ONE_TEXT, LARK)
GRAMMARS = {"supportsOpenAIGrammarTools": True}
PIECES = ('a"', "a", "\n")


def custom_answer() -> Canned:
    item = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_1", "name": "code"}
    kind = "response.custom_tool_call_input"
    place = {"output_index": 0, "item_id": "ctc_1"}
    return Canned(
        chunks=[
            sse(
                {"type": "response.output_item.added", **place, "item": {**item, "input": ""}},
                *({"type": f"{kind}.delta", **place, "delta": piece} for piece in PIECES),
                {"type": f"{kind}.done", **place, "input": "".join(PIECES)},
                {
                    "type": "response.output_item.done",
                    **place,
                    "item": {**item, "input": "".join(PIECES)},
                },
                {"type": "response.completed", "response": {"status": "completed"}},
            )
        ]
    )


def test_responses_get_a_grammar_as_a_custom_tool_and_its_text_becomes_the_argument() -> None:
    body, answer = asked_for(
        openai_responses.make,
        CODE,
        replies=(custom_answer(),),
        api="openai-responses",
        compat=GRAMMARS,
    )
    rules = {"type": "grammar", "syntax": "lark", "definition": "start: /a+/"}
    assert body["tools"] == [
        {"type": "custom", "name": "code", "description": "Code.", "format": rules}
    ]
    (call,) = answer.message.tool_calls
    assert (call.id, call.arguments) == ("call_1|ctc_1", {"code": 'a"a\n'})
    assert answer.message.stop_reason == "toolUse"


def test_a_call_by_grammar_goes_back_as_text() -> None:
    here = model(api="openai-responses", compat=GRAMMARS)
    call = ToolCall(id="call_1|ctc_1", name="code", arguments={"code": "aa"})
    earlier = assistant(call, api="openai-responses", stop_reason="toolUse")
    asked = request(
        UserMessage(content="Hi", timestamp=1),
        earlier,
        result("call_1|ctc_1", Text(text="done")),
        model=here,
        tools=(CODE,),
    )
    server, _, _ = ask(openai_responses.make, asked, Canned(status=400, chunks=[b"{}"]))
    named = {"id": "ctc_1", "call_id": "call_1", "name": "code"}
    assert server.requests[0].json["input"][-2:] == [
        {"type": "custom_tool_call", **named, "input": "aa"},
        {"type": "custom_tool_call_output", "call_id": "call_1", "output": "done"},
    ]


def test_chat_completions_know_grammars_too() -> None:
    def chunk(delta: Any, finish: str | None = None) -> Any:
        return {"choices": [{"delta": delta, "finish_reason": finish}]}

    start = {"index": 0, "id": "c", "type": "custom", "custom": {"name": "code", "input": ""}}
    told = [{"tool_calls": [{"index": 0, "custom": {"input": piece}}]} for piece in PIECES]
    events = [chunk({"tool_calls": [start]}), *map(chunk, told), chunk({}, "tool_calls")]
    body, answer = asked_for(
        openai_completions.make,
        CODE,
        replies=(Canned(chunks=[sse(*events, b"[DONE]")]),),
        compat=GRAMMARS,
    )
    rules = {"syntax": "lark", "definition": "start: /a+/"}
    form = {"type": "grammar", "grammar": rules}
    custom = {"name": "code", "description": "Code.", "format": form}
    assert body["tools"] == [{"type": "custom", "custom": custom}]
    assert [call.arguments for call in answer.message.tool_calls] == [{"code": 'a"a\n'}]


def test_a_server_without_grammars_gets_an_ordinary_function() -> None:
    body, _ = asked_for(openai_responses.make, CODE, api="openai-responses")
    assert body["tools"][0]["type"] == "function"
    assert body["tools"][0]["parameters"] == ONE_TEXT
