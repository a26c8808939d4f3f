"""Responses: what a request holds."""

from typing import Any

import msgspec
from msgspec import structs

from ludolf.ai.messages import Image, Text, Thinking, ToolCall, UserMessage
from ludolf.ai.models import Model
from ludolf.ai.provider import Request
from ludolf.ai.providers.openai.compat import responses_compat
from ludolf.ai.providers.openai.responses import Items, make, options_of, responses_id
from tests.loopback import Canned
from tests.openai_asking import READ, ask, assistant, model, request, result, sse

OURS = {"api": "openai-responses"}


def ours(**changes: Any) -> Model:
    return model(**OURS, **changes)


def options(asked: Request) -> dict[str, Any]:
    return options_of(asked, responses_compat(asked.model))


def items_of(asked: Request) -> list[Any]:
    pieces = Items().encode(asked, responses_compat(asked.model))
    found: list[Any] = msgspec.json.decode(b"[%b]" % b",".join(pieces))
    return found


def test_a_request_has_the_form_that_pi_sends() -> None:
    asked = request(model=ours(), tools=(READ,), thinking="medium", session_id="s1")
    assert options(asked) == {
        "model": "mock-model",
        "stream": True,
        "store": False,
        "max_output_tokens": 8192,
        "prompt_cache_key": "s1",
        "tools": [
            {
                "type": "function",
                "name": "read",
                "description": "Reads a file.",
                "parameters": {"type": "object", "properties": {}},
            }
        ],
        "reasoning": {"effort": "medium", "summary": "auto"},
        "include": ["reasoning.encrypted_content"],
    }


def test_thinking_is_turned_off_as_the_model_can() -> None:
    def reasoning(**changes: Any) -> Any:
        return options(request(model=ours(**changes))).get("reasoning")

    assert reasoning() == {"effort": "none"}
    assert reasoning(thinking_level_map={"off": "minimal"}) == {"effort": "minimal"}
    assert reasoning(thinking_level_map={"off": None}) is None
    assert reasoning(reasoning=False) is None
    assert "include" not in options(request(model=ours()))
    assert "include" in options(request(model=ours(provider="xai")))


def test_limits_caching_and_sampling_follow_model_and_request() -> None:
    asked = request(model=ours(), max_tokens=3, cache="long", session_id="s" * 70)
    fields = options(asked)
    assert (fields["max_output_tokens"], fields["prompt_cache_retention"]) == (16, "24h")
    assert fields["prompt_cache_key"] == "s" * 64
    flags = {"supportsExplicitPromptCacheMode": True, "supportsMaxOutputTokens": False}
    tuned = ours(compat=flags, sampling_params={"store": True, "service_tier": "flex"})
    fields = options(structs.replace(asked, model=tuned))
    assert fields["prompt_cache_options"] == {"ttl": "30m"}
    assert (fields["store"], fields["service_tier"]) == (True, "flex")
    assert "max_output_tokens" not in fields
    assert not any("cache" in name for name in options(structs.replace(asked, cache="none")))


def test_a_conversation_becomes_items() -> None:
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}
    said = assistant(
        Thinking(thinking="", thinking_signature=msgspec.json.encode(reasoning).decode()),
        Text(text="One", text_signature='{"v":1,"id":"msg_1","phase":"commentary"}'),
        Text(text="Two"),
        ToolCall(id="call_1|fc_1", name="read", arguments={"path": "ü"}),
        **OURS,
    )
    image = Image(data="AA==", mime_type="image/png")
    user = UserMessage(content=(Text(text="Look \ud800here"), image), timestamp=1)
    sent = items_of(request(user, said, result("call_1|fc_1", Text(text="a")), model=ours()))
    shown = {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,AA=="}
    spoken = {"type": "message", "role": "assistant", "status": "completed"}
    assert sent == [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "input_text", "text": "Look here"}, shown]},
        reasoning,
        {
            **spoken,
            "content": [{"type": "output_text", "text": "One", "annotations": []}],
            "id": "msg_1",
            "phase": "commentary",
        },
        {
            **spoken,
            "content": [{"type": "output_text", "text": "Two", "annotations": []}],
            "id": "msg_2_2",
        },
        {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "call_1",
            "name": "read",
            "arguments": '{"path":"ü"}',
        },
        {"type": "function_call_output", "call_id": "call_1", "output": "a"},
    ]


def test_results_with_images_are_lists_and_empty_ones_say_so() -> None:
    image = Image(data="AA==", mime_type="image/png")
    calls = [ToolCall(id=name, name="read", arguments={}) for name in "abc"]
    sent = items_of(
        request(
            assistant(*calls, **OURS),
            result("a", Text(text="t"), image),
            result("b", image),
            result("c"),
            model=ours(),
        )
    )
    kinds = [
        item["output"] if isinstance(item["output"], str) else [p["type"] for p in item["output"]]
        for item in sent[4:]
    ]
    assert kinds == [["input_text", "input_image"], ["input_image"], "(no tool output)"]


def test_call_ids_of_other_models_follow_the_rules_of_the_server() -> None:
    here = ours()
    sibling = assistant(model="other", **OURS)
    foreign = assistant(provider="elsewhere", **OURS)
    assert responses_id("call_1|fc_1", sibling, here) == "call_1"
    assert responses_id("call_1|fc_1", foreign, here).startswith("call_1|fc_")
    assert responses_id("call_1|fc_1", foreign, here) != "call_1|fc_1"
    assert responses_id("toolu_01", foreign, here) == "toolu_01"
    assert responses_id("a.b:" + "x" * 80, foreign, here) == "a_b_" + "x" * 60
    assert responses_id("odd++", foreign, here) == "odd"


def test_results_keep_to_the_calls_whose_ids_were_changed() -> None:
    said = assistant(ToolCall(id="call.1|fc_1", name="read", arguments={}), provider="elsewhere")
    sent = items_of(request(said, result("call.1|fc_1", Text(text="a")), model=ours()))
    assert sent[1]["call_id"] == sent[2]["call_id"] == "call_1"
    assert sent[1]["id"].startswith("fc_")


def test_long_or_bare_text_signatures_still_give_an_id() -> None:
    long = Text(text="a", text_signature='{"v":1,"id":"%s"}' % ("x" * 65))
    bare = Text(text="b", text_signature="msg_old")
    sent = items_of(request(assistant(long, bare, **OURS), model=ours()))
    assert sent[1]["id"].startswith("msg_")
    assert len(sent[1]["id"]) <= 64
    assert sent[2]["id"] == "msg_old"


def test_each_message_is_encoded_once() -> None:
    items = Items()
    asked = request(
        UserMessage(content="Hi", timestamp=1), assistant(Text(text="Yes")), model=ours()
    )
    compat = responses_compat(asked.model)
    first = items.encode(asked, compat)
    more = (*asked.messages, UserMessage(content="More", timestamp=3))
    again = items.encode(structs.replace(asked, messages=more), compat)
    assert all(old is new for old, new in zip(first[1:], again[1:], strict=False))
    assert len(again) == len(first) + 1


def test_the_session_is_named_in_headers_unless_caching_is_off() -> None:
    done = Canned(chunks=[sse({"type": "response.completed", "response": {"status": "completed"}})])
    server, answer, _ = ask(make, request(model=ours(), session_id="s1"), done)
    assert answer.kind is None
    headers = server.requests[0].headers
    assert (headers["session_id"], headers["x-client-request-id"]) == ("s1", "s1")
    server, _, _ = ask(make, request(model=ours(), session_id="s1", cache="none"), done)
    assert "session_id" not in server.requests[0].headers
    assert server.requests[0].json["input"][1]["role"] == "user"
