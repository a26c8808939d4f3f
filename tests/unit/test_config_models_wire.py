"""Every key of models.json that has an effect on a request, seen by a real server."""

import asyncio
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from ludolf.ai.draft import Draft, StreamEvent
from ludolf.ai.http.transport import Transport
from ludolf.ai.messages import Image, UserMessage
from ludolf.ai.provider import ModelAnswer, Request
from ludolf.ai.registry import Providers
from ludolf.ai.stream import respond
from ludolf.config.auth.keyring import Keyring
from ludolf.config.models.registry import ModelRegistry
from ludolf.tools import image_limits
from tests.loopback import Asked, Canned, Loopback

HELLO = (UserMessage(content="Hi", timestamp=1),)
PICTURE = (UserMessage(content=(Image(data="AAAA", mime_type="image/png"),), timestamp=1),)
CHAT = {"baseUrl": "URL/v1", "api": "openai-completions", "apiKey": "secret"}
TIER = {"inputTokensAbove": 100, "input": 4e6, "output": 0, "cacheRead": 0, "cacheWrite": 0}
OVERRIDE = {
    "maxTokens": 78,
    "headers": {"x-model": "override"},
    "samplingParams": {"top_p": 0.9},
    "compat": {"maxTokensField": "max_tokens", "openRouterRouting": {"order": ["b"]}},
}


def registry(folder: Path, providers: Any, **environ: str) -> ModelRegistry:
    (folder / "models.json").write_text(json.dumps({"providers": providers}))
    return ModelRegistry(folder / "models.json", Keyring(folder / "auth.json", dict(environ)))


def ask(folder: Path, providers: Any, key: str, **changes: Any) -> tuple[Asked, ModelAnswer]:
    """What a server gets from a model of these providers, where URL stands for the server."""

    async def take(events: Iterable[StreamEvent]) -> None:
        list(events)

    async def run(found: ModelRegistry) -> ModelAnswer:
        provider, _, model_id = key.partition("/")
        model = found.find(provider, model_id)
        assert model is not None, found.errors
        access = found.access(model)
        assert access is not None
        transport = Transport({})
        asked = Request(
            environ=os.environ,
            provider=Providers(transport).get(model.api),
            model=model,
            access=access,
            system="",
            messages=changes.pop("messages", HELLO),
            session_id="session",
            **changes,
        )
        try:
            return await respond(asked, Draft(model), take)
        finally:
            await transport.close()

    usage = {"prompt_tokens": 200, "completion_tokens": 0}
    end = json.dumps({"choices": [{"delta": {}, "finish_reason": "stop"}], "usage": usage})
    reply = Canned(chunks=[f"data: {end}\n\ndata: [DONE]\n\n".encode()])
    with Loopback(reply) as server:
        named = json.loads(json.dumps(providers).replace("URL", server.url))
        answer = asyncio.run(run(registry(folder, named, TEAM="red", GROQ_API_KEY="groq")))
        return server.requests[0], answer


def body(folder: Path, model: dict[str, Any], **changes: Any) -> Any:
    """The body of a request to this model, at a server of its own."""
    asked, _ = ask(folder, {"a": {**CHAT, "models": [{"id": "m", **model}]}}, "a/m", **changes)
    return asked.json


def test_address_api_and_key_of_a_provider(tmp_path: Path) -> None:
    asked, _ = ask(tmp_path, {"a": {**CHAT, "models": [{"id": "m"}]}}, "a/m")
    assert asked.path == "/v1/chat/completions"
    assert asked.headers["authorization"] == "Bearer secret"
    assert asked.json["model"] == "m"
    assert asked.json["max_completion_tokens"] == 16384
    assert "reasoning_effort" not in asked.json


def test_a_model_may_have_an_address_and_an_api_of_its_own(tmp_path: Path) -> None:
    own = {"id": "m", "baseUrl": "URL/other", "api": "anthropic-messages"}
    provider = {**CHAT, "baseUrl": "http://127.0.0.1:9", "models": [own]}
    asked, _ = ask(tmp_path, {"a": provider}, "a/m")
    assert asked.path == "/other/v1/messages"
    assert asked.headers["x-api-key"] == "secret"


def test_headers_of_provider_model_and_override_lie_over_each_other(tmp_path: Path) -> None:
    provider = {
        **CHAT,
        "headers": {"X-Team": "$TEAM", "X-Model": "provider", "X-Gone": "1"},
        "models": [{"id": "m", "headers": {"x-model": "model", "x-gone": None}}],
        "modelOverrides": {"m": {"headers": {"X-MODEL": "override"}}},
    }
    asked, _ = ask(tmp_path, {"a": provider}, "a/m")
    assert asked.headers["x-team"] == "red"
    assert asked.headers["x-model"] == "override"
    assert "x-gone" not in asked.headers


@pytest.mark.parametrize(
    ("api", "ours"),
    [
        ("openai-completions", "user-agent"),
        ("openai-responses", "session_id"),
        ("anthropic-messages", "user-agent"),
        ("google-generative-ai", "user-agent"),
        ("mistral-conversations", "x-affinity"),
    ],
)
def test_null_takes_away_a_header_that_is_usually_sent(tmp_path: Path, api: str, ours: str) -> None:
    plain = {"id": "m", "api": api}
    without = {"id": "n", "api": api, "headers": {ours: None}}
    provider = {**CHAT, "models": [plain, without]}
    assert ours in ask(tmp_path, {"a": provider}, "a/m")[0].headers
    assert ours not in ask(tmp_path, {"a": provider}, "a/n")[0].headers


def test_auth_header_sends_the_key_as_bearer_where_the_api_has_another_way(tmp_path: Path) -> None:
    provider = {**CHAT, "api": "anthropic-messages", "authHeader": True, "models": [{"id": "m"}]}
    asked, _ = ask(tmp_path, {"a": provider}, "a/m")
    assert asked.headers["authorization"] == "Bearer secret"


def test_reasoning_and_its_map_name_the_effort(tmp_path: Path) -> None:
    model = {"reasoning": True, "thinkingLevelMap": {"high": "most"}}
    assert body(tmp_path, model, thinking="high")["reasoning_effort"] == "most"


@pytest.mark.parametrize("sees", [True, False])
def test_images_go_only_to_a_model_that_takes_them(tmp_path: Path, sees: bool) -> None:
    model = {"input": ["text", "image"]} if sees else {}
    sent = json.dumps(body(tmp_path, model, messages=PICTURE))
    assert ("image_url" in sent) is sees


def test_limits_sampling_and_compat_are_in_the_body(tmp_path: Path) -> None:
    sent = body(
        tmp_path,
        {
            "maxTokens": 77,
            "samplingParams": {"top_p": 0.5, "store": "mine"},
            "compat": {"maxTokensField": "max_tokens", "openRouterRouting": {"only": ["a"]}},
        },
    )
    assert sent["max_tokens"] == 77
    assert (sent["top_p"], sent["store"]) == (0.5, "mine")
    assert sent["provider"] == {"only": ["a"]}


def test_a_price_with_tiers_is_what_the_answer_costs(tmp_path: Path) -> None:
    cost = {"input": 1e6, "output": 0, "cacheRead": 0, "cacheWrite": 0, "tiers": [TIER]}
    provider = {**CHAT, "models": [{"id": "m", "cost": cost}]}
    _, answer = ask(tmp_path, {"a": provider}, "a/m")
    assert answer.message.usage.cost.total == 200 * 4


def test_a_shipped_model_can_be_moved_and_overridden(tmp_path: Path) -> None:
    provider = {
        "baseUrl": "URL/moved",
        "headers": {"X-Model": "provider"},
        "compat": {"openRouterRouting": {"only": ["a"]}},
        "modelOverrides": {"openai/gpt-oss-120b": OVERRIDE},
    }
    asked, _ = ask(tmp_path, {"groq": provider}, "groq/openai/gpt-oss-120b")
    assert asked.path == "/moved/chat/completions"
    assert asked.headers["authorization"] == "Bearer groq"
    assert asked.headers["x-model"] == "override"
    assert asked.json["max_tokens"] == 78
    assert asked.json["top_p"] == 0.9
    assert asked.json["provider"] == {"only": ["a"], "order": ["b"]}


def test_limits_and_lifetimes_without_a_field_in_a_request_are_joined_key_by_key(
    tmp_path: Path,
) -> None:
    first = {
        "id": "m",
        "inputLimits": {
            "maxRequestBytes": 5,
            "images": {"maxPerMessage": 3, "resize": {"maxWidth": 10, "maxHeight": 20}},
        },
        "promptCache": {"short": 300, "long": 3600},
    }
    change = {
        "inputLimits": {"images": {"resize": {"maxHeight": 99}}},
        "promptCache": {"short": 60},
    }
    provider = {**CHAT, "models": [first], "modelOverrides": {"m": change}}
    model = registry(tmp_path, {"a": provider}).find("a", "m")
    assert model is not None
    resize = {"maxWidth": 10, "maxHeight": 99}
    assert model.input_limits == {
        "maxRequestBytes": 5,
        "images": {"maxPerMessage": 3, "resize": resize},
    }
    assert model.prompt_cache == {"short": 60, "long": 3600}
    limits = image_limits(model.input_limits)
    assert (limits.max_width, limits.max_height) == (10, 99)
