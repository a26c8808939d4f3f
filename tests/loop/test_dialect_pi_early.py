"""Early pi's dialect: events only, no replies, errors as records."""

from ludolf.base import dumps, loads
from tests.process.harness import Lab, only, text_of, types
from tests.process.script import Gate, answer, call, say

EARLY = ("--rpc-dialect", "pi-early", "--no-session")


async def test_a_prompt_is_told_by_events_alone(lab: Lab) -> None:
    lab.server.add(answer(call("read", {"path": "missing.txt"})), answer("Done.", size=100))
    async with lab.client(*EARLY) as client:
        await client.send("prompt", id="x", message="Go")
        told = await client.collect("agent_end")
    assert "response prompt" not in types(told)
    assert types(told)[:2] == ["agent_start", "turn_start"]
    assert not only(told, "tool_execution_update")
    (end,) = only(told, "tool_execution_end")
    assert isinstance(end["result"], str)
    assert end["isError"] is True
    (turn, _) = only(told, "turn_end")
    assert text_of(turn["toolResults"][0]) == end["result"]
    assert told[-1].keys() == {"type", "messages"}
    assert told[-1]["messages"][0]["content"] == [{"type": "text", "text": "Go"}]
    assert {"message", "assistantMessageEvent", "type"} == only(told, "message_update")[0].keys()


async def test_a_shell_command_ends_with_its_message(lab: Lab) -> None:
    async with lab.client(*EARLY) as client:
        await client.send("bash", command="echo out; exit 3")
        end = await client.wait_for("bash_end")
    message = end["message"]
    assert message["role"] == "bashExecution"
    assert (message["command"], message["output"]) == ("echo out; exit 3", "out\n")
    assert (message["exitCode"], message["cancelled"], message["truncated"]) == (3, False, False)


async def test_what_goes_wrong_is_an_error_record(lab: Lab) -> None:
    async with lab.client(*EARLY) as client:
        await client.process.write(b"{broken\n")
        broken = await client.wait_for("error")
        await client.send("compact")
        compact = await client.wait_for("error")
        await client.send("set_model", provider="no", modelId="such")
        model = await client.wait_for("error")
    assert not broken["error"].startswith("Failed to parse command")
    assert compact["error"] == "Compaction failed: Nothing to compact (session too small)"
    assert model["error"] == "Model not found: no/such"


async def test_empty_prompts_are_passed_over_and_a_second_one_waits(lab: Lab) -> None:
    gate = Gate()
    lab.server.add(answer(say("First", gate, ".")), answer("Second."))
    async with lab.client(*EARLY) as client:
        await client.send("prompt", message="")
        await client.send("prompt")
        await client.send("bash")
        await client.send("prompt", message="one")
        told = await client.collect("message_update")
        await client.send("prompt", message="two")
        await client.send("bash", command="true")
        # Nothing is answered here, but by the end of a later command the prompt has been taken.
        told += await client.collect("bash_end")
        gate.open()
        first = await client.collect("agent_end")
        second = await client.collect("agent_end")
    assert types(told).count("agent_start") == 2
    assert types(first + second).count("agent_start") == 0
    assert [text_of(message) for message in first[-1]["messages"]] == ["one", "First."]
    assert [text_of(message) for message in second[-1]["messages"]] == ["two", "Second."]
    assert not only(told + first + second, "error")


async def test_every_prompt_that_was_sent_during_a_run_has_its_own_end(lab: Lab) -> None:
    gate = Gate()
    lab.server.add(answer(call("read", {"path": "missing.txt"})), answer(say("First", gate, ".")))
    lab.server.add(answer("Second."), answer("Third."))
    async with lab.client(*EARLY) as client:
        await client.send("prompt", message="one")
        told = await client.collect("turn_end")
        told += await client.collect("message_update")
        for text in ("two", "three"):
            await client.send("prompt", message=text)
        await client.send("bash", command="true")
        told += await client.collect("bash_end")
        gate.open()
        ends = [(await client.collect("agent_end"))[-1] for _ in range(3)]
    said = [[text_of(item) for item in end["messages"] if item["role"] == "user"] for end in ends]
    assert said == [["one"], ["two"], ["three"]]
    assert types(told).count("agent_start") == 3


async def test_an_abort_ends_the_prompts_that_wait_too(lab: Lab) -> None:
    lab.server.add(answer(say("First", Gate(), ".")), answer("Now."), answer("Then."))
    async with lab.client(*EARLY) as client:
        await client.send("prompt", message="one")
        told = await client.collect("message_update")
        await client.send("prompt", message="two")
        await client.send("bash", command="true")
        told += await client.collect("bash_end")
        await client.send("abort")
        told += await client.collect("agent_end")
        told += await client.collect("agent_end")
        await client.send("prompt", message="three")
        later = await client.collect("agent_end")
        later += await client.collect("agent_end")
    assert types(told).count("agent_start") == 2
    assert only(told, "agent_end")[0]["messages"][-1]["stopReason"] == "aborted"
    assert only(told, "agent_end")[1]["messages"] == []
    assert types(later).count("agent_start") == 2
    ends = [[text_of(item) for item in end["messages"]] for end in only(later, "agent_end")]
    assert ends == [["three", "Now."], ["two", "Then."]]


def test_at_the_end_of_input_the_run_is_finished_first(lab: Lab) -> None:
    gate = Gate()
    lab.server.add(answer(say("Begun", gate, ", ended.")))
    with lab.popen(*EARLY) as program:
        assert program.stdin is not None and program.stdout is not None
        program.stdin.write(b'{"type":"prompt","message":"Go"}\n')
        while loads(program.stdout.readline())["type"] != "message_update":
            pass
        program.stdin.close()
        gate.open()
        told = [loads(line) for line in program.stdout]
    assert program.returncode == 0
    assert text_of(told[-1]["messages"][-1]) == "Begun, ended."
    assert told[-1]["messages"][-1]["stopReason"] == "stop"


async def test_a_compaction_names_the_line_of_the_first_entry_that_is_kept(lab: Lab) -> None:
    lab.settings(compaction={"keepRecentTokens": 150})
    lab.server.add(*(answer(letter * 400) for letter in "abc"), answer("Summary."))
    async with lab.client("--rpc-dialect", "pi-early") as client:
        for _ in range(3):
            await client.send("prompt", message="z" * 400)
            await client.wait_for("agent_end")
        await client.send("compact")
        told = await client.wait_for("compaction")
    (path,) = lab.sessions
    lines = [loads(line) for line in path.read_bytes().splitlines()]
    (entry,) = [line for line in lines if line["type"] == "compaction"]
    assert lines[told["firstKeptEntryIndex"]]["id"] == entry["firstKeptEntryId"]
    assert "auto" not in told


async def test_attachments_become_images_and_text(lab: Lab) -> None:
    lab.server.add(answer("Seen."))
    notes = {
        "id": "d",
        "type": "document",
        "fileName": "notes.txt",
        "mimeType": "text/plain",
        "size": 5,
        "content": "aGVsbG8=",
        "extractedText": "hello",
    }
    async with lab.client(*EARLY) as client:
        await client.process.write(
            dumps({"type": "prompt", "message": "Read", "attachments": [notes]}) + b"\n"
        )
        end = await client.wait_for("agent_end")
    assert "[Document: notes.txt]\nhello" in text_of(end["messages"][0])


async def test_a_failed_attempt_leaves_no_end_behind(lab: Lab) -> None:
    from tests.process.script import Failure

    lab.server.add(Failure(status=529), answer("Now it works."))
    async with lab.client(*EARLY) as client:
        await client.send("prompt", message="Go")
        told = await client.collect("agent_end")
    said = [text_of(message) for message in told[-1]["messages"]]
    assert (said[0], said[-1]) == ("Go", "Now it works.")
    assert types(told).count("agent_start") == 1
    assert not [kind for kind in types(told) if kind.startswith("auto_retry")]
