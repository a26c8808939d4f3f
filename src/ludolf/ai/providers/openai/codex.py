"""ChatGPT subscriptions (`openai-codex-responses`): Responses with a login instead of a key."""

from typing import Any

from ludolf.ai.errors import ProviderError
from ludolf.ai.http.oauth import chatgpt_account
from ludolf.ai.http.transport import HttpResponse
from ludolf.ai.json_text import json_object
from ludolf.ai.provider import Request
from ludolf.ai.providers.gateways import base_url, no_key
from ludolf.ai.providers.openai.compat import Compat
from ludolf.ai.providers.openai.responses import (
    OpenAIResponses,
    cache_fields,
    reasoning_fields,
    tier_fields,
    tools_of,
)
from ludolf.ai.providers.openai.shared import headers_for
from ludolf.base import now_ms, without_surrogates
from ludolf.base.patterns import lazy_pattern

_NO_PROMPT = "You are a helpful assistant."  # the server refuses empty instructions
_LIMITS = lazy_pattern(r"usage_limit_reached|usage_not_included")


class CodexResponses(OpenAIResponses):
    """Access by the login of a ChatGPT subscription."""

    api = "openai-codex-responses"
    owner = "ChatGPT"
    prompt_in_input = False

    async def reach(self, request: Request, compat: Compat) -> tuple[str, dict[str, str]]:
        key = request.access.key
        if not key:
            raise no_key(request)
        account = chatgpt_account(key)
        if account is None:
            raise ProviderError(
                "The token does not name a ChatGPT account: log in again.", kind="auth"
            )
        ours = {
            "Authorization": f"Bearer {key}",
            "chatgpt-account-id": account,
            "OpenAI-Beta": "responses=experimental",
            "originator": "ludolf",
        }
        if request.session_id and request.cache != "none":
            ours["session-id"] = request.session_id
        return _url(request), headers_for(request, compat, ours)

    def fields(self, request: Request, compat: Compat) -> dict[str, Any]:
        model = request.model
        fields: dict[str, Any] = {
            "model": model.id,
            "store": False,
            "stream": True,
            "instructions": without_surrogates(request.system) or _NO_PROMPT,
            "text": {"verbosity": "low"},
            "tool_choice": "auto",
            "parallel_tool_calls": True,
            **cache_fields(request, compat),
            **reasoning_fields(request, compat),
            **tier_fields(request, compat),
            "include": ["reasoning.encrypted_content"],
        }
        if request.tools:
            fields["tools"] = [_tool(form) for form in tools_of(request, compat)]
        return fields | (model.sampling_params or {})

    async def check(self, reply: HttpResponse) -> None:
        try:
            await super().check(reply)
        except _UsageLimit as limit:
            raise ProviderError(str(limit), kind="bad_request") from None

    def describe(self, status: int, body: str) -> str:
        error = json_object(body).get("error")
        if not isinstance(error, dict):
            error = {}
        if _LIMITS.search(f"{error.get('type')} {error.get('code')}"):
            raise _UsageLimit(_limit_text(error))
        return super().describe(status, body)


make = CodexResponses


def _url(request: Request) -> str:
    base = base_url(request)
    for end, rest in (("/codex/responses", ""), ("/codex", "/responses")):
        if base.endswith(end):
            return base + rest
    return f"{base}/codex/responses"


def _tool(form: dict[str, Any]) -> dict[str, Any]:
    # Null leaves the choice to the server, which refuses false here.
    return {**form, "strict": form["strict"] or None} if "strict" in form else form


# ---------------------------------------------------------------- errors


class _UsageLimit(Exception):
    """The usage limit of the plan is reached; waiting for the server's delay would not help."""


def _limit_text(error: dict[str, Any]) -> str:
    plan = error.get("plan_type")
    plan_note = f" ({plan.lower()} plan)" if isinstance(plan, str) and plan else ""
    wait = _wait_minutes(error)
    when = "" if wait is None else f" Try again in ~{wait} min."
    return f"You have hit your ChatGPT usage limit{plan_note}.{when}"


def _wait_minutes(error: dict[str, Any]) -> int | None:
    at, after = error.get("resets_at"), error.get("resets_in_seconds")
    if isinstance(at, int | float):
        after = at - now_ms() / 1000
    return max(0, round(after / 60)) if isinstance(after, int | float) else None
