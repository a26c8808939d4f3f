"""Sessions of a server: open, load, unload, list, move, close."""

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.loop.stage import call, calls, say, text_of, texts
from tests.process.forks import ForkedProgram
from tests.serve.service import Client, Service, environment, numbers, service


async def _stored(s: Service, client: Client, text: str = "hi") -> tuple[str, Path]:
    """A session with one answer, closed."""
    s.script.add(say(f"Answer to {text}."))
    session = (await client.open())["session"]
    await client.run(text)
    path = s.slot(session).path
    assert path is not None
    await client.data("close")
    assert s.server.loaded(session) is None
    return session, path


async def _texts(client: Client, session: str) -> list[str]:
    return list(map(text_of, (await client.data("get_messages", session=session))["messages"]))


# ---------------------------------------------------------------- open


async def test_a_session_is_opened_and_its_frames_are_numbered(tmp_path: Path) -> None:
    async with service(tmp_path, say("Hello.")) as s:
        client = await s.join("a")
        opened = await client.open()
        assert (opened["mode"], opened["role"]) == ("snapshot", "control")
        assert opened["cursor"].endswith("-0")
        assert "interrupted" not in opened
        frames = await client.run("hi", session=opened["session"])
        assert frames[0]["session"] == opened["session"]
        assert numbers(frames) == list(range(1, len(frames)))


async def test_a_stored_session_is_found_by_id_path_and_as_the_last(tmp_path: Path) -> None:
    async with service(tmp_path) as s:
        client = await s.join("a")
        session, path = await _stored(s, client)
        (s.work / "link.jsonl").symlink_to(path)
        for name in (session, str(path), "last", str(s.work / "link.jsonl"), "link.jsonl"):
            opened = await client.open(session=name)
            assert opened["session"] == session
            messages = [each["message"] for each in opened["entries"] if each["type"] == "message"]
            assert list(map(text_of, messages)) == ["hi", "Answer to hi."]
        other = await s.join("b")
        assert (await other.open(session=str(path)))["session"] == session
        assert len(s.server.slots) == 1
        await client.data("close", session=session)
        assert (await client.data("attach", session=session))["session"] == session


@pytest.mark.parametrize("dialect", ["pi-delta", "pi"])
async def test_the_first_client_gets_what_the_start_of_a_session_reported(
    tmp_path: Path, dialect: str
) -> None:
    async with service(tmp_path) as s:
        folder = s.work / ".pi" / "extensions"
        folder.mkdir(parents=True)
        (folder / "one.py").write_text("def extension(api): pass\n")
        first = await s.join("a", dialect=dialect)
        session = (await first.open())["session"]
        warning = await first.until(lambda record: record["type"] == "warning")
        assert "not trusted" in warning["message"]
        second = await s.join("b", dialect=dialect)
        await second.data("attach", session=session)
        await second.data("get_state", session=session)
        assert not second.of_type("warning")


ASKS = """
def extension(api):
    @api.on("session_start")
    async def ask(event, ctx):
        if await ctx.ui.confirm("Go?", "Really?"):
            ctx.ui.notify("gone")
"""


@pytest.mark.parametrize("bare", [False, True])
async def test_a_session_whose_start_asks_the_user_is_open(tmp_path: Path, bare: bool) -> None:
    async with service(tmp_path, say("Hello.")) as s:
        file = tmp_path / "asks.py"
        file.write_text(ASKS)
        client = await s.join("a", bare=bare)
        opened = await client.open(options={"extensions": [str(file)]})
        if bare:
            asked = await client.until(lambda record: record.get("method") == "confirm")
        else:
            asked = opened["underway"]["dialogs"][0]
        client.send("extension_ui_response", id=asked["id"], confirmed=True)
        await client.until(lambda record: record.get("message") == "gone")
        await client.run("hi")


async def test_the_same_file_is_opened_once_by_clients_at_the_same_time(tmp_path: Path) -> None:
    async with service(tmp_path) as s:
        client = await s.join("a")
        session, path = await _stored(s, client)
        names = (session, str(path), "last", session)
        clients = [await s.join(f"c{number}") for number in range(len(names))]
        pairs = zip(clients, names, strict=True)
        found = await asyncio.gather(*(each.open(session=name) for each, name in pairs))
        assert {each["session"] for each in found} == {session}
        assert s.server.figures.loads == 2


async def test_a_copy_of_a_loaded_session_is_refused(tmp_path: Path) -> None:
    async with service(tmp_path) as s:
        client = await s.join("a")
        session, path = await _stored(s, client)
        copy = s.work / "copy.jsonl"
        shutil.copy(path, copy)
        await client.open(session=session)
        text, code = await client.refusal("open", session=str(copy))
        assert text == f"The session {session} is loaded from {path}. Close it, or fork it."
        assert code == "session_in_use"
        assert await _texts(client, session) == ["hi", "Answer to hi."]
        await client.data("close", session=session)
        assert (await client.open(session=str(copy)))["session"] == session


async def test_what_cannot_be_opened_is_refused(tmp_path: Path) -> None:
    (tmp_path / "work" / "inner").mkdir(parents=True)
    async with service(tmp_path, roots=(tmp_path / "work",)) as s:
        client = await s.join("a")
        for name in ("nothing", "../x*", "[", "\ud800", "x" * 5_000):
            text, code = await client.refusal("attach", session=name)
            assert text.startswith("Unknown session: ")
            assert text.endswith(". list shows them.")
            assert code == "unknown_session"
        inner = str(s.work / "inner")
        for cwd in (
            "/",
            str(tmp_path),
            f"{inner}/..//..",
            "inner",
            "/no/such",
            "\0",
            "",
            "x" * 9000,
        ):
            text, _ = await client.refusal("open", cwd=cwd)
            assert text == f"Not a folder here: {cwd[:500]}"
        (s.work / "junk.jsonl").write_bytes(b"\x00\xff junk\n" * 10)
        for path in (str(s.work / "junk.jsonl"), inner + "/", "/proc/self/mem", "a\0/b"):
            assert (await client.refusal("open", cwd=inner, session=path))[0]
        assert (await client.open(cwd=inner))["mode"] == "snapshot"


async def test_a_stored_session_outside_the_roots_is_refused(tmp_path: Path) -> None:
    async with service(tmp_path / "one") as s:
        session, path = await _stored(s, await s.join("a"))
    (tmp_path / "one" / "inner").mkdir()
    async with service(tmp_path / "one", roots=(tmp_path / "one" / "inner",)) as s:
        client = await s.join("a")
        expected = f"Not a folder here: {s.work}"
        assert (await client.refusal("attach", session=session))[0] == expected
        assert (await client.refusal("open", session=str(path)))[0] == expected


async def test_a_session_in_use_by_another_process_is_refused(tmp_path: Path) -> None:
    async with service(tmp_path) as s:
        client = await s.join("a")
        session, path = await _stored(s, client)
        words = ["--mode", "rpc", "--session", str(path), "--model", "ludolf/scripted"]
        with ForkedProgram(words, str(s.work), environment(tmp_path)) as other:
            other.stdin.write(b'{"type":"set_session_name","name":"mine"}\n')
            await asyncio.to_thread(other.stdout.readline)
            text, code = await client.refusal("attach", session=session)
            assert text == f"In use by another process: {path}. Close it there, or fork it."
            assert code == "session_in_use"
            assert (await client.refusal("get_state", session=session))[1] == "session_in_use"
        await client.data("attach", session=session)


# ---------------------------------------------------------------- options and environment


async def test_a_session_has_its_own_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OF_SERVER", "seen")
    async with service(tmp_path) as s:
        client = await s.join("a")
        env = {"OF_CLIENT": "mine", "PATH": environment(tmp_path)["PATH"]}
        one = (await client.open(env=env))["session"]
        two = (await client.open())["session"]
        shown = {}
        for session in (one, two):
            ran = await client.data("bash", session=session, command="echo $OF_CLIENT,$OF_SERVER")
            shown[session] = ran["output"]
        assert shown == {one: "mine,\n", two: ",\n"}
        path = s.slot(one).path
        assert path is not None
        assert path.is_relative_to(tmp_path / "agent")
        for bad in ({"": "x"}, {"A=B": "x"}, {"A": "\0"}, {"A": 5}, "x"):
            assert (await client.refusal("open", env=bad))[0] == 'open: missing or invalid "env"'


async def test_a_session_with_its_own_environment_is_found_again(tmp_path: Path) -> None:
    async with service(tmp_path, say("Hello.")) as s:
        client = await s.join("a")
        session = (await client.open(env={"HOME": str(tmp_path / "elsewhere")}))["session"]
        await client.run("hi")
        await client.data("close")
        assert await _texts(client, session) == ["hi", "Hello."]


async def test_a_client_chooses_options_of_a_session(tmp_path: Path) -> None:
    async with service(tmp_path) as s:
        client = await s.join("a")
        choice = {"name": "Mine", "thinking": "low", "maxTurns": 3, "noSession": True}
        opened = await client.open(options=choice)
        assert opened["state"]["sessionName"] == "Mine"
        assert "sessionFile" not in opened["state"]
        assert (await client.data("list"))["sessions"][0]["path"] is None
        for bad, said in (
            ({"nmae": "x"}, 'open: unknown option "nmae". Did you mean name?'),
            ({"name": 5}, 'open: missing or invalid "options.name"'),
            ({"cwd": "/"}, 'open: unknown option "cwd".'),
            ({"environ": {}}, 'open: unknown option "environ".'),
        ):
            assert (await client.refusal("open", options=bad))[0].startswith(said[:30])


# ---------------------------------------------------------------- unload


async def test_an_unused_session_is_unloaded_and_loaded_again_from_its_file(tmp_path: Path) -> None:
    replies = (say("Hello."), calls(call("hold", "c1", name="gate")), say("Done."))
    async with service(tmp_path, *replies, unload_seconds=0.02) as s:
        client = await s.join("a")
        opened = await client.open()
        session = opened["session"]
        await client.run("hi")
        await client.data("prompt", message="more")
        await s.gates.reached("gate")
        await client.data("detach")
        assert (await client.data("list"))["sessions"][0]["state"] == "running"
        s.gates.open("gate")
        await s.unloaded(session)
        assert (await client.data("list"))["sessions"] == []
        stored = (await client.data("list", all=True))["sessions"]
        assert [(each["session"], each["state"]) for each in stored] == [(session, "stored")]
        assert (await _texts(client, session))[-2:] == ["gate", "Done."]
        back = await client.data("attach", session=session, cursor=opened["cursor"])
        assert back["mode"] == "snapshot"
        assert back["cursor"] != opened["cursor"]
        assert (s.server.figures.loads, s.server.figures.unloads) == (2, 1)


async def test_the_oldest_unused_session_makes_room_for_another(tmp_path: Path) -> None:
    async with service(tmp_path, max_loaded=2) as s:
        client = await s.join("a")
        first, _ = await _stored(s, client, "one")
        second, _ = await _stored(s, client, "two")
        for session in (first, second):
            await client.data("attach", session=session)
            await client.data("detach", session=session)
        third = (await client.open())["session"]
        loaded = {each["session"] for each in (await client.data("list"))["sessions"]}
        assert loaded == {second, third}
        await client.data("attach", session=second)
        text, code = await client.refusal("open")
        assert text == "All 2 loaded sessions are in use. Close one, or try later."
        assert code == "full"


async def test_sessions_that_are_opened_at_the_same_time_do_not_exceed_the_limit(
    tmp_path: Path,
) -> None:
    async with service(tmp_path, max_loaded=2) as s:
        clients = [await s.join(f"c{number}") for number in range(6)]
        work = str(s.work)
        replies = await asyncio.gather(*(each.ask("open", cwd=work) for each in clients))
        assert sum(each["success"] for each in replies) == len(s.server.slots) == 2


async def test_a_session_without_a_file_is_only_closed(tmp_path: Path) -> None:
    async with service(tmp_path, unload_seconds=0.02) as s:
        client = await s.join("a")
        kept = (await client.open(options={"noSession": True}))["session"]
        other, _ = await _stored(s, client)
        await client.data("attach", session=other)
        await client.data("detach", session=other)
        await client.data("detach", session=kept)
        await s.unloaded(other)
        assert s.server.loaded(kept) is not None
        await client.data("close", session=kept)
        assert (await client.refusal("attach", session=kept))[1] == "unknown_session"


# ---------------------------------------------------------------- list and close


async def test_loaded_and_stored_sessions_are_listed(tmp_path: Path) -> None:
    async with service(tmp_path) as s:
        client = await s.join("a")
        stored, path = await _stored(s, client)
        loaded = (await client.open(options={"name": "Mine"}))["session"]
        (only,) = (await client.data("list"))["sessions"]
        assert (only["session"], only["name"], only["state"]) == (loaded, "Mine", "idle")
        assert (only["clients"], only["dialogs"], only["cwd"]) == (1, 0, str(s.work))
        found = {
            each["session"]: each for each in (await client.data("list", all=True))["sessions"]
        }
        assert found.keys() == {stored, loaded}
        assert (found[stored]["state"], found[stored]["path"]) == ("stored", str(path))
        before = only["updated"]
        s.script.add(say("Later."))
        await client.run("hi")
        (only,) = (await client.data("list"))["sessions"]
        assert only["updated"] > before


async def test_clients_learn_that_another_client_has_closed_their_session(tmp_path: Path) -> None:
    async with service(tmp_path) as s:
        first, second = await s.join("a"), await s.join("b")
        session = (await first.open())["session"]
        await second.data("attach", session=session)
        await first.data("close", session=session)
        closed = await second.until("session_closed")
        assert closed["session"] == session


async def test_closing_a_session_stops_its_run_and_answers_its_commands(tmp_path: Path) -> None:
    replies = (calls(call("hold", "c1", name="gate")), say("Next."))
    async with service(tmp_path, *replies) as s:
        client, other = await s.join("a"), await s.join("b")
        session = (await client.open())["session"]
        await other.data("attach", session=session)
        await client.data("prompt", message="go")
        await s.gates.reached("gate")
        shell = client.send("bash", command="echo on; sleep 1000")
        await client.until("bash_execution_update")
        question = client.send("prompt", message="/ask")
        await client.until("extension_ui_request")
        await other.data("close", session=session)
        for id in (shell, question):
            await client.until(lambda each, id=id: each.get("id") == id)  # type: ignore[misc]
        ended = await client.until("agent_end")
        assert ended["messages"][-1]["role"] in ("toolResult", "assistant")
        assert s.server.loaded(session) is None
        assert (await client.refusal("get_state"))[0] == "Name a session, or open one first."
        assert (await client.data("attach", session=session))["session"] == session
        assert (await client.refusal("close", session="nothing"))[1] == "unknown_session"


async def test_a_host_of_rpc_mode_ends_with_its_session(tmp_path: Path) -> None:
    async with service(tmp_path) as s:
        client = await s.join("a")
        session = (await client.open())["session"]
        host = await s.join("host", dialect="pi", bare=True)
        await host.data("attach", session=session)
        await client.data("close")
        assert await host.closed() == 1001


# ---------------------------------------------------------------- the end


async def test_a_shutdown_lets_runs_end_within_its_time(tmp_path: Path) -> None:
    async with service(tmp_path, calls(call("hold", "c1", name="gate")), say("Done.")) as s:
        client, other = await s.join("a"), await s.join("b")
        session = (await client.open())["session"]
        await client.data("prompt", message="go")
        await s.gates.reached("gate")
        await other.data("shutdown", drain=1000)
        closing = await client.until("server_closing")
        assert closing["seconds"] == 1000
        assert s.server.closing
        text, code = await client.refusal("open", cwd=str(s.work))
        assert (text, code) == ("The server is closing.", "full")
        s.gates.open("gate")
        assert (await client.closed(), await other.closed()) == (1001, 1001)
        assert texts(client.frames, "assistant")[-1] == "Done."
        assert client.of_type("agent_settled")
        assert s.server.loaded(session) is None


async def test_a_shutdown_without_time_aborts_and_stores(tmp_path: Path) -> None:
    async with service(tmp_path, calls(call("hold", "c1", name="gate"))) as s:
        client = await s.join("a")
        session = (await client.open())["session"]
        path = s.slot(session).path
        assert path is not None
        await client.data("prompt", message="go")
        await s.gates.reached("gate")
        reply = await client.ask("shutdown")
        assert reply["success"]
        assert await client.closed() == 1001
        assert client.of_type("agent_end")
        assert b'"toolResult"' in path.read_bytes()


# ---------------------------------------------------------------- moving


async def _moved(client: Client, since: int, session: str) -> Any:
    """What a client gets that is on a session that moves: the notice, then a snapshot."""
    moved = await client.until("session_moved", since)
    assert (moved["session"], moved["from"]) == (session, session)
    resync = await client.until("resync", since)
    assert resync["session"] == resync["data"]["session"] == moved["to"]
    assert client.frames.index(moved) < client.frames.index(resync)
    return resync["data"]


async def test_clients_follow_a_session_that_moves(tmp_path: Path) -> None:
    async with service(tmp_path, *map(say, ("One.", "Two.", "Three."))) as s:
        client, viewer = await s.join("a"), await s.join("b")
        session = (await client.open())["session"]
        await viewer.data("attach", session=session, role="view")
        await client.run("one")
        path = s.slot(session).path
        since, seen = len(client.frames), len(viewer.frames)
        await client.data("new_session")
        data = await _moved(client, since, session)
        assert (await _moved(viewer, seen, session))["role"] == "view"
        assert [each for each in data["entries"] if each["type"] == "message"] == []
        assert data["cursor"].endswith("-0")
        new = data["session"]
        assert s.server.loaded(session) is None
        frames = await client.run("two")
        assert {each["session"] for each in frames if "seq" in each} == {new}
        assert numbers(frames) == list(range(1, len(numbers(frames)) + 1))
        since = len(client.frames)
        await client.data("switch_session", sessionPath=str(path))
        assert (await _moved(client, since, new))["session"] == session
        messages = (await client.data("get_fork_messages"))["messages"]
        since = len(client.frames)
        await client.data("fork", entryId=messages[0]["entryId"])
        forked = (await _moved(client, since, session))["session"]
        assert forked not in (session, new)
        assert [each["session"] for each in (await viewer.data("list"))["sessions"]] == [forked]
        assert await _texts(viewer, new) == ["two", "Two."]


async def test_a_session_that_others_control_does_not_move(tmp_path: Path) -> None:
    async with service(tmp_path) as s:
        client, other = await s.join("a"), await s.join("b")
        session = (await client.open())["session"]
        await other.data("attach", session=session)
        for name, fields in (
            ("new_session", {}),
            ("clone", {}),
            ("switch_session", {"sessionPath": "x"}),
            ("fork", {"entryId": "x"}),
            ("handoff", {}),
            ("open_session", {}),
        ):
            text, code = await client.refusal(name, **fields)
            assert code == "shared", name
            assert text == "Other clients control this session. Open another session instead."
        other.cut()
        await client.data("new_session")


async def test_a_session_does_not_move_onto_one_that_is_loaded(tmp_path: Path) -> None:
    async with service(tmp_path) as s:
        client = await s.join("a")
        stored, path = await _stored(s, client)
        await client.data("attach", session=stored)
        other = (await client.open())["session"]
        reply = await client.ask("switch_session", session=other, sessionPath=str(path))
        assert not reply["success"] or reply["data"]["cancelled"], reply
        assert s.slot(stored).path == path
        assert {slot.id for slot in s.server.slots} == {stored, other}
