"""Mistral's own library reads what we read, and sends what we send."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from ludolf.ai.http.transport import Transport
from ludolf.ai.messages import Image, Text, Thinking, ToolCall, UserMessage
from ludolf.ai.provider import Provider, ToolSpec
from ludolf.ai.providers.mistral import make
from tests.anthropic_wire import ask, assistant, result
from tests.loopback import Canned, Loopback
from tests.mistral_wire import RICH, model

pytest.importorskip("mistralai.client")

READ = ToolSpec("read", "Reads.", {"type": "object", "properties": {"path": {"type": "string"}}})
HELLO = [{"role": "user", "content": "hello"}]


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    transport = Transport({})
    yield make(transport)
    await transport.close()


def streamed(url: str, **fields: Any) -> list[Any]:
    """What the library makes of an answer."""
    from mistralai.client import Mistral

    with Mistral(api_key="sk-test", server_url=url) as client:
        return [event.data for event in client.chat.stream(**fields)]


async def test_an_answer_is_read_as_the_library_reads_it(provider: Provider) -> None:
    with Loopback(Canned(chunks=[RICH])) as server:
        told = await ask(provider, server, model=model())
        chunks = streamed(server.url, model=model().id, messages=HELLO)
    deltas = [chunk.choices[0].delta for chunk in chunks]
    parts = [part for delta in deltas for part in _parts(delta.content)]
    thinking, text = told.message.content[:2]
    assert isinstance(thinking, Thinking)
    assert isinstance(text, Text)
    thoughts = (part.thinking for part in parts if part.type == "thinking")
    assert thinking.thinking == "".join(piece.text for pieces in thoughts for piece in pieces)
    texts = "".join(part.text for part in parts if part.type == "text")
    plain = [delta.content for delta in deltas if isinstance(delta.content, str)]
    assert text.text == "".join(plain) + texts
    assert _calls(deltas) == [
        (call.id, call.name, call.arguments) for call in told.message.tool_calls
    ]
    assert told.message.raw_stop_reason == chunks[-1].choices[0].finish_reason
    usage = chunks[-1].usage
    counted = told.message.usage
    assert counted.input + counted.cache_read == usage.prompt_tokens
    assert (counted.output, counted.total_tokens) == (usage.completion_tokens, usage.total_tokens)
    assert (told.message.response_id, told.message.response_model) == (
        chunks[0].id,
        chunks[0].model,
    )


def _parts(content: Any) -> list[Any]:
    return content if isinstance(content, list) else []


def _calls(deltas: list[Any]) -> list[tuple[str, str, Any]]:
    """The library gives pieces; those of one index belong together."""
    found: dict[int, tuple[str, str, str]] = {}
    for delta in deltas:
        for call in delta.tool_calls or ():
            given = call.function.arguments
            text = given if isinstance(given, str) else json.dumps(given)
            call_id, name, old = found.get(call.index, (call.id, call.function.name, ""))
            found[call.index] = (call_id, name, old + text)
    return [(call_id, name, json.loads(text)) for call_id, name, text in found.values()]


async def test_the_library_sends_the_same_request(provider: Provider) -> None:
    said = assistant(
        Thinking(thinking="hm"),
        Text(text="ok"),
        ToolCall(id="abc123def", name="read", arguments={"path": "x"}),
    ).replace(api="mistral-conversations", provider="mistral", model=model().id)
    picture = Image(data="QUJD", mime_type="image/png")
    history = (
        UserMessage(content=(Text(text="look"), picture), timestamp=1),
        said,
        result("abc123def", Text(text="one"), picture),
    )
    with Loopback(Canned(chunks=[RICH])) as server:
        await ask(
            provider,
            server,
            model=model(),
            messages=history,
            tools=(READ,),
            thinking="high",
            session_id="s1",
        )
        ours = server.requests[0]
        streamed(server.url, **{**ours.json, "messages": _typed(ours.json["messages"])})
        theirs = server.requests[1]
    assert ours.path == theirs.path.partition("?")[0].partition("#")[0]
    for name in ("authorization", "content-type", "accept"):
        assert ours.headers[name] == theirs.headers[name]
    assert _shared(ours.json, theirs.json) == ours.json
    assert set(theirs.json) >= set(ours.json)


def _typed(messages: list[dict[str, Any]]) -> list[Any]:
    """The same messages as objects of the library, which checks their fields."""
    from mistralai.client import models

    kinds: dict[str, Any] = {
        "system": models.SystemMessage,
        "user": models.UserMessage,
        "assistant": models.AssistantMessage,
        "tool": models.ToolMessage,
    }
    return [kinds[message["role"]].model_validate(message) for message in messages]


def _shared(ours: Any, theirs: Any) -> Any:
    """What the library sent, without the defaults that only it states."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return {name: _shared(ours[name], theirs[name]) for name in ours if name in theirs}
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        return [_shared(mine, yours) for mine, yours in zip(ours, theirs, strict=True)]
    return theirs
