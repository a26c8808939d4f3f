"""Without compaction each request is the previous one plus messages, as trainers need it.

Trainers put the requests of a run together to one sequence of tokens: a message that changes later
would be trained on twice, or with a wrong history.
"""

import copy
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ludolf.ai.models import Model
from ludolf.sdk import create_session
from tests import anthropic_wire as claude
from tests import openai_asking as openai
from tests.loopback import Canned, Loopback

CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("write", {"path": "a.txt", "content": "gr\u00fc\u00dfe\n"}),
    ("bash", {"command": "cat a.txt; exit 3"}),
    ("read", {"path": "missing.txt"}),
    ("absent", {}),
)


def _of_openai(index: int) -> bytes:
    def chunk(delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
        return {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}

    thought = chunk({"reasoning_content": f"thought {index}"})
    if index >= len(CALLS):
        return openai.sse(thought, chunk({"content": "Done."}), chunk({}, "stop"), b"[DONE]")
    name, arguments = CALLS[index]
    function = {"name": name, "arguments": openai.encoded(arguments)[0].decode()}
    call = {"index": 0, "id": f"call_{index}", "function": function}
    text = chunk({"content": f"Step {index}."})
    return openai.sse(thought, text, chunk({"tool_calls": [call]}), chunk({}, "tool_calls"))


def _of_anthropic(index: int) -> bytes:
    thought = [
        claude.open_block(0, type="thinking", thinking=""),
        claude.delta(0, "thinking", thinking=f"thought {index}"),
        claude.delta(0, "signature", signature=f"signed {index}"),
        claude.close_block(0),
    ]
    if index >= len(CALLS):
        text = [claude.open_block(1, type="text", text=""), claude.delta(1, "text", text="Done.")]
        end = [claude.close_block(1), claude.ending(), claude.STOP]
        return claude.sse(claude.begin(), *thought, *text, *end)
    name, arguments = CALLS[index]
    call = [
        claude.open_block(1, type="tool_use", id=f"toolu_{index}", name=name, input={}),
        claude.delta(1, "input_json", partial_json=openai.encoded(arguments)[0].decode()),
        claude.close_block(1),
    ]
    return claude.sse(claude.begin(), *thought, *call, claude.ending("tool_use"), claude.STOP)


CASES = [
    pytest.param(openai.model(), _of_openai, id="openai-completions"),
    pytest.param(
        openai.model(compat={"cacheControlFormat": "anthropic"}), _of_openai, id="with markers"
    ),
    pytest.param(claude.model(), _of_anthropic, id="anthropic-messages"),
]


@pytest.mark.parametrize(("model", "reply"), CASES)
async def test_each_request_is_the_previous_one_plus_messages(
    model: Model, reply: Any, tmp_path: Path
) -> None:
    replies = [Canned(chunks=[reply(index)]) for index in range(len(CALLS) + 1)]
    with Loopback(*replies) as server:
        model = model.replace(base_url=server.url)
        async with create_session(
            model=model, api_key="secret", cwd=tmp_path, settings={}, thinking="high"
        ) as session:
            await session.prompt("Go")
            await session.bash("echo from the user")
            await session.prompt("And once more")
        bodies = [asked.json for asked in server.requests]
    assert len(bodies) == len(CALLS) + 2
    _check_prefixes(bodies)


def _check_prefixes(bodies: Sequence[dict[str, Any]]) -> None:
    marked = 0
    for before, after in pairwise(bodies):
        earlier, later = _without_markers(before), _without_markers(after)
        marked += earlier != before
        kept = earlier.pop("messages")
        assert later.pop("messages")[: len(kept)] == kept
        assert later == earlier
    # Markers move to the end of the conversation; nothing else of a message may change.
    assert marked in (0, len(bodies) - 1)


def _without_markers(body: dict[str, Any]) -> dict[str, Any]:
    plain = copy.deepcopy(body)
    _strip(plain)
    return plain


def _strip(value: Any) -> None:
    if isinstance(value, dict):
        value.pop("cache_control", None)
        match value.get("content"):
            case [{"type": "text", "text": text, **more}] if not set(more) - {"cache_control"}:
                value["content"] = text  # the form that can carry a marker
        for each in value.values():
            _strip(each)
    elif isinstance(value, list):
        for each in value:
            _strip(each)
