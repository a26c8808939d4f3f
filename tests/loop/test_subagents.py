"""Agents in the background as hosts see them: frames, commands, ends."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ludolf.base import dumps, loads
from ludolf.client import Client, Record
from ludolf.client.exchange import Match
from tests.loop.program import ThreadLab
from tests.process.harness import WAIT_SECONDS, Lab, only, text_of, types
from tests.process.model_server import Asked, TwoScripts
from tests.process.script import Failure, Gate, Reply, answer, bash, call, say

OMP = ("--rpc-dialect", "omp", "--no-session")
DELTA = ("--rpc-dialect", "pi-delta", "--no-session")


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Lab]:
    with TwoScripts() as server:
        yield ThreadLab(tmp_path, server)


def _script(lab: Lab, *replies: Reply) -> None:
    """What agents say; gates open at the end as all others do."""
    assert isinstance(lab.server, TwoScripts)
    lab.server.of_agents += replies


def _task(*tasks: dict[str, str]) -> Reply:
    return answer(call("task", {"context": "none", "tasks": list(tasks)}, "c1"))


def _done(data: Any, gate: Gate | None = None) -> Reply:
    """An agent that is done; with a gate not before that is open, however slow its parent is."""
    words = say("hello", gate) if gate is not None else say("hello")
    return answer(words, call("yield", {"result": {"data": data}}, "y1"))


LOOK = {"name": "Look", "agent": "task", "task": "Say hello."}


async def _terminal(client: Client) -> list[Record]:
    return await client.collect(lambda r: r["type"] == "agent_end" and r["isTerminal"])


async def _both(client: Client, *wanted: Match) -> list[Record]:
    """All events until there was each of these; parent and agent do not wait for each other."""
    left = list(wanted)

    def is_last(record: Record) -> bool:
        fits = (one(record) if callable(one) else record["type"] == one for one in left)
        left[:] = [one for one, fit in zip(left, list(fits), strict=True) if not fit]
        return not left

    return await client.collect(is_last)


def _asked_by_agents(lab: Lab) -> list[Asked]:
    asked = lab.server.requests
    return [one for one in asked if "yield" in [tool["name"] for tool in one.body["tools"]]]


async def test_omp_hosts_see_the_whole_life_of_an_agent(desk: Lab) -> None:
    gate = Gate()
    desk.server.add(_task(LOOK), answer("waiting"), answer("all done"))
    _script(desk, _done("hello", gate))
    async with desk.client(*OMP) as client:
        assert await client.ask("set_subagent_subscription", level="events") == {"level": "events"}
        await client.ask("prompt", message="delegate")
        told = await client.collect("agent_end")
        gate.open()
        told += await _terminal(client)
        assert await client.ask("get_subagents") == {"subagents": []}
        kept = await client.ask("get_subagent_messages", subagentId="Look")
    ends = only(told, "agent_end")
    assert [end["isTerminal"] for end in ends] == [False, True]
    lives = [life["payload"] for life in only(told, "subagent_lifecycle")]
    assert [life["status"] for life in lives] == ["started", "completed"]
    assert lives[0]["parentToolCallId"] == "c1"
    assert lives[0]["sessionFile"] == kept["sessionFile"]
    inner = [frame["payload"]["event"] for frame in only(told, "subagent_event")]
    assert {frame["payload"]["id"] for frame in only(told, "subagent_event")} == {"Look"}
    assert [kind for kind in types(inner) if "_delta" not in kind][:6] == [
        "thinking_level_changed",
        "agent_start",
        "turn_start",
        "message_start user",
        "message_end user",
        "message_start assistant",
    ]
    assert inner[3]["message"]["attribution"] == "agent"
    assert inner[-1]["type"] == "agent_end"
    assert inner[-1]["isTerminal"] is True
    assert [message["role"] for message in kept["messages"]] == ["user", "assistant", "toolResult"]
    woken = told[told.index(ends[0]) :]
    (result,) = [r for r in only(woken, "message_end") if r["message"]["role"] == "custom"]
    assert result["message"]["customType"] == "async-result"
    assert result["message"]["display"] is True
    assert [job["label"] for job in result["message"]["details"]["jobs"]] == ["Look"]


async def test_the_call_returns_at_once_with_what_was_started(desk: Lab) -> None:
    gate = Gate()
    desk.server.add(_task(LOOK, {"task": "More"}), answer("waiting"), answer("ok"), answer("ok"))
    _script(desk, answer(say("a", gate)), answer(say("b", gate)))
    async with desk.client(*OMP) as client:
        await client.ask("prompt", message="delegate")
        told = await client.collect("agent_end")
        gate.open()
    (end,) = only(told, "tool_execution_end")
    details = end["result"]["details"]
    assert [item["id"] for item in details["progress"]] == ["Look", "Task"]
    assert details["progress"][0]["assignment"] == "Say hello."
    assert details["async"] == {"state": "running", "jobId": "Look", "type": "task"}
    assert told[-1]["isTerminal"] is False


async def test_nobody_hears_of_agents_who_did_not_ask(desk: Lab) -> None:
    desk.server.add(_task(LOOK), answer("waiting"), answer("all done"))
    _script(desk, _done("hello"))
    async with desk.client(*OMP) as client:
        await client.ask("prompt", message="delegate")
        told = await _terminal(client)
    assert not [kind for kind in types(told) if kind.startswith("subagent_")]


async def test_in_pi_the_tool_is_off_unless_the_settings_say_so(desk: Lab) -> None:
    gate = Gate()
    desk.server.add(answer("hi"), _task(LOOK), answer("waiting"), answer("all done"))
    _script(desk, _done("hello", gate))
    async with desk.client(*DELTA) as client:
        await client.prompt_and_collect("hi")
    desk.settings(task={"enabled": True})
    async with desk.client(*DELTA) as client:
        await client.ask("set_subagent_subscription", level="progress")
        await client.ask("prompt", message="delegate")
        told = await client.collect("agent_waiting")
        gate.open()
        woken = await client.collect("agent_settled")
    offered = [[t["name"] for t in asked.body["tools"]] for asked in desk.server.requests]
    assert ["task" in names for names in offered] == [False, True, True, True, True]
    first, second = (
        [kind for kind in types(part) if kind.startswith("agent_")] for part in (told, woken)
    )
    assert first == ["agent_start", "agent_end", "agent_waiting"]
    assert second == ["agent_start", "agent_end", "agent_settled"]
    lives = [life["payload"]["status"] for life in only([*told, *woken], "subagent_lifecycle")]
    assert lives == ["started", "completed"]
    assert types(woken).index("subagent_lifecycle") < types(woken).index("agent_start")


async def test_a_prompt_is_welcome_while_agents_work(desk: Lab) -> None:
    gate = Gate()
    desk.server.add(_task(LOOK), answer("waiting"), answer("yes"), answer("all done"))
    _script(desk, answer(say("working", gate), call("yield", {"result": {"data": "x"}}, "y")))
    async with desk.client(*OMP) as client:
        await client.ask("prompt", message="delegate")
        await client.wait_for("agent_end")
        state = await client.ask("get_state")
        await client.ask("prompt", message="are you there?")
        second = await client.wait_for("agent_end")
        gate.open()
        last = (await _terminal(client))[-1]
    assert (state["isStreaming"], state["hasPendingAsyncWork"]) == (False, True)
    assert state["isSettled"] is False
    assert (text_of(second["messages"][-1]), second["isTerminal"]) == ("yes", False)
    assert text_of(last["messages"][-1]) == "all done"


async def test_an_agent_whose_model_fails_reports_the_error(desk: Lab) -> None:
    gate = Gate()
    desk.server.add(_task(LOOK), answer("waiting"), answer("a pity"))
    _script(desk, answer(say("Trying.", gate), bash("true")), Failure(status=400))
    async with desk.client(*OMP) as client:
        await client.ask("set_subagent_subscription", level="progress")
        await client.ask("prompt", message="delegate")
        await client.wait_for("agent_end")
        gate.open()
        told = await _terminal(client)
    assert only(told, "subagent_lifecycle")[-1]["payload"]["status"] == "failed"
    assert "it failed" in str(told[-1]["messages"][0]["details"]["jobs"][0]["error"])
    assert text_of(told[-1]["messages"][-1]) == "a pity"


def _is_tool_start(record: Record) -> bool:
    inner = record["payload"]["event"]["type"] if record["type"] == "subagent_event" else ""
    return bool(inner == "tool_execution_start")


async def test_abort_ends_agents_and_their_commands(desk: Lab) -> None:
    desk.server.add(_task(LOOK), answer("waiting"))
    _script(desk, answer(bash("echo $$ >pid; sleep 60")))
    async with desk.client(*OMP) as client:
        await client.ask("set_subagent_subscription", level="events")
        await client.ask("prompt", message="delegate")
        await _both(client, "agent_end", _is_tool_start)
        (running,) = (await client.ask("get_subagents"))["subagents"]
        await client.ask("abort")
        after = await client.ask("get_subagents")
        state = await client.ask("get_state")
    assert (running["id"], running["status"]) == ("Look", "running")
    assert running["progress"]["currentTool"] == "bash"
    assert after == {"subagents": []}
    assert state["isSettled"] is True
    told = [loads(line) for line in desk.lines]
    assert only(told, "subagent_lifecycle")[-1]["payload"]["status"] == "aborted"
    assert len(desk.server.requests) == 3


async def test_the_end_of_input_ends_agents_and_the_program(desk: Lab) -> None:
    desk.server.add(_task(LOOK), answer("waiting"))
    _script(desk, answer(say("on and on", Gate())))
    async with desk.client(*OMP) as client:
        await client.ask("set_subagent_subscription", level="progress")
        await client.ask("prompt", message="delegate")
        await client.wait_for("subagent_progress")
    assert os.listdir(desk.root / "tmp") == []


async def test_a_host_cancels_one_agent_and_the_parent_is_told(desk: Lab) -> None:
    desk.server.add(_task(LOOK), answer("waiting"), answer("noted"))
    _script(desk, answer(say("on and on", Gate())))
    async with desk.client(*OMP) as client:
        await client.ask("set_subagent_subscription", level="progress")
        await client.ask("prompt", message="delegate")
        await _both(client, "agent_end", "subagent_progress")
        assert await client.ask("cancel_subagent", subagentId="Look") == {"cancelled": True}
        told = await _terminal(client)
        assert await client.ask("cancel_subagent", subagentId="Look") == {"cancelled": False}
    assert 'status="aborted"' in told[-1]["messages"][0]["content"]


async def test_a_host_speaks_to_one_agent(desk: Lab) -> None:
    gate = Gate()
    desk.server.add(_task(LOOK), answer("waiting"), answer("noted"))
    _script(desk, answer(say("working", gate), bash("true")), _done("as you like"))
    async with desk.client(*OMP) as client:
        await client.ask("set_subagent_subscription", level="events")
        await client.ask("prompt", message="delegate")
        await client.wait_for(lambda r: "working" in str(r) and r["type"] == "subagent_event")
        await client.ask("steer_subagent", subagentId="Look", message="Be brief")
        gate.open()
        await _terminal(client)
        refused = await client.request("steer_subagent", subagentId="Look", message="Again")
    _, second = _asked_by_agents(desk)
    assert "Be brief" in dumps(second.body["messages"]).decode()
    assert refused["error"] == "Subagent not running: Look"


async def test_an_agent_that_ends_does_not_disturb_a_handoff(desk: Lab) -> None:
    writing, working = Gate(), Gate()
    desk.server.add(_task(LOOK), answer("waiting"), answer(say("To do: all.", writing)))
    _script(desk, answer(say("working", working), call("yield", {"result": {"data": "x"}}, "y")))
    async with desk.client(*OMP) as client:
        await client.ask("set_subagent_subscription", level="progress")
        await client.ask("prompt", message="delegate")
        await _both(client, "agent_end", "subagent_progress")
        await client.send("handoff", id="h")
        assert await asyncio.to_thread(writing.reached.wait, WAIT_SECONDS)
        working.open()
        await client.wait_for(
            lambda r: r["type"] == "subagent_lifecycle" and r["payload"]["status"] == "completed"
        )
        writing.open()
        reply = await client.reply_to("h")
    assert reply["success"], reply


async def test_what_an_agent_said_is_read_from_where_the_host_left_off(desk: Lab) -> None:
    desk.server.add(_task(LOOK), answer("waiting"), answer("all done"))
    _script(desk, _done("x"))
    async with desk.client(*OMP) as client:
        await client.ask("prompt", message="delegate")
        await _terminal(client)
        whole = await client.ask("get_subagent_messages", subagentId="Look")
        end = whole["nextByte"]
        rest = await client.ask("get_subagent_messages", subagentId="Look", fromByte=end)
        beyond = await client.ask("get_subagent_messages", subagentId="Look", fromByte=end + 1)
    assert [one["role"] for one in whole["messages"]] == ["user", "assistant", "toolResult"]
    assert (rest["entries"], rest["fromByte"], rest["nextByte"]) == ([], end, end)
    assert (beyond["reset"], beyond["fromByte"], beyond["nextByte"]) == (True, 0, end)


@pytest.mark.parametrize("dialect", [OMP, DELTA])
async def test_mistakes_of_hosts_are_refused(desk: Lab, dialect: tuple[str, ...]) -> None:
    async with desk.client(*dialect) as client:
        replies = [
            await client.request("set_subagent_subscription", level="x"),
            await client.request("get_subagent_messages"),
            await client.request("get_subagent_messages", subagentId="zz"),
            await client.request("get_subagent_messages", subagentId="zz", fromByte="a"),
        ]
        assert await client.ask("get_subagents") == {"subagents": []}
    assert [reply["error"] for reply in replies] == [
        "Invalid subagent subscription level: x",
        "get_subagent_messages requires subagentId or sessionFile",
        "Unknown subagent or session file unavailable: zz",
        "fromByte must be a number",
    ]


def test_print_mode_waits_for_agents(desk: Lab) -> None:
    desk.settings(task={"enabled": True})
    desk.server.add(_task(LOOK), answer("waiting"), answer("all done"))
    _script(desk, _done("hello"))
    done = desk.run("-p", "delegate")
    assert (done.code, done.stdout) == (0, b"all done\n"), done.stderr


@pytest.mark.parametrize("level", ["off", "events"])
async def test_progress_of_a_hosts_tool_is_told_where_its_call_was(desk: Lab, level: str) -> None:
    tool = {"name": "peek", "description": "Look", "parameters": {"type": "object"}}
    desk.server.add(_task(LOOK), answer("waiting"), answer("all done"))
    _script(desk, answer(call("peek", {}, "p1")), _done("hello"))
    async with desk.client(*OMP) as client:
        await client.ask("set_subagent_subscription", level=level)
        await client.ask("set_host_tools", tools=[tool])
        await client.ask("prompt", message="delegate")
        told = await client.collect("host_tool_call")
        content = {"content": [{"type": "text", "text": "half"}]}
        await client.send("host_tool_update", id=told[-1]["id"], partialResult=content)
        await client.send("host_tool_result", id=told[-1]["id"], result=content)
        told += await _terminal(client)
    assert "p1" not in [update["toolCallId"] for update in only(told, "tool_execution_update")]
    wrapped = [frame["payload"]["event"] for frame in only(told, "subagent_event")]
    updates = [update["toolCallId"] for update in only(wrapped, "tool_execution_update")]
    assert updates == (["p1"] if level == "events" else [])
