"""Tools that the host lends: called here, run there, settled exactly once."""

from typing import Any

import pytest

from ludolf.client import Client, Record
from tests.process.harness import Lab, only, text_of, types
from tests.process.script import answer, call

ECHO = {
    "name": "echo_host",
    "label": "Echo Host",
    "description": "Echo a value from the embedding host",
    "parameters": {
        "type": "object",
        "properties": {"message": {"type": "string"}},
        "required": ["message"],
        "additionalProperties": False,
    },
}


def _echo(message: str, call_id: str = "call_1") -> Any:
    return call("echo_host", {"message": message}, call_id)


def _texts(*texts: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text} for text in texts]}


async def _give(client: Client, id: str, *texts: str, **more: Any) -> None:
    await client.send("host_tool_result", id=id, result=_texts(*texts), **more)


def _ends(told: list[Record]) -> list[Record]:
    return only(told, "tool_execution_end")


@pytest.mark.parametrize("dialect", ["pi", "pi-delta", "omp", "xcsh"])
async def test_a_call_goes_out_progress_and_result_come_in(lab: Lab, dialect: str) -> None:
    lab.server.add(answer(_echo("hello")), answer("Done."))
    async with lab.client("--rpc-dialect", dialect) as client:
        names = await client.ask("set_host_tools", tools=[ECHO])
        await client.ask("prompt", message="Use it")
        told = await client.collect("host_tool_call")
        asked = told[-1]
        await client.send("host_tool_update", id=asked["id"], partialResult=_texts("working"))
        await client.send("host_tool_update", id="nobody", partialResult=_texts("zzz"))
        await client.send("host_tool_result", id="nobody", result=_texts("zzz"))
        await _give(client, asked["id"], "echo: hello")
        told += await client.collect("agent_end")
    assert names == {"toolNames": ["echo_host"]}
    assert (asked["toolCallId"], asked["toolName"]) == ("call_1", "echo_host")
    assert asked["arguments"] == {"message": "hello"}
    kinds = types(told)
    assert kinds.index("tool_execution_start call_1") < kinds.index("host_tool_call")
    (update,) = only(told, "tool_execution_update")
    assert text_of(update["partialResult"]) == "working"
    (end,) = _ends(told)
    assert (text_of(end["result"]), end["isError"]) == ("echo: hello", False)
    assert end["result"]["details"] == {}
    assert "zzz" not in str(told)
    assert "echo_host" in str(lab.server.requests[0])


async def test_the_kinds_of_failure_reach_the_model_as_they_are(lab: Lab) -> None:
    calls = [_echo("1", "c1"), _echo("2", "c2"), _echo("3", "c3")]
    calls.append(call("echo_host", {"wrong": 1}, "c4"))
    lab.server.add(answer(*calls), answer("Done."))
    async with lab.client() as client:
        await client.ask("set_host_tools", tools=[ECHO])
        await client.ask("prompt", message="Go")
        ids = {}
        told: list[Record] = []
        for _ in range(3):
            told += await client.collect("host_tool_call")
            ids[told[-1]["toolCallId"]] = told[-1]["id"]
        await _give(client, ids["c1"], "bad", "thing", isError=True)
        await _give(client, ids["c2"], isError=True)
        whole = {**_texts("d"), "details": {"k": 1}, "isError": True}
        await client.send("host_tool_result", id=ids["c3"], result=whole)
        told += await client.collect("agent_end")
    results = {end["toolCallId"]: end for end in _ends(told)}
    assert all(end["isError"] for end in results.values())
    assert text_of(results["c1"]["result"]) == "bad\nthing"
    assert text_of(results["c2"]["result"]) == "Host tool execution failed"
    assert text_of(results["c3"]["result"]) == "d"
    assert results["c3"]["result"]["details"] == {"k": 1}
    assert text_of(results["c4"]["result"]).startswith('Validation failed for tool "echo_host"')


async def test_an_abort_cancels_the_call_and_a_late_result_is_ignored(lab: Lab) -> None:
    lab.server.add(answer(_echo("slow")), answer("Next."))
    async with lab.client() as client:
        await client.ask("set_host_tools", tools=[ECHO])
        await client.ask("prompt", message="Go")
        asked = await client.wait_for("host_tool_call")
        await client.ask("abort")
        told = await client.collect("agent_settled")
        await _give(client, asked["id"], "late")
        again = await client.prompt_and_collect("Again")
    (cancel,) = only(told, "host_tool_cancel")
    assert cancel["targetId"] == asked["id"]
    (end,) = _ends(told)
    assert text_of(end["result"]) == 'Host tool "echo_host" was aborted'
    assert "late" not in str(again)


async def test_a_tool_that_is_taken_away_ends_its_call_and_is_then_unknown(lab: Lab) -> None:
    other = {**ECHO, "name": "other"}
    lab.server.add(answer(_echo("slow")), answer(_echo("again", "call_2")), answer("Done."))
    async with lab.client() as client:
        await client.ask("set_host_tools", tools=[ECHO])
        await client.ask("prompt", message="Go")
        asked = await client.wait_for("host_tool_call")
        await client.ask("set_host_tools", tools=[other])
        await _give(client, asked["id"], "still there")
        told = await client.collect("agent_settled")
    assert not only(told, "host_tool_cancel")
    texts = [text_of(end["result"]) for end in _ends(told)]
    assert texts == ["still there", "Tool echo_host not found"]


async def test_a_pending_call_survives_a_set_that_keeps_its_tool(lab: Lab) -> None:
    lab.server.add(answer(_echo("slow")), answer("Done."))
    async with lab.client() as client:
        await client.ask("set_host_tools", tools=[ECHO])
        await client.ask("prompt", message="Go")
        asked = await client.wait_for("host_tool_call")
        await client.ask("set_host_tools", tools=[ECHO, {**ECHO, "name": "other"}])
        await _give(client, asked["id"], "in time")
        told = await client.collect("agent_settled")
    assert [text_of(end["result"]) for end in _ends(told)] == ["in time"]
    assert not only(told, "host_tool_cancel")


async def test_bad_sets_are_refused_and_change_nothing(lab: Lab) -> None:
    bad: list[tuple[list[Any], str]] = [
        ([{**ECHO, "name": "  "}], "Host tool at index 0 must provide a non-empty name"),
        (
            [{**ECHO, "description": ""}],
            'Host tool "echo_host" must provide a non-empty description',
        ),
        ([{**ECHO, "parameters": []}], 'Host tool "echo_host" must provide a JSON Schema object'),
        ([ECHO, ECHO], "RPC host tool names must be unique"),
        ([{**ECHO, "name": "bash"}], 'RPC host tool "bash" conflicts with an existing tool'),
    ]
    async with lab.client("--rpc-dialect", "omp") as client:
        await client.ask("set_host_tools", tools=[ECHO])
        for tools, error in bad:
            assert (await client.request("set_host_tools", tools=tools))["error"] == error
        missing = await client.request("set_host_tools")
        state = await client.ask("get_state")
        hidden = await client.ask("set_host_tools", tools=[{**ECHO, "name": "new", "hidden": True}])
        after = await client.ask("get_state")
    assert missing["success"] is False
    assert "echo_host" in {tool["name"] for tool in state["dumpTools"]}
    assert hidden == {"toolNames": ["new"]}
    assert not {"new", "echo_host"} & {tool["name"] for tool in after["dumpTools"]}


async def test_a_frame_without_content_is_no_host_frame(lab: Lab) -> None:
    async with lab.client() as client:
        reply = await client.request("host_tool_result", id="x", result={"text": "no"})
    assert reply["error"] == "Unknown command: host_tool_result"


async def test_dozens_of_calls_are_answered_in_any_order(lab: Lab) -> None:
    count = 40
    calls = [_echo(str(number), f"c{number}") for number in range(count)]
    lab.server.add(answer(*calls), answer("Done."))
    async with lab.client() as client:
        await client.ask("set_host_tools", tools=[ECHO])
        await client.ask("prompt", message="Go")
        asked: list[Record] = []
        while len(asked) < count:
            asked.append(await client.wait_for("host_tool_call"))
        for item in reversed(asked):
            await _give(client, item["id"], f"echo {item['arguments']['message']}")
        told = await client.collect("agent_settled")
    results = {end["toolCallId"]: text_of(end["result"]) for end in _ends(told)}
    assert results == {f"c{number}": f"echo {number}" for number in range(count)}
    (turn, _) = only(told, "turn_end")
    assert [item["toolCallId"] for item in turn["toolResults"]] == [f"c{n}" for n in range(count)]


async def test_images_in_results_reach_the_model_in_both_shapes(lab: Lab) -> None:
    lab.server.add(answer(_echo("look")), answer("Seen."))
    plain = {"type": "image", "data": "QUJD", "mimeType": "image/png"}
    nested = {
        "type": "image",
        "source": {"type": "base64", "mediaType": "image/png", "data": "REVG"},
    }
    async with lab.client() as client:
        await client.ask("set_host_tools", tools=[ECHO])
        await client.ask("prompt", message="Go")
        asked = await client.wait_for("host_tool_call")
        await client.send("host_tool_result", id=asked["id"], result={"content": [plain, nested]})
        told = await client.collect("agent_settled")
    (end,) = _ends(told)
    assert [block["data"] for block in end["result"]["content"]] == ["QUJD", "REVG"]
    assert "REVG" in str(lab.server.requests[1])


async def test_a_host_that_is_too_slow_for_its_own_limit_is_cancelled(lab: Lab) -> None:
    lab.server.add(answer(_echo("slow")), answer("Done."))
    async with lab.client() as client:
        await client.ask("set_host_tools", tools=[{**ECHO, "timeoutMs": 20}])
        told = await client.prompt_and_collect("Go")
    (end,) = _ends(told)
    assert text_of(end["result"]) == 'Host tool "echo_host" gave no result in 0.02 s'
    assert len(only(told, "host_tool_cancel")) == 1


async def test_a_host_that_goes_away_fails_its_calls(lab: Lab) -> None:
    lab.server.add(answer(_echo("slow")), answer("Done."))
    async with lab.client() as client:
        await client.ask("set_host_tools", tools=[ECHO])
        await client.ask("prompt", message="Go")
        await client.wait_for("host_tool_call")
    stored = str(lab.entries)
    assert "RPC client disconnected before host tool execution completed" in stored


async def test_the_set_stays_when_the_session_changes(lab: Lab) -> None:
    lab.server.add(answer(_echo("x")), answer("Done."))
    async with lab.client() as client:
        await client.ask("set_host_tools", tools=[ECHO])
        await client.ask("new_session")
        await client.ask("prompt", message="Go")
        asked = await client.wait_for("host_tool_call")
        await _give(client, asked["id"], "fine")
        told = await client.collect("agent_settled")
    assert [text_of(end["result"]) for end in _ends(told)] == ["fine"]


async def test_a_tool_that_the_host_lends_may_stand_in_the_list_of_tools(lab: Lab) -> None:
    lab.server.add(answer("Done."), answer("Done again."))
    async with lab.client("--tools", "read,echo_host,nobodys") as client:
        await client.ask("set_host_tools", tools=[ECHO])
        for _ in range(2):
            await client.prompt_and_collect("Hello")
        process = client.process
    told = "Warning: Unknown in the list of allowed tools: nobodys. Tools are: read, bash, "
    assert process.stderr.count(told) == 1
    assert "echo_host." in process.stderr
