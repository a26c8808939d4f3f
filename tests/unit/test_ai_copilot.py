"""GitHub Copilot: who began, what for, and whether there are pictures, in every API."""

from typing import Any

import pytest

from ludolf.ai.access import Access
from ludolf.ai.messages import Image, Message, Text, ToolCall, UserMessage
from tests.gateway_asking import ask
from tests.openai_asking import READ, assistant, model, request, result

PICTURE = Image(data="AA==", mime_type="image/png")
APIS = {
    "openai-completions": "/chat/completions",
    "openai-responses": "/responses",
    "anthropic-messages": "/v1/messages",
}


def asked(api: str, *messages: Message, **changes: Any) -> dict[str, str]:
    copilot = model(
        api=api, provider="github-copilot", base_url="https://api.individual.githubcopilot.com"
    )
    requests, answer = ask(request(*messages, **{"model": copilot, "tools": (READ,), **changes}))
    assert answer.message.stop_reason == "stop"
    assert requests[0].path == APIS[api]
    return requests[0].headers


@pytest.mark.parametrize("api", APIS)
def test_a_turn_of_the_user_is_told_apart_from_one_of_the_agent(api: str) -> None:
    user = UserMessage(content="Hi", timestamp=1)
    call = assistant(ToolCall(id="c1", name="read", arguments={}), api=api)
    by_user = asked(api, user)
    by_agent = asked(api, user, call, result("c1", Text(text="t")))
    assert (by_user["x-initiator"], by_agent["x-initiator"]) == ("user", "agent")
    assert by_user["openai-intent"] == by_agent["openai-intent"] == "conversation-edits"
    assert asked(api, user, assistant(Text(text="ok"), api=api))["x-initiator"] == "agent"


@pytest.mark.parametrize("api", APIS)
def test_pictures_anywhere_are_announced(api: str) -> None:
    shown = UserMessage(content=(Text(text="Look"), PICTURE), timestamp=1)
    call = assistant(ToolCall(id="c1", name="read", arguments={}), api=api)
    later = (shown, assistant(Text(text="ok"), api=api), UserMessage(content="And?", timestamp=3))
    assert asked(api, *later)["copilot-vision-request"] == "true"
    seen = asked(api, UserMessage(content="Hi", timestamp=1), call, result("c1", PICTURE))
    assert seen["copilot-vision-request"] == "true"
    assert "copilot-vision-request" not in asked(api, UserMessage(content="Hi", timestamp=1))


@pytest.mark.parametrize("api", APIS)
def test_the_token_is_sent_as_a_bearer_and_configured_headers_win(api: str) -> None:
    headers = asked(api, access=Access(key="gh", headers={"X-INITIATOR": "agent"}))
    assert headers["authorization"] == "Bearer gh"
    assert "x-api-key" not in headers
    assert headers["x-initiator"] == "agent"


@pytest.mark.parametrize("api", APIS)
def test_copilot_is_known_by_its_address_too(api: str) -> None:
    company = model(api=api, provider="work", base_url="https://api.business.githubcopilot.com")
    assert asked(api, model=company)["x-initiator"] == "user"
    other = model(api=api, provider="work", base_url="https://example.com")
    assert "x-initiator" not in asked(api, model=other)


def test_a_model_that_cannot_be_told_not_to_think_is_not_told() -> None:
    copilot = model(
        api="openai-responses", provider="github-copilot", base_url="https://api.githubcopilot.com"
    )
    requests, _ = ask(request(model=copilot))
    assert "reasoning" not in requests[0].json
