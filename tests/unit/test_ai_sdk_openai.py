"""OpenAI's own SDK as a second opinion: it reads what we read of both APIs, knows what we send."""

import json
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from ludolf.base import join_surrogates
from tests.typed_params import misfits
from tests.vendor_requests import Case, cases, user
from tests.vendor_streams import (
    Switch,
    body_of,
    canned,
    expected,
    lines,
    model,
    names,
    refusal,
    sent_of,
)

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    sdk = pytest.importorskip("openai")
    chat_params = pytest.importorskip("openai.types.chat.completion_create_params")
    response_params = pytest.importorskip("openai.types.responses.response_create_params")

CHAT, RESPONSES = "openai-chat", "openai-responses"
PARAMS = {
    CHAT: chat_params.CompletionCreateParamsStreaming,
    RESPONSES: response_params.ResponseCreateParamsStreaming,
}
FAILING = {
    CHAT: {
        "cut": "Connection error|peer closed connection",
        "error": "Provider disconnected",
        "error_at_once": "The server had an error",
        "error_upstream": "Provider returned error",
        "garbage": "Unterminated string",
    },
    RESPONSES: {
        "cut": "Connection error|peer closed connection",
        "error_nested": "exceeds the context window",
        "garbage": "Unterminated string",
    },
}
# Forms of other servers, which the SDK of OpenAI need not understand: all calls with one index,
# arguments that are no string, usage inside the choice.
FOREIGN = ("tools_same_index", "tools_without_ids", "cache_kimi")
REASONING = ("reasoning_content", "reasoning", "reasoning_text")
# What other vendors want back of their reasoning; only they have sent it.
THEIR_OWN = {"reasoning_content", "reasoning", "reasoning_details"}


@pytest.fixture(scope="module")
def server() -> Iterator[Switch]:
    with Switch() as made:
        yield made


@pytest.fixture(scope="module")
def client(server: Switch) -> Iterator[Any]:
    with sdk.OpenAI(api_key="sk-test", base_url=f"{server.url}/v1", max_retries=0) as made:
        yield made


def readable(family: str, *others: str) -> list[str]:
    left_out = (*FAILING[family], *others)
    return [name for name in names(family) if name not in left_out]


def blocks(message: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [block for block in message["content"] if block["type"] == kind]


def texts(message: dict[str, Any], kind: str = "text") -> str:
    return "".join(block[kind] for block in blocks(message, kind))


def check_calls(outcome: dict[str, Any], theirs: Sequence[Sequence[str]]) -> None:
    """Theirs are the id, the name and the arguments of each call."""
    ours = blocks(outcome["message"], "toolCall")
    assert [list(call[:2]) for call in theirs] == [[call["id"], call["name"]] for call in ours]
    for (_, _, arguments), call in zip(theirs, ours, strict=True):
        if call["id"] not in outcome["broken"]:
            assert json.loads(arguments or "{}") == call["arguments"]


# ---------------------------------------------------------------- chat completions


class Read:
    """An answer put together from the SDK's chunks."""

    def __init__(self, chunks: Any) -> None:
        self.text, self.thinking = "", ""
        self.calls: dict[int, list[str]] = {}
        self.finish: str | None = None
        self.usage: Any = None
        self.name = ("", "")
        for chunk in chunks:
            self.name = (chunk.id, chunk.model) if self.name == ("", "") else self.name
            self.usage = chunk.usage or self.usage
            for choice in chunk.choices or ():
                self.finish = choice.finish_reason or self.finish
                self._delta(choice.delta)

    def _delta(self, delta: Any) -> None:
        self.text += delta.content or delta.refusal or ""
        extra = delta.model_extra or {}
        self.thinking += next((extra[key] for key in REASONING if extra.get(key)), "")
        for call in delta.tool_calls or ():
            known = self.calls.setdefault(call.index, [call.id, call.function.name, ""])
            known[2] += call.function.arguments


def chat(client: Any) -> Read:
    asked = [{"role": "user", "content": "Hi"}]
    return Read(client.chat.completions.create(model="gpt-5.1", messages=asked, stream=True))


@pytest.mark.parametrize("name", readable(CHAT, *FOREIGN))
def test_the_sdk_reads_of_a_chat_what_we_read(server: Switch, client: Any, name: str) -> None:
    server.reply = canned(CHAT, name)
    theirs, outcome = chat(client), expected(CHAT)[name]
    ours = outcome["message"]
    assert join_surrogates(theirs.text) == texts(ours)
    assert theirs.thinking == texts(ours, "thinking")
    check_calls(outcome, list(theirs.calls.values()))
    assert theirs.finish == ours.get("rawStopReason")
    assert theirs.name == (ours["responseId"], ours["responseModel"])
    if theirs.usage:
        counts, details = ours["usage"], theirs.usage.prompt_tokens_details
        cached = details.cached_tokens or 0 if details else 0
        assert theirs.usage.completion_tokens == counts["output"]
        assert theirs.usage.total_tokens == counts["totalTokens"]
        assert cached == counts["cacheRead"]
        sent = counts["input"] + counts["cacheRead"] + counts["cacheWrite"]
        assert theirs.usage.prompt_tokens == sent


# ---------------------------------------------------------------- responses


def response(client: Any) -> tuple[str, Any]:
    """All text deltas, and the event that ended the answer."""
    text, last = "", None
    for event in client.responses.create(model="gpt-5.1", input="Hi", stream=True):
        if event.type in ("response.output_text.delta", "response.refusal.delta"):
            text += event.delta
        last = event
    return text, last


@pytest.mark.parametrize("name", readable(RESPONSES, "error", "failed", "no_end"))
def test_the_sdk_reads_of_a_response_what_we_read(server: Switch, client: Any, name: str) -> None:
    server.reply = canned(RESPONSES, name)
    outcome = expected(RESPONSES)[name]
    ours = outcome["message"]
    text, last = response(client)
    assert join_surrogates(text) == texts(ours)
    theirs = last.response
    assert (theirs.id, theirs.model) == (ours["responseId"], ours["responseModel"])
    why = getattr(theirs.incomplete_details, "reason", None)
    assert ".".join(filter(None, (theirs.status, why))) == ours["rawStopReason"]
    found = [item for item in theirs.output if item.type == "function_call"]
    ids = [f"{item.call_id}|{item.id}" for item in found]
    named = [(item.name, item.arguments) for item in found]
    check_calls(outcome, [(one, *two) for one, two in zip(ids, named, strict=True)])
    reasoning = [item for item in theirs.output if item.type == "reasoning"]
    stored = [json.loads(block["thinkingSignature"]) for block in blocks(ours, "thinking")]
    assert [item.to_dict(exclude_unset=True) for item in reasoning] == stored
    counts, usage = ours["usage"], theirs.usage
    assert usage.input_tokens_details.cached_tokens == counts["cacheRead"]
    assert usage.input_tokens_details.cache_write_tokens == counts["cacheWrite"]
    assert usage.input_tokens == counts["input"] + counts["cacheRead"] + counts["cacheWrite"]
    assert usage.output_tokens == counts["output"]
    assert usage.output_tokens_details.reasoning_tokens == counts["reasoning"]
    assert usage.total_tokens == counts["totalTokens"]


@pytest.mark.parametrize("name", ["error", "failed"])
def test_a_failure_inside_a_response_says_what_the_sdk_says(
    server: Switch, client: Any, name: str
) -> None:
    server.reply = canned(RESPONSES, name)
    _, last = response(client)
    error = last if name == "error" else last.response.error
    ours = expected(RESPONSES)[name]["message"]["errorMessage"]
    assert error.code in ours
    assert error.message in ours


# ---------------------------------------------------------------- failures


@pytest.mark.parametrize(
    ("family", "name", "words"),
    [(family, *pair) for family, known in FAILING.items() for pair in known.items()],
)
def test_where_the_sdk_fails_we_fail_too(
    server: Switch, client: Any, family: str, name: str, words: str
) -> None:
    server.reply = canned(family, name)
    with pytest.raises(Exception, match=words):
        _ = chat(client) if family == CHAT else response(client)
    assert expected(family)[name]["message"]["stopReason"] == "error"


@pytest.mark.parametrize("row", lines(f"{CHAT}/errors.jsonl"), ids=lambda row: row["name"])
def test_a_refusal_by_http_says_what_the_sdk_says(
    server: Switch, client: Any, row: dict[str, Any]
) -> None:
    server.reply = refusal(row)
    with pytest.raises(sdk.APIStatusError) as caught:
        chat(client)
    assert caught.value.status_code == row["status"]
    told = caught.value.body
    words = told.get("message") if isinstance(told, dict) else None
    assert (words if isinstance(words, str) else "") in row["text"]


# ---------------------------------------------------------------- requests


SAMPLING = {"temperature": 0.2, "top_p": 0.9}
CASES = {
    family: {
        **cases(family),
        "parameters of sampling": Case(
            (user(),), {"model": model(family, sampling_params=SAMPLING)}
        ),
    }
    for family in (CHAT, RESPONSES)
}
TABLE = [
    pytest.param(family, case, id=f"{family} {name}")
    for family, known in CASES.items()
    for name, case in known.items()
]


@pytest.mark.parametrize(("family", "case"), TABLE)
def test_every_field_we_send_is_one_that_the_sdk_knows(family: str, case: Case) -> None:
    body = body_of(family, *case.messages, **case.changes)
    complaints = misfits(body, PARAMS[family])
    fields = {complaint.removesuffix(" is unknown").rpartition(".")[2] for complaint in complaints}
    replays = family == CHAT and case == CASES[CHAT]["all answers of its own"]
    assert fields == (THEIR_OWN if replays else set())


@pytest.mark.parametrize(("family", "case"), TABLE)
def test_the_sdk_sends_the_same_body(server: Switch, client: Any, family: str, case: Case) -> None:
    ours = sent_of(family, *case.messages, **case.changes)
    server.reply = canned(family, "text")
    create = client.chat.completions.create if family == CHAT else client.responses.create
    with create(**ours.json) as events:
        assert sum(1 for _ in events) > 1
    theirs = server.requests[-1]
    assert theirs.json == ours.json
    assert theirs.path == ours.path
    assert theirs.headers["authorization"] == ours.headers["authorization"]


def test_a_field_that_nobody_knows_is_found() -> None:
    body = body_of(RESPONSES, user("Hi"))
    body["input"][1]["content"][0]["sparkle"] = 1
    complaints = misfits(body, PARAMS[RESPONSES])
    assert complaints == ["$.input[1].content[0].sparkle is unknown"]
