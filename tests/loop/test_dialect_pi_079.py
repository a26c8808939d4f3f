"""The exact dialect `pi-0.79`: no record, no field and no level that pi 0.79.10 does not have."""

import asyncio
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import structs

from ludolf.ai.access import Access
from ludolf.ai.builtin.models import scripted_model
from ludolf.ai.builtin.scripted import PlaybackBlock, ScriptedUsage
from ludolf.ai.models import CostTier, ModelCost
from tests.loop.stage import SMALL, Stage, call, calls, fails, say, stage, words
from tests.process.extending import asked, dialog, told
from tests.process.harness import Lab
from tests.process.script import answer, bash

Record = dict[str, Any]
# Keys of records, messages, blocks and answers of pi 0.79.10: those that transcripts of it hold,
# and those that its documentation names.
KEYS: Mapping[str, Mapping[str, str]] = json.loads(
    (Path(__file__).parents[1] / "fixtures" / "pi-0.79-keys.json").read_text()
)
EXACT = "pi-0.79"


def _unknown(table: str, name: str, record: Record) -> list[str]:
    known = KEYS[table].get(name)
    if known is None:
        return [f"{table}: {name}"]
    return [f"{table}: {name}.{key}" for key in record if key not in known.split()]


def _newer(record: Record) -> Iterator[str]:
    """What pi 0.79.10 does not have, in this record and all that it holds."""
    kind = record["type"]
    if kind == "extension_ui_request":
        yield from _unknown("requests", record["method"], record)
        return
    yield from _unknown("records", kind, record)
    if kind == "message_update":
        piece = record["assistantMessageEvent"]
        yield from _unknown("pieces", piece["type"], piece)
        yield from _in_message(piece["partial"])
        yield from _unknown("blocks", "toolCall", piece.get("toolCall", {}))
    if kind == "response" and record["success"]:
        yield from _in_answer(record["command"], record.get("data"))
    if kind == "compaction_end" and "result" in record:
        yield from _unknown("parts", "compaction", record["result"])
    for key in ("result", "partialResult"):
        if kind.startswith("tool_execution") and key in record:
            yield from _unknown("parts", "tool result", record[key])
    own = [record["message"]] if "message" in record else []
    for message in (*own, *record.get("messages", ()), *record.get("toolResults", ())):
        yield from _in_message(message)


def _in_message(message: Record) -> Iterator[str]:
    yield from _unknown("messages", message["role"], message)
    for block in message.get("content", ()):
        yield from _unknown("blocks", block["type"], block)
    if "usage" in message:
        yield from _unknown("parts", "usage", message["usage"])
        yield from _unknown("parts", "usage.cost", message["usage"]["cost"])


def _in_answer(command: str, data: Any) -> Iterator[str]:
    if data is None:
        return
    if command == "set_model":
        yield from _in_model(data)
        return
    yield from _unknown("answers", command, data)
    models = [*data.get("models", ()), *([data["model"]] if "model" in data else [])]
    for model in models:
        yield from _in_model(model)
    for message in data.get("messages", ()):
        if "role" in message:
            yield from _in_message(message)
        else:
            yield from _unknown("parts", "fork message", message)
    for item in data.get("commands", ()):
        yield from _unknown("parts", "command", item)
        yield from _unknown("parts", "sourceInfo", item["sourceInfo"])


def _in_model(model: Record) -> Iterator[str]:
    yield from _unknown("parts", "model", model)
    yield from _unknown("parts", "model.cost", model["cost"])
    if "max" in (model.get("thinkingLevelMap") or {}):
        yield "level max"


async def _rest(s: Stage) -> None:
    """Wait until the run is over: this dialect has no event for it."""
    async with asyncio.timeout(30):
        while s.engine.runner.running:  # noqa: ASYNC110 - the end of a run sends no frame
            await asyncio.sleep(0)


async def _run(s: Stage, text: str, **fields: Any) -> None:
    await s.data("prompt", message=text, **fields)
    await _rest(s)


def _thinking_models(s: Stage) -> None:
    """Add models with all that newer versions of pi say about a model."""
    prices = dict.fromkeys(("input", "output", "cache_read", "cache_write"), 1.0)
    tier = CostTier(input_tokens_above=1, **prices)
    model = structs.replace(
        scripted_model(),
        cost=ModelCost(tiers=(tier,)),
        input_limits={"maxRequestBytes": 1},
        prompt_cache={"short": 1},
        sampling_params={"top_p": 1},
    )
    both = {"xhigh": "xhigh", "max": "max"}
    named = (("only-max", {"max": "max"}), ("both", both))
    added = [structs.replace(model, id=id, thinking_level_map=levels) for id, levels in named]
    s.engine.models.registry.register(added, Access())


REPLIES = (
    calls(
        PlaybackBlock(thinking="Hm."),
        call("bash", "1", command="echo hello"),
        call("write", "2", path="a.txt", content="a"),
        call("read", "3", path="missing"),
        call("nonsense", "4"),
        usage=ScriptedUsage(input=10, output=5, reasoning=3),
    ),
    say("First."),
    fails("400 invalid_request_error"),
    fails("529 overloaded_error"),
    say("Second."),
    say(words(300)),
    fails("529 overloaded_error"),
    *(say("More."),) * 8,
)


async def _wide_run(s: Stage) -> None:
    _thinking_models(s)
    await s.data("get_last_assistant_text")
    await _run(s, "Go")
    await _run(s, "Fail")
    await _run(s, "Try")
    await _run(s, words(300))
    await s.data("compact")
    await s.data("steer", message="waits")
    await s.data("follow_up", message="too")
    await _run(s, "Take them")
    await s.data("bash", command="seq 100000; sleep 0 & kill -9 $$")
    await s.data("bash", command="printf x", excludeFromContext=True)
    await s.data("set_session_name", name="a name")
    for name in ("get_state", "get_messages", "get_session_stats", "get_commands"):
        await s.data(name)
    for name in ("get_available_models", "cycle_model", "get_fork_messages", "clone"):
        await s.data(name)
    await s.data("set_model", provider="ludolf", modelId="only-max")
    await s.data("set_thinking_level", level="max")
    await s.data("cycle_thinking_level")
    (first, *_) = (await s.data("get_fork_messages"))["messages"]
    await s.data("fork", entryId=first["entryId"])
    await s.data("new_session")
    await s.data("get_messages")
    await s.refusal("set_model", provider="no", modelId="such")


async def test_nothing_is_sent_that_pi_079_does_not_have(tmp_path: Path) -> None:
    (tmp_path / "agent" / "prompts").mkdir(parents=True)
    (tmp_path / "agent" / "prompts" / "mine.md").write_text("Do it.")
    options = {"no_context_files": False}
    made = stage(
        tmp_path,
        *REPLIES,
        settings={"compaction": SMALL},
        options=options,
        dialect=EXACT,
        lawful=False,
    )
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "AGENTS.md").write_text("Be brief.")
    async with made as s:
        await _wide_run(s)
        frames = s.frames
    assert sorted({each for record in frames for each in _newer(record)}) == []
    sent = {record["type"] for record in frames}
    quiet = {"extension_ui_request", "extension_error", "session"}
    assert set(KEYS["records"]) - sent - quiet == set()
    # The events that newer hosts get were there to be left out.
    told = {type(event).__name__ for event in s.recorder.events}
    assert {"AgentSettled", "ShellOutput", "SummaryRetryStart", "ContextFilesUsed"} <= told


async def test_the_end_of_the_run_is_the_last_record(tmp_path: Path) -> None:
    async with stage(tmp_path, say("Hi"), dialect=EXACT, lawful=False) as s:
        await _run(s, "Go")
        assert s.frames[-1]["type"] == "agent_end"


async def test_max_is_called_xhigh(tmp_path: Path) -> None:
    async with stage(tmp_path, dialect=EXACT, lawful=False) as s:
        _thinking_models(s)
        models = (await s.data("get_available_models"))["models"]
        maps = {model["id"]: model.get("thinkingLevelMap") for model in models}
        assert maps["only-max"] == {"xhigh": "max"}
        assert maps["both"] == {"xhigh": "xhigh"}
        await s.data("set_model", provider="ludolf", modelId="only-max")
        await s.data("set_thinking_level", level="xhigh")
        assert s.engine.models.level == "max"
        assert (await s.data("get_state"))["thinkingLevel"] == "xhigh"
        assert s.of_type("thinking_level_changed")[-1]["level"] == "xhigh"
        await s.data("set_model", provider="ludolf", modelId="both")
        levels = (await s.data("get_available_thinking_levels"))["levels"]
        assert levels == ["off", "minimal", "low", "medium", "high", "xhigh"]


async def test_a_question_before_a_tool_has_only_the_keys_of_a_dialog(lab: Lab) -> None:
    lab.server.add(answer(bash("echo hi")))
    async with lab.client("--rpc-dialect", EXACT, "--approval", "always") as client:
        await client.ask("prompt", message="Go")
        request = await dialog(client, "select")
        await client.send("abort")
        await client.collect("agent_end")
    assert list(_newer(request)) == []
    assert request["title"] == "Allow bash: echo hi"
    assert asked(told(lab), "cancel") == []
