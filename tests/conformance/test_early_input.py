"""Early pi: what it is told, and the messages that come of it, field by field."""

import time
from pathlib import Path
from typing import Any

import pytest

from ludolf.base import dumps
from ludolf.client import Client, Record
from tests.conformance.conftest import MakeStage
from tests.conformance.proof import proves
from tests.conformance.stage import IMAGE, PIXEL, Stage, Story, is_piece, prompts, tell
from tests.process.harness import only, text_of, types
from tests.process.script import Gate, Tokens, answer, bash, call, say, think

TOKENS = Tokens(input=100, output=20, cache_read=50)
PICTURE = {
    **{"id": "img1", "type": "image", "fileName": "dot.png", "mimeType": "image/png"},
    **{"size": 70, "content": PIXEL, "preview": PIXEL},
}
DOCUMENT = {
    **{"id": "doc1", "type": "document", "fileName": "notes.txt", "mimeType": "text/plain"},
    **{"size": 11, "content": "cmVtZW1iZXI=", "extractedText": "remember me"},
}
UNREAD = {
    **{"id": "doc2", "type": "document", "fileName": "scan.pdf", "mimeType": "application/pdf"},
    **{"size": 4, "content": "JVBERg=="},
}
LONG = "".join(f"{number}\n" for number in range(1, 20_001))


async def _say(client: Client, text: str, **more: Any) -> None:
    await client.send("prompt", message=text, **more)
    await client.wait_for("agent_end")


async def _talk(stage: Stage) -> None:
    stage.lay("work/notes.txt", "a line\n" * 3_000)
    calls = bash("echo out", "c1"), call("read", {"path": "notes.txt"}, "c2")
    failing = call("read", {"path": "none"}, "c3")
    first = answer(think("Hm."), "Looking.", *calls, failing, tokens=TOKENS)
    stage.server.add(first, answer("I see."))
    stage.server.add(*(answer(f"Answer {number}.") for number in (2, 3)))
    stage.server.add(answer(say("Half", Gate())))
    async with stage.client() as client:
        await _say(client, "Look", attachments=[PICTURE, DOCUMENT, UNREAD])
        await client.send("bash", command="echo mine; exit 3")
        await client.wait_for("bash_end")
        await client.send("bash", command="seq 1 20000")
        await client.wait_for("bash_end")
        await _say(client, "What did I do?", attachments=[])
        await client.process.write(b'{"type":"prompt",')
        await client.process.write(b'"message":"In pieces"}')
        await client.process.write(b"\n")
        await client.wait_for("agent_end")
        await client.send("prompt", message="Wait")
        await client.wait_for(is_piece)
        await client.send("abort")
        await client.wait_for("agent_end")
        await _stop_a_command(stage, client)


async def _stop_a_command(stage: Stage, client: Client) -> None:
    await client.send("bash", command="sleep 60")
    await client.send("abort_bash")
    await client.wait_for("bash_end")
    await client.send("abort")
    await client.process.write(b"\xff nonsense\n")
    await client.wait_for("error")


@pytest.fixture(scope="module")
def story(make_stage: MakeStage) -> Story:
    return tell(make_stage(), _talk)


@pytest.fixture(scope="module")
def messages(story: Story) -> list[Any]:
    """Those of the first prompt."""
    found: list[Any] = only(story.records, "agent_end")[0]["messages"]
    return found


def _is_now(milliseconds: Any) -> bool:
    return isinstance(milliseconds, int) and abs(time.time() * 1000 - milliseconds) < 600_000


def _shells(story: Story) -> list[Record]:
    return [one["message"] for one in only(story.records, "bash_end")]


# ---------------------------------------------------------------- starting


@proves("RPC1-start-01", "RPC1-start-03")
def test_the_program_is_driven_by_lines_and_stores_what_is_said(story: Story) -> None:
    assert len(only(story.records, "agent_end")) == 4
    stored = [one for one in story.stage.entries if one["type"] == "message"]
    said = [one["message"] for one in stored if one["message"]["role"] == "user"]
    assert [text_of(one)[:4] for one in said] == ["Look", "What", "In p", "Wait"]


@proves("RPC1-start-02")
def test_without_a_session_nothing_is_stored(stage: Stage) -> None:
    stage.server.add(answer("Hi."))
    line = b'{"type":"prompt","message":"Hello"}\n'
    done = stage.run("--mode", "rpc", "--no-session", stdin=line)
    # The input was over at once; the run was not: it goes on to its end here.
    assert (done.code, types(done.records)[-1]) == (0, "agent_end")
    assert text_of(done.records[-1]["messages"][-1]) == "Hi."
    assert stage.sessions == []


@proves("RPC1-input-01", "RPC1-input-02")
def test_a_command_is_read_when_its_line_is_whole(story: Story) -> None:
    third = only(story.records, "agent_end")[2]["messages"]
    assert [text_of(one) for one in third] == ["In pieces", "Answer 3."]


# ---------------------------------------------------------------- prompts and attachments


@proves("RPC1-prompt-01", "RPC1-prompt-02", "RPC1-prompt-03")
def test_prompts_are_what_the_user_says_with_or_without_attachments(story: Story) -> None:
    assert prompts(story.requests[0])[0] == "Look"
    assert prompts(story.requests[2])[-1] == "What did I do?"
    assert prompts(story.requests[3])[-1] == "In pieces"


@proves("RPC1-prompt-04", "RPC1-attachment-02", "RPC1-attachment-03")
def test_an_attached_image_is_shown_to_the_model(story: Story) -> None:
    assert str(story.requests[0].body).count(PIXEL) == 1


@proves("RPC1-prompt-05", "RPC1-attachment-01", "RPC1-attachment-02", "RPC1-attachment-04")
def test_an_attached_document_is_shown_as_its_text(story: Story) -> None:
    assert prompts(story.requests[0])[1:] == ["\n\n[Document: notes.txt]\nremember me"]
    assert "scan.pdf" not in str(story.requests[0].body)


@proves("RPC1-user-04", "RPC1-content-03")
def test_attachments_stand_in_the_message_as_blocks_and_as_they_came(messages: list[Any]) -> None:
    text, image, document = messages[0]["content"]
    assert (text, image) == ({"type": "text", "text": "Look"}, IMAGE)
    assert document["type"] == "text"
    assert document["isDocument"] is True
    assert messages[0]["attachments"] == [PICTURE, DOCUMENT, UNREAD]
    assert all("attachments" not in message for message in messages[1:])


# ---------------------------------------------------------------- abort


@proves("RPC1-abort-01", "RPC1-abort-02")
def test_an_abort_ends_the_run_and_is_not_acknowledged(story: Story) -> None:
    end = only(story.records, "agent_end")[3]
    last = end["messages"][-1]
    assert (text_of(last), last["stopReason"]) == ("Half", "aborted")
    after = types(story.records)[story.records.index(end) + 1 :]
    assert after == ["bash_end", "error"]


# ---------------------------------------------------------------- the shell


@proves("RPC1-bash-01", "RPC1-bash-02", "RPC1-bash-03", "RPC1-bash-end-01")
def test_a_command_runs_and_its_end_is_all_that_is_told(story: Story) -> None:
    assert [one["command"] for one in _shells(story)][:2] == ["echo mine; exit 3", "seq 1 20000"]
    names = types(story.records)
    place = names.index("bash_end")
    assert names[place - 1 : place + 3] == ["agent_end", "bash_end", "bash_end", "agent_start"]
    assert len(story.requests) == 5


@proves(
    *("RPC1-bash-end-02", "RPC1-bash-end-03", "RPC1-bash-end-04", "RPC1-bash-end-05"),
    *("RPC1-bash-end-07", "RPC1-bash-end-08", "RPC1-execution-01"),
)
def test_the_message_of_a_command_has_its_fields(story: Story) -> None:
    mine = _shells(story)[0]
    assert mine == {
        **{"role": "bashExecution", "command": "echo mine; exit 3", "output": "mine\n"},
        **{"exitCode": 3, "cancelled": False, "truncated": False},
        "timestamp": mine["timestamp"],
    }
    assert _is_now(mine["timestamp"])


@proves("RPC1-bash-end-05", "RPC1-bash-end-06", "RPC1-execution-04")
def test_a_long_output_is_cut_and_kept_in_a_file(story: Story) -> None:
    long = _shells(story)[1]
    assert long["truncated"] is True
    assert LONG.rstrip().endswith(long["output"].rstrip())
    assert len(long["output"]) < len(LONG)
    assert Path(long["fullOutputPath"]).read_text() == LONG


@proves("RPC1-execution-02", "RPC1-execution-03")
def test_a_command_that_was_stopped_has_no_exit_code(story: Story) -> None:
    stopped = _shells(story)[2]
    assert (stopped["exitCode"], stopped["cancelled"]) == (None, True)


@proves("RPC1-bash-05", "RPC1-bash-end-09", "RPC1-execution-05")
def test_the_next_prompt_shows_commands_and_output_to_the_model(story: Story) -> None:
    first, second, asked = prompts(story.requests[2])[-3:]
    assert first.split("\n")[:3] == ["Ran `echo mine; exit 3`", "```", "mine"]
    assert "\n```" in first.partition("mine")[2]
    assert second.startswith("Ran `seq 1 20000`\n```\n")
    assert asked == "What did I do?"


@proves("RPC1-bash-04")
def test_commands_are_kept_in_the_session(story: Story) -> None:
    stored = [one["message"] for one in story.stage.entries if one["type"] == "message"]
    shells = [one["command"] for one in stored if one["role"] == "bashExecution"]
    assert shells == ["echo mine; exit 3", "seq 1 20000", "sleep 60"]


# ---------------------------------------------------------------- errors


@proves("RPC1-error-01", "RPC1-error-02")
def test_a_line_that_is_no_json_is_told_as_an_error(story: Story) -> None:
    (error,) = only(story.records, "error")
    assert error.keys() == {"type", "error"}
    assert error["error"]


@proves("RPC1-prompt-06")
async def test_a_prompt_during_a_run_waits_for_its_end(stage: Stage) -> None:
    gate = Gate()
    stage.server.add(answer(say("First", gate, ".")), answer("Second."))
    async with stage.client() as client:
        await client.send("prompt", message="one")
        await client.wait_for(is_piece)
        await client.process.write(dumps({"type": "prompt", "message": "two"}) + b"\n")
        await client.send("bash", command="true")
        # Nothing is answered here, but by the end of a later command the prompt has been taken.
        await client.wait_for("bash_end")
        gate.open()
        ends = [await client.wait_for("agent_end") for _ in range(2)]
    told = [[text_of(one) for one in end["messages"]] for end in ends]
    assert told == [["one", "First."], ["two", "Second."]]
