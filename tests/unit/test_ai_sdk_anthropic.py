"""Anthropic's own SDK as a second opinion: it reads what we read, it knows what we send."""

import warnings
from collections.abc import Iterator
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
    sdk = pytest.importorskip("anthropic")
    params = pytest.importorskip("anthropic.types.message_create_params")

FAMILY = "anthropic"
KNOWN = expected(FAMILY)
FAILING = {
    "cut": "peer closed connection",
    "error": "Overloaded",
    "error_at_once": "Internal server error",
    "garbage": "Unterminated string",
}
# The SDK takes the end of the connection for the end of the answer; we want to be told.
ENDLESS = "no_end"
# Where the contents differ: the SDK leaves out a string that was cut, and keeps of a signature in
# several parts, which the vendor does not send, the last.
ODD = ("max_tokens_in_call", "thinking_signature_in_parts")
CASES = cases(FAMILY)
LARGE = model(FAMILY, max_tokens=64_000)
ADAPTIVE = {"forceAdaptiveThinking": True}
CASES |= {
    f"adaptive thinking {level}": Case(
        (user(),), {"model": model(FAMILY, compat=ADAPTIVE), "thinking": level}
    )
    for level in ("off", "minimal", "low", "medium", "high", "xhigh", "max")
}
CASES["a large budget"] = Case((user(),), {"model": LARGE, "thinking": "high"})


@pytest.fixture(scope="module")
def server() -> Iterator[Switch]:
    with Switch() as made:
        yield made


@pytest.fixture(scope="module")
def client(server: Switch) -> Iterator[Any]:
    with sdk.Anthropic(api_key="sk-test", base_url=server.url, max_retries=0) as made:
        yield made


def answer(client: Any) -> Any:
    asked = [{"role": "user", "content": "Hi"}]
    with client.messages.stream(model="claude-haiku-4-5", max_tokens=9, messages=asked) as stream:
        return stream.get_final_message()


def as_ours(block: Any) -> dict[str, Any] | None:
    """A block of the SDK in the form of our messages; None for kinds that we pass over."""
    match block.type:
        case "text":
            return {"type": "text", "text": join_surrogates(block.text)}
        case "thinking":
            signature = {"thinkingSignature": block.signature}
            return {"type": "thinking", "thinking": block.thinking, **signature}
        case "redacted_thinking":
            return {
                "type": "thinking",
                "thinking": "[Reasoning redacted]",
                "thinkingSignature": block.data,
                "redacted": True,
            }
        case "tool_use":
            known = {"id": block.id, "name": block.name, "arguments": block.input}
            return {"type": "toolCall", **known}
        case _:
            return None


def counted(usage: Any) -> dict[str, int]:
    read, write = usage.cache_read_input_tokens, usage.cache_creation_input_tokens
    details = usage.output_tokens_details
    found = {
        "input": usage.input_tokens,
        "output": usage.output_tokens,
        "cacheRead": read,
        "cacheWrite": write,
        "cacheWrite1h": usage.cache_creation.ephemeral_1h_input_tokens,
        "totalTokens": usage.input_tokens + usage.output_tokens + read + write,
    }
    return {**found, "reasoning": details.thinking_tokens} if details else found


@pytest.mark.parametrize("name", [name for name in names(FAMILY) if name not in FAILING])
def test_the_sdk_reads_what_we_read(server: Switch, client: Any, name: str) -> None:
    server.reply = canned(FAMILY, name)
    theirs, ours = answer(client), KNOWN[name]["message"]
    content = [block for block in map(as_ours, theirs.content) if block]
    assert (content == ours["content"]) == (name not in ODD)
    assert theirs.stop_reason == ours["rawStopReason"]
    assert (theirs.id, theirs.model) == (ours["responseId"], ours["responseModel"])
    usage = {key: count for key, count in ours["usage"].items() if key != "cost"}
    assert counted(theirs.usage) == usage
    refused = KNOWN[name]["kind"] is not None
    assert refused == (name == ENDLESS or name.startswith(("refusal", "context_window")))


@pytest.mark.parametrize(("name", "words"), FAILING.items())
def test_where_the_sdk_fails_we_fail_too(
    server: Switch, client: Any, name: str, words: str
) -> None:
    server.reply = canned(FAMILY, name)
    with pytest.raises(Exception, match=words):
        answer(client)
    assert KNOWN[name]["message"]["stopReason"] == "error"


@pytest.mark.parametrize("row", lines(f"{FAMILY}/errors.jsonl"), ids=lambda row: row["name"])
def test_a_refusal_by_http_says_what_the_sdk_says(
    server: Switch, client: Any, row: dict[str, Any]
) -> None:
    server.reply = refusal(row)
    with pytest.raises(sdk.APIStatusError) as caught:
        answer(client)
    assert caught.value.status_code == row["status"]
    told = caught.value.body
    words = told["error"]["message"] if isinstance(told, dict) else row["body"]
    assert words in row["text"]


# ---------------------------------------------------------------- requests


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_every_field_we_send_is_one_that_the_sdk_knows(case: Case) -> None:
    body = body_of(FAMILY, *case.messages, **case.changes)
    assert misfits(body, params.MessageCreateParamsStreaming) == []


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_the_sdk_sends_the_same_body(server: Switch, client: Any, case: Case) -> None:
    ours = sent_of(FAMILY, *case.messages, **case.changes)
    server.reply = canned(FAMILY, "text")
    with client.messages.create(**ours.json) as events:
        assert [event.type for event in events][-1] == "message_stop"
    theirs = server.requests[-1]
    assert theirs.json == ours.json
    assert theirs.path == ours.path


def test_a_field_that_nobody_knows_is_found() -> None:
    body = body_of(FAMILY, user("Hi"))
    body["messages"][0]["content"][0]["sparkle"] = 1
    del body["max_tokens"]
    complaints = misfits(body, params.MessageCreateParamsStreaming)
    assert sorted(complaints) == [
        "$.max_tokens is missing",
        "$.messages[0].content[0].sparkle is unknown",
    ]
