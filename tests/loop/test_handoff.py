"""A handoff: one session ends with a document, the next begins with it."""

from pathlib import Path

import pytest

from ludolf.base import loads
from ludolf.client import Record
from tests.process.extending import lay
from tests.process.harness import Lab, messages, only, read_entries, text_of, types
from tests.process.script import Failure, Gate, answer, call, say

DOCUMENT = "## Goal\nFind the bug."


def _header(path: str) -> Record:
    with open(path, "rb") as file:
        header: Record = loads(file.readline())
    return header


@pytest.mark.parametrize("dialect", ["pi", "pi-delta", "omp", "xcsh"])
async def test_the_new_session_begins_with_the_document_of_the_old(lab: Lab, dialect: str) -> None:
    (lab.work / "a.txt").write_text("where the bug is")
    lab.server.add(answer(call("read", {"path": "a.txt"})), answer("It is in a.txt."))
    lab.server.add(answer(DOCUMENT), answer("I go on."))
    async with lab.client("--rpc-dialect", dialect) as client:
        await client.ask("prompt", message="Find the bug")
        await client.wait_for("agent_end")
        before = await client.ask("get_state")
        data = await client.ask("handoff", customInstructions="mind the tests")
        after = await client.ask("get_state")
        await client.ask("prompt", message="Go on")
        await client.wait_for("agent_end")
    assert data["cancelled"] is False
    assert data["document"] == f"{DOCUMENT}\n\n<read-files>\na.txt\n</read-files>"
    assert (data["sessionId"], data["sessionFile"]) == (after["sessionId"], after["sessionFile"])
    assert after["sessionId"] != before["sessionId"]
    assert (after["messageCount"], after["isCompacting"]) == (1, False)
    assert _header(after["sessionFile"])["parentSession"] == before["sessionFile"]
    first = next(e for e in read_entries_of(after) if e["type"] == "custom_message")
    assert (first["customType"], first["display"]) == ("handoff", True)
    assert data["document"] in first["content"]
    question, continued = (str(asked.body["messages"]) for asked in lab.server.requests[2:])
    assert "where the bug is" in question
    assert "mind the tests" in question
    assert DOCUMENT.splitlines()[1] in continued
    assert "where the bug is" not in continued
    assert text_of(messages(read_entries_of(before))[-1]) == "It is in a.txt."


def read_entries_of(state: Record) -> list[Record]:
    return read_entries(Path(state["sessionFile"]))


async def test_without_stored_sessions_it_stays_in_memory(lab: Lab) -> None:
    lab.server.add(answer("Yes."), answer(DOCUMENT))
    async with lab.client("--no-session") as client:
        await client.prompt_and_collect("Hello")
        data = await client.ask("handoff", instructions="be short")
        told = (await client.ask("get_messages"))["messages"]
    assert "sessionFile" not in data
    assert [message["role"] for message in told] == ["custom"]
    assert "be short" in str(lab.server.requests[1].body["messages"])
    assert lab.sessions == []


@pytest.mark.parametrize("dialect", ["pi", "omp", "xcsh"])
async def test_there_is_none_during_an_answer_or_before_the_first_word(
    lab: Lab, dialect: str
) -> None:
    gate = Gate()
    lab.server.add(answer(say("One", gate)))
    async with lab.client("--rpc-dialect", dialect) as client:
        empty = await client.request("handoff")
        await client.send("prompt", id="p", message="Go")
        busy = await client.request("handoff")
        gate.open()
        told = await client.collect("agent_end")
    assert empty["error"] == "Nothing to hand off (no messages yet)"
    assert busy["error"] == "Cannot hand off while a response is in progress"
    assert text_of(told[-1]["messages"][-1]) == "One"
    assert len(lab.sessions) == 1


async def test_a_prompt_sent_behind_it_goes_to_the_new_session(lab: Lab) -> None:
    lab.server.add(answer("Yes."), answer(DOCUMENT), answer("On it."))
    async with lab.client() as client:
        await client.prompt_and_collect("Hello")
        await client.send("handoff", id="h")
        await client.send("prompt", id="p", message="Next")
        await client.reply_to("h")
        await client.wait_for("agent_settled")
        state = await client.ask("get_state")
    kinds = [kind for kind in types(map(loads, lab.lines)) if kind.startswith("response")]
    assert kinds == ["response prompt", "response handoff", "response prompt", "response get_state"]
    assert [message["role"] for message in messages(read_entries_of(state))] == [
        "user",
        "assistant",
    ]
    assert "Hello" not in str(lab.server.requests[2].body["messages"])


@pytest.mark.parametrize("dialect", ["pi", "omp"])
async def test_an_abort_ends_it_and_leaves_the_session_as_it_was(lab: Lab, dialect: str) -> None:
    gate = Gate()
    lab.server.add(answer("Yes."), answer(say("## Goal", gate)), answer("Still here."))
    async with lab.client("--rpc-dialect", dialect) as client:
        await client.ask("prompt", message="Hello")
        await client.wait_for("agent_end")
        before = await client.ask("get_state")
        await client.send("handoff", id="h")
        await client.send("prompt", id="p", message="Next")
        while not gate.reached.wait(0):
            during = await client.ask("get_state")
        during = await client.ask("get_state")
        await client.send("abort", id="a")
        reply = await client.reply_to("h")
        await client.reply_to("a")
        after = await client.ask("get_state")
    gate.open()
    assert during["isCompacting"] is True
    assert (reply["success"], reply["error"]) == (False, "Handoff cancelled")
    assert after["sessionId"] == before["sessionId"]
    assert len(lab.sessions) == 1


async def test_a_failed_document_leaves_the_session_as_it_was(lab: Lab) -> None:
    lab.settings(retry={"enabled": False})
    lab.server.add(answer("Yes."), Failure(status=529), answer("Still here."))
    async with lab.client() as client:
        await client.prompt_and_collect("Hello")
        reply = await client.request("handoff")
        told = await client.prompt_and_collect("Again")
    assert reply["error"].startswith("Summarization failed: ")
    assert text_of(only(told, "agent_end")[0]["messages"][-1]) == "Still here."
    assert len(lab.sessions) == 1


async def test_another_attempt_is_told_with_its_cause(lab: Lab) -> None:
    lab.server.add(answer("Yes."), Failure(status=529), answer(DOCUMENT))
    async with lab.client() as client:
        await client.prompt_and_collect("Hello")
        await client.send("handoff", id="h")
        start = await client.wait_for("summarization_retry_attempt_start")
        reply = await client.reply_to("h")
    assert start["source"] == "handoff"
    assert reply["data"]["document"] == DOCUMENT


VETO = """
def extension(api):
    @api.on("session_before_switch")
    async def no(event, ctx):
        return {"cancel": True}
"""


@pytest.mark.parametrize(("dialect", "said"), [("pi", {"cancelled": True}), ("omp", None)])
async def test_an_extension_may_say_no(lab: Lab, dialect: str, said: Record | None) -> None:
    lab.server.add(answer("Yes."), answer(DOCUMENT))
    lay(lab, VETO)
    async with lab.client("--rpc-dialect", dialect) as client:
        await client.ask("prompt", message="Hello")
        await client.wait_for("agent_end")
        before = await client.ask("get_state")
        reply = await client.request("handoff")
        after = await client.ask("get_state")
    assert reply["success"] is True
    assert reply["data"] == said
    assert after["sessionId"] == before["sessionId"]


async def test_a_conversation_too_long_to_read_is_handed_over_by_its_newest_part(lab: Lab) -> None:
    lab.server.add(*(answer("Yes.") for _ in range(3)), answer(DOCUMENT))
    lab.settings(compaction={"enabled": False})
    async with lab.client() as client:
        for number in range(3):
            await client.prompt_and_collect(f"Question {number} " + "word " * 60_000)
        await client.ask("handoff")
    asked = str(lab.server.requests[-1].body["messages"])
    assert "Question 2" in asked
    assert "Question 0" not in asked
    assert len(asked) < 4 * 200_000
