"""Tools through the process: order, refusals, streaming, and an abort that ends everything."""

import asyncio

import pytest

from ludolf.base import loads
from ludolf.client import Client, Record
from tests.process.harness import APIS, WAIT_SECONDS, Lab, messages, only, survivors, text_of, types
from tests.process.script import Gate, answer, bash, call, raw_call, say

_ABORT_TEXTS = {
    "claude/large": "This operation was aborted",
    "chat/large": "Request was aborted",
    "responses/large": "Request was aborted",
    "gemini/large": "This operation was aborted",
}


def _result(told: list[Record], call_id: str) -> tuple[str, bool]:
    (end,) = (end for end in only(told, "tool_execution_end") if end["toolCallId"] == call_id)
    return text_of(end["result"]), end["isError"]


async def _output(client: Client, call_id: str, wanted: str) -> str:
    """The output of a running tool, once it holds the wanted text."""

    def holds(record: Record) -> bool:
        mine = record["type"] == "tool_execution_update" and record["toolCallId"] == call_id
        return mine and wanted in text_of(record["partialResult"])

    return text_of((await client.wait_for(holds))["partialResult"])


# ---------------------------------------------------------------- running


async def test_output_of_a_command_streams_while_it_runs(lab: Lab) -> None:
    # The command goes on only when the test has seen its first output.
    lab.server.add(answer(bash("echo first; until test -e go; do sleep 0.01; done; echo second")))
    lab.server.add(answer("Done."))
    async with lab.client() as client:
        await client.ask("prompt", message="Go")
        updates = await client.collect(
            lambda r: (
                r["type"] == "tool_execution_update" and "first" in text_of(r["partialResult"])
            )
        )
        (lab.work / "go").touch()
        told = await client.collect("agent_settled")
    first = only(updates, "tool_execution_update")[0]
    assert first["partialResult"] == {"content": []}
    assert updates[-1]["partialResult"]["details"] == {}
    assert _result(told, "call_1") == ("first\nsecond\n", False)
    shown = [text_of(r["partialResult"]) for r in only(told, "tool_execution_update")]
    assert shown[-1] == "first\nsecond\n"


async def test_parallel_calls_end_as_they_finish_and_are_answered_in_their_order(lab: Lab) -> None:
    slow = bash("until test -e b; do sleep 0.01; done; echo slow", "a")
    fast = bash("touch b; echo fast", "b")
    lab.server.add(answer(slow, fast), answer("Done."))
    async with lab.client() as client:
        told = await client.prompt_and_collect("Go")
    names = [name for name in types(told) if name.startswith("tool_execution")]
    assert names[:2] == ["tool_execution_start a", "tool_execution_start b"]
    ends = [name for name in names if "_end" in name]
    assert sorted(ends) == ["tool_execution_end a", "tool_execution_end b"]
    results = [m for m in messages(lab.entries) if m["role"] == "toolResult"]
    assert [(m["toolCallId"], text_of(m)) for m in results] == [("a", "slow\n"), ("b", "fast\n")]
    (turn,) = (turn for turn in only(told, "turn_end") if turn["toolResults"])
    assert [result["toolCallId"] for result in turn["toolResults"]] == ["a", "b"]
    last_end = max(place for place, name in enumerate(types(told)) if "execution_end" in name)
    assert types(told)[last_end + 1 : last_end + 5] == 2 * [
        *("message_start toolResult", "message_end toolResult"),
    ]


async def test_a_call_that_finishes_first_ends_first(lab: Lab) -> None:
    slow = bash("until test -e go; do sleep 0.01; done", "slow")
    lab.server.add(answer(slow, bash("echo fast", "fast")), answer("Done."))
    async with lab.client() as client:
        await client.ask("prompt", message="Go")
        first = await client.wait_for("tool_execution_end")
        (lab.work / "go").touch()
        second = await client.wait_for("tool_execution_end")
        await client.wait_for("agent_settled")
    assert (first["toolCallId"], second["toolCallId"]) == ("fast", "slow")


async def test_an_unknown_tool_is_an_error_result_and_the_run_goes_on(lab: Lab) -> None:
    lab.server.add(answer(call("teleport", {"to": "mars"}, "t"), bash("echo hi", "b")))
    lab.server.add(answer("Sorry."))
    async with lab.client() as client:
        told = await client.prompt_and_collect("Go")
    assert _result(told, "t") == ("Tool teleport not found", True)
    assert _result(told, "b") == ("hi\n", False)
    order = [name for name in types(told) if name.startswith("tool_execution")][:3]
    assert order == ["tool_execution_start t", "tool_execution_end t", "tool_execution_start b"]


async def test_invalid_arguments_never_run_and_the_model_is_told_what_is_wrong(lab: Lab) -> None:
    lab.server.add(
        answer(
            call("bash", {"cmd": "touch ran"}, "missing"),
            call("write", {"path": "ran", "content": ["x"]}, "wrong"),
        ),
        answer("Sorry."),
    )
    async with lab.client() as client:
        told = await client.prompt_and_collect("Go")
    for call_id, name in (("missing", "bash"), ("wrong", "write")):
        text, is_error = _result(told, call_id)
        assert is_error
        assert text.startswith(f'Validation failed for tool "{name}"')
    assert list(lab.work.iterdir()) == []


@pytest.mark.parametrize("model", ["claude/large", "chat/large", "responses/large"])
async def test_calls_with_cut_arguments_never_run(lab: Lab, model: str) -> None:
    cuts = (
        '{"command": "touch ran; echo',
        '{"command": "touch ran"',
        '{"command": "touch ran"}}',
        "",
    )
    calls = [raw_call("bash", cut, call_id=f"c{place}") for place, cut in enumerate(cuts)]
    lab.server.add(answer(*calls), answer("Sorry."))
    async with lab.client("--model", model) as client:
        told = await client.prompt_and_collect("Go")
    ends = only(told, "tool_execution_end")
    assert [end["isError"] for end in ends] == [True] * len(cuts)
    assert list(lab.work.iterdir()) == []


@pytest.mark.parametrize("model", APIS)
async def test_a_call_in_an_answer_cut_by_the_token_limit_never_runs(lab: Lab, model: str) -> None:
    lab.server.add(answer(bash("touch ran"), stop="length"), answer("Sorry."))
    async with lab.client("--model", model) as client:
        told = await client.prompt_and_collect("Go")
    (end,) = only(told, "tool_execution_end")
    assert end["isError"]
    assert text_of(end["result"]).startswith('Tool call "bash" was not executed')
    assert list(lab.work.iterdir()) == []


async def test_a_failing_command_is_an_error_result_with_its_output(lab: Lab) -> None:
    lab.server.add(answer(bash("echo oops >&2; exit 3")), answer("Sorry."))
    async with lab.client() as client:
        told = await client.prompt_and_collect("Go")
    assert _result(told, "call_1") == ("oops\n\n\nCommand exited with code 3", True)


async def test_a_command_reads_no_commands_of_the_host(lab: Lab) -> None:
    lab.server.add(answer(bash("cat; echo end")), answer("Done."))
    async with lab.client() as client:
        told = await client.prompt_and_collect("Go")
        assert (await client.request("get_state"))["success"]
    assert _result(told, "call_1") == ("end\n", False)


async def test_a_timeout_kills_the_whole_command(lab: Lab) -> None:
    lab.server.add(answer(bash("sleep 60 & echo $!; wait", timeout=1.5)), answer("Sorry."))
    async with lab.client() as client:
        told = await client.prompt_and_collect("Go")
        text, is_error = _result(told, "call_1")
        pid, *_ = text.split()
        assert await asyncio.to_thread(survivors, [int(pid)]) == []
    assert is_error
    assert text.endswith("Command timed out after 1.5 seconds")


async def test_commands_do_not_see_keys_of_providers(lab: Lab) -> None:
    lab.server.add(answer(bash("env")), answer("Done."))
    async with lab.client(ANTHROPIC_API_KEY="sk-secret", OTHER="seen") as client:
        told = await client.prompt_and_collect("Go")
    text, _ = _result(told, "call_1")
    assert "OTHER=seen" in text
    assert "sk-secret" not in text


async def test_commands_see_the_keys_that_the_settings_pass(lab: Lab) -> None:
    lab.settings(passKeys=["HF_TOKEN"])
    lab.server.add(answer(bash("env")), answer("Done."))
    async with lab.client(ANTHROPIC_API_KEY="sk-secret", HF_TOKEN="passed") as client:
        told = await client.prompt_and_collect("Go")
    text, _ = _result(told, "call_1")
    assert "HF_TOKEN=passed" in text
    assert "sk-secret" not in text


# ---------------------------------------------------------------- asking and aborting meanwhile


async def test_state_is_answered_while_a_command_runs(lab: Lab) -> None:
    lab.server.add(answer(bash("echo up; until test -e go; do sleep 0.01; done")), answer("Done."))
    async with lab.client() as client:
        await client.ask("prompt", message="Go")
        await _output(client, "call_1", "up")
        # The command goes on only when the state has been told.
        state = await client.ask("get_state")
        (lab.work / "go").touch()
        await client.wait_for("agent_settled")
    assert state["isStreaming"]


async def test_abort_kills_the_whole_tree_of_a_command(lab: Lab) -> None:
    # A plain child, a grandchild, one that ignores TERM, one in a session of its own.
    script = (
        "sleep 61 & echo $!; bash -c 'sleep 62 & echo $!; wait' & echo $!; "
        "bash -c 'trap \"\" TERM; sleep 63' & echo $!; setsid sleep 64 & echo $!; "
        "until test -e never; do sleep 0.01; done; touch late; echo up"
    )
    lab.server.add(answer(bash(script.replace("until", "echo up; until"))))
    async with lab.client() as client:
        await client.ask("prompt", message="Go")
        output = await _output(client, "call_1", "up")
        while len(output.split()) < 6:
            output = await _output(client, "call_1", "up")
        pids = [int(word) for word in output.split() if word != "up"]
        assert len(pids) == 5
        assert (await client.request("abort"))["success"]
        assert await asyncio.to_thread(survivors, pids) == []
    assert not (lab.work / "late").exists()


async def test_abort_in_a_tool_ends_as_hosts_expect(lab: Lab) -> None:
    lab.server.add(answer(bash("echo up; sleep 60", "a"), bash("echo b", "b")))
    seen: set[str] = set()

    def both(record: Record) -> bool:
        """The one has said something and the other has ended, in whichever order."""
        if record["type"] == "tool_execution_update" and text_of(record["partialResult"]):
            seen.add(f"{record['toolCallId']} says")
        if record["type"] == "tool_execution_end":
            seen.add(f"{record['toolCallId']} ends")
        return {"a says", "b ends"} <= seen

    async with lab.client() as client:
        await client.ask("prompt", message="Go")
        await client.wait_for(both)
        await client.send("abort", id="stop")
        await client.reply_to("stop")
        state = await client.ask("get_state")
    lines = [loads(line) for line in lab.lines]
    start = types(lines).index("tool_execution_end a")
    assert types(lines)[start:] == [
        "tool_execution_end a",
        *2 * ("message_start toolResult", "message_end toolResult"),
        *("turn_end", "turn_start", "message_start assistant", "message_end assistant"),
        *("turn_end", "agent_end", "agent_settled", "response abort", "response get_state"),
    ]
    assert _result(lines, "a") == ("up\n\n\nCommand aborted", True)
    assert _result(lines, "b") == ("b\n", False)
    last = messages(lab.entries)[-1]
    assert (last["content"], last["stopReason"]) == ([], "aborted")
    assert last["errorMessage"] == "Request was aborted."
    assert not state["isStreaming"]


async def test_after_an_abort_in_a_tool_the_conversation_goes_on(lab: Lab) -> None:
    lab.server.add(answer(bash("echo up; sleep 60")), answer("Fine."))
    async with lab.client() as client:
        await client.ask("prompt", message="Go")
        await _output(client, "call_1", "up")
        await client.ask("abort")
        await client.wait_for("agent_settled")
        told = await client.prompt_and_collect("Go on")
    assert text_of(only(told, "turn_end")[0]["message"]) == "Fine."
    results = [
        block
        for message in lab.server.requests[-1].body["messages"]
        for block in message["content"]
        if block["type"] == "tool_result"
    ]
    assert [block["tool_use_id"] for block in results] == ["call_1"]


@pytest.mark.parametrize("model", APIS)
async def test_abort_while_streaming_keeps_what_has_arrived(lab: Lab, model: str) -> None:
    gate = Gate()
    lab.server.add(answer(say("Half of ", gate, "an answer")))
    async with lab.client("--model", model) as client:
        await client.ask("prompt", message="Go")
        await client.wait_for(
            lambda r: r.get("assistantMessageEvent", {}).get("type") == "text_delta"
        )
        assert (await client.request("abort"))["success"]
    lines = [loads(line) for line in lab.lines]
    end = types(lines).index("message_end assistant")
    assert types(lines)[end:] == [
        *("message_end assistant", "turn_end", "agent_end", "agent_settled", "response abort"),
    ]
    message = lines[end]["message"]
    assert (text_of(message), message["stopReason"]) == ("Half of ", "aborted")
    assert message["errorMessage"] == _ABORT_TEXTS[model]
    assert not lines[end + 2]["willRetry"]
    assert messages(lab.entries)[-1] == message


async def test_abort_before_the_first_token_tells_a_finished_empty_message(lab: Lab) -> None:
    gate = Gate()
    lab.server.add(answer(gate, "Late."))
    async with lab.client() as client:
        await client.ask("prompt", message="Go")
        assert await asyncio.to_thread(gate.reached.wait, WAIT_SECONDS)
        await client.ask("abort")
        told = await client.collect("agent_settled")
    start, end = (only(told, kind)[-1]["message"] for kind in ("message_start", "message_end"))
    assert end["stopReason"] == "aborted"
    assert end["content"] == []
    assert start["role"] == "assistant"


async def test_abort_at_once_after_a_prompt_settles_quickly(lab: Lab) -> None:
    gate = Gate()
    lab.server.add(answer(gate, "Late."))
    async with lab.client() as client:
        await client.ask("get_state")
        await client.send("prompt", message="Go")
        # The gate stays closed for longer than the reply is waited for.
        assert (await client.request("abort"))["success"]
        told = await client.collect("agent_settled")
    assert only(told, "turn_end")[-1]["message"]["stopReason"] == "aborted"


async def test_abort_when_idle_succeeds_without_a_word(lab: Lab) -> None:
    async with lab.client() as client:
        assert (await client.request("abort"))["success"]
        await client.ask("get_state")
    assert types(map(loads, lab.lines)) == ["response abort", "response get_state"]
