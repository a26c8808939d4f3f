"""Servers that speak a known API: the path, the key's header and the flags of each."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pytest
from msgspec import structs

from ludolf.ai.access import Access
from ludolf.ai.messages import Text, Thinking, ToolCall, UserMessage
from ludolf.ai.models import Model
from ludolf.ai.provider import Request
from ludolf.ai.providers.openai.compat import Compat, chat_compat, responses_compat
from ludolf.ai.providers.openai.completions import ChatMessages
from ludolf.ai.providers.openai.completions import options_of as chat_options
from ludolf.ai.providers.openai.responses import Items
from ludolf.ai.providers.openai.responses import options_of as responses_options
from ludolf.ai.providers.openai.shared import headers_for
from ludolf.config.models.catalog import catalog_models
from tests.gateway_asking import ANTHROPIC, CHAT, ask, at_model
from tests.loopback import JSON_BODY, Canned
from tests.openai_asking import READ, assistant, model, request, result, sse

BEARER = {"authorization": "Bearer secret"}
KEY = {"x-api-key": "secret"}
STICKY = {"session_id": "s1", "x-client-request-id": "s1", "x-session-affinity": "s1"}
OPENCODE = {"x-opencode-session": "s1", "x-opencode-client": "ludolf"}
CLOUDFLARE = {"CLOUDFLARE_ACCOUNT_ID": "acc", "CLOUDFLARE_GATEWAY_ID": "gw"}
GATEWAY = "https://gateway.ai.cloudflare.com/v1/{CLOUDFLARE_ACCOUNT_ID}/{CLOUDFLARE_GATEWAY_ID}"
WORKERS = "https://api.cloudflare.com/client/v4/accounts/{CLOUDFLARE_ACCOUNT_ID}/ai/v1"
CHAT_API, RESPONSES_API = "openai-completions", "openai-responses"
ANTHROPIC_API, GOOGLE_API = "anthropic-messages", "google-generative-ai"
ABSENT = object()


class Row(msgspec.Struct, frozen=True):
    """One way to a server. `base` is set where the catalog ships no model of it.

    `sent` are fields of the body while thinking hard with a long cache; ABSENT ones must not be.
    """

    provider: str
    api: str
    path: str
    headers: Mapping[str, str]
    sent: Mapping[str, Any] = {}
    base: str = ""

    def __str__(self) -> str:
        return f"{self.provider} {self.api}"


def _plain(limit: str, **more: Any) -> dict[str, Any]:
    """A server that knows neither `store` nor the developer."""
    other = {"max_tokens", "max_completion_tokens"} - {limit}
    return {"store": ABSENT, "system": "system", limit: 8192, other.pop(): ABSENT, **more}


LONG, SHORT = {"prompt_cache_retention": "24h"}, {"prompt_cache_retention": ABSENT}
EFFORT = {"reasoning_effort": "high"}
NO_EFFORT = {"reasoning_effort": ABSENT}
NEW, OLD = "max_completion_tokens", "max_tokens"

ROWS = (
    Row(
        "openrouter",
        CHAT_API,
        "/api/v1/chat/completions",
        {**BEARER, "x-session-id": "s1"},
        {"store": False, "system": "system", NEW: 8192, "reasoning": {"effort": "high"}},
    ),
    Row("openrouter", ANTHROPIC_API, "/api/v1/messages", {**KEY, "x-session-id": "s1"}),
    Row(
        "groq",
        CHAT_API,
        "/openai/v1/chat/completions",
        BEARER,
        {"store": False, "system": "developer", NEW: 8192, **EFFORT, **LONG},
    ),
    Row(
        "xai",
        RESPONSES_API,
        "/v1/responses",
        {**BEARER, "session_id": "s1"},
        {"include": ["reasoning.encrypted_content"], **SHORT},
    ),
    Row(
        "deepseek",
        CHAT_API,
        "/chat/completions",
        BEARER,
        _plain(OLD, thinking={"type": "enabled"}, **EFFORT),
    ),
    Row("cerebras", CHAT_API, "/v1/chat/completions", BEARER, _plain(NEW, **EFFORT)),
    Row(
        "zai",
        CHAT_API,
        "/api/coding/paas/v4/chat/completions",
        BEARER,
        _plain(
            OLD,
            thinking={"type": "enabled", "clear_thinking": False},
            tool_stream=True,
            **NO_EFFORT,
        ),
    ),
    Row("moonshotai", CHAT_API, "/v1/chat/completions", BEARER, _plain(OLD, **NO_EFFORT)),
    Row("minimax", ANTHROPIC_API, "/anthropic/v1/messages", KEY),
    Row(
        "kimi-coding",
        ANTHROPIC_API,
        "/coding/v1/messages",
        KEY,
        {"thinking": {"type": "adaptive", "display": "summarized"}},
    ),
    Row(
        "huggingface",
        CHAT_API,
        "/v1/chat/completions",
        BEARER,
        {"store": False, "system": "system", NEW: 8192, **EFFORT},
    ),
    Row(
        "together",
        CHAT_API,
        "/v1/chat/completions",
        BEARER,
        _plain(OLD, reasoning={"enabled": True}, **NO_EFFORT, **SHORT),
    ),
    Row(
        "nvidia",
        CHAT_API,
        "/v1/chat/completions",
        BEARER,
        _plain(OLD, **NO_EFFORT, **SHORT),
        base="https://integrate.api.nvidia.com/v1",
    ),
    Row(
        "baseten",
        CHAT_API,
        "/v1/chat/completions",
        {**BEARER, **STICKY},
        _plain(OLD, **EFFORT, **SHORT),
        base="https://inference.baseten.co/v1",
    ),
    Row("vercel-ai-gateway", ANTHROPIC_API, "/v1/messages", KEY),
    Row(
        "fireworks",
        ANTHROPIC_API,
        "/inference/v1/messages",
        {**KEY, "x-session-affinity": "s1"},
        {"eager": ABSENT, "tool_mark": ABSENT},
    ),
    Row(
        "fireworks",
        CHAT_API,
        "/inference/v1/chat/completions",
        {**BEARER, **STICKY},
        _plain(NEW, **EFFORT, **SHORT),
    ),
    Row(
        "opencode",
        CHAT_API,
        "/zen/v1/chat/completions",
        {**BEARER, **OPENCODE},
        _plain(OLD, **EFFORT),
        base="https://opencode.ai/zen/v1",
    ),
    Row(
        "opencode",
        RESPONSES_API,
        "/zen/v1/responses",
        {**BEARER, **OPENCODE, "x-client-request-id": "s1"},
        base="https://opencode.ai/zen/v1",
    ),
    Row(
        "opencode",
        ANTHROPIC_API,
        "/zen/v1/messages",
        {**KEY, **OPENCODE},
        base="https://opencode.ai/zen",
    ),
    Row(
        "opencode-go",
        GOOGLE_API,
        "/zen/go/v1/models/mock-model:streamGenerateContent?alt=sse",
        {"x-goog-api-key": "secret", **OPENCODE},
        base="https://opencode.ai/zen/go/v1",
    ),
    Row(
        "cloudflare-workers-ai",
        CHAT_API,
        "/client/v4/accounts/acc/ai/v1/chat/completions",
        {**BEARER, **STICKY},
        _plain(NEW, **EFFORT, **SHORT),
        base=WORKERS,
    ),
    Row(
        "cloudflare-ai-gateway",
        CHAT_API,
        "/v1/acc/gw/compat/chat/completions",
        {"cf-aig-authorization": "Bearer secret", **STICKY},
        _plain(OLD, **NO_EFFORT, **SHORT),
        base=f"{GATEWAY}/compat",
    ),
    Row(
        "cloudflare-ai-gateway",
        RESPONSES_API,
        "/v1/acc/gw/openai/responses",
        {"cf-aig-authorization": "Bearer secret"},
        base=f"{GATEWAY}/openai",
    ),
    Row(
        "cloudflare-ai-gateway",
        ANTHROPIC_API,
        "/v1/acc/gw/anthropic/v1/messages",
        {"cf-aig-authorization": "Bearer secret", "x-session-affinity": "s1"},
        base=f"{GATEWAY}/anthropic",
    ),
)
AUTH = {"authorization", "x-api-key", "x-goog-api-key", "cf-aig-authorization", "api-key"}


def model_of(row: Row) -> Model:
    """A shipped model with the limits of the samples; one that thinks, if there is one."""
    if row.base:
        return model(provider=row.provider, api=row.api, base_url=row.base)
    shipped = [each for each in catalog_models(row.provider) if each.api == row.api]
    found = max(shipped, key=lambda each: each.reasoning)
    return found.replace(max_tokens=8192, thinking_level_map=None, reasoning=True)


def body_of(sent: Any) -> dict[str, Any]:
    """The body, with what stands deep in it at hand."""
    body: dict[str, Any] = sent.json
    system = [each["role"] for each in body.get("messages", ()) if each["role"] != "user"]
    found = {**body, "system": system[0]} if system else dict(body)
    for name, field in (("eager", "eager_input_streaming"), ("tool_mark", "cache_control")):
        if field in body.get("tools", [{}])[-1]:
            found[name] = True
    return found


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_a_server_is_asked_in_its_own_way(row: Row) -> None:
    asking = request(
        model=model_of(row),
        access=Access(key="secret", environment=CLOUDFLARE),
        tools=(READ,),
        thinking="high",
        session_id="s1",
        cache="long",
    )
    requests, answer = ask(asking)
    assert answer.message.error_message is None
    sent = requests[0]
    assert sent.path == row.path
    assert {name: sent.headers.get(name) for name in row.headers} == dict(row.headers)
    assert AUTH & set(sent.headers) == AUTH & set(row.headers)
    body = body_of(sent)
    assert {name: body.get(name, ABSENT) for name in row.sent} == dict(row.sent)
    assert sent.headers["user-agent"].startswith("ludolf/")


def test_nobody_else_is_told_of_the_session() -> None:
    requests, _ = ask(request(model=model(base_url="https://example.com"), session_id="s1"))
    assert not [value for value in requests[0].headers.values() if value == "s1"]


def test_opencode_is_known_by_its_address_too() -> None:
    there = model(base_url="https://opencode.ai/zen/v1")
    requests, _ = ask(request(model=there, session_id="s1"))
    assert requests[0].headers["x-opencode-session"] == "s1"
    requests, _ = ask(request(model=there))
    assert "x-opencode-session" not in requests[0].headers


def test_ids_in_an_address_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CLOUDFLARE_ACCOUNT_ID", raising=False)
    asking = request(model=model(provider="cloudflare-workers-ai", base_url=WORKERS))
    requests, answer = ask(asking)
    assert not requests
    assert "CLOUDFLARE_ACCOUNT_ID" in (answer.message.error_message or "")
    monkeypatch.setenv("CLOUDFLARE_ACCOUNT_ID", "a/b")
    requests, _ = ask(asking)
    assert requests[0].path.startswith("/client/v4/accounts/a%2Fb/ai/v1/")
    own = Access(key="k", environment={"CLOUDFLARE_ACCOUNT_ID": "mine"})
    requests, _ = ask(structs.replace(asking, access=own))
    assert "/accounts/mine/" in requests[0].path


def test_two_ways_in_that_exclude_each_other_are_told_without_either() -> None:
    there = model(base_url="http://me:hidden-word@127.0.0.1:9/v1")
    _, answer = ask(request(model=there), place=lambda asked, _: asked)
    assert answer.kind == "bad_request"
    assert (answer.message.error_message or "").startswith("The request cannot be sent: ")
    assert "hidden-word" not in (answer.message.error_message or "")


@pytest.mark.parametrize(
    "api",
    [
        *(CHAT_API, RESPONSES_API, "anthropic-messages", "google-generative-ai"),
        *("mistral-conversations", "pi-messages", "bedrock-converse-stream"),
    ],
)
def test_every_api_fills_the_places_of_its_address(api: str) -> None:
    here = model(api=api, base_url="https://x.test/{PLACE_OF_TEST}/end")
    access = Access(key="k", environment={"PLACE_OF_TEST": "mine"})
    refusal = Canned(status=400, chunks=[b"{}"], headers=JSON_BODY)
    requests, _ = ask(request(model=here, access=access), refusal)
    assert requests[0].path.startswith("/mine/end/")


# ---------------------------------------------------------------- detection

NONE_OF_OURS = {"supports_store": False, "supports_developer_role": False}
NO_WORD = {"supports_reasoning_effort": False}
OLD_LIMIT = {"max_tokens_field": "max_tokens"}
NO_LONG = {"supports_long_cache_retention": False}
ROUTED = {
    "send_session_affinity_headers": True,
    "session_affinity_format": "openrouter",
    "thinking_format": "openrouter",
}
DETECTED: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("openai", "https://api.openai.com/v1", {}),
    ("groq", "https://api.groq.com/openai/v1", {}),
    (
        "nvidia",
        "https://integrate.api.nvidia.com/v1",
        {**NONE_OF_OURS, **NO_WORD, **OLD_LIMIT, **NO_LONG},
    ),
    ("cerebras", "https://api.cerebras.ai/v1", NONE_OF_OURS),
    ("xai", "https://api.x.ai/v1", {**NONE_OF_OURS, **NO_WORD}),
    (
        "together",
        "https://api.together.xyz/v1",
        {**NONE_OF_OURS, **NO_WORD, **OLD_LIMIT, **NO_LONG, "thinking_format": "together"},
    ),
    ("chutes", "https://llm.chutes.ai/v1", {**NONE_OF_OURS, **OLD_LIMIT}),
    (
        "deepseek",
        "https://api.deepseek.com",
        {
            **NONE_OF_OURS,
            **OLD_LIMIT,
            "thinking_format": "deepseek",
            "requires_reasoning_content_on_assistant_messages": True,
        },
    ),
    (
        "zai",
        "https://api.z.ai/api/coding/paas/v4",
        {**NONE_OF_OURS, **NO_WORD, **OLD_LIMIT, "thinking_format": "zai"},
    ),
    (
        "zai-coding-cn",
        "https://open.bigmodel.cn/api/coding/paas/v4",
        {**NONE_OF_OURS, **NO_WORD, **OLD_LIMIT, "thinking_format": "zai"},
    ),
    ("moonshotai", "https://api.moonshot.ai/v1", {**NONE_OF_OURS, **NO_WORD, **OLD_LIMIT}),
    ("moonshotai-cn", "https://api.moonshot.cn/v1", {**NONE_OF_OURS, **NO_WORD, **OLD_LIMIT}),
    ("opencode", "https://opencode.ai/zen/v1", NONE_OF_OURS),
    ("cloudflare-workers-ai", WORKERS, {**NONE_OF_OURS, **NO_LONG}),
    (
        "cloudflare-ai-gateway",
        f"{GATEWAY}/compat",
        {**NONE_OF_OURS, **NO_WORD, **OLD_LIMIT, **NO_LONG},
    ),
    (
        "ant-ling",
        "https://api.ant-ling.com/v1",
        {**NONE_OF_OURS, **NO_WORD, **OLD_LIMIT, **NO_LONG, "thinking_format": "ant-ling"},
    ),
    (
        "openrouter",
        "https://openrouter.ai/api/v1",
        {**ROUTED, "supports_developer_role": False},
    ),
)


@pytest.mark.parametrize(
    ("provider", "address", "flags"), DETECTED, ids=[provider for provider, _, _ in DETECTED]
)
def test_a_server_is_known_by_its_address_and_by_its_name(
    provider: str, address: str, flags: dict[str, Any]
) -> None:
    by_address = chat_compat(model(provider="mine", base_url=address))
    assert by_address == Compat(**flags)
    by_name = chat_compat(model(provider=provider, base_url="https://proxy.test"))
    assert {name: getattr(by_name, name) for name in flags} == flags


@pytest.mark.parametrize(
    ("model_id", "flags"),
    [
        ("anthropic/claude", {**ROUTED, "cache_control_format": "anthropic"}),
        ("openai/gpt-5", ROUTED),
    ],
)
def test_a_router_knows_some_vendors_better(model_id: str, flags: dict[str, Any]) -> None:
    assert chat_compat(model(provider="openrouter", id=model_id)) == Compat(**flags)


def test_names_that_only_begin_like_a_known_one_are_others() -> None:
    assert chat_compat(model(provider="xai-proxy")) == Compat()
    assert chat_compat(model(base_url="https://together.example.com")) == Compat()


# ---------------------------------------------------------------- flag by flag


class Sent(msgspec.Struct, frozen=True):
    body: dict[str, Any]
    headers: dict[str, str]


TALK = (
    UserMessage(content="Hi", timestamp=1),
    assistant(Thinking(thinking="Hm.", thinking_signature="reasoning"), Text(text="Yes.")),
    UserMessage(content="Read", timestamp=2),
    assistant(ToolCall(id="c1", name="read", arguments={})),
    result("c1", Text(text="t")),
    UserMessage(content="More", timestamp=3),
)


def sent(api: str, compat: Mapping[str, Any]) -> Sent:
    asking = request(
        *TALK,
        model=model(api=api, compat=dict(compat)),
        tools=(READ,),
        thinking="low",
        session_id="s1",
        cache="long",
    )
    if api == CHAT_API:
        flags = chat_compat(asking.model)
        pieces = ChatMessages().encode(asking, flags)
        body = {**chat_options(asking, flags), "messages": _joined(pieces)}
    else:
        flags = responses_compat(asking.model)
        pieces = Items().encode(asking, flags)
        body = {**responses_options(asking, flags), "messages": _joined(pieces)}
    return Sent(body, headers_for(asking, flags))


def _joined(pieces: list[bytes]) -> list[Any]:
    found: list[Any] = msgspec.json.decode(b"[%b]" % b",".join(pieces))
    return found


def _roles(each: Sent) -> list[str]:
    return [message.get("role", "") for message in each.body["messages"]]


def _assistant(each: Sent) -> dict[str, Any]:
    found: dict[str, Any] = each.body["messages"][_roles(each).index("assistant")]
    return found


def _tool(each: Sent) -> dict[str, Any]:
    found: dict[str, Any] = each.body["messages"][_roles(each).index("tool")]
    return found


Holds = Callable[[Sent], bool]
TEMPLATE = {"thinkingFormat": "chat-template"}
# Flag, value, other flags that it needs, what holds with it and not without it.
CHAT_FLAGS: tuple[tuple[str, Any, Mapping[str, Any], Holds], ...] = (
    ("supportsStore", False, {}, lambda it: "store" not in it.body),
    ("supportsDeveloperRole", False, {}, lambda it: _roles(it)[0] == "system"),
    ("supportsReasoningEffort", False, {}, lambda it: "reasoning_effort" not in it.body),
    ("supportsUsageInStreaming", False, {}, lambda it: "stream_options" not in it.body),
    ("maxTokensField", "max_tokens", {}, lambda it: it.body.get("max_tokens") == 8192),
    ("requiresToolResultName", True, {}, lambda it: _tool(it).get("name") == "read"),
    (
        "requiresAssistantAfterToolResult",
        True,
        {},
        lambda it: _roles(it)[-3:] == ["tool", "assistant", "user"],
    ),
    ("requiresThinkingAsText", True, {}, lambda it: "Hm." in _assistant(it)["content"]),
    (
        "requiresReasoningContentOnAssistantMessages",
        True,
        {},
        lambda it: _assistant(it).get("reasoning_content") == "",
    ),
    ("thinkingFormat", "qwen", {}, lambda it: it.body.get("enable_thinking") is True),
    (
        "reasoningEffortMap",
        {"low": "least"},
        {},
        lambda it: it.body["reasoning_effort"] == "least",
    ),
    (
        "chatTemplateKwargs",
        {"think": {"$var": "thinking.enabled"}},
        TEMPLATE,
        lambda it: it.body.get("chat_template_kwargs") == {"think": True},
    ),
    (
        "chatTemplateArgs",
        {"effort": {"$var": "thinking.effort"}},
        {"thinkingFormat": "baseten"},
        lambda it: it.body.get("chat_template_args") == {"effort": "low"},
    ),
    (
        "thinkingTokenBudgetField",
        "thinking_budget_tokens",
        {},
        lambda it: it.body.get("thinking_budget_tokens") == 2048,
    ),
    (
        "supportsThinkingTokenBudget",
        True,
        {},
        lambda it: it.body.get("thinking_token_budget") == 2048,
    ),
    (
        "supportsStrictMode",
        True,
        {},
        lambda it: it.body["tools"][0]["function"].get("strict") is False,
    ),
    (
        "openRouterRouting",
        {"only": ["a"]},
        {},
        lambda it: it.body.get("provider") == {"only": ["a"]},
    ),
    (
        "vercelGatewayRouting",
        {"order": ["b"], "more": 1},
        {},
        lambda it: it.body.get("providerOptions") == {"gateway": {"order": ["b"]}},
    ),
    (
        "cacheControlFormat",
        "anthropic",
        {},
        lambda it: it.body["tools"][0].get("cache_control") == {"type": "ephemeral", "ttl": "1h"},
    ),
    ("zaiToolStream", True, {}, lambda it: it.body.get("tool_stream") is True),
    (
        "sendSessionAffinityHeaders",
        True,
        {},
        lambda it: it.headers.get("x-session-affinity") == it.headers.get("session_id") == "s1",
    ),
    (
        "sessionAffinityFormat",
        "openrouter",
        {"sendSessionAffinityHeaders": True},
        lambda it: it.headers.get("x-session-id") == "s1" and "session_id" not in it.headers,
    ),
    (
        "sessionAffinityFormat",
        "openai-nosession",
        {"sendSessionAffinityHeaders": True},
        lambda it: "session_id" not in it.headers and "x-client-request-id" in it.headers,
    ),
    (
        "supportsLongCacheRetention",
        False,
        {},
        lambda it: "prompt_cache_retention" not in it.body,
    ),
    ("vllmPriority", 7, {}, lambda it: it.body.get("priority") == 7),
)
RESPONSES_FLAGS: tuple[tuple[str, Any, Mapping[str, Any], Holds], ...] = (
    ("supportsDeveloperRole", False, {}, lambda it: _roles(it)[0] == "system"),
    ("supportsStrictMode", True, {}, lambda it: it.body["tools"][0].get("strict") is False),
    (
        "supportsLongCacheRetention",
        False,
        {},
        lambda it: "prompt_cache_retention" not in it.body,
    ),
    (
        "supportsExplicitPromptCacheMode",
        True,
        {},
        lambda it: it.body.get("prompt_cache_options") == {"ttl": "30m"},
    ),
    ("supportsMaxOutputTokens", False, {}, lambda it: "max_output_tokens" not in it.body),
    (
        "sessionAffinityFormat",
        "openai-nosession",
        {},
        lambda it: "session_id" not in it.headers and "x-client-request-id" in it.headers,
    ),
)


@pytest.mark.parametrize(
    ("api", "flag", "value", "needed", "holds"),
    [
        *((CHAT_API, *row) for row in CHAT_FLAGS),
        *((RESPONSES_API, *row) for row in RESPONSES_FLAGS),
    ],
)
def test_a_flag_changes_what_is_sent(
    api: str, flag: str, value: Any, needed: Mapping[str, Any], holds: Holds
) -> None:
    assert holds(sent(api, {**needed, flag: value}))
    assert not holds(sent(api, needed))


def test_every_flag_has_a_row_above_or_a_test_of_its_own() -> None:
    told = {flag for flag, *_ in (*CHAT_FLAGS, *RESPONSES_FLAGS)}
    known = {field.encode_name for field in msgspec.structs.fields(Compat)}
    assert known - told == {
        *("supportsFinishReason", "supportsOpenAIGrammarTools", "supportsServiceTier"),
    }


def test_a_server_that_never_says_why_it_stopped_can_be_trusted() -> None:
    silent = Canned(chunks=[sse({"choices": [{"delta": {"content": "Yes"}}]}, b"[DONE]")])
    _, answer = ask(request(model=model(base_url="https://x.test")), silent)
    assert answer.kind == "network"
    trusted = model(base_url="https://x.test", compat={"supportsFinishReason": False})
    _, answer = ask(request(model=trusted), silent)
    assert answer.message.stop_reason == "stop"


@pytest.mark.parametrize(
    ("style", "names", "fields"),
    [
        ("openai", {"off": "none"}, {"reasoning_effort": "none"}),
        ("openai", {"off": None}, {}),
        ("openrouter", {"off": "minimal"}, {"reasoning": {"effort": "minimal"}}),
        ("openrouter", {"off": None}, {}),
        ("deepseek", {"off": None}, {}),
        ("baseten", {"off": "none"}, {"reasoning_effort": "none"}),
        ("string-thinking", {"off": "never"}, {"thinking": "never"}),
        ("string-thinking", {"off": None}, {}),
        ("zai", {"off": None}, {"thinking": {"type": "disabled"}}),
        ("together", {"off": "none"}, {"reasoning": {"enabled": False}}),
        ("qwen", {"off": "none"}, {"enable_thinking": False}),
    ],
)
def test_a_model_may_say_how_thinking_is_turned_off(
    style: str, names: dict[str, str | None], fields: dict[str, Any]
) -> None:
    named = model(thinking_level_map=names, compat={"thinkingFormat": style})
    told = chat_options(request(model=named), chat_compat(named))
    asked = ("reasoning_effort", "reasoning", "thinking", "enable_thinking")
    assert {name: told[name] for name in asked if name in told} == fields


def test_thinking_leaves_room_for_an_answer() -> None:
    budgeted = model(compat={"thinkingTokenBudgetField": "thinking_budget"})

    def budget(**changes: Any) -> Any:
        asking = request(model=budgeted, thinking="high", **changes)
        return chat_options(asking, chat_compat(budgeted)).get("thinking_budget")

    assert budget() == 8192 - 1024
    assert budget(max_tokens=2000) == 976
    assert budget(max_tokens=1000) is None
    assert budget(thinking_budgets={"high": 5}) == 5


def test_marks_for_the_cache_stand_on_the_last_text_even_of_a_tool() -> None:
    marked = model(compat={"cacheControlFormat": "anthropic"})
    asking = request(*TALK[:-1], model=marked)
    last = _joined(ChatMessages().encode(asking, chat_compat(marked)))[-1]
    mark = {"type": "ephemeral"}
    assert last["content"] == [{"type": "text", "text": "t", "cache_control": mark}]


# ---------------------------------------------------------------- Anthropic's flags


def claude(**compat: Any) -> Model:
    return model(api=ANTHROPIC_API, base_url="https://x.test", compat=compat)


def asked_claude(asking: Request) -> Any:
    requests, _ = ask(asking)
    return requests[0]


def test_the_session_is_named_to_those_who_want_it() -> None:
    plain = request(model=claude(sendSessionAffinityHeaders=True), session_id="s1")
    assert asked_claude(plain).headers["x-session-affinity"] == "s1"
    uncached = asked_claude(structs.replace(plain, cache="none"))
    assert "x-session-affinity" not in uncached.headers
    routed = claude(sendSessionAffinityHeaders=True, sessionAffinityFormat="openrouter")
    named = asked_claude(structs.replace(plain, model=routed)).headers
    assert ("x-session-affinity" in named, named.get("x-session-id")) == (False, "s1")


def test_models_to_fall_back_to_are_named_and_priced() -> None:
    prices = {"input": 100, "output": 0, "cacheRead": 0, "cacheWrite": 0}
    others = [{"provider": "x", "model": f"other-{n}", "cost": prices} for n in range(4)]
    asking = request(model=claude(allowedFallbackModels=others))
    start = {"id": "m1", "model": "other-1", "usage": {"input_tokens": 10_000}}
    reply = sse({"type": "message_start", "message": start}) + ANTHROPIC.split(b"\n\n", 1)[1]
    requests, answer = ask(asking, Canned(chunks=[reply]))
    assert requests[0].json["fallbacks"] == [{"model": f"other-{n}"} for n in range(3)]
    assert requests[0].headers["anthropic-beta"] == "server-side-fallback-2026-07-01"
    assert answer.message.response_model == "other-1"
    assert answer.message.usage.cost.total == pytest.approx(1.0)
    wrong = request(model=claude(allowedFallbackModels=[{"cost": 1}]))
    _, answer = ask(wrong)
    assert "mock/mock-model" in (answer.message.error_message or "")


def test_a_configured_address_goes_before_that_of_the_model() -> None:
    asking = request(model=model(base_url="https://x.test/a"))
    requests, answer = ask(asking, Canned(chunks=[CHAT]), place=at_model)
    assert (requests[0].path, answer.message.stop_reason) == ("/a/chat/completions", "stop")
