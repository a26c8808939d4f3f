"""Sessions through the process: where they lie, how they are resumed, what damage does to them."""

from pathlib import Path

import pytest

from ludolf.base import dumps, loads
from ludolf.client import Client, Record
from tests.process.harness import Lab, messages, read_entries, text_of
from tests.process.script import answer, bash

# A conversation as another program of the family left it.
_OLD: list[Record] = [
    {
        **{"type": "message", "id": "aaaaaaa1", "parentId": None},
        "timestamp": "2026-01-01T00:00:00.000Z",
        "message": {"role": "user", "content": "My name is Ada", "timestamp": 1767225600000},
    },
    {
        **{"type": "from_the_future", "id": "aaaaaaa2", "parentId": "aaaaaaa1", "odd": [1, None]},
        "timestamp": "2026-01-01T00:00:01.000Z",
    },
]


def _sent(lab: Lab, place: int = -1) -> str:
    return str(lab.server.requests[place].body["messages"])


async def _say(lab: Lab, client: Client, text: str, reply: str) -> None:
    lab.server.add(answer(reply))
    await client.prompt_and_collect(text)


async def _first_session(lab: Lab, *arguments: str) -> Path:
    async with lab.client(*arguments) as client:
        await _say(lab, client, "My name is Ada", "Hello Ada.")
        return Path((await client.ask("get_state"))["sessionFile"])


def _store(lab: Lab, lines: list[Record], tail: bytes = b"") -> Path:
    header = {"type": "session", "version": 3, "id": "old-one", "cwd": str(lab.work)}
    header["timestamp"] = "2026-01-01T00:00:00.000Z"
    path = lab.root / "old.jsonl"
    path.write_bytes(b"".join(dumps(line) + b"\n" for line in (header, *lines)) + tail)
    return path


# ---------------------------------------------------------------- where a session lies


async def test_a_session_lies_in_the_folder_of_its_project_for_its_owner_only(lab: Lab) -> None:
    path = await _first_session(lab)
    name = "--" + str(lab.work).removeprefix("/").replace("/", "-") + "--"
    assert path.parent == lab.agent / "sessions" / name
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    header = loads(path.read_bytes().splitlines()[0])
    assert (header["type"], header["version"], header["cwd"]) == ("session", 3, str(lab.work))
    assert path.name.endswith(f"_{header['id']}.jsonl")


async def test_a_session_begins_with_model_and_thinking_level(lab: Lab) -> None:
    entries = read_entries(await _first_session(lab))
    kinds = [entry["type"] for entry in entries]
    assert kinds == ["model_change", "thinking_level_change", "message", "message"]
    parents = [entry["parentId"] for entry in entries]
    assert parents == [None, *(entry["id"] for entry in entries[:-1])]


async def test_no_file_appears_without_a_conversation(lab: Lab) -> None:
    async with lab.client() as client:
        await client.ask("get_state")
    assert lab.sessions == []


async def test_a_session_folder_of_ones_own_is_flat(lab: Lab) -> None:
    folder = lab.root / "mine"
    path = await _first_session(lab, "--session-dir", str(folder))
    assert list(folder.iterdir()) == [path]


async def test_without_a_session_nothing_is_written(lab: Lab) -> None:
    lab.server.add(answer("Hello."))
    async with lab.client("--no-session") as client:
        await client.prompt_and_collect("Hi")
        state = await client.ask("get_state")
        kept = (await client.ask("get_messages"))["messages"]
    assert "sessionFile" not in state
    assert len(kept) == 2
    assert lab.sessions == []


async def test_a_session_is_named_from_the_command_line(lab: Lab) -> None:
    lab.server.add(answer("Hello."))
    async with lab.client("--name", " My work ") as client:
        assert (await client.ask("get_state"))["sessionName"] == "My work"
        await client.prompt_and_collect("Hi")
    assert lab.entries[0]["type"] == "session_info"
    assert lab.entries[0]["name"] == "My work"


# ---------------------------------------------------------------- resuming


async def test_continue_brings_the_last_conversation_to_the_model(lab: Lab) -> None:
    path = await _first_session(lab)
    async with lab.client("--continue") as client:
        state = await client.ask("get_state")
        assert (state["messageCount"], state["sessionFile"]) == (2, str(path))
        await _say(lab, client, "Who am I?", "Ada.")
    assert lab.sessions == [path]
    for text in ("My name is Ada", "Hello Ada.", "Who am I?"):
        assert text in _sent(lab)
    roles = [message["role"] for message in messages(read_entries(path))]
    assert roles == ["user", "assistant"] * 2


async def test_continue_without_a_session_begins_one(lab: Lab) -> None:
    await _first_session(lab, "--continue")
    assert len(lab.sessions) == 1


async def test_a_session_is_found_by_path_by_id_and_by_the_beginning_of_its_id(lab: Lab) -> None:
    path = await _first_session(lab)
    session_id = loads(path.read_bytes().splitlines()[0])["id"]
    await _first_session(lab)
    for wanted in (str(path), session_id, session_id[:18]):
        async with lab.client("--session", wanted) as client:
            assert (await client.ask("get_state"))["sessionFile"] == str(path)


async def test_an_unknown_session_ends_the_start(lab: Lab) -> None:
    done = lab.run("--mode", "rpc", "--session", "nowhere")
    assert (done.code, done.stdout) == (1, b"")
    assert "No session found matching 'nowhere'" in done.stderr


async def test_a_session_id_creates_and_then_opens_the_same_session(lab: Lab) -> None:
    first = await _first_session(lab, "--session-id", "build-7")
    assert first.name.endswith("_build-7.jsonl")
    async with lab.client("--session-id", "build-7") as client:
        state = await client.ask("get_state")
    assert (state["sessionId"], state["sessionFile"]) == ("build-7", str(first))
    assert state["messageCount"] == 2


async def test_a_resumed_session_keeps_its_model(lab: Lab) -> None:
    await _first_session(lab, "--model", "chat/large")
    async with lab.client("--continue") as client:
        model = (await client.ask("get_state"))["model"]
    assert (model["provider"], model["id"]) == ("chat", "large")


async def test_a_tool_call_without_its_result_is_completed_for_the_model(lab: Lab) -> None:
    lab.server.add(answer(bash("sleep 60")))
    async with lab.client() as client:
        await client.ask("prompt", message="Go")
        await client.wait_for("tool_execution_start")
        await client.process.kill()
    async with lab.client("--continue") as client:
        await _say(lab, client, "And?", "Sorry.")
    blocks = [b for m in lab.server.requests[-1].body["messages"] for b in m["content"]]
    assert [b["tool_use_id"] for b in blocks if b["type"] == "tool_result"] == ["call_1"]


async def test_two_programs_never_write_one_session(lab: Lab) -> None:
    path = await _first_session(lab)
    async with lab.client("--continue") as first:
        await first.ask("get_state")
        async with lab.client("--session", str(path)) as second:
            reply = await second.request("prompt", message="Me too")
        assert (reply["success"], reply["code"]) == (False, "session_in_use")
        assert "in use by another process" in reply["error"]
        await _say(lab, first, "Still mine?", "Yes.")
    assert len(messages(read_entries(path))) == 4


async def test_a_session_that_another_program_writes_is_not_deleted(lab: Lab) -> None:
    path = await _first_session(lab)
    async with lab.client("--continue") as first:
        await first.ask("get_state")
        async with lab.client("--no-session") as second:
            reply = await second.request("delete_session", sessionPath=str(path))
        done = lab.run("sessions", "delete", str(path))
        assert path.is_file()
        await _say(lab, first, "Still there?", "Yes.")
    assert (reply["success"], reply["code"]) == (False, "session_in_use")
    assert f"Session is in use by another process: {path}." in reply["error"]
    assert (done.code, done.stdout) == (1, b"")
    assert "in use by another process" in done.stderr
    assert lab.run("sessions", "delete", str(path)).code == 0
    assert len(messages(read_entries(lab.agent / "trash" / path.name))) == 4


async def test_a_session_opened_next_to_its_writer_is_continued_once_the_writer_is_gone(
    lab: Lab,
) -> None:
    async with lab.client() as first:
        await _say(lab, first, "One", "1")
        path = Path((await first.ask("get_state"))["sessionFile"])
        async with lab.client() as second:
            await second.ask("switch_session", sessionPath=str(path))
            await _say(lab, first, "Two", "2")
            refused = await second.request("prompt", message="Me too")
            assert "in use by another process" in refused["error"]
            await first.process.kill()
            await _say(lab, second, "Three", "3")
    assert [text_of(message) for message in messages(read_entries(path))] == [
        *("One", "1", "Two", "2", "Three", "3")
    ]
    assert "'Two'" in _sent(lab)


# ---------------------------------------------------------------- damage


async def test_what_is_unknown_in_a_session_survives_byte_for_byte(lab: Lab) -> None:
    path = _store(lab, _OLD)
    before = path.read_bytes()
    async with lab.client("--session", str(path)) as client:
        await _say(lab, client, "Who am I?", "Ada.")
    assert path.read_bytes().startswith(before)
    assert "My name is Ada" in _sent(lab)


@pytest.mark.parametrize("tail", [b'{"type":"message","id":"bbb', b"\x00\x00\x00", b"\xff\xfe{"])
async def test_a_torn_last_line_is_kept_and_passed_over(lab: Lab, tail: bytes) -> None:
    path = _store(lab, _OLD, tail)
    before = path.read_bytes()
    async with lab.client("--session", str(path)) as client:
        await _say(lab, client, "Who am I?", "Ada.")
        assert str(path) in client.process.stderr
    after = path.read_bytes()
    assert after.startswith(before + b"\n")
    new = [loads(line) for line in after[len(before) + 1 :].splitlines()]
    assert [text_of(message) for message in messages(new)] == ["Who am I?", "Ada."]
    assert "My name is Ada" in _sent(lab)


async def test_a_whole_last_line_without_newline_counts(lab: Lab) -> None:
    path = _store(lab, _OLD[:1])
    path.write_bytes(path.read_bytes().rstrip(b"\n"))
    async with lab.client("--session", str(path)) as client:
        await _say(lab, client, "Who am I?", "Ada.")
    assert "My name is Ada" in _sent(lab)
    assert len(messages(read_entries(path))) == 3


async def test_a_session_of_a_newer_version_is_read_but_not_continued(lab: Lab) -> None:
    path = _store(lab, _OLD)
    before = path.read_bytes().replace(b'"version":3', b'"version":99')
    path.write_bytes(before)
    async with lab.client("--session", str(path)) as client:
        reply = await client.request("prompt", message="Go")
        kept = (await client.ask("get_messages"))["messages"]
    assert not reply["success"]
    assert "version 99" in reply["error"]
    assert len(kept) == 1
    assert path.read_bytes() == before


async def test_a_file_that_is_no_session_is_left_alone(lab: Lab) -> None:
    path = lab.root / "notes.jsonl"
    path.write_text("dear diary\n")
    done = lab.run("--mode", "rpc", "--session", str(path))
    assert (done.code, done.stdout) == (1, b"")
    assert str(path) in done.stderr
    assert path.read_text() == "dear diary\n"


async def test_a_removed_session_folder_is_made_again(lab: Lab) -> None:
    async with lab.client() as client:
        await _say(lab, client, "My name is Ada", "Hello Ada.")
        (path,) = lab.sessions
        path.unlink()
        path.parent.rmdir()
        await _say(lab, client, "Who am I?", "Ada.")
    roles = [message["role"] for message in messages(lab.entries)]
    assert roles == ["user", "assistant"] * 2
