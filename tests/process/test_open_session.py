"""Sessions by folder, the word that all is at rest, and names for messages on the wire."""

from pathlib import Path
from typing import Any

import pytest

from ludolf.base import dumps, loads
from ludolf.client import Record
from tests.process.harness import Lab, messages, only, read_entries, text_of, types
from tests.process.script import Gate, answer, bash, say

# ---------------------------------------------------------------- open_session


async def test_a_folder_is_a_conversation_that_is_carried_on(lab: Lab) -> None:
    folder = lab.root / "talks" / "one"
    lab.server.add(answer("One."), answer("Two."))
    async with lab.client() as client:
        started = await client.ask("get_state")
        fresh = await client.ask("open_session", sessionDir=str(folder))
        await client.prompt_and_collect("Hello")
        other = await client.ask("open_session", sessionDir=str(lab.root / "talks" / "two"))
        back = await client.ask("open_session", sessionDir=str(folder))
        await client.prompt_and_collect("Again")
    assert (fresh["cancelled"], fresh["resumed"]) == (False, False)
    assert Path(fresh["sessionFile"]).parent == folder
    assert fresh["sessionId"] != started["sessionId"]
    assert (other["resumed"], Path(other["sessionFile"]).parent.name) == (False, "two")
    assert back == {**fresh, "resumed": True}
    (path,) = folder.iterdir()
    said = messages(read_entries(path))
    assert [text_of(message) for message in said] == ["Hello", "One.", "Again", "Two."]
    assert lab.sessions == []


async def test_new_sessions_stay_in_the_folder_and_the_newest_one_is_found(lab: Lab) -> None:
    lab.server.add(answer("One."), answer("Two."))
    async with lab.client() as client:
        await client.ask("open_session", sessionDir="talks")
        await client.prompt_and_collect("Hello")
        await client.ask("new_session")
        await client.prompt_and_collect("Hello again")
        second = await client.ask("get_state")
        listed = (await client.ask("list_sessions"))["sessions"]
        # Nothing was said in it: it is passed over.
        await client.ask("new_session")
        found = await client.ask("open_session", sessionDir="talks")
    assert [record["firstMessage"] for record in listed] == ["Hello again", "Hello"]
    assert (found["resumed"], found["sessionId"]) == (True, second["sessionId"])
    assert len(list((lab.work / "talks").iterdir())) == 2


async def test_opening_what_is_open_does_not_stop_the_run(lab: Lab) -> None:
    gate = Gate()
    lab.server.add(answer("One."), answer(say("Two", gate)))
    async with lab.client() as client:
        first = await client.ask("open_session", sessionDir="talks")
        empty = await client.ask("open_session", sessionDir="talks")
        await client.prompt_and_collect("Hello")
        await client.ask("prompt", message="Go")
        again = await client.ask(
            "open_session", sessionDir=str(lab.work / "talks" / ".." / "talks")
        )
        gate.open()
        told = await client.collect("agent_settled")
    assert first == empty
    assert again == {**first, "resumed": True}
    assert text_of(only(told, "agent_end")[0]["messages"][-1]) == "Two"


async def test_another_folder_ends_the_run_before_the_reply(lab: Lab) -> None:
    gate = Gate()
    lab.server.add(answer(say("One", gate)))
    async with lab.client() as client:
        await client.ask("prompt", message="Go")
        while not gate.reached.wait(0):
            await client.ask("get_state")
        await client.ask("open_session", sessionDir="talks")
        gate.open()
    kinds = types(map(loads, lab.lines))
    assert kinds.index("agent_settled") < kinds.index("response open_session")


async def test_what_cannot_be_opened_changes_nothing(lab: Lab) -> None:
    lab.server.add(answer("One."))
    folder = lab.root / "talks"
    async with lab.client() as client:
        await client.ask("open_session", sessionDir=str(folder))
        await client.prompt_and_collect("Hello")
        (path,) = folder.iterdir()
        header, rest = path.read_bytes().split(b"\n", 1)
        moved = lab.root / "moved"
        moved.mkdir()
        gone = loads(header) | {"cwd": str(lab.root / "gone")}
        (moved / path.name).write_bytes(dumps(gone) + b"\n" + rest)
        refused = await client.request("open_session", sessionDir=str(moved))
        missing = await client.request("open_session")
        empty = await client.request("open_session", sessionDir=" ")
        await client.ask("new_session")
        state = await client.ask("get_state")
    assert refused["error"].startswith("Stored session working directory does not exist")
    assert not missing["success"]
    assert empty["error"] == "Session folder cannot be empty"
    assert Path(state["sessionFile"]).parent == folder


async def test_without_stored_sessions_there_is_nothing_to_open(lab: Lab) -> None:
    async with lab.client("--no-session") as client:
        reply = await client.request("open_session", sessionDir="talks")
    assert reply["error"] == "open_session requires session persistence (omit --no-session)"


async def test_omp_hears_of_the_commands_of_the_opened_session(lab: Lab) -> None:
    async with lab.client("--rpc-dialect", "omp") as client:
        await client.ask("open_session", sessionDir="talks")
    kinds = types(map(loads, lab.lines))
    assert kinds[-2:] == ["available_commands_update", "response open_session"]


# ---------------------------------------------------------------- at rest


def _ends(told: list[Record]) -> list[str]:
    kinds = ("agent_end", "agent_settled", "prompt_result", "session_settled", "response abort")
    return [kind for kind in types(told) if kind in kinds]


async def test_omp_tells_once_that_all_is_at_rest_and_pi_when_asked(lab: Lab) -> None:
    lab.server.add(answer("One."), answer("Two."), answer("Three."))
    async with lab.client("--rpc-dialect", "omp") as client:
        await client.ask("prompt", message="Go")
        omp = await client.collect("session_settled")
        state = await client.ask("get_state")
    async with lab.client() as client:
        silent = await client.prompt_and_collect("Go")
        await client.ask("set_prompt_results", enabled=True)
        await client.ask("prompt", message="Go")
        asked = await client.collect("session_settled")
    assert _ends(omp) == ["agent_end", "prompt_result", "session_settled"]
    assert (state["isSettled"], state["hasPendingAsyncWork"]) == (True, False)
    assert _ends(silent) == ["agent_end", "agent_settled"]
    assert _ends(asked) == ["agent_end", "agent_settled", "prompt_result", "session_settled"]


async def test_it_comes_after_the_last_of_all_waiting_messages(lab: Lab) -> None:
    gate = Gate()
    lab.server.add(answer(say("One", gate)), answer("Two."))
    async with lab.client("--rpc-dialect", "omp") as client:
        await client.ask("prompt", message="Go")
        await client.ask("follow_up", message="And then?")
        during = await client.ask("get_state")
        gate.open()
        told = await client.collect("session_settled")
    assert during["isSettled"] is False
    assert only(told, "agent_end")[-1]["messages"][-1]["content"][0]["text"] == "Two."
    assert _ends(told)[-1] == "session_settled"
    assert _ends(told).count("session_settled") == 1


@pytest.mark.parametrize(
    ("dialect", "order"),
    [
        (
            "pi",
            ["agent_end", "agent_settled", "prompt_result", "session_settled", "response abort"],
        ),
        ("omp", ["prompt_result", "response abort", "agent_end", "session_settled"]),
    ],
)
async def test_an_abort_leads_to_rest_in_the_order_of_its_dialect(
    lab: Lab, dialect: str, order: list[str]
) -> None:
    gate = Gate()
    lab.server.add(answer(say("One", gate)))
    async with lab.client("--rpc-dialect", dialect) as client:
        await client.ask("set_prompt_results", enabled=True)
        await client.ask("prompt", message="Go")
        while not gate.reached.wait(0):
            await client.ask("get_state")
        await client.ask("abort")
        await client.wait_for("session_settled")
        gate.open()
    assert _ends([loads(line) for line in lab.lines]) == order


async def test_messages_left_by_an_abort_keep_the_session_from_rest(lab: Lab) -> None:
    gate = Gate()
    lab.server.add(answer(say("One", gate)))
    async with lab.client() as client:
        await client.ask("set_prompt_results", enabled=True)
        await client.ask("prompt", message="Go")
        await client.ask("follow_up", message="Later")
        while not gate.reached.wait(0):
            await client.ask("get_state")
        await client.ask("abort")
        before = len(lab.lines)
        await client.ask("clear_queue")
        gate.open()
    told = [loads(line) for line in lab.lines]
    assert not only(told[:before], "session_settled")
    assert types(told[before:]) == ["queue_update", "session_settled", "response clear_queue"]


# ---------------------------------------------------------------- names of messages


@pytest.mark.parametrize("model", ["claude/large", "chat/large"])
@pytest.mark.parametrize("dialect", ["pi", "pi-delta", "omp"])
async def test_all_frames_of_a_message_carry_its_name(lab: Lab, dialect: str, model: str) -> None:
    lab.server.add(
        answer(say("Look:"), bash("echo a", "c1"), bash("echo b", "c2")), answer("Done.")
    )
    async with lab.client("--rpc-dialect", dialect, "--model", model) as client:
        await client.ask("set_prompt_results", enabled=True)
        await client.ask("set_event_filter", events=["message_start", "message_end"])
        await client.ask("set_event_filter")
        await client.ask("prompt", message="Go")
        told = await client.collect("agent_end")
    open_ids: list[str] = []
    seen: list[tuple[str, Any]] = []
    for record in told:
        kind = record["type"]
        if kind == "message_start":
            open_ids.append(record["messageId"])
            seen.append((record["messageId"], record["message"]["role"]))
        elif kind == "message_update":
            assert record["messageId"] == open_ids[-1]
        elif kind == "message_end":
            assert record["messageId"] == open_ids.pop()
        else:
            assert "messageId" not in record
    roles = ["user", "assistant", "toolResult", "toolResult", "assistant"]
    assert seen == [(f"msg-{number}", role) for number, role in enumerate(roles, 1)]
    assert any(record["type"] == "message_update" for record in told)


async def test_nobody_who_did_not_ask_hears_names(lab: Lab) -> None:
    lab.server.add(answer("One."))
    async with lab.client() as client:
        told = await client.prompt_and_collect("Go")
    assert "messageId" not in str(told)


# ---------------------------------------------------------------- queue modes


@pytest.mark.parametrize(("dialect", "kept"), [("pi", True), ("xcsh", True), ("omp", False)])
async def test_queue_modes_are_saved_except_in_omp(lab: Lab, dialect: str, kept: bool) -> None:
    async with lab.client("--rpc-dialect", dialect) as client:
        await client.ask("set_steering_mode", mode="all")
        await client.ask("new_session")
        state = await client.ask("get_state")
    settings = loads((lab.agent / "settings.json").read_bytes())
    assert state["steeringMode"] == "all"
    assert settings.get("steeringMode") == ("all" if kept else None)


# ---------------------------------------------------------------- fast mode


def _responses(lab: Lab, **compat: bool) -> None:
    path = lab.agent / "models.json"
    models = loads(path.read_bytes())
    models["providers"]["responses"]["models"][0]["compat"] = compat
    path.write_bytes(dumps(models))


@pytest.mark.parametrize("dialect", ["pi", "omp", "xcsh"])
async def test_fast_mode_asks_for_the_tier_where_the_server_has_one(lab: Lab, dialect: str) -> None:
    _responses(lab, supportsServiceTier=True)
    lab.server.add(answer("1"), answer("2"), answer("3"), answer("4"))
    async with lab.client("--rpc-dialect", dialect, "--model", "responses/large") as client:

        async def say_hello() -> Any:
            await client.ask("prompt", message="Go")
            await client.wait_for("agent_end")
            state = await client.ask("get_state")
            return state.get("fastModeEnabled", False), state.get("fastModeActive", False)

        before = await say_hello()
        on = await client.ask("set_fast_mode", enabled=True)
        during = await say_hello()
        await client.ask("set_model", provider="claude", modelId="large")
        elsewhere = await say_hello()
        await client.ask("set_model", provider="responses", modelId="large")
        off = await client.ask("set_fast_mode", enabled=False)
        after = await say_hello()
    assert on == {"enabled": True, "active": True}
    assert off == {"enabled": False, "active": False}
    assert (before, during) == ((False, False), (True, True))
    assert (elsewhere, after) == ((True, False), (False, False))
    tiers = [asked.body.get("service_tier") for asked in lab.server.requests]
    assert tiers == [None, "priority", None, None]


@pytest.mark.parametrize("dialect", ["pi", "omp", "xcsh"])
async def test_fast_mode_is_refused_where_the_model_has_none(lab: Lab, dialect: str) -> None:
    async with lab.client("--rpc-dialect", dialect) as client:
        on = await client.request("set_fast_mode", enabled=True)
        off = await client.ask("set_fast_mode", enabled=False)
        state = await client.ask("get_state")
    assert (on["success"], on["command"]) == (False, "set_fast_mode")
    assert on["error"] == "Fast mode is unavailable for the current model."
    assert off == {"enabled": False, "active": False}
    assert not state.get("fastModeEnabled")


# ---------------------------------------------------------------- integrations


@pytest.mark.parametrize(
    ("arguments", "state"),
    [
        ((), {"state": "connected", "provider": "claude"}),
        (("--model", "openai/gpt-5"), {"state": "auth_error", "provider": "openai"}),
    ],
)
async def test_integrations_tell_whether_the_model_can_be_asked(
    lab: Lab, arguments: tuple[str, ...], state: Record
) -> None:
    async with lab.client("--rpc-dialect", "xcsh", *arguments) as client:
        found = await client.ask("get_integrations")
    assert (found["model"], found["services"]) == (state, [])
    assert found["version"]
    assert lab.server.requests == []
