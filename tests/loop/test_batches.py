"""Tool calls of one answer: side by side, alone, and all the ways in which they fail."""

from pathlib import Path

import pytest

from ludolf.ai.builtin.scripted import PlaybackBlock
from tests.loop.stage import asked, call, calls, say, stage, story, text_of, texts
from tests.loop.tools import BrokenTool, nothing


async def test_calls_run_side_by_side_and_end_as_they_finish(tmp_path: Path) -> None:
    ask = calls(call("hold", "slow", name="a"), call("hold", "quick", name="b"))
    async with stage(tmp_path, ask, say("done")) as s:
        await s.data("prompt", message="go")
        await s.gates.reached("a")
        await s.gates.reached("b")
        s.gates.open("b")
        await s.until("tool_execution_end")
        s.gates.open("a")
        await s.settled()
        told = story(s.frames)
        place = told.index("start slow")
        assert told[place : place + 9] == [
            "start slow",
            "start quick",
            "end quick",
            "end slow",
            "start toolResult",
            "end toolResult",
            "start toolResult",
            "end toolResult",
            "turn_end",
        ]
        assert asked(s.script.requests[1])[-2:] == ["toolResult a", "toolResult b"]


async def test_a_tool_that_runs_alone_makes_its_batch_run_in_order(tmp_path: Path) -> None:
    ask = calls(call("solo", "c1", name="a"), call("hold", "c2", name="b"))
    async with stage(tmp_path, ask, say("done")) as s:
        await s.data("prompt", message="go")
        await s.gates.reached("a")
        s.gates.open("b")
        s.gates.open("a")
        await s.settled()
        told = story(s.frames)
        place = told.index("start c1")
        assert told[place : place + 9] == [
            "start c1",
            "end c1",
            "start toolResult",
            "end toolResult",
            "start c2",
            "end c2",
            "start toolResult",
            "end toolResult",
            "turn_end",
        ]


async def test_a_tool_that_runs_alone_does_so_wherever_it_stands(tmp_path: Path) -> None:
    ask = calls(call("echo", "c1", name="a"), call("solo", "c2", name="b"))
    async with stage(tmp_path, ask, say("done")) as s:
        s.gates.open("b")
        await s.run("go")
        told = story(s.frames)
        assert told.index("end toolResult") < told.index("start c2")


async def test_progress_is_told_between_start_and_end(tmp_path: Path) -> None:
    async with stage(tmp_path, calls(call("echo", "c1", name="x")), say("done")) as s:
        await s.run("go")
        (update,) = s.of_type("tool_execution_update")
        assert text_of(update["partialResult"]) == "x so far"
        assert update["args"] == {"name": "x"}


@pytest.mark.parametrize(
    ("piece", "error"),
    [
        (call("nowhere", "c1", name="x"), "Tool nowhere not found"),
        (call("fail", "c1", name="x"), "x cannot be done"),
        (call("crash", "c1", name="x"), "RuntimeError: x is broken"),
        (call("odd", "c1", name="x"), "KeyError: 'not prepared'"),
        (call("echo", "c1"), 'Validation failed for tool "echo"'),
        (PlaybackBlock(tool="echo", id="c1", raw='{"name": "x"'), "not a complete JSON object"),
        (PlaybackBlock(tool="echo", id="c1", raw="[1]"), ""),
    ],
)
async def test_a_call_that_fails_is_an_error_for_the_model_and_the_run_goes_on(
    tmp_path: Path, piece: PlaybackBlock, error: str, capfd: pytest.CaptureFixture[str]
) -> None:
    async with stage(tmp_path, calls(piece), say("I see")) as s:
        await s.run("go")
        (end,) = s.of_type("tool_execution_end")
        assert end["isError"]
        assert error in text_of(end["result"])
        assert texts(s.frames, "assistant")[-1] == "I see"
        (result,) = s.of_type("turn_end")[0]["toolResults"]
        assert result["isError"]
        assert result["content"] == end["result"]["content"]
        assert ("Traceback" in capfd.readouterr().err) == (piece.tool in ("crash", "odd"))


async def test_calls_that_are_refused_end_before_the_others_run(tmp_path: Path) -> None:
    ask = calls(call("hold", "c1", name="a"), call("nowhere", "c2"), call("fail", "c3", name="x"))
    async with stage(tmp_path, ask, say("done")) as s:
        await s.data("prompt", message="go")
        await s.gates.reached("a")
        s.gates.open("a")
        await s.settled()
        told = story(s.frames)
        place = told.index("start c1")
        assert told[place : place + 6] == [
            "start c1",
            "start c2",
            "end c2",
            "start c3",
            "end c3",
            "end c1",
        ]


async def test_an_answer_cut_by_its_limit_runs_none_of_its_calls(tmp_path: Path) -> None:
    ask = calls(call("echo", "c1", name="a"), call("echo", "c2", name="b"), stop="length")
    async with stage(tmp_path, ask, say("again then")) as s:
        await s.run("go")
        told = story(s.frames)
        place = told.index("start c1")
        assert told[place : place + 8] == [
            "start c1",
            "end c1",
            "start toolResult",
            "end toolResult",
            "start c2",
            "end c2",
            "start toolResult",
            "end toolResult",
        ]
        for end in s.of_type("tool_execution_end"):
            assert text_of(end["result"]).startswith('Tool call "echo" was not executed')
        assert texts(s.frames, "assistant")[-1] == "again then"


async def test_a_run_ends_when_every_result_asks_for_it(tmp_path: Path) -> None:
    ask = calls(call("last", "c1", name="a"), call("last", "c2", name="b"))
    async with stage(tmp_path, ask, say("never said")) as s:
        await s.run("go")
        assert len(s.script.requests) == 1
        assert [r["result"]["terminate"] for r in s.of_type("tool_execution_end")] == [True, True]


async def test_a_run_goes_on_when_only_some_results_ask_to_end_it(tmp_path: Path) -> None:
    ask = calls(call("last", "c1", name="a"), call("echo", "c2", name="b"))
    async with stage(tmp_path, ask, say("more")) as s:
        await s.run("go")
        assert texts(s.frames, "assistant")[-1] == "more"


async def test_what_waits_goes_on_after_results_that_end_the_run(tmp_path: Path) -> None:
    ask = calls(call("hold", "c0", name="gate"))
    async with stage(tmp_path, ask, calls(call("last", "c1", name="a")), say("more")) as s:
        await s.data("prompt", message="go")
        await s.gates.reached("gate")
        await s.data("follow_up", message="later")
        s.gates.open("gate")
        await s.settled()
        assert texts(s.frames) == ["go", "later"]
        assert len(s.of_type("agent_start")) == 1


async def test_real_tools_work_in_the_folder_of_the_session(tmp_path: Path) -> None:
    write = call("write", "c1", path="a.txt", content="hello")
    read = call("read", "c2", path="a.txt")
    shell = call("bash", "c3", command="cat a.txt; exit 3")
    async with stage(tmp_path, calls(write), calls(read, shell), say("done")) as s:
        await s.run("go")
        ends = {r["toolCallId"]: r for r in s.of_type("tool_execution_end")}
        assert (tmp_path / "work" / "a.txt").read_text() == "hello"
        assert text_of(ends["c2"]["result"]) == "hello"
        assert text_of(ends["c3"]["result"]) == "hello\n\nCommand exited with code 3"


async def test_a_crash_of_one_tool_leaves_the_others_to_finish(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    ask = calls(call("crash", "c1", name="x"), call("hold", "c2", name="gate"))
    async with stage(tmp_path, ask, say("done")) as s:
        await s.data("prompt", message="go")
        await s.gates.reached("gate")
        s.gates.open("gate")
        await s.settled()
        assert [r["isError"] for r in s.of_type("tool_execution_end")] == [True, False]
        assert "x is broken" in capfd.readouterr().err


async def test_a_bug_of_our_own_ends_the_run_and_not_the_program(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    async with stage(tmp_path, say("fine"), lawful=False) as s:
        s.engine.toolset.provide("broken", [BrokenTool("broken", nothing)])
        told = story(await s.run("go"))
        assert told[-5:] == [
            "start assistant",
            "end assistant",
            "turn_end",
            "agent_end",
            "agent_settled",
        ]
        answer = s.of_type("turn_end")[-1]["message"]
        assert answer["stopReason"] == "error"
        assert "the tool is broken" in answer["errorMessage"]
        assert "Traceback" in capfd.readouterr().err
        s.engine.toolset.provide("broken", [])
        await s.run("again")
        assert texts(s.frames, "assistant")[-1] == "fine"
