"""Google's own SDK as a second opinion: it reads what we read, it knows what we send."""

import base64
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from ludolf.base import join_surrogates
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
    sdk = pytest.importorskip("google.genai")
    types = pytest.importorskip("google.genai.types")
    errors = pytest.importorskip("google.genai.errors")

FAMILY = "google"
KNOWN = expected(FAMILY)
FAILING = {
    "cut": "peer closed connection",
    "error": "The model is overloaded",
    "error_final": "Request contains an invalid argument",
    "garbage": "Failed to parse response as JSON",
    # The SDK takes these characters inside a JSON string for the ends of lines; we read them.
    "line_separators": "Failed to parse response as JSON",
}
CASES = cases(FAMILY)
SAMPLING = {"temperature": 0.2, "topP": 0.9, "topK": 40}
CASES["parameters of sampling"] = Case(
    (user(),), {"model": model(FAMILY, sampling_params=SAMPLING)}
)
for _name in ("gemini-2.5-pro", "gemini-2.5-flash", "gemini-3.5-flash"):
    for _level in ("off", "minimal", "high"):
        CASES[f"{_name} thinking {_level}"] = Case(
            (user(),), {"model": model(FAMILY, id=_name), "thinking": _level}
        )


@pytest.fixture(scope="module")
def server() -> Iterator[Switch]:
    with Switch() as made:
        yield made


@pytest.fixture(scope="module")
def client(server: Switch) -> Iterator[Any]:
    options = types.HttpOptions(base_url=server.url, api_version="v1beta")
    made = sdk.Client(api_key="sk-test", http_options=options)
    yield made
    made.close()


class Read:
    """An answer put together from the SDK's chunks."""

    def __init__(self, chunks: Any) -> None:
        self.parts: list[Any] = []
        self.finish: str | None = None
        self.usage: Any = None
        self.id = ""
        for chunk in chunks:
            self.usage, self.id = chunk.usage_metadata or self.usage, chunk.response_id
            if chunk.prompt_feedback and chunk.prompt_feedback.block_reason:
                self.finish = chunk.prompt_feedback.block_reason.value
            for candidate in chunk.candidates or ():
                self.parts += (candidate.content and candidate.content.parts) or ()
                if candidate.finish_reason:
                    self.finish = candidate.finish_reason.value

    def blocks(self) -> list[dict[str, Any]]:
        """The parts in the form of our messages: texts of a kind joined, others left out."""
        found: list[dict[str, Any]] = []
        for part in self.parts:
            block = _block(part)
            if block is None:
                continue
            last = found[-1] if found else {}
            if block["type"] == "toolCall" or block["type"] != last.get("type"):
                found.append(block)
                continue
            kind = block["type"]
            found[-1] = {**last, **block, kind: join_surrogates(last[kind] + block[kind])}
        return found


def _block(part: Any) -> dict[str, Any] | None:
    signature = part.thought_signature and base64.b64encode(part.thought_signature).decode()
    if part.function_call is not None:
        call = part.function_call
        signed = {"thoughtSignature": signature} if signature else {}
        return {"type": "toolCall", "name": call.name, "arguments": call.args or {}, **signed}
    if part.text is None:
        return None
    kind = "thinking" if part.thought else "text"
    return {"type": kind, kind: part.text, **({f"{kind}Signature": signature} if signature else {})}


def ask(client: Any) -> Read:
    return Read(client.models.generate_content_stream(model="gemini-2.5-pro", contents="Hi"))


@pytest.mark.parametrize("name", [name for name in names(FAMILY) if name not in FAILING])
def test_the_sdk_reads_what_we_read(server: Switch, client: Any, name: str) -> None:
    server.reply = canned(FAMILY, name)
    theirs, ours = ask(client), KNOWN[name]["message"]
    # Ids are left out: the vendor's older models give none, so we make them.
    shown = [{key: block[key] for key in block if key != "id"} for block in ours["content"]]
    assert theirs.blocks() == shown
    given = [part.function_call.id for part in theirs.parts if part.function_call]
    made = [block["id"] for block in ours["content"] if block["type"] == "toolCall"]
    repeated = {call_id for call_id in given if given.count(call_id) > 1}
    assert all(
        one == two for one, two in zip(given, made, strict=True) if one and one not in repeated
    )
    assert theirs.finish == ours.get("rawStopReason")
    assert theirs.id == ours["responseId"]
    check_usage(theirs.usage, ours["usage"])


def check_usage(theirs: Any, ours: dict[str, Any]) -> None:
    cached, thoughts = theirs.cached_content_token_count or 0, theirs.thoughts_token_count or 0
    assert theirs.prompt_token_count == ours["input"] + ours["cacheRead"]
    assert cached == ours["cacheRead"]
    assert (theirs.candidates_token_count or 0) + thoughts == ours["output"]
    assert thoughts == ours["reasoning"]
    assert theirs.total_token_count == ours["totalTokens"]


@pytest.mark.parametrize(("name", "words"), FAILING.items())
def test_where_the_sdk_fails_we_fail_too(
    server: Switch, client: Any, name: str, words: str
) -> None:
    server.reply = canned(FAMILY, name)
    with pytest.raises(Exception, match=words):
        ask(client)
    failed = KNOWN[name]["message"]["stopReason"] == "error"
    assert failed == (name != "line_separators")


@pytest.mark.parametrize("row", lines(f"{FAMILY}/errors.jsonl"), ids=lambda row: row["name"])
def test_a_refusal_by_http_says_what_the_sdk_says(
    server: Switch, client: Any, row: dict[str, Any]
) -> None:
    server.reply = refusal(row)
    with pytest.raises(errors.APIError) as caught:
        ask(client)
    assert caught.value.code == row["status"]
    assert isinstance(row["body"], str) or caught.value.message in row["text"]


# ---------------------------------------------------------------- requests


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_the_sdk_takes_every_field_and_sends_the_same_body(
    server: Switch, client: Any, case: Case
) -> None:
    ours = sent_of(FAMILY, *case.messages, **case.changes)
    body = ours.json
    server.reply = canned(FAMILY, "text")
    # The SDK's types forbid fields that they do not know.
    options = {key: body[key] for key in ("systemInstruction", "tools") if key in body}
    config = types.GenerateContentConfig.model_validate({**options, **body["generationConfig"]})
    contents = [types.Content.model_validate(each) for each in body["contents"]]
    asked = case.changes.get("model") or model(FAMILY)
    Read(client.models.generate_content_stream(model=asked.id, contents=contents, config=config))
    sent = server.requests[-1]
    assert normal(sent.json) == normal(body)
    assert (sent.path, sent.headers["x-goog-api-key"]) == (ours.path, "sk-test")


def normal(value: Any) -> Any:
    """One of the spellings that the API takes: names in camel case, plain base64."""
    if isinstance(value, dict):
        return dict(_normal_pair(key, item) for key, item in value.items())
    return [normal(item) for item in value] if isinstance(value, list) else value


def _normal_pair(key: str, value: Any) -> tuple[str, Any]:
    head, *rest = key.split("_")
    name = head + "".join(word.title() for word in rest)
    if name in ("thoughtSignature", "data"):
        return name, value.replace("-", "+").replace("_", "/")
    return name, normal(value)


def test_a_field_that_nobody_knows_is_found() -> None:
    turn = body_of(FAMILY, user("Hi"))["contents"][0]
    turn["parts"][0]["sparkle"] = 1
    with pytest.raises(ValueError, match="sparkle"):
        types.Content.model_validate(turn)
