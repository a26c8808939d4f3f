"""Agents in the background, in process: who may do what, what is shared, what ends them."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from ludolf import create_session
from ludolf.ai.messages import CustomMessage, text_of
from ludolf.base import CommandError, loads
from ludolf.engine.features.subagents.subagents import SubagentSpawner
from ludolf.ext import Api, ToolCalled
from ludolf.protocol.events import AgentSettled, LimitReached
from ludolf.protocol.subagent_events import (
    AgentWaiting,
    SubagentEvent,
    SubagentLifecycle,
    SubagentProgress,
)
from ludolf.sdk import AgentSession, ModelContext, ToolCall, ToolResultMessage, Usage
from ludolf.session.finder import SessionFolder
from ludolf.session.library import trash

Speech = str | ToolCall | Usage
Speaker = Callable[[ModelContext], AsyncIterator[Speech]]


def _is_agent(context: ModelContext) -> bool:
    return "yield" in _tools(context)


def _tools(context: ModelContext) -> list[str]:
    return [tool.name for tool in context.tools]


def _asked(context: ModelContext) -> str:
    """What the conversation began with."""
    return text_of(context.messages[0].content)


def _last(context: ModelContext) -> str:
    return text_of(context.messages[-1].content)


def _task(*tasks: dict[str, Any], context: str = "") -> ToolCall:
    return ToolCall(id="c1", name="task", arguments={"context": context, "tasks": list(tasks)})


def _done(data: Any) -> ToolCall:
    return ToolCall(id="y1", name="yield", arguments={"result": {"data": data}})


def _delegating(*tasks: dict[str, Any], agent: Speaker) -> Speaker:
    """A parent that starts these agents, waits, and repeats what it hears of them."""

    async def speak(context: ModelContext) -> AsyncIterator[Speech]:
        if _is_agent(context):
            async for piece in agent(context):
                yield piece
        elif len(context.messages) == 1:
            yield _task(*tasks)
        elif isinstance(context.messages[-1], ToolResultMessage):
            yield "waiting"
        else:
            yield f"heard {_last(context)}"

    return speak


async def _greets(context: ModelContext) -> AsyncIterator[Speech]:
    yield _done("hello")


def _session(model: Speaker, tmp_path: Path, **more: Any) -> AgentSession:
    settings = {"task": {"enabled": True}, **more.pop("settings", {})}
    return create_session(
        **{"model": model, "settings": settings, "cwd": tmp_path, "agent_dir": tmp_path, **more}
    )


def _results(session: AgentSession) -> list[CustomMessage]:
    return [message for message in session.messages if isinstance(message, CustomMessage)]


async def test_a_result_wakes_the_parent_and_the_prompt_is_over_then(tmp_path: Path) -> None:
    model = _delegating({"name": "Look", "task": "Greet"}, agent=_greets)
    async with _session(model, tmp_path) as session:
        events = [event async for event in session.prompt("go")]
        (result,) = _results(session)
    assert [type(e) for e in events if isinstance(e, AgentWaiting | AgentSettled)] == [
        AgentWaiting,
        AgentSettled,
    ]
    assert next(e for e in events if isinstance(e, AgentWaiting)).jobs == ("Look",)
    assert result.custom_type == "async-result"
    assert result.details["jobs"][0]["label"] == "Look"
    assert "hello" in text_of(result.content)


async def test_a_result_reaches_a_busy_parent_at_its_next_turn(tmp_path: Path) -> None:
    seen: list[str] = []

    async def wait() -> str:
        """Wait for the agent."""
        jobs = session.engine.features.find(SubagentSpawner)
        assert jobs is not None
        await jobs.ended()
        return "waited"

    async def parent(context: ModelContext) -> AsyncIterator[Speech]:
        if _is_agent(context):
            yield _done("early")
        elif len(context.messages) == 1:
            yield _task({"task": "Be quick"})
        elif len(context.messages) == 3:
            yield ToolCall(id="w1", name="wait", arguments={})
        else:
            seen.append(type(context.messages[-1]).__name__)
            yield f"heard {_last(context)}"

    async with _session(parent, tmp_path, tools=[wait]) as session:
        async with asyncio.timeout(30):
            answer = await session.prompt("go")
    assert "early" in answer.text
    assert seen == ["CustomMessage"]


async def test_an_agent_that_says_it_cannot_is_reported_as_failed(tmp_path: Path) -> None:
    async def agent(context: ModelContext) -> AsyncIterator[Speech]:
        yield ToolCall(id="y1", name="yield", arguments={"result": {"error": "no such file"}})

    async with _session(_delegating({"task": "Try"}, agent=agent), tmp_path) as session:
        answer = await session.prompt("go")
        (result,) = _results(session)
    assert 'status="failed"' in answer.text
    assert result.details["jobs"][0]["error"] == "no such file"


async def test_an_agent_that_forgets_to_yield_is_reminded_and_then_quoted(tmp_path: Path) -> None:
    reminded: list[str] = []

    async def agent(context: ModelContext) -> AsyncIterator[Speech]:
        reminded.append(_last(context))
        yield "just words"

    async with _session(_delegating({"task": "Talk"}, agent=agent), tmp_path) as session:
        answer = await session.prompt("go")
    assert len(reminded) == 4
    assert reminded[1] == reminded[3] != reminded[0]
    assert "just words" in answer.text


async def test_agents_of_one_call_run_side_by_side(tmp_path: Path) -> None:
    both = asyncio.Barrier(2)

    async def agent(context: ModelContext) -> AsyncIterator[Speech]:
        await both.wait()
        yield _done(_asked(context)[-1])

    tasks = ({"name": "A", "task": "part 1"}, {"name": "A", "task": "part 2"})
    async with _session(_delegating(*tasks, agent=agent), tmp_path) as session:
        async with asyncio.timeout(30):
            await session.prompt("go")
        told = [job["jobId"] for result in _results(session) for job in result.details["jobs"]]
    assert sorted(told) == ["A", "A-2"]


async def test_no_more_agents_work_at_once_than_allowed(tmp_path: Path) -> None:
    working, most = 0, 0

    async def agent(context: ModelContext) -> AsyncIterator[Speech]:
        nonlocal working, most
        working += 1
        most = max(most, working)
        await asyncio.sleep(0)
        working -= 1
        yield _done("ok")

    settings = {"task": {"enabled": True, "maxConcurrency": 1}}
    tasks = [{"task": f"part {number}"} for number in range(3)]
    model = _delegating(*tasks, agent=agent)
    async with _session(model, tmp_path, settings=settings) as session:
        async with asyncio.timeout(30):
            await session.prompt("go")
        told = [job for result in _results(session) for job in result.details["jobs"]]
    assert (most, len(told)) == (1, 3)


async def test_agents_start_agents_only_as_deep_as_allowed(tmp_path: Path) -> None:
    offered: dict[str, bool] = {}

    async def model(context: ModelContext) -> AsyncIterator[Speech]:
        offered[_asked(context).split()[-1]] = "task" in _tools(context)
        if not _is_agent(context):
            yield (
                _task({"name": "Outer", "task": "level outer"})
                if len(context.messages) == 1
                else "done"
            )
        elif "outer" in _asked(context) and len(context.messages) == 1:
            yield _task({"name": "Inner", "task": "level inner"})
        elif isinstance(context.messages[-1], ToolResultMessage):
            yield "waiting for the inner one"
        else:
            yield _done("done")

    async with _session(model, tmp_path) as session:
        jobs = session.engine.features.find(SubagentSpawner)
        assert jobs is not None
        jobs.registry.subscription.level = "progress"
        async with asyncio.timeout(30):
            events = [event async for event in session.prompt("root")]
    assert offered == {"root": True, "outer": True, "inner": False}
    lives = [e.payload for e in events if isinstance(e, SubagentLifecycle)]
    assert [(life.id, life.status) for life in lives] == [
        ("Outer", "started"),
        ("Outer.Inner", "started"),
        ("Outer.Inner", "completed"),
        ("Outer", "completed"),
    ]


async def test_turns_of_agents_count_for_the_limit_of_the_prompt(tmp_path: Path) -> None:
    async def agent(context: ModelContext) -> AsyncIterator[Speech]:
        yield ToolCall(id=f"b{len(context.messages)}", name="nothing", arguments={})

    def nothing() -> str:
        """Do nothing."""
        return "done"

    model = _delegating({"task": "Work on"}, agent=agent)
    async with _session(model, tmp_path, tools=[nothing], max_turns=5) as session:
        async with asyncio.timeout(30):
            events = [event async for event in session.prompt("go")]
        (result,) = _results(session)
        assert session.messages[-1] == result
    assert isinstance(events[-1], AgentSettled)
    assert "limit of 5 for turns" in result.details["jobs"][0]["error"]
    assert not [event for event in events if isinstance(event, LimitReached)]


async def test_abort_ends_agents_and_nobody_is_woken(tmp_path: Path) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def agent(context: ModelContext) -> AsyncIterator[Speech]:
        try:
            begun.set()
            yield "working"
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with _session(_delegating({"task": "Hang"}, agent=agent), tmp_path) as session:
        run = asyncio.ensure_future(_events(session))
        async with asyncio.timeout(30):
            await begun.wait()
            await session.engine.runner.idle()
            assert not session.engine.is_settled
            await session.abort()
            events = await run
        assert session.engine.is_settled
        assert not _results(session)
    assert ended.is_set()
    assert isinstance(events[-1], AgentSettled)


async def _events(session: AgentSession) -> list[Any]:
    return [event async for event in session.prompt("go")]


async def test_a_new_session_ends_agents_of_the_old_one(tmp_path: Path) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def agent(context: ModelContext) -> AsyncIterator[Speech]:
        try:
            begun.set()
            yield "working"
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with _session(_delegating({"task": "Hang"}, agent=agent), tmp_path) as session:
        run = asyncio.ensure_future(_events(session))
        async with asyncio.timeout(30):
            await begun.wait()
            await session.engine.runner.idle()
            await session.new_session()
            await run
        assert ended.is_set()
        assert session.messages == ()


async def test_a_gate_of_the_users_extensions_holds_for_agents_too(tmp_path: Path) -> None:
    async def agent(context: ModelContext) -> AsyncIterator[Speech]:
        if len(context.messages) == 1:
            yield ToolCall(id="b1", name="bash", arguments={"command": "touch made"})
        else:
            yield _done(_last(context))

    def gate(api: Api) -> None:
        async def check(event: ToolCalled, ctx: Any) -> Any:
            return {"block": True, "reason": "not here"} if event.tool_name == "bash" else None

        api.on("tool_call", check)

    model = _delegating({"task": "Make it"}, agent=agent)
    async with _session(model, tmp_path, extensions=[gate]) as session:
        answer = await session.prompt("go")
    assert "not here" in answer.text
    assert not (tmp_path / "made").exists()


async def test_the_kind_that_explores_can_only_look(tmp_path: Path) -> None:
    found: list[str] = []

    async def agent(context: ModelContext) -> AsyncIterator[Speech]:
        found.extend(_tools(context))
        yield _done("ok")

    model = _delegating({"task": "Look", "agent": "explore"}, agent=agent)
    async with _session(model, tmp_path) as session:
        await session.prompt("go")
    assert sorted(found) == ["find", "grep", "ls", "read", "yield"]


async def test_an_allowlist_binds_the_tools_that_a_kind_asks_for(tmp_path: Path) -> None:
    found: list[str] = []

    async def agent(context: ModelContext) -> AsyncIterator[Speech]:
        found.extend(_tools(context))
        yield _done("ok")

    model = _delegating({"task": "Look", "agent": "explore"}, agent=agent)
    async with _session(model, tmp_path, builtin_tools=["read", "task"]) as session:
        await session.prompt("go")
    assert sorted(found) == ["read", "yield"]


AGENT = """---
name: {name}
description: Checks spelling
tools: read, ls
thinking: low
---
You check the spelling. {mark}
"""


async def test_kinds_of_the_user_and_the_trusted_project_are_found(tmp_path: Path) -> None:
    told: list[str] = []
    agent_dir, project = tmp_path / "agent", tmp_path / "work"
    for folder, mark in ((agent_dir / "agents", "mine"), (project / ".pi" / "agents", "theirs")):
        folder.mkdir(parents=True)
        (folder / "a.md").write_text(AGENT.format(name="speller", mark=mark))
    (agent_dir / "agents" / "own.md").write_text(AGENT.format(name="own", mark="only mine"))

    async def agent(context: ModelContext) -> AsyncIterator[Speech]:
        told.append(context.system_prompt)
        assert sorted(_tools(context)) == ["ls", "read", "yield"]
        yield _done("ok")

    tasks = ({"agent": "speller", "task": "check"}, {"agent": "own", "task": "check"})
    for trusted in (True, False):
        model = _delegating(*tasks, agent=agent)
        about = {"cwd": project, "agent_dir": agent_dir, "discover": True}
        async with _session(model, tmp_path, trust_project=trusted, **about) as session:
            await session.prompt("go")
    marks = [text.partition("spelling. ")[2].split("\n")[0] for text in told]
    assert sorted(marks[:2]) == ["only mine", "theirs"]
    assert sorted(marks[2:]) == ["mine", "only mine"]


@pytest.mark.parametrize(
    ("tasks", "said"),
    [
        ([{"task": "x", "agent": "nobody"}], 'Unknown agent "nobody". Known: task, explore'),
        ([{"task": "x", "agent": "explore"}], 'Unknown agent "explore"'),
        ([{"task": "  "}], "Every task needs a text"),
        ([{"task": "fine"}, {"task": ""}], "Every task needs a text"),
    ],
)
async def test_a_call_with_a_mistake_starts_nothing(
    tmp_path: Path, tasks: list[dict[str, Any]], said: str
) -> None:
    off = ["explore"] if "explore" in str(tasks) else []
    settings = {"task": {"enabled": True, "disabledAgents": off}}

    async def parent(context: ModelContext) -> AsyncIterator[Speech]:
        if len(context.messages) == 1:
            yield _task(*tasks)
        else:
            yield _last(context)

    async with _session(parent, tmp_path, settings=settings) as session:
        answer = await session.prompt("go")
    assert said in answer.text


async def test_the_context_is_told_to_every_agent_but_the_conversation_is_not(
    tmp_path: Path,
) -> None:
    prompts: list[str] = []

    async def model(context: ModelContext) -> AsyncIterator[Speech]:
        if _is_agent(context):
            prompts.append(context.system_prompt)
            assert len(context.messages) == 1
            assert "secret" not in _asked(context)
            yield _done("ok")
        elif len(context.messages) == 1:
            yield _task({"task": "one"}, {"task": "two"}, context="It is about birds.")
        else:
            yield "fine"

    async with _session(model, tmp_path) as session:
        await session.prompt("my secret")
    assert len(prompts) == 2
    assert all("It is about birds." in prompt for prompt in prompts)


async def test_a_stored_session_has_the_files_of_its_agents_beside_it(tmp_path: Path) -> None:
    model = _delegating({"name": "../Odd name", "task": "Greet"}, agent=_greets)
    async with _session(model, tmp_path, store="files", session_dir=tmp_path / "s") as session:
        await session.prompt("go")
        path = session.path
    assert path is not None
    (file,) = path.with_suffix("").iterdir()
    assert file.name == "Odd-name.jsonl"
    assert file.stat().st_mode & 0o777 == 0o600
    assert path.with_suffix("").stat().st_mode & 0o777 == 0o700
    assert "hello" in file.read_text()


def _is_there(path: str) -> bool:
    return os.path.exists(path)


async def test_a_session_in_memory_leaves_no_files_of_agents(tmp_path: Path) -> None:
    model = _delegating({"name": "Look", "task": "Greet"}, agent=_greets)
    async with _session(model, tmp_path) as session:
        await session.prompt("go")
        jobs = session.engine.features.find(SubagentSpawner)
        assert jobs is not None
        told = jobs.registry.transcript("Look", None, 0)
        file = told["sessionFile"]
        roles = [message["role"] for message in told["messages"]]
        assert roles == ["user", "assistant", "toolResult"]
        again = jobs.registry.transcript(None, file, told["nextByte"])
        assert (again["entries"], again["reset"]) == ([], False)
        beyond = jobs.registry.transcript("Look", None, 10**9)
        assert (beyond["fromByte"], beyond["reset"]) == (0, True)
        with pytest.raises(CommandError, match="Unknown subagent"):
            jobs.registry.transcript(None, str(tmp_path / "other.jsonl"), 0)
    assert not _is_there(os.path.dirname(file))


async def test_a_flood_of_words_costs_few_frames_of_progress(tmp_path: Path) -> None:
    async def agent(context: ModelContext) -> AsyncIterator[Speech]:
        for _ in range(2000):
            yield "word "
        yield _done("ok")

    async with _session(_delegating({"task": "Talk"}, agent=agent), tmp_path) as session:
        jobs = session.engine.features.find(SubagentSpawner)
        assert jobs is not None
        jobs.registry.subscription.level = "progress"
        events = [event async for event in session.prompt("go")]
    told = [event.payload.progress for event in events if isinstance(event, SubagentProgress)]
    assert 4 <= len(told) < 40
    assert not [event for event in events if isinstance(event, SubagentEvent)]
    assert told[-1].status == "completed"
    assert (told[-1].requests, told[-1].tool_count) == (1, 1)


async def test_an_agent_uses_the_model_that_the_settings_name(tmp_path: Path) -> None:
    settings = {"task": {"enabled": True, "agentModelOverrides": {"task": "nobody/nothing"}}}
    model = _delegating({"task": "Greet"}, agent=_greets)
    async with _session(model, tmp_path, settings=settings) as session:
        jobs = session.engine.features.find(SubagentSpawner)
        assert jobs is not None
        jobs.registry.subscription.level = "progress"
        events = [event async for event in session.prompt("go")]
    told = next(event.payload.progress for event in events if isinstance(event, SubagentProgress))
    assert told.model_override == ("nobody/nothing",)
    assert told.resolved_model_is_fallback is True
    assert told.resolved_model == "python/speak"


@pytest.mark.parametrize(
    ("settings", "options", "offered"),
    [
        ({}, {}, False),
        ({"task": {"enabled": True}}, {}, True),
        ({"task": {"enabled": True, "maxRecursionDepth": 0}}, {}, False),
        ({"task": {"enabled": True}}, {"builtin_tools": ["read"]}, False),
        ({}, {"builtin_tools": ["task"]}, True),
    ],
)
async def test_the_tool_is_there_only_when_asked_for(
    tmp_path: Path, settings: dict[str, Any], options: dict[str, Any], offered: bool
) -> None:
    found: list[str] = []

    async def model(context: ModelContext) -> AsyncIterator[Speech]:
        found.extend(_tools(context))
        yield "ok"

    about = {"model": model, "settings": settings, "cwd": tmp_path, "agent_dir": tmp_path}
    async with create_session(**about, **options) as session:  # type: ignore[arg-type]
        await session.prompt("go")
    assert ("task" in found) is offered


async def test_what_agents_and_their_agents_take_is_in_the_figures_of_the_session(
    tmp_path: Path,
) -> None:
    async def speak(context: ModelContext) -> AsyncIterator[Speech]:
        yield Usage(input=100, output=10)
        asked = _asked(context)
        if "Inner work" in asked:
            yield _done("inner")
        elif isinstance(context.messages[-1], ToolResultMessage):
            yield "waiting"
        elif len(context.messages) > 1:
            yield _done("outer") if _is_agent(context) else "fine"
        elif "Outer work" in asked:
            yield _task({"name": "Inner", "task": "Inner work"})
        else:
            yield _task({"name": "Outer", "task": "Outer work"})

    async with _session(speak, tmp_path, store="files", session_dir=tmp_path / "s") as session:
        await session.prompt("go")
        stats, path = session.stats(), session.path
    assert path is not None
    files = [path, *path.with_suffix("").iterdir()]
    answers = sum(file.read_text().count('"role":"assistant"') for file in files)
    assert len(files) == 3
    assert stats.assistant_messages < answers
    assert (stats.tokens.input, stats.tokens.output) == (100 * answers, 10 * answers)
    lines = [loads(line) for line in path.read_bytes().splitlines()]
    (noted,) = [line for line in lines if line["type"] == "usage"]
    assert (noted["kind"], noted["note"]) == ("subagent", "Outer")


async def test_a_deleted_session_takes_the_files_of_its_agents_along(tmp_path: Path) -> None:
    model = _delegating({"name": "Look", "task": "Greet"}, agent=_greets)
    async with _session(model, tmp_path, store="files", session_dir=tmp_path / "s") as session:
        await session.prompt("go")
        path = session.path
    assert path is not None
    folder = path.with_suffix("")
    place = SessionFolder(
        home=Path("/home/a"), agent_dir=tmp_path, cwd=str(tmp_path), custom=tmp_path / "s"
    )
    kept = trash(place, str(path), print)
    assert kept.is_file()
    assert [file.name for file in kept.with_suffix("").iterdir()] == ["Look.jsonl"]
    assert not folder.exists()


async def test_a_deleted_session_leaves_a_folder_of_its_name_that_is_something_else(
    tmp_path: Path,
) -> None:
    async def greets(context: ModelContext) -> AsyncIterator[Speech]:
        yield "hello"

    async with _session(greets, tmp_path, store="files", session_dir=tmp_path / "s") as session:
        await session.prompt("go")
        path = session.path
    assert path is not None
    mine = path.rename(tmp_path / "project.jsonl")
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "data.jsonl").write_bytes(mine.read_bytes())
    trash(
        SessionFolder(home=Path("/home/a"), agent_dir=tmp_path, cwd=str(tmp_path)), str(mine), print
    )
    assert not mine.exists()
    assert (tmp_path / "project" / "data.jsonl").exists()
