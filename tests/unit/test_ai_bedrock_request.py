"""What Bedrock is sent: turns, tools, cache points, thinking, and where it is sent to."""

import json
from typing import Any

import pytest

from ludolf.ai.access import Access
from ludolf.ai.errors import ProviderError
from ludolf.ai.http.transport import Transport
from ludolf.ai.messages import Image, Message, Text, Thinking, ToolCall, UserMessage
from ludolf.ai.models import Model
from ludolf.ai.provider import ToolSpec
from ludolf.ai.providers.bedrock.identity import address, region_of
from ludolf.ai.providers.bedrock.provider import make
from ludolf.ai.providers.bedrock.request import BedrockRequestBuilder, is_adaptive
from ludolf.ai.sampling import StrictSampling
from tests.anthropic_wire import assistant, request, result, user
from tests.bedrock_wire import model

READ = ToolSpec("read", "Reads.", {"type": "object", "properties": {"path": {"type": "string"}}})
PICTURE = Image(data="QUJD", mime_type="image/png")
OWN = {"api": "bedrock-converse-stream", "provider": "amazon-bedrock"}
US = "https://bedrock-runtime.us-east-1.amazonaws.com"
EU = "https://bedrock-runtime.eu-central-1.amazonaws.com"
FIPS = "https://bedrock-runtime-fips.us-gov-west-1.amazonaws.com"
VPCE = "https://vpce-1.bedrock-runtime.us-west-2.vpce.amazonaws.com"
PROFILE = "arn:aws:bedrock:eu-west-1:123456789012:application-inference-profile/abc"


def body(*messages: Message, force: bool = False, **changes: Any) -> dict[str, Any]:
    fields = {"model": model(), **changes}
    asked = request(make(Transport({})), "", messages=messages or (user(),), **fields)
    variables = {"AWS_BEDROCK_FORCE_CACHE": "1"} if force else {}
    sent: dict[str, Any] = json.loads(BedrockRequestBuilder().build(asked, variables))
    return sent


def own(*blocks: Any, by: Model | None = None) -> Message:
    return assistant(*blocks).replace(model=(by or model()).id, **OWN)


# ---------------------------------------------------------------- turns


def test_the_system_prompt_and_the_last_user_turn_end_with_a_cache_point() -> None:
    sent = body(tools=(READ,))
    point = {"cachePoint": {"type": "default"}}
    assert sent["system"] == [{"text": "Be brief."}, point]
    assert sent["messages"] == [{"role": "user", "content": [{"text": "hello"}, point]}]
    assert sent["inferenceConfig"] == {"maxTokens": 16_384}
    (tool,) = sent["toolConfig"]["tools"]
    schema = {"json": {"type": "object", "properties": {"path": {"type": "string"}}}}
    assert tool == {"toolSpec": {"name": "read", "description": "Reads.", "inputSchema": schema}}


def test_thoughts_go_back_to_a_claude_as_it_signed_them() -> None:
    said = own(
        Thinking(thinking="hm", thinking_signature="sig"),
        Thinking(thinking="[Reasoning redacted]", thinking_signature="AAEC", redacted=True),
        Thinking(thinking="unsigned"),
        Text(text="  "),
        Text(text="ok"),
    )
    turn = body(user(), said, user())["messages"][1]
    assert turn["content"] == [
        {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "sig"}}},
        {"reasoningContent": {"redactedContent": "AAEC"}},
        {"text": "unsigned"},
        {"text": "ok"},
    ]


def test_thoughts_go_back_to_other_models_without_a_signature() -> None:
    nova = model(id="amazon.nova-2-lite-v1:0", name="Nova 2 Lite")
    said = own(Thinking(thinking="hm", thinking_signature="sig"), by=nova)
    sent = body(user(), said, user(), model=nova)
    thought = {"reasoningContent": {"reasoningText": {"text": "hm"}}}
    assert sent["messages"][1]["content"] == [thought]
    assert sent["messages"][-1]["content"] == [{"text": "hello"}]


def test_foreign_thoughts_are_text_and_foreign_ids_are_made_plain() -> None:
    said = assistant(
        Thinking(thinking="hm", thinking_signature="sig"),
        ToolCall(id="call|1/x", name="read", arguments={}),
    )
    turns = body(user(), said, result("call|1/x", Text(text="one")))["messages"]
    call = {"toolUse": {"toolUseId": "call_1_x", "name": "read", "input": {}}}
    assert turns[1]["content"] == [{"text": "hm"}, call]
    assert turns[2]["content"][0]["toolResult"]["toolUseId"] == "call_1_x"


def test_results_and_what_the_user_says_after_them_share_a_turn() -> None:
    said = own(
        ToolCall(id="a", name="read", arguments={"p": {"": 1, "q": [{"": 2}]}, "": 3}),
        ToolCall(id="b", name="read", arguments={}),
    )
    turns = body(
        user(),
        said,
        result("a", Text(text="one"), PICTURE),
        result("b", is_error=True),
        user("go on"),
    )["messages"]
    assert [turn["role"] for turn in turns] == ["user", "assistant", "user"]
    assert turns[1]["content"][0]["toolUse"]["input"] == {"p": {"q": [{}]}}
    first, second, third, point = turns[2]["content"]
    picture = {"image": {"format": "png", "source": {"bytes": "QUJD"}}}
    assert first["toolResult"] == {
        "toolUseId": "a",
        "content": [{"text": "one"}, picture],
        "status": "success",
    }
    assert second["toolResult"] == {
        "toolUseId": "b",
        "content": [{"text": "<empty>"}],
        "status": "error",
    }
    assert (third, point) == ({"text": "go on"}, {"cachePoint": {"type": "default"}})


def test_blank_messages_hold_a_place_or_disappear() -> None:
    turns = body(user("  "), own(Text(text=" ")), UserMessage(content="", timestamp=3))["messages"]
    assert turns == [
        {
            "role": "user",
            "content": [
                {"text": "<empty>"},
                {"text": "<empty>"},
                {"cachePoint": {"type": "default"}},
            ],
        }
    ]


def test_an_image_of_an_unknown_kind_is_named_instead_of_sent() -> None:
    odd = UserMessage(content=(Image(data="QUJD", mime_type="image/bmp"),), timestamp=1)
    content = body(odd, cache="none")["messages"][0]["content"]
    assert content == [{"text": "(image omitted: Bedrock does not take image/bmp)"}]


def test_tools_of_the_past_are_declared_when_there_are_none_now() -> None:
    said = own(ToolCall(id="a", name="read", arguments={}))
    sent = body(user(), said, result("a", Text(text="one")))
    (tool,) = sent["toolConfig"]["tools"]
    assert tool["toolSpec"]["name"] == "read"
    assert "toolConfig" not in body()


def test_a_tool_that_must_be_strict_is_refused() -> None:
    strict = ToolSpec("read", "Reads.", READ.parameters, StrictSampling(strict="require"))
    with pytest.raises(ProviderError, match="strict tools are unsupported"):
        body(tools=(strict,))


# ---------------------------------------------------------------- caching and thinking


def test_cache_points_follow_the_wish_and_the_model() -> None:
    nova = model(id="amazon.nova-lite-v1:0", name="Nova Lite")
    long = body(cache="long")["messages"][0]["content"][-1]
    assert long == {"cachePoint": {"type": "default", "ttl": "1h"}}
    assert "cachePoint" not in json.dumps(body(cache="none"))
    assert "cachePoint" not in json.dumps(body(model=nova))
    assert "cachePoint" in json.dumps(body(model=nova, force=True))


@pytest.mark.parametrize(
    ("model_id", "name", "adaptive"),
    [
        ("anthropic.claude-opus-4-5-20251101-v1:0", "Claude Opus 4.5", False),
        ("us.anthropic.claude-sonnet-4-20250514-v1:0", "Claude Sonnet 4", False),
        ("us.anthropic.claude-3-7-sonnet-20250219-v1:0", "Claude 3.7 Sonnet", False),
        ("us.anthropic.claude-opus-4-6-v1", "Claude Opus 4.6", True),
        ("anthropic.claude-sonnet-5", "Claude Sonnet 5", True),
        ("eu.anthropic.claude-fable-5-1", "Claude Fable 5.1", True),
        (PROFILE, "Claude Sonnet 4.6", True),
        (PROFILE, "my profile", False),
    ],
)
def test_newer_claudes_choose_their_own_budget(model_id: str, name: str, adaptive: bool) -> None:
    assert is_adaptive(model(id=model_id, name=name)) is adaptive


def test_a_claude_thinks_within_a_budget_or_with_an_effort() -> None:
    budget = body(thinking="low", max_tokens=4000)
    assert budget["inferenceConfig"] == {"maxTokens": 6048}
    assert budget["additionalModelRequestFields"] == {
        "thinking": {"type": "enabled", "budget_tokens": 2048, "display": "summarized"},
        "anthropic_beta": ["interleaved-thinking-2025-05-14"],
    }
    newer = model(id="us.anthropic.claude-opus-4-6-v1", thinking_level_map={"max": "max"})
    for level, effort in (("minimal", "low"), ("high", "high"), ("max", "max")):
        assert body(thinking=level, model=newer)["additionalModelRequestFields"] == {
            "thinking": {"type": "adaptive", "display": "summarized"},
            "output_config": {"effort": effort},
        }
    government = model(id="us-gov.anthropic.claude-sonnet-4-6")
    fields = body(thinking="low", model=government)["additionalModelRequestFields"]
    assert fields["thinking"] == {"type": "adaptive"}


def test_nothing_is_said_of_thinking_when_it_is_off_or_unknown() -> None:
    nova = model(id="amazon.nova-2-lite-v1:0", name="Nova 2 Lite")
    for sent in (body(thinking="off"), body(thinking="high", model=nova)):
        assert "additionalModelRequestFields" not in sent


def test_a_conversation_that_grows_is_sent_as_if_it_were_new() -> None:
    bodies, grown = BedrockRequestBuilder(), (user(), own(Text(text="a")), user("b"))
    provider = make(Transport({}))
    for count in (1, 3):
        asked = request(provider, "", model=model(), messages=grown[:count])
        assert bodies.build(asked, {}) == BedrockRequestBuilder().build(asked, {})


# ---------------------------------------------------------------- where


@pytest.mark.parametrize(
    ("base", "variables", "model_id", "profile", "expected"),
    [
        (US, {}, "m", None, ("us-east-1", US)),
        (EU, {}, "m", None, ("eu-central-1", EU)),
        (EU, {"AWS_REGION": "us-east-1"}, "m", None, ("us-east-1", US)),
        (US, {"AWS_DEFAULT_REGION": "eu-central-1"}, "m", None, ("eu-central-1", EU)),
        (US, {}, "m", "eu-central-1", ("eu-central-1", EU)),
        (US, {"AWS_REGION": "us-east-1"}, "m", "eu-central-1", ("us-east-1", US)),
        (
            US,
            {"AWS_REGION": "us-west-2"},
            PROFILE,
            None,
            ("eu-west-1", "https://bedrock-runtime.eu-west-1.amazonaws.com"),
        ),
        (
            US,
            {"AWS_REGION": "cn-north-1"},
            "m",
            None,
            ("cn-north-1", "https://bedrock-runtime.cn-north-1.amazonaws.com.cn"),
        ),
        (FIPS, {}, "m", None, ("us-gov-west-1", FIPS)),
        (FIPS, {"AWS_REGION": "us-east-1"}, "m", None, ("us-east-1", US)),
        (VPCE, {}, "m", None, ("us-west-2", VPCE)),
        (VPCE, {"AWS_REGION": "us-east-1"}, "m", None, ("us-east-1", VPCE)),
        ("http://gate.example/x/", {}, "m", None, ("us-east-1", "http://gate.example/x")),
    ],
)
def test_the_region_decides_where_aws_is_asked(
    base: str,
    variables: dict[str, str],
    model_id: str,
    profile: str | None,
    expected: tuple[str, str],
) -> None:
    asked = request(
        make(Transport({})),
        "",
        model=model(id=model_id, base_url=base),
        access=Access(environment=variables),
    )
    region = region_of(asked, profile)
    url, _, rest = address(asked, region).partition("/model/")
    assert (region, url) == expected
    assert rest == f"{model_id.replace(':', '%3A').replace('/', '%2F')}/converse-stream"
