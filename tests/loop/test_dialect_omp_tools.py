"""What oh-my-pi's hosts find in the results of tools: files, counts, exit codes, their order."""

import re

from ludolf.client import Record
from tests.process.harness import Lab, only, text_of, types
from tests.process.script import answer, bash, call

OMP = ("--rpc-dialect", "omp", "--no-session")


def _result(told: list[Record], call_id: str) -> Record:
    ends = [end for end in only(told, "tool_execution_end") if end["toolCallId"] == call_id]
    return dict(ends[0]["result"])


async def test_a_write_tells_its_file_before_its_end(lab: Lab) -> None:
    lab.server.add(answer(call("write", {"path": "a.txt", "content": "ü\n"})), answer("Done."))
    async with lab.client(*OMP) as client:
        await client.ask("prompt", message="Go")
        told = await client.collect("agent_end")
    (progress,) = only(told, "tool_execution_update")
    (end,) = only(told, "tool_execution_end")
    assert told.index(progress) == told.index(end) - 1
    assert text_of(progress["partialResult"]) == "Writing 3 bytes to a.txt"
    details = {"resolvedPath": str(lab.work / "a.txt")}
    assert progress["partialResult"]["details"] == end["result"]["details"] == details


async def test_a_read_says_what_of_which_file_it_shows(lab: Lab) -> None:
    (lab.work / "a.txt").write_text("one\ntwo\nthree\nfour\n")
    part = {"path": "a.txt", "offset": 2, "limit": 2}
    lab.server.add(answer(call("read", {"path": "a.txt"}, "all"), call("read", part, "part")))
    lab.server.add(answer(call("read", {"path": "none.txt"}, "none")), answer("Done."))
    async with lab.client(*OMP) as client:
        await client.ask("prompt", message="Go")
        told = await client.collect("agent_end")
        messages = (await client.ask("get_messages"))["messages"]
    whole, some = _result(told, "all")["details"], _result(told, "part")["details"]
    assert whole == {
        "totalLines": 4,
        "fileSize": 19,
        "meta": {"source": {"type": "path", "value": str(lab.work / "a.txt")}},
        "displayContent": {
            "text": "one\ntwo\nthree\nfour",
            "startLine": 1,
            "lineNumbers": [1, 2, 3, 4],
        },
    }
    assert some["totalLines"] >= 4
    assert some["displayContent"] == {"text": "two\nthree", "startLine": 2, "lineNumbers": [2, 3]}
    assert _result(told, "none")["details"] == {}
    kept = [one for one in messages if one.get("toolCallId") == "all"]
    assert kept[0]["details"] == whole


async def test_a_command_that_fails_tells_its_code_behind_the_time_it_took(lab: Lab) -> None:
    lab.server.add(answer(bash("echo out; exit 2")), answer("Done."))
    async with lab.client(*OMP) as client:
        await client.ask("prompt", message="Go")
        told = await client.collect("agent_end")
    result = _result(told, "call_1")
    wanted = r"out\n\n\nWall time: [\d.]+ seconds\n\nCommand exited with code 2"
    assert re.fullmatch(wanted, text_of(result))
    assert result["details"].keys() == {"timeoutSeconds", "wallTimeMs", "exitCode"}
    assert (result["details"]["exitCode"], result["isError"]) == (2, True)


async def test_a_command_out_of_time_and_one_that_says_too_much_tell_so(lab: Lab) -> None:
    calls = (bash("sleep 20", "late", timeout=0.2), bash("seq 1 3000", "much"))
    lab.server.add(answer(*calls), answer("Done."))
    async with lab.client(*OMP) as client:
        await client.ask("prompt", message="Go")
        told = await client.collect("agent_end")
    late, much = _result(told, "late"), _result(told, "much")
    assert (late["details"]["timedOut"], late["details"]["timeoutSeconds"]) == (True, 0.2)
    cut = much["details"]["meta"]["truncation"]
    assert cut["elidedLines"] == cut["totalLines"] - cut["outputLines"] == 1000
    assert cut["tailRange"] == {"start": 1001, "end": 3000}
    assert cut["artifactId"] in much["details"]["fullOutputPath"]


async def test_a_tool_that_is_not_there_is_named_in_the_details(lab: Lab) -> None:
    lab.server.add(answer(call("nosuch", {})), answer("Done."))
    async with lab.client(*OMP) as client:
        await client.ask("prompt", message="Go")
        told = await client.collect("agent_end")
    details = _result(told, "call_1")["details"]
    assert details == {"isError": True, "error": "Tool nosuch not found"}


async def test_results_stand_in_the_order_in_which_they_came(lab: Lab) -> None:
    wait = "while [ ! -e go ]; do sleep 0.01; done; echo slow"
    lab.server.add(answer(bash(wait, "slow"), bash("touch go", "fast")), answer("Done."))
    async with lab.client(*OMP) as client:
        await client.ask("prompt", message="Go")
        told = await client.collect("agent_end")
        messages = (await client.ask("get_messages"))["messages"]
    ended = [end["toolCallId"] for end in only(told, "tool_execution_end")]
    turn = only(told, "turn_end")[0]["toolResults"]
    assert [one["toolCallId"] for one in turn] == ended
    for where in (told[-1]["messages"], messages):
        assert [one["toolCallId"] for one in where if one["role"] == "toolResult"] == ended
    assert types(told)[-1] == "agent_end"


async def test_commands_without_their_only_field_say_which_it_is(lab: Lab) -> None:
    async with lab.client(*OMP) as client:
        protocol = await client.request("negotiate_protocol")
        subscription = await client.request("set_subagent_subscription")
    assert protocol["error"] == "Missing field: protocolVersion"
    assert subscription["error"] == "Missing field: level"
