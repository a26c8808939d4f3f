"""A disk that is full, read-only, gone or failing, and a clock that jumps: the run goes on."""

import asyncio
import shutil
from pathlib import Path

import pytest

from ludolf.base import loads
from ludolf.client import Client
from tests.process.faults import (
    Clock,
    counted_disk,
    failing_disk,
    fill_disk,
    free_disk,
    plain_client,
)
from tests.process.harness import Lab, messages, only, read_entries, text_of
from tests.process.script import Failure, answer, bash, call

TALK = ["One", "First.", "Two", "Second.", "Three", "Third."]


def _script(lab: Lab) -> None:
    lab.server.add(answer("First."), answer("Second."), answer("Third."))


def _warnings(lab: Lab) -> list[str]:
    return [record["message"] for record in only(map(loads, lab.lines), "warning")]


def _stored(path: Path) -> list[str]:
    return [text_of(message) for message in messages(read_entries(path))]


async def _texts(client: Client) -> list[str]:
    return [text_of(message) for message in (await client.ask("get_messages"))["messages"]]


# ---------------------------------------------------------------- full


async def test_a_full_disk_is_told_and_all_is_stored_when_room_returns(lab: Lab) -> None:
    _script(lab)
    async with lab.client() as client:
        await client.prompt_and_collect("One")
        (path,) = lab.sessions
        fill_disk(client.process.pid, path.stat().st_size + 40)
        told = await client.prompt_and_collect("Two")
        assert text_of(only(told, "turn_end")[0]["message"]) == "Second."
        assert only(told, "warning")[0]["message"].startswith("Session is not being saved")
        # What the disk took of a line was taken back: the file is whole at any time.
        assert _stored(path) == TALK[:2]
        assert await _texts(client) == TALK[:4]
        free_disk(client.process.pid)
        await client.prompt_and_collect("Three")
        assert _stored(path) == TALK
    assert [text.split(":")[0] for text in _warnings(lab)] == [
        "Session is not being saved",
        "Session is saved again",
    ]


async def test_a_session_that_never_found_room_is_stored_at_its_end(lab: Lab) -> None:
    _script(lab)
    async with lab.client() as client:
        await client.ask("get_state")
        fill_disk(client.process.pid)
        await client.prompt_and_collect("One")
        await client.prompt_and_collect("Two")
        assert lab.sessions == []
        free_disk(client.process.pid)
    (path,) = lab.sessions
    assert _stored(path) == TALK[:4]


async def test_a_session_left_while_the_disk_is_full_is_stored_later(lab: Lab) -> None:
    _script(lab)
    async with lab.client() as client:
        await client.prompt_and_collect("One")
        (path,) = lab.sessions
        fill_disk(client.process.pid, path.stat().st_size)
        await client.prompt_and_collect("Two")
        await client.ask("new_session")
        # Nothing is lost by coming back either: memory knows more than the file.
        await client.ask("switch_session", sessionPath=str(path))
        assert await _texts(client) == TALK[:4]
        await client.ask("new_session")
        free_disk(client.process.pid)
        await client.prompt_and_collect("Three")
        assert _stored(path) == TALK[:4]
    assert sorted(map(len, map(_stored, lab.sessions))) == [2, 4]


async def test_an_idle_program_stores_by_itself_when_room_returns(lab: Lab) -> None:
    _script(lab)
    async with lab.client() as client:
        await client.prompt_and_collect("One")
        (path,) = lab.sessions
        fill_disk(client.process.pid, path.stat().st_size)
        await client.prompt_and_collect("Two")
        free_disk(client.process.pid)
        told = await client.wait_for("warning")
        assert told["message"].startswith("Session is saved again")
        assert _stored(path) == TALK[:4]


async def test_what_the_disk_never_took_is_told_at_the_end(lab: Lab) -> None:
    _script(lab)
    async with lab.client() as client:
        await client.ask("get_state")
        fill_disk(client.process.pid)
        await client.prompt_and_collect("One")
        client.process.end_input()
        assert await client.process.wait() == 0
        assert "entries that were not written are lost" in client.process.stderr


async def test_a_write_that_finds_no_room_leaves_the_old_content_whole(lab: Lab) -> None:
    old = "precious " * 100
    (lab.work / "notes.txt").write_text(old)
    wish = {"path": "notes.txt", "content": "z" * 400_000}
    lab.server.add(answer(call("write", wish), size=100_000), answer("Sorry."))
    async with lab.client("--no-session") as client:
        await client.ask("get_state")
        fill_disk(client.process.pid, 100_000)
        told = await client.prompt_and_collect("Go")
    (end,) = only(told, "tool_execution_end")
    assert end["isError"]
    assert (lab.work / "notes.txt").read_text() == old
    assert [path.name for path in lab.work.iterdir()] == ["notes.txt"]


# ---------------------------------------------------------------- failing calls


@pytest.mark.parametrize("first", range(1, 7))
@pytest.mark.parametrize("kind", ["ENOSPC", "EIO", "short"])
async def test_a_write_that_fails_at_any_point_loses_nothing(
    lab: Lab, kind: str, first: int
) -> None:
    _script(lab)
    async with lab.client(**failing_disk("write", kind, first=first)) as client:
        for text in ("One", "Two", "Three"):
            await client.prompt_and_collect(text)
        assert await _texts(client) == TALK
        assert "Traceback" not in client.process.stderr
    (path,) = lab.sessions
    assert _stored(path) == TALK


@pytest.mark.parametrize(("call_name", "kind"), [("fsync", "EIO"), ("open", "EMFILE")])
async def test_other_calls_that_fail_are_told_and_lose_nothing(
    lab: Lab, call_name: str, kind: str
) -> None:
    _script(lab)
    async with lab.client(**failing_disk(call_name, kind, count=2)) as client:
        for text in ("One", "Two", "Three"):
            await client.prompt_and_collect(text)
    assert _warnings(lab)
    (path,) = lab.sessions
    assert _stored(path) == TALK


@pytest.mark.parametrize(
    ("setting", "syncs"), [("turn", 2), ("always", 6), ("off", 0)], ids=lambda value: str(value)
)
async def test_the_disk_is_asked_to_keep_a_session_as_the_setting_says(
    lab: Lab, setting: str, syncs: int
) -> None:
    _script(lab)
    lab.settings(sync=setting)
    log = lab.root / "calls"
    async with lab.client(**counted_disk(log)) as client:
        await client.prompt_and_collect("One")
        await client.prompt_and_collect("Two")
    calls = log.read_text().split()
    counted = calls.count("fsync")
    # Of `always`: four messages; and whatever a session notes of its model comes with the first.
    assert counted == syncs if setting != "always" else counted >= 4


# ---------------------------------------------------------------- read-only and gone


async def test_a_read_only_home_is_told_and_the_conversation_goes_on(lab: Lab) -> None:
    _script(lab)
    lab.agent.chmod(0o500)
    try:
        async with plain_client(lab) as client:
            told = await client.prompt_and_collect("One")
            assert await _texts(client) == TALK[:2]
            (warned,) = only(told, "warning")
            assert "Permission denied" in warned["message"]
            lab.agent.chmod(0o700)
            await client.prompt_and_collect("Two")
    finally:
        lab.agent.chmod(0o700)
    (path,) = lab.sessions
    assert _stored(path) == TALK[:4]


async def test_a_read_only_session_file_can_be_read_and_says_why_no_more(lab: Lab) -> None:
    _script(lab)
    async with lab.client() as client:
        await client.prompt_and_collect("One")
    (path,) = lab.sessions
    path.chmod(0o400)
    async with plain_client(lab, "--continue") as client:
        assert await _texts(client) == TALK[:2]
        refused = await client.request("prompt", message="Two")
        assert "cannot be written" in refused["error"]
        await client.ask("clone")
        await client.prompt_and_collect("Two")
        assert await _texts(client) == TALK[:4]
    assert _stored(path) == TALK[:2]


async def test_a_read_only_folder_refuses_tools_and_keeps_its_files(lab: Lab) -> None:
    (lab.work / "a.txt").write_text("old\n")
    lab.server.add(
        answer(
            call("write", {"path": "a.txt", "content": "new\n"}, "w"),
            call("write", {"path": "b.txt", "content": "new\n"}, "x"),
            call("edit", {"path": "a.txt", "edits": [{"oldText": "old", "newText": "e"}]}, "e"),
        ),
        answer("Sorry."),
    )
    (lab.work / "a.txt").chmod(0o400)
    lab.work.chmod(0o500)
    try:
        async with plain_client(lab) as client:
            told = await client.prompt_and_collect("Go")
    finally:
        lab.work.chmod(0o700)
    ends = only(told, "tool_execution_end")
    assert [end["isError"] for end in ends] == [True] * 3
    assert (lab.work / "a.txt").read_text() == "old\n"
    assert [path.name for path in lab.work.iterdir()] == ["a.txt"]


async def test_a_session_folder_that_vanishes_is_made_again_with_everything(lab: Lab) -> None:
    _script(lab)
    async with lab.client() as client:
        await client.prompt_and_collect("One")
        await asyncio.to_thread(shutil.rmtree, lab.agent / "sessions")
        told = await client.prompt_and_collect("Two")
        assert "had vanished" in only(told, "warning")[0]["message"]
    (path,) = lab.sessions
    assert _stored(path) == TALK[:4]
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


async def test_a_working_folder_that_vanishes_costs_commands_and_not_the_program(
    lab: Lab,
) -> None:
    lab.server.add(answer(bash("pwd")), answer("Sorry."))
    async with lab.client() as client:
        await client.ask("get_state")
        await asyncio.to_thread(shutil.rmtree, lab.work)
        told = await client.prompt_and_collect("Go")
        refused = await client.request("bash", command="pwd")
        assert "Working directory does not exist" in refused["error"]
        assert (await client.request("new_session"))["success"]
    (end,) = only(told, "tool_execution_end")
    assert end["isError"]
    assert "Working directory does not exist" in text_of(end["result"])


# ---------------------------------------------------------------- the clock


@pytest.mark.parametrize("seconds", [86_400, -86_400, -60 * 86_400])
async def test_a_clock_that_jumps_changes_no_wait_and_no_order(lab: Lab, seconds: int) -> None:
    clock = Clock(lab.root / "clock")
    lab.settings(retry={"baseDelayMs": 50, "provider": {"timeoutMs": 15_000}})
    lab.server.add(answer("First."), Failure(status=529), answer("Second."), answer("Third."))
    async with lab.client(**clock.env) as client:
        await client.prompt_and_collect("One")
        await client.ask("prompt", message="Two")
        await client.wait_for("auto_retry_start")
        clock.jump(seconds)
        await client.wait_for("agent_settled")
        await client.prompt_and_collect("Three")
        assert await _texts(client) == TALK
        fresh = await client.ask("new_session")
        assert fresh == {"cancelled": False}
        stats = await client.ask("get_session_stats")
        assert stats["totalMessages"] == 0
    (path,) = lab.sessions
    entries = read_entries(path)
    parents = [entry["parentId"] for entry in entries]
    assert parents == [None, *(entry["id"] for entry in entries[:-1])]
    async with lab.client("--session", str(path)) as client:
        # The failed attempt stays in the file, as an answer without words.
        assert [text for text in await _texts(client) if text] == TALK


async def test_sessions_begun_under_a_wrong_clock_never_share_a_file(lab: Lab) -> None:
    clock = Clock(lab.root / "clock")
    lab.server.add(*(answer(f"Answer {number}.") for number in range(4)))
    async with lab.client(**clock.env) as client:
        for number in range(4):
            clock.jump(-3600 * number)
            await client.ask("new_session")
            await client.prompt_and_collect(f"Question {number}")
    assert len(lab.sessions) == 4
    assert sorted(_stored(path)[1] for path in lab.sessions) == [
        f"Answer {number}." for number in range(4)
    ]
