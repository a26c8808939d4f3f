"""ChatGPT subscriptions: the account from the token, the prompt as instructions, usage limits."""

import base64
import time
from typing import Any

import msgspec
import pytest

from ludolf.ai.access import Access
from ludolf.ai.errors import RETRYABLE
from ludolf.ai.http.oauth import chatgpt_account
from ludolf.ai.models import Model
from tests.gateway_asking import RESPONSES, ask
from tests.loopback import JSON_BODY, Canned
from tests.openai_asking import READ, model, request


def token(claims: Any) -> str:
    """Unsigned, as nobody here checks signatures; without padding, as such tokens are."""
    payload = base64.urlsafe_b64encode(msgspec.json.encode(claims)).decode().rstrip("=")
    return f"e30.{payload}.c2ln"


TOKEN = token({"https://api.openai.com/auth": {"chatgpt_account_id": "acc-ü"}})
PLAIN = token({"https://api.openai.com/auth": {"chatgpt_account_id": "acc-1"}})


def codex(base_url: str = "https://chatgpt.com/backend-api") -> Model:
    return model(api="openai-codex-responses", provider="openai-codex", base_url=base_url)


def asked(**changes: Any) -> Any:
    plain: dict[str, Any] = {"model": codex(), "access": Access(key=PLAIN), "session_id": "s1"}
    requests, answer = ask(request(**plain | changes))
    assert answer.message.error_message is None
    return requests[0]


def test_a_request_has_the_form_that_the_server_wants() -> None:
    sent = asked(tools=(READ,), thinking="high", cache="long")
    assert sent.path == "/backend-api/codex/responses"
    assert sent.json == {
        "model": "mock-model",
        "store": False,
        "stream": True,
        "instructions": "Be brief.",
        "input": [{"role": "user", "content": [{"type": "input_text", "text": "Hi"}]}],
        "text": {"verbosity": "low"},
        "tool_choice": "auto",
        "parallel_tool_calls": True,
        "prompt_cache_key": "s1",
        "reasoning": {"effort": "high", "summary": "auto"},
        "include": ["reasoning.encrypted_content"],
        "tools": [
            {
                "type": "function",
                "name": "read",
                "description": "Reads a file.",
                "parameters": {"type": "object", "properties": {}},
                "strict": None,
            }
        ],
    }
    wanted = {
        "authorization": f"Bearer {PLAIN}",
        "chatgpt-account-id": "acc-1",
        "openai-beta": "responses=experimental",
        "originator": "ludolf",
        "session-id": "s1",
        "x-client-request-id": "s1",
    }
    assert {name: sent.headers.get(name) for name in wanted} == wanted
    assert "session_id" not in sent.headers


def test_without_caching_the_session_is_not_named() -> None:
    sent = asked(cache="none", system="")
    assert not {"session-id", "x-client-request-id"} & set(sent.headers)
    assert "prompt_cache_key" not in sent.json
    assert sent.json["instructions"]


@pytest.mark.parametrize("path", ["", "/", "/codex", "/codex/", "/codex/responses"])
def test_an_address_is_completed(path: str) -> None:
    assert asked(model=codex(f"https://proxy.test{path}")).path == "/codex/responses"


def test_the_account_is_read_from_the_token() -> None:
    assert chatgpt_account(TOKEN) == "acc-ü"
    for odd in ("nope", "a.b.c", "a.!!!.c", token([]), token({"https://api.openai.com/auth": 1})):
        assert chatgpt_account(odd) is None
    requests, answer = ask(request(model=codex(), access=Access(key="a.b.c")))
    assert not requests
    assert "log in again" in (answer.message.error_message or "")
    assert answer.kind == "auth"


def test_a_missing_login_is_told_before_anything_is_sent() -> None:
    requests, answer = ask(request(model=codex(), access=Access()))
    assert not requests
    assert answer.message.error_message == "No API key for provider: openai-codex"
    assert answer.kind == "auth"


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            {"type": "usage_limit_reached", "plan_type": "Plus", "resets_in_seconds": 5400},
            "You have hit your ChatGPT usage limit (plus plan). Try again in ~90 min.",
        ),
        (
            {"code": "usage_limit_reached", "resets_at": 1_000_000_000},
            "You have hit your ChatGPT usage limit. Try again in ~0 min.",
        ),
        (
            {"code": "usage_not_included", "plan_type": "free"},
            "You have hit your ChatGPT usage limit (free plan).",
        ),
    ],
)
def test_a_used_up_plan_is_told_plainly_and_not_asked_again(
    error: dict[str, Any], text: str
) -> None:
    body = msgspec.json.encode({"error": {"message": "limit", **error}})
    headers = {**JSON_BODY, "retry-after": "5400"}
    _, answer = ask(
        request(model=codex(), access=Access(key=PLAIN)),
        Canned(status=429, headers=headers, chunks=[body]),
    )
    assert answer.message.error_message == text
    assert answer.kind not in RETRYABLE
    assert answer.retry_after is None


def test_the_end_of_a_limit_is_told_as_a_wait() -> None:
    error = {"type": "usage_limit_reached", "resets_at": time.time() + 1200}
    _, answer = ask(
        request(model=codex(), access=Access(key=PLAIN)),
        Canned(status=429, headers=JSON_BODY, chunks=[msgspec.json.encode({"error": error})]),
    )
    assert (answer.message.error_message or "").endswith("Try again in ~20 min.")


def test_other_failures_name_the_server_and_may_be_asked_again() -> None:
    slow = b'{"error":{"code":"rate_limit_exceeded","message":"Slow down"}}'
    for status, body, text in (
        (429, slow, "ChatGPT API error (429): 429 Slow down"),
        (503, b"busy", "ChatGPT API error (503): 503 busy"),
    ):
        _, answer = ask(
            request(model=codex(), access=Access(key=PLAIN)),
            Canned(status=status, headers=JSON_BODY, chunks=[body]),
        )
        assert answer.message.error_message == text
        assert answer.kind in RETRYABLE


def test_an_answer_is_read_as_any_other_of_this_api() -> None:
    _, answer = ask(
        request(model=codex(), access=Access(key=PLAIN)),
        Canned(chunks=[RESPONSES[:60], RESPONSES[60:]]),
    )
    assert [getattr(block, "text", None) for block in answer.message.content] == ["Yes"]
    assert (answer.message.api, answer.message.stop_reason) == ("openai-codex-responses", "stop")
