"""Changing the session: what runs is stopped and stored first, and nothing goes astray."""

from pathlib import Path
from typing import Any

import pytest

from ludolf.session.tree import open_session
from tests.loop.stage import Stage, call, calls, say, stage, story, text_of, texts, words

SETTINGS: dict[str, Any] = {"compaction": {"keepRecentTokens": 100}}


async def talk(s: Stage) -> None:
    s.script.add(say("one"), say("two"))
    await s.run("first " + words(300))
    await s.run("second " + words(300))


async def stream_forever(s: Stage) -> None:
    """A run that only an abort ends."""
    before = len(s.frames)
    s.script.add(say("half a thought", hang=True))
    await s.data("prompt", message="third")
    await s.until(lambda r: r["type"] == "message_update", before)


async def first_question(s: Stage) -> str:
    return str((await s.data("get_fork_messages"))["messages"][0]["entryId"])


def stored(path: Path) -> list[dict[str, Any]]:
    session = open_session(path, "/", lambda text: None, write=False)
    return [_message(line) for line in session.context.messages_json()]


def _message(raw: Any) -> dict[str, Any]:
    from ludolf.base import loads

    message: dict[str, Any] = loads(bytes(raw))
    return message


@pytest.mark.parametrize("command", ["new_session", "clone", "fork", "switch_session"])
async def test_a_change_while_running_stops_and_stores_the_run_first(
    tmp_path: Path, command: str
) -> None:
    async with stage(tmp_path) as s:
        await talk(s)
        old = s.path
        fields = {
            "new_session": {},
            "clone": {},
            "fork": {"entryId": await first_question(s)},
            "switch_session": {"sessionPath": str(tmp_path / "other.jsonl")},
        }[command]
        await stream_forever(s)
        before = len(s.frames)
        data = await s.data(command, **fields)
        assert data["cancelled"] is False
        assert story(s.frames[before:])[-4:] == [
            "turn_end",
            "agent_end",
            "agent_settled",
            f"reply {command}",
        ]
        assert s.path != old
        last = stored(old)[-1]
        assert (last["role"], last["stopReason"]) == ("assistant", "aborted")


async def test_a_new_session_is_empty_and_names_its_parent(tmp_path: Path) -> None:
    async with stage(tmp_path) as s:
        await talk(s)
        before = await s.data("get_state")
        await s.data("new_session", parentSession="/some/where.jsonl")
        after = await s.data("get_state")
        assert after["messageCount"] == 0
        assert after["sessionId"] != before["sessionId"]
        assert after["model"] == before["model"]
        assert s.engine.session.header.parent_session == "/some/where.jsonl"


async def test_a_fork_ends_before_the_message_and_gives_its_text(tmp_path: Path) -> None:
    async with stage(tmp_path) as s:
        await talk(s)
        question = (await s.data("get_fork_messages"))["messages"][1]
        data = await s.data("fork", entryId=question["entryId"])
        assert data == {"text": question["text"], "cancelled": False}
        messages = (await s.data("get_messages"))["messages"]
        assert [m["role"] for m in messages] == ["user", "assistant"]


async def test_a_clone_holds_the_same_messages_in_another_file(tmp_path: Path) -> None:
    async with stage(tmp_path) as s:
        await talk(s)
        old, messages = s.path, (await s.data("get_messages"))["messages"]
        await s.data("clone")
        assert s.path != old
        assert (await s.data("get_messages"))["messages"] == messages == stored(s.path)


async def test_switching_back_and_forth_keeps_both_conversations(tmp_path: Path) -> None:
    async with stage(tmp_path) as s:
        await talk(s)
        old, messages = s.path, (await s.data("get_messages"))["messages"]
        await s.data("new_session")
        s.script.add(say("three"))
        await s.run("third")
        new = s.path
        await s.data("switch_session", sessionPath=str(old))
        assert (await s.data("get_messages"))["messages"] == messages
        await s.data("switch_session", sessionPath=str(new))
        assert [text_of(m) for m in (await s.data("get_messages"))["messages"]] == [
            "third",
            "three",
        ]


async def test_a_switch_to_the_session_that_runs_keeps_what_the_stop_added(tmp_path: Path) -> None:
    async with stage(tmp_path) as s:
        await talk(s)
        await stream_forever(s)
        await s.data("switch_session", sessionPath=str(s.path))
        messages = (await s.data("get_messages"))["messages"]
        assert [m["role"] for m in messages[-2:]] == ["user", "assistant"]
        assert messages[-1]["stopReason"] == "aborted"
        assert stored(s.path) == messages


async def test_a_switch_takes_model_and_level_from_the_session(tmp_path: Path) -> None:
    async with stage(tmp_path) as s:
        await s.data("set_model", provider="ludolf", modelId="plain")
        await talk(s)
        old = s.path
        await s.data("new_session")
        await s.data("set_model", provider="ludolf", modelId="scripted")
        await s.data("set_thinking_level", level="high")
        await s.data("switch_session", sessionPath=str(old))
        state = await s.data("get_state")
        assert (state["model"]["id"], state["thinkingLevel"]) == ("plain", "off")


async def test_what_waits_is_not_said_to_the_next_session(tmp_path: Path) -> None:
    async with stage(tmp_path) as s:
        await talk(s)
        await stream_forever(s)
        await s.data("steer", message="steered")
        await s.data("follow_up", message="followed")
        await s.data("new_session")
        assert s.queue == ([], [])
        s.script.add(say("four"))
        await s.run("fourth")
        assert texts(s.frames)[-1:] == ["fourth"]


async def test_refused_changes_leave_the_session_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "notes.txt").write_text("no session\n")
    async with stage(tmp_path) as s:
        assert "has not been saved yet" in await s.refusal("clone")
        await talk(s)
        old = s.path
        assert await s.refusal("fork", entryId="x") == "Invalid entry ID for forking"
        assert "not a valid" in await s.refusal("switch_session", sessionPath="notes.txt")
        assert s.path == old
        s.script.add(say("three"))
        await s.run("third")
        assert len(stored(old)) == 6


@pytest.mark.parametrize(
    ("command", "fields"),
    [("fork", {"entryId": "x"}), ("switch_session", {"sessionPath": "notes.txt"})],
)
async def test_a_change_that_is_refused_stops_no_run(
    tmp_path: Path, command: str, fields: dict[str, Any]
) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "notes.txt").write_text("no session\n")
    async with stage(tmp_path) as s:
        await stream_forever(s)
        await s.refusal(command, **fields)
        assert (await s.data("get_state"))["isStreaming"]


async def test_a_session_without_a_file_can_be_changed_too(tmp_path: Path) -> None:
    async with stage(tmp_path, options={"no_session": True}) as s:
        await talk(s)
        await s.data("clone")
        assert len((await s.data("get_messages"))["messages"]) == 4
        await s.data("new_session")
        state = await s.data("get_state")
        assert "sessionFile" not in state
        assert state["messageCount"] == 0


@pytest.mark.parametrize("command", ["new_session", "clone", "navigate_tree"])
async def test_a_change_ends_a_compaction_so_that_its_summary_cannot_go_astray(
    tmp_path: Path, command: str
) -> None:
    async with stage(tmp_path, settings=dict(SETTINGS)) as s:
        await talk(s)
        s.script.add(say("## Goal", delay_ms=20))
        fields = {"targetId": await first_question(s)} if command == "navigate_tree" else {}
        number = s.send("compact")
        await s.until("compaction_start")
        await s.data(command, **fields)
        assert (await s.reply(number)).get("error") == "Compaction cancelled"
        entries = (await s.data("get_entries"))["entries"]
        assert [entry for entry in entries if entry["type"] == "compaction"] == []


async def test_stored_sessions_are_listed_the_last_used_first(tmp_path: Path) -> None:
    async with stage(tmp_path) as s:
        await talk(s)
        first = s.path
        await s.data("set_session_name", name="the first")
        await s.data("new_session")
        s.script.add(say("three"))
        await s.run("third")
        listed = (await s.data("list_sessions"))["sessions"]
        assert [one["path"] for one in listed] == [str(s.path), str(first)]
        assert [one["messageCount"] for one in listed] == [2, 4]
        assert listed[1]["name"] == "the first"
        assert listed[0]["firstMessage"] == "third"


async def test_sessions_can_be_renamed_whether_open_or_not(tmp_path: Path) -> None:
    async with stage(tmp_path) as s:
        await talk(s)
        first = s.path
        await s.data("new_session")
        s.script.add(say("three"))
        await s.run("third")
        await s.data("rename_session", sessionPath=str(first), name="old one")
        assert s.of_type("session_info_changed") == []
        await s.data("rename_session", sessionPath=str(s.path), name="this one")
        assert s.of_type("session_info_changed")[-1]["name"] == "this one"
        assert (await s.data("get_state"))["sessionName"] == "this one"
        names = {one["path"]: one["name"] for one in (await s.data("list_sessions"))["sessions"]}
        assert names == {str(first): "old one", str(s.path): "this one"}


async def test_a_deleted_session_lies_in_the_trash(tmp_path: Path) -> None:
    async with stage(tmp_path) as s:
        await talk(s)
        first, content = s.path, s.path.read_bytes()
        await s.data("new_session")
        moved = Path((await s.data("delete_session", sessionPath=str(first)))["movedTo"])
        assert not first.exists()
        assert moved.read_bytes() == content
        assert moved.parent == tmp_path / "agent" / "trash"
        assert (await s.data("list_sessions"))["sessions"] == []


@pytest.mark.parametrize("spelling", ["{path}", "{folder}/../{name}/{file}", "link.jsonl"])
async def test_the_open_session_cannot_be_deleted_however_it_is_spelt(
    tmp_path: Path, spelling: str
) -> None:
    async with stage(tmp_path) as s:
        await talk(s)
        (tmp_path / "work" / "link.jsonl").symlink_to(s.path)
        folder = s.path.parent
        named = spelling.format(path=s.path, folder=folder, name=folder.name, file=s.path.name)
        assert "current session" in await s.refusal("delete_session", sessionPath=named)
        assert s.path.exists()


async def test_what_is_no_session_is_not_renamed_or_deleted(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    notes = tmp_path / "work" / "notes.txt"
    notes.write_text("no session\n")
    async with stage(tmp_path) as s:
        for command in ("rename_session", "delete_session"):
            fields = {"name": "x"} if command == "rename_session" else {}
            assert "not a valid" in await s.refusal(command, sessionPath="notes.txt", **fields)
            assert "File not found" in await s.refusal(command, sessionPath="gone", **fields)
        assert notes.read_text() == "no session\n"


async def test_a_name_is_told_trimmed_and_stored(tmp_path: Path) -> None:
    async with stage(tmp_path) as s:
        await talk(s)
        before = len(s.frames)
        await s.data("set_session_name", name="  two\nlines ")
        assert story(s.frames[before:]) == ["session_info_changed", "reply set_session_name"]
        assert (await s.data("get_state"))["sessionName"] == "two lines"
        assert await s.refusal("set_session_name", name=" ") == "Session name cannot be empty"
        await s.data("switch_session", sessionPath=str(s.path))
        assert (await s.data("get_state"))["sessionName"] == "two lines"


async def test_calls_whose_tools_were_stopped_by_a_change_have_results(tmp_path: Path) -> None:
    async with stage(tmp_path, calls(call("hold", "c1", name="gate"))) as s:
        await s.data("prompt", message="go")
        await s.gates.reached("gate")
        old = s.path
        await s.data("new_session")
        assert [m["role"] for m in stored(old)] == [
            "user",
            "assistant",
            "toolResult",
            "assistant",
        ]
