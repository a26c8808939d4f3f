"""Commands that get in each other's way: each has one truthful answer, a refused one no effect."""

import asyncio
import time

import pytest

from ludolf.client import Client
from tests.process.extending import lay
from tests.process.harness import Lab, only, text_of
from tests.process.script import Gate, answer, bash, say

HANGING = """
import asyncio

def extension(api):
    @api.on("turn_end")
    async def wait(event, ctx):
        await asyncio.Event().wait()

    @api.tool
    async def hang() -> str:
        "Never returns."
        await asyncio.Event().wait()
        return "never"
"""


async def _half(lab: Lab, client: Client) -> Gate:
    """A run in the midst of its answer."""
    gate = Gate()
    lab.server.add(answer(say("Half of ", gate, "it.")))
    await client.ask("prompt", message="Go")
    await client.wait_for("message_update")
    return gate


async def test_refused_commands_leave_a_run_as_it_is(lab: Lab) -> None:
    (lab.root / "notes.txt").write_text("precious\n")
    refused: list[tuple[str, dict[str, str]]] = [
        ("compact", {}),
        ("prompt", {"message": "Me too"}),
        ("switch_session", {"sessionPath": str(lab.root / "notes.txt")}),
        ("fork", {"entryId": "nowhere"}),
        ("navigate_tree", {"targetId": "nowhere"}),
        ("set_model", {"provider": "claude", "modelId": "none"}),
        ("set_thinking_level", {"level": "bogus"}),
        ("set_steering_mode", {"mode": "sometimes"}),
        ("reload", {}),
        ("delete_session", {"sessionPath": "nowhere.jsonl"}),
        ("frobnicate", {}),
    ]
    async with lab.client() as client:
        gate = await _half(lab, client)
        before = await client.ask("get_state")
        for number, (command, params) in enumerate(refused):
            await client.send(command, id=number, **params)
            reply = await client.reply_to(number)
            assert not reply["success"], command
            assert "Internal error" not in reply["error"], reply
            assert (await client.ask("get_state")) == before, command
        gate.open()
        told = await client.collect("agent_settled")
    assert text_of(only(told, "turn_end")[0]["message"]) == "Half of it."
    assert len(lab.server.requests) == 1


@pytest.mark.parametrize("delay", [0.0, 0.005, 0.02, 0.1])
async def test_an_abort_right_behind_a_prompt_settles_soon(lab: Lab, delay: float) -> None:
    lab.server.add(*[answer(say("Half of ", Gate(), "it."))] * 2)
    async with lab.client() as client:
        await client.ask("get_state")
        # Also in the first moments of the program, while it still loads what a request needs.
        for number in range(2):
            await client.send("prompt", id=f"p{number}", message="Go")
            await asyncio.sleep(delay)  # not to wait for anything, but to hit different moments
            began = time.monotonic()
            await client.send("abort", id=f"a{number}")
            assert (await client.reply_to(f"p{number}"))["success"]
            assert (await client.reply_to(f"a{number}"))["success"]
            assert time.monotonic() - began < 10
            assert not (await client.ask("get_state"))["isStreaming"]
            await client.wait_for("agent_settled")


async def test_hanging_extensions_and_tools_hold_neither_getters_nor_aborts(lab: Lab) -> None:
    lay(lab, HANGING)
    lab.server.add(answer(bash("true")), answer("Done."))
    async with lab.client() as client:
        await client.ask("prompt", message="Go")
        await client.wait_for("tool_execution_end")
        for _ in range(3):
            assert (await client.ask("get_state"))["isStreaming"]
        began = time.monotonic()
        assert (await client.request("abort"))["success"]
        # Handlers of what follows the abort have a second, all together.
        assert time.monotonic() - began < 10
        assert not (await client.ask("get_state"))["isStreaming"]
        told = await client.collect("agent_settled")
    assert "took too long after an abort" in only(told, "extension_error")[0]["error"]


async def test_a_time_limit_ends_a_hanging_handler_without_an_abort(lab: Lab) -> None:
    lay(lab, HANGING)
    lab.settings(handlerTimeoutMs={"turn_end": 100})
    lab.server.add(answer("Done."))
    async with lab.client() as client:
        told = await client.prompt_and_collect("Go")
    (error,) = only(told, "extension_error")
    assert (error["event"], error["error"]) == ("turn_end", "took longer than 100 ms")
    assert text_of(only(told, "turn_end")[0]["message"]) == "Done."


async def test_what_is_sent_behind_a_change_of_session_is_meant_for_the_new_one(lab: Lab) -> None:
    lab.server.add(answer("Fine."))
    async with lab.client() as client:
        gate = await _half(lab, client)
        (old,) = lab.sessions
        for number, (command, params) in enumerate(
            (
                ("new_session", {}),
                ("set_session_name", {"name": "the new one"}),
                ("set_thinking_level", {"level": "low"}),
                ("prompt", {"message": "In the new one"}),
            )
        ):
            await client.send(command, id=number, **params)
        assert [(await client.reply_to(number))["success"] for number in range(4)] == [True] * 4
        await client.wait_for(
            lambda r: r["type"] == "turn_end" and text_of(r["message"]) == "Fine."
        )
        state = await client.ask("get_state")
        gate.open()
    assert (state["sessionName"], state["thinkingLevel"]) == ("the new one", "low")
    assert b"the new one" not in old.read_bytes()
