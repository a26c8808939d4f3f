"""The host's own shell commands: their output, their end, and what the model learns of them."""

import asyncio
from pathlib import Path

from ludolf.base import loads
from ludolf.client import Client
from tests.process.harness import Lab, messages, only, survivors, types
from tests.process.script import Gate, answer, say


async def _wait_for_output(client: Client, *ids: str) -> list[str]:
    """The output so far of commands, once all of them have said that they are up."""
    told = dict.fromkeys(ids, "")
    while not all("up\n" in text for text in told.values()):
        update = await client.wait_for("bash_execution_update")
        told[update["id"]] += update["delta"]
    return list(told.values())


async def test_output_and_exit_code_are_answered(lab: Lab) -> None:
    async with lab.client() as client:
        reply = await client.request("bash", command="echo out; echo err >&2; exit 3")
    assert reply["success"]
    assert reply["data"] == {
        **{"output": "out\nerr\n", "exitCode": 3, "cancelled": False, "truncated": False},
    }


async def test_output_is_told_in_pieces_before_the_answer(lab: Lab) -> None:
    async with lab.client() as client:
        await client.request("bash", id="b", command="echo one; echo two")
    lines = [loads(line) for line in lab.lines]
    assert set(types(lines[:-1])) == {"bash_execution_update"}
    assert types(lines[-1:]) == ["response bash"]
    assert {update["id"] for update in lines[:-1]} == {"b"}
    assert "".join(update["delta"] for update in lines[:-1]) == "one\ntwo\n"


async def test_an_update_of_a_command_without_id_has_none(lab: Lab) -> None:
    async with lab.client() as client:
        await client.process.write(b'{"type":"bash","command":"echo hi"}\n')
        update = await client.wait_for("bash_execution_update")
        reply = await client.wait_for("response")
    assert update == {"type": "bash_execution_update", "delta": "hi\n"}
    assert "id" not in reply


async def test_several_commands_run_at_once(lab: Lab) -> None:
    # Each waits for the other: one after the other they would never end.
    meet = "touch {0}; until test -e {1}; do sleep 0.01; done; echo {0}"
    async with lab.client() as client:
        first = await client.send("bash", command=meet.format("a", "b"))
        second = await client.send("bash", command=meet.format("b", "a"))
        replies = [await client.reply_to(first), await client.reply_to(second)]
    assert [reply["data"]["output"] for reply in replies] == ["a\n", "b\n"]


async def test_abort_bash_kills_all_commands_with_their_children(lab: Lab) -> None:
    command = "sleep 61 & echo $!; setsid sleep 62 & echo $!; echo up; wait"
    async with lab.client() as client:
        ids = [await client.send("bash", command=command) for _ in range(2)]
        told = await _wait_for_output(client, *ids)
        pids = [int(word) for text in told for word in text.split() if word != "up"]
        assert (await client.request("abort_bash"))["success"]
        replies = [await client.reply_to(command_id) for command_id in ids]
        assert await asyncio.to_thread(survivors, pids) == []
    assert len(pids) == 4
    for reply, text in zip(replies, told, strict=True):
        assert reply["success"]
        assert reply["data"] == {"output": text, "cancelled": True, "truncated": False}


async def test_abort_leaves_commands_of_the_host_alone(lab: Lab) -> None:
    async with lab.client() as client:
        command = "echo up; until test -e go; do sleep 0.01; done; echo on"
        command_id = await client.send("bash", command=command)
        await _wait_for_output(client, command_id)
        assert (await client.request("abort"))["success"]
        (lab.work / "go").touch()
        reply = await client.reply_to(command_id)
    assert reply["data"]["output"] == "up\non\n"
    assert reply["data"]["exitCode"] == 0


async def test_a_background_child_does_not_hold_the_answer(lab: Lab) -> None:
    async with lab.client() as client:
        reply = await client.request("bash", command="sleep 60 & echo $!")
        pid = int(reply["data"]["output"])
        assert reply["data"]["exitCode"] == 0
    # It lived on beside the program, and ended with it.
    assert await asyncio.to_thread(survivors, [pid]) == []


async def test_long_output_is_cut_and_kept_whole_in_a_private_file(lab: Lab) -> None:
    async with lab.client() as client:
        reply = await client.request("bash", command="seq 1 5000")
    data = reply["data"]
    whole = "".join(f"{number}\n" for number in range(1, 5001))
    assert data["truncated"]
    assert data["output"].split() == [str(number) for number in range(3001, 5001)]
    path = Path(data["fullOutputPath"])
    assert path.read_text() == whole
    assert path.stat().st_mode & 0o077 == 0
    deltas = [loads(line)["delta"] for line in lab.lines[:-1]]
    assert "".join(deltas) == whole


async def test_escape_sequences_and_broken_bytes_are_cleaned(lab: Lab) -> None:
    command = r"printf '\033[31mred\033[0m\000\377 \033]52;c;c2VjcmV0\007end\n'"
    async with lab.client() as client:
        reply = await client.request("bash", command=command)
    assert reply["data"]["output"] == "red\N{REPLACEMENT CHARACTER} end\n"


async def test_the_model_reads_of_commands_with_the_next_prompt(lab: Lab) -> None:
    lab.server.add(answer("I see."))
    async with lab.client() as client:
        await client.ask("bash", command="echo one")
        await client.ask("bash", command="echo hidden", excludeFromContext=True)
        await client.ask("bash", command="exit 2")
        told = await client.prompt_and_collect("What did I run?")
        kept = (await client.ask("get_messages"))["messages"]
    asked = str(lab.server.requests[0].body["messages"])
    assert "Ran `echo one`\\n```\\none\\n" in asked
    assert "Command exited with code 2" in asked
    assert "(no output)" in asked
    assert "hidden" not in asked
    assert types(told).count("message_end user") == 1
    commands = [message.get("command") for message in kept]
    assert commands == ["echo one", "echo hidden", "exit 2", None, None]
    assert kept[1]["excludeFromContext"]
    assert messages(lab.entries) == kept


async def test_a_command_during_a_run_is_stored_when_the_run_has_settled(lab: Lab) -> None:
    gate = Gate()
    lab.server.add(answer(say("Wait ", gate, "over.")), answer("I see."))
    async with lab.client() as client:
        await client.ask("prompt", message="Go")
        await client.wait_for("message_update")
        await client.ask("bash", command="echo meanwhile")
        gate.open()
        await client.wait_for("agent_settled")
        await client.prompt_and_collect("And now?")
    roles = [message["role"] for message in messages(lab.entries)]
    assert roles == ["user", "assistant", "bashExecution", "user", "assistant"]
    assert "meanwhile" in str(lab.server.requests[1].body["messages"])


async def test_a_flood_of_output_is_told_whole_in_bounded_records(lab: Lab) -> None:
    async with lab.client() as client:
        reply = await client.request("bash", command="yes 0123456789 | head -c 8000000")
    updates = [loads(line) for line in lab.lines[:-1]]
    assert sum(len(update["delta"]) for update in only(updates, "bash_execution_update")) == 8000000
    assert max(map(len, lab.lines[:-1])) < 200_000
    assert reply["data"]["truncated"]
