"""The scripted model: replies in order, from Python and from files, whole, broken and hanging."""

import asyncio
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from ludolf.ai.access import Access
from ludolf.ai.builtin.models import scripted_model
from ludolf.ai.builtin.scripted import (
    PlaybackBlock,
    Scripted,
    ScriptedFailure,
    ScriptedReply,
    ScriptedUsage,
    load_script,
    make,
)
from ludolf.ai.draft import BlockDelta, BlockEnd, BlockStart, Draft, StreamEvent
from ludolf.ai.errors import ProviderError
from ludolf.ai.http.transport import Transport
from ludolf.ai.messages import Text, Thinking, ToolCall, UserMessage
from ludolf.ai.provider import ModelAnswer, Provider, Request
from ludolf.ai.registry import Providers
from ludolf.ai.stream import respond


def request(provider: Provider, text: str = "Hi", **environment: str) -> Request:
    return Request(
        environ=os.environ,
        provider=provider,
        model=scripted_model(),
        access=Access(environment=environment),
        system="",
        messages=(UserMessage(content=(Text(text=text),), timestamp=1),),
    )


async def listen(asked: Request) -> tuple[ModelAnswer, list[list[StreamEvent]]]:
    reads: list[list[StreamEvent]] = []

    async def take(events: Iterable[StreamEvent]) -> None:
        reads.append(list(events))

    return await respond(asked, Draft(asked.model), take), reads


def ask(provider: Provider, text: str = "Hi", **environment: str) -> ModelAnswer:
    return asyncio.run(listen(request(provider, text, **environment)))[0]


def said(answer: ModelAnswer) -> str:
    return "".join(block.text for block in answer.message.content if isinstance(block, Text))


def test_replies_are_used_up_in_order_and_the_end_says_so() -> None:
    provider = Scripted([ScriptedReply(text="One"), ScriptedReply(text="Two")])
    assert [said(ask(provider)) for _ in range(3)] == [
        "One",
        "Two",
        "The script has no reply left for this request.",
    ]


def test_a_strict_script_fails_when_it_is_used_up(tmp_path: Path) -> None:
    file = tmp_path / "script.json"
    file.write_text('{"strict": true, "replies": [{"text": "One"}]}')
    for provider in (Scripted([ScriptedReply(text="One")], strict=True), make(Transport({}))):
        assert said(ask(provider, LUDOLF_SCRIPT=str(file))) == "One"
        over = ask(provider, LUDOLF_SCRIPT=str(file)).message
        assert over.stop_reason == "error"
        assert over.error_message == "The script has no reply left for this request."


def test_a_reply_streams_its_blocks_in_chunks() -> None:
    content = (
        PlaybackBlock(thinking="Hm", signature="s"),
        PlaybackBlock(text="Hello"),
        PlaybackBlock(tool="read", args={"path": "a"}),
    )
    provider = Scripted([ScriptedReply(content=content, chunk=8, per_read=2)])
    answer, reads = asyncio.run(listen(request(provider)))
    call = ToolCall(id="call_1", name="read", arguments={"path": "a"})
    thought = Thinking(thinking="Hm", thinking_signature="s")
    assert [read for read in reads if read] == [
        [BlockStart("thinking", 0), BlockDelta("thinking", 0, "Hm", b"Hm")],
        [BlockEnd("thinking", 0, thought)],
        [BlockStart("text", 1), BlockDelta("text", 1, "Hello", b"Hello")],
        [BlockEnd("text", 1, Text(text="Hello"))],
        [
            BlockStart("toolcall", 2, "call_1", "read"),
            BlockDelta("toolcall", 2, '{"path":', b'{\\"path\\":'),
        ],
        [BlockDelta("toolcall", 2, '"a"}', b'\\"a\\"}'), BlockEnd("toolcall", 2, call)],
    ]
    assert answer.message.content == (thought, Text(text="Hello"), call)
    assert answer.message.stop_reason == "toolUse"


def test_the_draft_never_runs_ahead_of_the_event_being_told() -> None:
    provider = Scripted([ScriptedReply(text="abcd", chunk=1, per_read=9)])
    asked = request(provider)
    draft = Draft(asked.model)
    seen: list[str] = []

    async def take(events: Iterable[StreamEvent]) -> None:
        seen.extend(
            said(ModelAnswer(draft.snapshot())) for event in events if isinstance(event, BlockDelta)
        )

    asyncio.run(respond(asked, draft, take))
    assert seen == ["a", "ab", "abc", "abcd"]


def test_call_ids_differ_through_a_whole_script() -> None:
    two = (
        PlaybackBlock(tool="read"),
        PlaybackBlock(tool="read", id="mine"),
        PlaybackBlock(tool="read"),
    )
    provider = Scripted([ScriptedReply(content=two), ScriptedReply(content=two[:1])])
    calls = [call.id for _ in range(2) for call in ask(provider).message.tool_calls]
    assert calls == ["call_1", "mine", "call_2", "call_3"]


def test_arguments_can_be_cut_so_that_the_call_is_known_as_broken() -> None:
    provider = Scripted(
        [ScriptedReply(content=(PlaybackBlock(tool="bash", raw='{"command": "rm -r'),))]
    )
    asked = request(provider)
    draft = Draft(asked.model)

    async def take(events: Iterable[StreamEvent]) -> None:
        list(events)

    answer = asyncio.run(respond(asked, draft, take))
    assert draft.broken == {"call_1"}
    assert answer.message.tool_calls[0].arguments == {"command": "rm -r"}


def test_a_match_picks_the_reply_for_the_last_user_text() -> None:
    provider = Scripted(
        [ScriptedReply(text="B", match="beta"), ScriptedReply(text="A", match="alpha")]
    )
    assert said(ask(provider, "the alpha case")) == "A"
    assert said(ask(provider, "gamma")).endswith(" Replies left for other requests: 1.")
    assert said(ask(provider, "beta")) == "B"


def test_usage_and_stop_reason_are_told_as_written() -> None:
    tokens = ScriptedUsage(input=10, output=5, cache_read=3, cache_write=2, reasoning=1)
    message = ask(Scripted([ScriptedReply(text="x", usage=tokens, stop="length")])).message
    assert message.stop_reason == "length"
    assert message.usage.total_tokens == 20
    assert (message.usage.cache_read, message.usage.reasoning) == (3, 1)
    assert message.usage.cost.total == 0


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (ScriptedFailure(text="busy", status=529), "overloaded"),
        (ScriptedFailure(text="slow down", status=429, retry_after=3), "rate_limit"),
        (ScriptedFailure(text="who?", status=401), "auth"),
        (ScriptedFailure(text="too big", status=413), "overflow"),
        (ScriptedFailure(text="prompt is too long", status=400), "overflow"),
        (ScriptedFailure(text="what?", status=422), "bad_request"),
        (ScriptedFailure(text="what?", kind="refused"), "refused"),
        ("Overloaded", "overloaded"),
    ],
)
def test_a_failure_has_the_kind_of_its_status_or_text(
    failure: ScriptedFailure | str, kind: str
) -> None:
    answer = ask(Scripted([ScriptedReply(error=failure)]))
    text = failure if isinstance(failure, str) else failure.text
    assert (answer.kind, answer.message.error_message) == (kind, text)
    assert answer.retry_after == (
        failure.retry_after if isinstance(failure, ScriptedFailure) else None
    )


def test_a_failure_after_some_content_keeps_it() -> None:
    answer = ask(Scripted([ScriptedReply(text="Half", error="terminated")]))
    assert said(answer) == "Half"
    assert (answer.message.stop_reason, answer.kind) == ("error", "network")


def test_a_hanging_reply_waits_until_it_is_cancelled() -> None:
    provider = Scripted([ScriptedReply(text="Half", hang=True)])
    asked = request(provider)
    ended = asyncio.Event()

    async def take(events: Iterable[StreamEvent]) -> None:
        if any(isinstance(event, BlockEnd) for event in events):
            ended.set()

    async def run() -> bool:
        async with asyncio.timeout(30), asyncio.TaskGroup() as group:
            task = group.create_task(respond(asked, Draft(asked.model), take))
            await ended.wait()
            task.cancel()
        return task.cancelled()

    assert asyncio.run(run())


def test_requests_are_kept_and_replies_can_be_added() -> None:
    provider = Scripted([])
    provider.add(ScriptedReply(text="Later"))
    assert said(ask(provider, "first")) == "Later"
    assert [item.messages[0].content for item in provider.requests] == [  # type: ignore[union-attr]
        (Text(text="first"),)
    ]


# ---------------------------------------------------------------- the file

REPLIES: list[dict[str, Any]] = [{"text": "One"}, {"content": [{"tool": "ls", "args": {}}]}]


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(REPLIES),
        json.dumps({"replies": REPLIES}, indent=1),
        "\n".join(map(json.dumps, REPLIES)) + "\n\n",
        "\ufeff" + json.dumps(REPLIES),
    ],
)
def test_a_script_file_is_a_list_an_object_or_lines(tmp_path: Path, text: str) -> None:
    file = tmp_path / "script.json"
    file.write_text(text, "utf-8")
    assert list(load_script(str(file)).replies) == [
        ScriptedReply(text="One"),
        ScriptedReply(content=(PlaybackBlock(tool="ls"),)),
    ]


def test_one_reply_alone_is_a_script(tmp_path: Path) -> None:
    file = tmp_path / "script.jsonl"
    file.write_text('{"text": "One", "delayMs": 1, "pauseMs": 1, "perRead": 3}')
    assert list(load_script(str(file)).replies) == [
        ScriptedReply(text="One", delay_ms=1, pause_ms=1, per_read=3)
    ]


def test_the_environment_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "script.json"
    file.write_text('[{"text": "From a file"}]')
    monkeypatch.setenv("LUDOLF_SCRIPT", str(file))
    assert said(ask(make(Transport({})))) == "From a file"
    monkeypatch.setenv("LUDOLF_SCRIPT", "/nowhere")
    assert said(ask(make(Transport({})), LUDOLF_SCRIPT=str(file))) == "From a file"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('[{"text": "a"}, {"txt": "b"}]', "reply 2: "),
        ('{"text": "a"}\n{"chunk": 0}', "line 2: chunk and perRead must be 1 or more"),
        ('[{"content": [{"text": "a", "tool": "b"}]}]', "exactly one of text, thinking and tool"),
        ('[{"error": {"status": 500}}]', "reply 1: "),
        ("7", "expected a list of replies"),
        ('{"replies": [], "strickt": true}', "unknown field strickt"),
        ('{"replies": [], "strict": 1}', "strict must be true or false"),
        ("{nothing", "cannot be played: "),
    ],
)
def test_a_bad_script_is_refused_with_the_place(tmp_path: Path, text: str, complaint: str) -> None:
    file = tmp_path / "script.json"
    file.write_text(text)
    with pytest.raises(ProviderError) as error:
        load_script(str(file))
    assert complaint in str(error.value)
    assert str(error.value).count(str(file)) == 1
    assert error.value.kind == "bad_request"


def test_a_missing_script_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LUDOLF_SCRIPT", raising=False)
    answer = ask(make(Transport({})))
    assert "set LUDOLF_SCRIPT to the path of its file" in (answer.message.error_message or "")
    gone = ask(make(Transport({})), LUDOLF_SCRIPT="/nowhere/at-all.json")
    assert "No such file" in (gone.message.error_message or "")


def test_every_example_of_the_manual_is_a_script(tmp_path: Path) -> None:
    manual = Path(__file__).parents[2] / "docs" / "scripted-provider.md"
    blocks = manual.read_text("utf-8").split("```json")[1:]
    assert blocks
    for number, block in enumerate(blocks):
        file = tmp_path / f"{number}.json"
        file.write_text(block.split("\n", 1)[1].split("```")[0])
        assert load_script(str(file)).replies


def test_the_model_record_leads_back_to_the_provider() -> None:
    model = scripted_model()
    assert model.key == "ludolf/scripted"
    provider = Providers(Transport({})).get(model.api)
    assert (provider.api, provider.abort_text) == ("ludolf-scripted", "Request was aborted")
    assert structs.asdict(model)["context_window"] == 128_000
