"""Commands that misbehave: daemons, floods, giants, signals, odd bytes."""

import asyncio
import os
import random
import time
from pathlib import Path

import pytest

from ludolf.base import loads
from ludolf.client import Client, Record
from tests.process.extending import lay
from tests.process.faults import MIB, peak_bytes
from tests.process.harness import Lab, only, survivors, text_of
from tests.process.script import answer, bash

pytestmark = pytest.mark.exec

# It begins when its number has been told, so that this is the first word.
CHATTER = """
rm -f told
(until test -e told; do sleep 0.01; done; for i in $(seq 600); do echo tick; sleep 0.1; done) &
echo $!
touch told
"""


async def _run(lab: Lab, client: Client, command: str, timeout: int = 30) -> tuple[bool, str]:
    """Have the model run a command; whether it failed, and what the model read of it."""
    lab.server.add(answer(bash(command, timeout=timeout)), answer("Done."))
    told = await client.prompt_and_collect("Go")
    (end,) = only(told, "tool_execution_end")
    return end["isError"], text_of(end["result"])


# ---------------------------------------------------------------- daemons


async def test_a_chatty_daemon_holds_neither_tool_nor_command(lab: Lab) -> None:
    async with lab.client() as client:
        began = time.monotonic()
        _, text = await _run(lab, client, CHATTER)
        reply = await client.request("bash", command=CHATTER)
        taken = time.monotonic() - began
        pids = [int(text.split()[0]), int(reply["data"]["output"].split()[0])]
    assert taken < 20  # it talks for a minute
    assert await asyncio.to_thread(survivors, pids) == []


# A child has the name of its shell until it has become what it is to be.
NAMED = '& until [ "$(cat /proc/$!/comm)" = sleep ]; do :; done; echo $!'


async def test_what_a_command_leaves_behind_is_listed_and_ends_with_the_program(lab: Lab) -> None:
    commands = (f"sleep 70 {NAMED}", f"setsid sleep 71 {NAMED}", f"env -i sleep 71 {NAMED}")
    async with lab.client() as client:
        pids = []
        for command in commands:
            data = await client.ask("bash", command=command)
            pids.append(int(data["output"]))
            assert [one["pid"] for one in data["background"]] == pids[-1:]
        for command, failed in ((commands[0], False), (f"{commands[0]}; exit 3", True)):
            lab.server.add(answer(bash(command)), answer("Done."))
            (end,) = only(await client.prompt_and_collect("Go"), "tool_execution_end")
            assert end["isError"] is failed
            pids.append(int(text_of(end["result"]).split()[0]))
            (left,) = end["result"]["details"]["background"]
            assert left == {"pid": pids[-1], "name": "sleep"}
        assert "background" not in await client.ask("bash", command="sleep 0.01 & wait")
        assert await asyncio.to_thread(survivors, pids, 0) == pids
    assert await asyncio.to_thread(survivors, pids) == []


TIDY = "trap 'echo tidy > {}; exit' TERM; echo $$; while :; do sleep 0.01; done"


def _shows_output(record: Record) -> bool:
    return record["type"] == "tool_execution_update" and bool(text_of(record["partialResult"]))


async def test_an_abort_lets_a_command_clean_up(lab: Lab) -> None:
    async with lab.client() as client:
        await client.send("bash", id="b", command=TIDY.format("of-the-host"))
        await client.wait_for("bash_execution_update")
        await client.ask("abort_bash")
        assert (await client.reply_to("b"))["data"]["cancelled"]
        lab.server.add(answer(bash(TIDY.format("of-the-model"))))
        await client.ask("prompt", message="Go")
        await client.wait_for(_shows_output)
        await client.ask("abort")
    for name in ("of-the-host", "of-the-model"):
        assert (lab.work / name).read_text() == "tidy\n"


async def test_a_command_that_never_has_done_cleaning_up_is_killed_a_second_later(lab: Lab) -> None:
    async with lab.client() as client:
        await client.send("bash", id="b", command="trap : TERM; echo $$; while :; do sleep 1; done")
        update = await client.wait_for("bash_execution_update")
        began = time.monotonic()
        await client.ask("abort_bash")
        assert (await client.reply_to("b"))["data"]["cancelled"]
        assert 0.9 < time.monotonic() - began < 10
        assert await asyncio.to_thread(survivors, [int(update["delta"])]) == []


async def test_the_end_of_the_program_lets_a_daemon_clean_up(lab: Lab) -> None:
    async with lab.client() as client:
        # Bash says on stderr that its `sleep` was ended: nobody reads that pipe any more.
        daemon = f"({TIDY.format('daemon')}) > started 2>&1 &"
        command = f"{daemon} until [ -s started ]; do :; done"
        assert (await client.ask("bash", command=command))["background"]
    assert (lab.work / "daemon").read_text() == "tidy\n"


UNTOUCHABLE = """
import os
from pathlib import Path

from ludolf.tools import supervisor

REFUSE = '''
import os

kill = os.kill

def refuse(pid, number):
    try:
        name = open(f"/proc/{pid}/comm").read()
    except OSError:
        name = ""  # it has ended meanwhile
    if name == "sleep\\\\n":
        raise PermissionError  # as if it ran as another user
    kill(pid, number)

os.kill = refuse
'''

def extension(api):
    exec(REFUSE, {})
    source = Path(supervisor.__file__).read_text().replace("import _socket", REFUSE, 1)
    changed = Path(os.environ["HOME"], "changed", "supervisor.py")
    changed.parent.mkdir()
    changed.write_text(source.replace("import marshal", "import _socket, marshal", 1))
    supervisor.__file__ = str(changed)
"""


async def test_what_cannot_be_ended_is_named_on_stderr(lab: Lab) -> None:
    lay(lab, UNTOUCHABLE)
    async with lab.client() as client:
        pid = int((await client.ask("bash", command=f"sleep 72 {NAMED}"))["output"])
    assert f"could not be ended: sleep (process {pid})" in client.process.stderr


async def test_a_double_fork_into_its_own_session_dies_with_an_abort(lab: Lab) -> None:
    command = "(setsid sh -c 'sleep 67 & echo $!; wait' &); sleep 68"
    async with lab.client() as client:
        await client.send("bash", id="b", command=command)
        update = await client.wait_for("bash_execution_update")
        await client.ask("abort_bash")
        assert (await client.reply_to("b"))["data"]["cancelled"]
        pids = [int(update["delta"])]
        assert await asyncio.to_thread(survivors, pids) == []


async def test_a_command_that_ignores_signals_dies_with_an_abort(lab: Lab) -> None:
    command = "trap '' TERM INT HUP; echo $$; while :; do sleep 1; done"
    async with lab.client() as client:
        await client.send("bash", id="b", command=command)
        update = await client.wait_for("bash_execution_update")
        began = time.monotonic()
        await client.ask("abort_bash")
        assert (await client.reply_to("b"))["data"]["cancelled"]
        assert time.monotonic() - began < 10
        assert await asyncio.to_thread(survivors, [int(update["delta"])]) == []


async def test_a_time_limit_kills_the_whole_family_and_says_so(lab: Lab) -> None:
    async with lab.client() as client:
        failed, text = await _run(lab, client, "setsid sleep 69 & echo $!; wait", timeout=3)
    assert failed
    assert "timed out after 3 seconds" in text
    assert await asyncio.to_thread(survivors, [int(text.split()[0])]) == []


# ---------------------------------------------------------------- floods


async def test_two_hundred_megabytes_of_output_cost_little_memory(lab: Lab) -> None:
    async with lab.client() as client:
        await client.ask("bash", command="true")
        before = peak_bytes(client.process.pid)
        failed, text = await _run(lab, client, "yes 0123456789 | head -c 200000000; echo end")
        grown = peak_bytes(client.process.pid) - before
    assert not failed
    assert "end" in text
    assert "Full output: " in text
    assert grown < 48 * MIB


async def test_a_line_of_fifty_megabytes_is_cut_marked_and_kept(lab: Lab) -> None:
    async with lab.client() as client:
        command = "head -c 50000000 /dev/zero | tr '\\0' x"
        reply = await client.request("bash", command=command)
    data = reply["data"]
    assert data["truncated"]
    assert len(data["output"]) <= 51_200
    whole = Path(data["fullOutputPath"])
    assert whole.stat().st_size == 50_000_000
    assert whole.stat().st_mode & 0o077 == 0


# ---------------------------------------------------------------- odd ends and bytes


async def test_death_by_a_signal_is_told_by_its_number(lab: Lab) -> None:
    async with lab.client() as client:
        failed, text = await _run(lab, client, "echo last words; kill -9 $$")
        reply = await client.request("bash", command="kill -TERM $$")
    assert failed
    assert text.endswith("[Killed by SIGKILL]\n\nCommand exited with code 137")
    assert "last words" in text
    assert (reply["data"]["exitCode"], reply["data"]["signal"]) == (143, "SIGTERM")


async def test_a_command_that_reads_gets_the_end_of_its_input(lab: Lab) -> None:
    async with lab.client() as client:
        assert await _run(lab, client, "cat; echo rc=$?") == (False, "rc=0\n")
        assert (await client.ask("bash", command="cat; echo rc=$?"))["output"] == "rc=0\n"
        assert (await client.request("get_state"))["success"]


async def test_binary_output_is_valid_text_everywhere(lab: Lab) -> None:
    # Always the same: other noise may end in the midst of a control string, which hides the rest.
    (lab.work / "noise").write_bytes(random.Random(1).randbytes(300_000))
    command = "cat noise; printf '\\377\\376\\000end'"
    async with lab.client() as client:
        failed, text = await _run(lab, client, command)
        reply = await client.request("bash", command=command)
    assert not failed
    for shown in (text, reply["data"]["output"]):
        assert "end" in shown
        assert "\x00" not in shown
    asked = str(lab.server.requests[-1].body)
    assert "\\x00" not in asked
    assert all(loads(line) for line in lab.lines)


async def test_terminal_control_reaches_neither_host_nor_model(lab: Lab) -> None:
    command = r"printf '\033]0;pwned\007\033[2J\033]52;c;ZXZpbA==\007red\033[31mX\302\233 2Jover\n'"
    async with lab.client() as client:
        failed, text = await _run(lab, client, command)
        reply = await client.request("bash", command=command)
    assert not failed
    for shown in (text, reply["data"]["output"]):
        assert "redX" in shown
        assert "pwned" not in shown
        assert "ZXZpbA" not in shown
    told = b"".join(
        line for line in lab.lines if b"toolcall" not in line and b"toolCall" not in line
    )
    assert b"\\u001b" not in told.replace(b"\\\\u001b", b"")
    results = [m for m in lab.server.requests[-1].body["messages"] if m["role"] == "user"]
    assert "\x1b" not in str(results[-1])


async def test_keys_of_providers_are_no_business_of_commands(lab: Lab) -> None:
    keys = {"ANTHROPIC_API_KEY": "sk-secret-a", "OPENAI_API_KEY": "sk-secret-o"}
    async with lab.client(**keys) as client:
        _, text = await _run(lab, client, "env | grep -c sk-secret; true")
        reply = await client.request("bash", command="env | grep -c sk-secret; true")
    assert (text, reply["data"]["output"]) == ("0\n", "0\n")


# What the kernel shows of the environment of every process between a command and its test.
ENVIRONS = """
pid=$$
until [ $pid -eq %d ]; do
    tr '\\0' '\\n' < /proc/$pid/environ
    echo end
    pid=$(cut -d' ' -f4 /proc/$pid/stat)
done
"""


async def test_keys_are_not_in_the_environment_of_a_process_above_a_command(lab: Lab) -> None:
    keys = {"OPENAI_API_KEY": "sk-secret-o", "GEMINI_API_KEY": "sk-secret-g"}
    async with lab.client(**keys, OTHER="kept") as client:
        _, text = await _run(lab, client, ENVIRONS % os.getpid())
        # The program, its supervisor, the reaper and the command itself.
        assert text.count("end\n") >= 4
        assert "OTHER=kept" in text
        assert "sk-secret" not in text
        shown = Path(f"/proc/{client.process.pid}/environ").read_bytes()
        assert b"sk-secret" not in shown
