"""Every way to stop, in every state: settled, answered once, stored, and nothing left running."""

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable

import pytest

from ludolf.base import loads
from ludolf.client import Client, Record
from tests.process.extending import is_dialog, lay
from tests.process.faults import children
from tests.process.harness import WAIT_SECONDS, Lab, only, read_entries, survivors, text_of
from tests.process.script import Failure, Gate, answer, bash, say

FAMILY = "sleep 61 & setsid sleep 62 & echo up; wait"
ASKING = """
def extension(api):
    @api.command("ask")
    async def ask(args, ctx):
        await ctx.ui.confirm("Sure?", "Really?")

    @api.on("tool_call")
    async def gate(event, ctx):
        if event.input["command"] == "echo hi":
            await ctx.ui.confirm("Run it?", "Really?")
"""

State = Callable[[Lab, Client], Awaitable[None]]


async def _idle(lab: Lab, client: Client) -> None:
    await client.ask("get_state")


async def _asked(lab: Lab, client: Client) -> None:
    """The request is out, and the server has not said a word."""
    gate = Gate()
    lab.server.add(answer(gate, "Late."))
    await client.ask("prompt", message="Go")
    assert await asyncio.to_thread(gate.reached.wait, WAIT_SECONDS)


async def _streaming(lab: Lab, client: Client) -> None:
    lab.server.add(answer(say("Half of ", Gate(), "it")))
    await client.ask("prompt", message="Go")
    await client.wait_for(lambda r: r.get("assistantMessageEvent", {}).get("type") == "text_delta")


async def _in_a_tool(lab: Lab, client: Client) -> None:
    lab.server.add(answer(bash(FAMILY)))
    await client.ask("prompt", message="Go")
    await client.wait_for(
        lambda r: r["type"] == "tool_execution_update" and "up" in text_of(r["partialResult"])
    )


async def _in_a_command(lab: Lab, client: Client) -> None:
    await client.send("bash", id="command", command=FAMILY)
    await client.wait_for("bash_execution_update")


async def _waiting_to_retry(lab: Lab, client: Client) -> None:
    lab.server.add(Failure(status=529))
    await client.ask("prompt", message="Go")
    await client.wait_for("auto_retry_start")


async def _compacting(lab: Lab, client: Client) -> None:
    gate = Gate()
    lab.server.add(answer("One."), answer("Two."), answer(gate, "A summary."))
    await client.prompt_and_collect("First. " + "word " * 300)
    await client.prompt_and_collect("Second. " + "word " * 300)
    await client.send("compact", id="command")
    assert await asyncio.to_thread(gate.reached.wait, WAIT_SECONDS)


async def _in_a_dialog(lab: Lab, client: Client) -> None:
    lab.server.add(answer(bash("echo hi")))
    await client.ask("prompt", message="Go")
    await client.wait_for(is_dialog("confirm"))


async def _in_a_command_of_an_extension(lab: Lab, client: Client) -> None:
    await client.send("prompt", id="command", message="/ask")
    await client.wait_for(is_dialog("confirm"))


STATES = [
    _idle,
    _asked,
    _streaming,
    _in_a_tool,
    _in_a_command,
    _waiting_to_retry,
    _compacting,
    _in_a_dialog,
    _in_a_command_of_an_extension,
]
# In these a command with the id `command` has not been answered yet.
UNANSWERED = [_in_a_command, _compacting, _in_a_command_of_an_extension]


def _prepare(lab: Lab) -> None:
    lay(lab, ASKING)
    lab.settings(retry={"baseDelayMs": 60_000}, compaction={"keepRecentTokens": 50})


def _check_files(lab: Lab) -> None:
    for path in lab.sessions:
        entries = read_entries(path)
        roles = [entry["message"]["role"] for entry in entries if entry["type"] == "message"]
        assert roles[:1] in ([], ["user"], ["bashExecution"])


def _check_replies(lab: Lab) -> None:
    """One reply for each id."""
    replied = [record["id"] for record in _told(lab) if record["type"] == "response"]
    assert sorted(map(str, replied)) == sorted(set(map(str, replied)))
    assert not any("Internal error" in record.get("error", "") for record in _told(lab))


def _told(lab: Lab) -> list[Record]:
    return [loads(line) for line in lab.lines]


# ---------------------------------------------------------------- the end of the program


@pytest.mark.parametrize("state", STATES)
async def test_sigterm_ends_every_state_cleanly(lab: Lab, state: State) -> None:
    _prepare(lab)
    async with lab.client() as client:
        await state(lab, client)
        kin = children(client.process.pid)
        began = time.monotonic()
        client.process.send_signal(signal.SIGTERM)
        assert await client.process.wait() == 143
        assert time.monotonic() - began < 10
        assert "Traceback" not in client.process.stderr
    assert await asyncio.to_thread(survivors, kin) == []
    _check_files(lab)


@pytest.mark.parametrize("state", STATES)
async def test_the_end_of_input_ends_every_state_with_code_0(lab: Lab, state: State) -> None:
    _prepare(lab)
    async with lab.client() as client:
        await state(lab, client)
        kin = children(client.process.pid)
        client.process.end_input()
        [record async for record in client.events()]
        assert await client.process.wait() == 0
        assert "Traceback" not in client.process.stderr
    assert await asyncio.to_thread(survivors, kin) == []
    starts, ends = only(_told(lab), "agent_start"), only(_told(lab), "agent_end")
    assert len(starts) == len(ends)
    assert not starts or only(_told(lab), "agent_settled")
    assert _answered(lab, "command") == (state in UNANSWERED)
    _check_replies(lab)
    _check_files(lab)


@pytest.mark.parametrize("state", [_streaming, _in_a_tool, _in_a_command, _compacting])
async def test_sigkill_in_any_state_leaves_a_whole_file_and_no_child(
    lab: Lab, state: State
) -> None:
    _prepare(lab)
    async with lab.client() as client:
        await state(lab, client)
        kin = children(client.process.pid)
        os.kill(client.process.pid, signal.SIGKILL)
        assert await client.process.wait() == -signal.SIGKILL
    assert await asyncio.to_thread(survivors, kin) == []
    _check_files(lab)
    lab.server.add(answer("Welcome back."))
    done = lab.run("--continue", "--no-extensions", "-p", "Are you there?")
    assert (done.code, done.stdout) == (0, b"Welcome back.\n"), done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_during_the_start_ends_it_without_a_word(lab: Lab, number: signal.Signals) -> None:
    for delay in (0.0, 0.02, 0.05, 0.1):
        with lab.popen() as process:
            time.sleep(delay)  # not to wait for anything, but to hit different moments
            process.send_signal(number)
            assert process.wait(WAIT_SECONDS) in (-number, 128 + number)
            assert process.stderr is not None
            assert process.stderr.read() == b""


async def test_a_stopped_program_goes_on_where_it_was(lab: Lab) -> None:
    gate = Gate()
    lab.server.add(answer(say("Half of ", gate, "it.")))
    async with lab.client() as client:
        await client.ask("prompt", message="Go")
        await client.wait_for("message_update")
        client.process.send_signal(signal.SIGSTOP)
        await client.send("get_state", id="asked")
        gate.open()
        client.process.send_signal(signal.SIGCONT)
        assert (await client.reply_to("asked"))["success"]
        told = await client.collect("agent_settled")
    assert text_of(only(told, "turn_end")[0]["message"]) == "Half of it."


# ---------------------------------------------------------------- the program lives on


@pytest.mark.parametrize("state", STATES)
async def test_abort_brings_every_state_to_rest_at_once(lab: Lab, state: State) -> None:
    _prepare(lab)
    async with lab.client() as client:
        await state(lab, client)
        began = time.monotonic()
        assert (await client.request("abort", id="stop"))["success"]
        taken = time.monotonic() - began
        await client.ask("abort_bash")
        await _answer_dialogs(lab, client)
        now = await client.ask("get_state")
        assert (now["isStreaming"], now["isCompacting"]) == (False, False)
        assert taken < 10
        await _goes_on(lab, client, state)
    _check_replies(lab)
    _check_files(lab)


@pytest.mark.parametrize("state", STATES)
async def test_a_new_session_ends_every_state_first(lab: Lab, state: State) -> None:
    _prepare(lab)
    async with lab.client() as client:
        await state(lab, client)
        reply = await client.request("new_session", id="new")
        assert reply["data"] == {"cancelled": False}
        await client.ask("abort_bash")
        assert (await client.ask("get_messages"))["messages"] == []
        await _goes_on(lab, client, state)
        kept = (await client.ask("get_messages"))["messages"]
    assert [message["role"] for message in kept] == ["user", "assistant"]
    _check_replies(lab)
    _check_files(lab)


async def _answer_dialogs(lab: Lab, client: Client) -> None:
    for request in only(_told(lab), "extension_ui_request"):
        await client.send("extension_ui_response", id=request["id"], cancelled=True)


async def _goes_on(lab: Lab, client: Client, state: State) -> None:
    """Whatever was stopped is answered, and the next prompt works."""
    if state in UNANSWERED and not _answered(lab, "command"):
        await client.reply_to("command")
    lab.server.add(answer("Fine."))
    await client.ask("prompt", message="And now?")
    await client.wait_for(lambda r: r["type"] == "turn_end" and text_of(r["message"]) == "Fine.")
    await client.wait_for("agent_settled")


def _answered(lab: Lab, command_id: str) -> bool:
    return any(record.get("id") == command_id for record in only(_told(lab), "response"))
