"""The Unix socket and stdio: clients that vanish, and the last frames of a server."""

import asyncio
import os
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ludolf.base import ConfigError, dumps, loads
from ludolf.serve.lines import UnixDoor
from ludolf.serve.options import ClientLimits
from tests.loop.stage import call, calls, say, text_of
from tests.process.forks import ForkedProgram
from tests.process.harness import survivors
from tests.serve.service import (
    Service,
    SocketClient,
    environment,
    holds,
    make_home,
    service,
)


@asynccontextmanager
async def _door(root: Path, *replies: Any, **about: Any) -> AsyncIterator[tuple[Service, UnixDoor]]:
    async with service(root, *replies, **about) as s:
        door = UnixDoor(s.server, root / "s")
        await door.open()
        try:
            yield s, door
        finally:
            await s.server.close(0)
            await door.close()


async def _join(path: Path, name: str) -> SocketClient:
    client = SocketClient(path, name).connect()
    await client.hello()
    return client


# ---------------------------------------------------------------- the socket


async def test_a_client_that_vanishes_has_left_although_its_command_waits(tmp_path: Path) -> None:
    async with _door(tmp_path) as (s, door):
        first, second = await _join(door.path, "a"), await _join(door.path, "b")
        session = (await first.data("open", cwd=str(s.work)))["session"]
        await second.data("attach", session=session, role="view")
        first.send("prompt", message="/ask")
        asked = await second.until("extension_ui_request")
        first.cut()
        assert (await second.until("client_left"))["client"] == "a"
        first.connect()
        await first.hello()
        await first.data("attach", session=session)
        first.send("extension_ui_response", id=asked["id"], value="back")
        await s.holds(lambda: s.asking.answers == ["back"])
        first.cut()
        second.cut()


async def test_lines_without_an_ear_are_done(tmp_path: Path) -> None:
    async with _door(tmp_path, say("Hello.")) as (s, door):
        client = SocketClient(door.path, "a").connect()
        client.send("open", cwd=str(s.work), options={"name": "Mine"})
        client.send("bash", command="touch done")
        client.cut()
        await s.holds(lambda: (s.work / "done").exists())
        await s.holds(lambda: not s.server.connections)


async def test_a_client_that_ends_its_output_gets_all_replies(tmp_path: Path) -> None:
    async with _door(tmp_path) as (s, door):
        client = SocketClient(door.path, "a").connect()
        client.send("open", cwd=str(s.work))
        client.feed(b"nonsense")
        shell = client.send("bash", command="echo late")
        client.half_close()
        await client.closed()
        replies = client.of_type("response")
        assert [each["command"] for each in replies] == ["open", "parse", "bash"]
        assert (replies[2]["id"], replies[2]["data"]["output"]) == (shell, "late\n")
        client.cut()


async def test_a_client_that_ends_its_output_is_not_waited_for_without_end(tmp_path: Path) -> None:
    async with _door(tmp_path, limits=ClientLimits(last_seconds=0.01)) as (s, door):
        client = SocketClient(door.path, "a").connect()
        client.send("open", cwd=str(s.work))
        client.send("prompt", message="/ask")
        await client.until("extension_ui_request")
        client.half_close()
        await client.closed()
        assert not s.server.connections
        client.cut()


async def test_the_last_frames_reach_a_client_before_the_end(tmp_path: Path) -> None:
    async with _door(tmp_path, calls(call("hold", "c1", name="gate"))) as (s, door):
        client = SocketClient(door.path, "a").connect()
        session = (await client.data("open", cwd=str(s.work)))["session"]
        s.equip(session)
        await client.data("prompt", message="go")
        await s.gates.reached("gate")
        assert (await client.ask("shutdown"))["success"]
        await client.closed()
        kinds = [each["type"] for each in client.frames]
        assert "server_closing" in kinds
        assert "agent_end" in kinds
        client.cut()


STRANGER = """
import os, socket, sys
os.setgid(65534)
os.setuid(65534)
with socket.socket(socket.AF_UNIX) as connection:
    connection.connect(sys.argv[1])
    try:
        connection.sendall(b'{"id":1,"type":"list","all":true}\\n')
        print(connection.recv(100))
    except OSError:
        print(b"")
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
async def test_another_user_is_refused_although_the_socket_lets_it_in(tmp_path: Path) -> None:
    # Not in the folder of the test, since pytest keeps other users out of its parent.
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        async with service(tmp_path) as s:
            door = UnixDoor(s.server, Path(folder, "s"))
            await door.open()
            os.chmod(door.path, 0o777)
            words = (sys.executable, "-I", "-c", STRANGER, str(door.path))
            stranger = await asyncio.create_subprocess_exec(*words, stdout=subprocess.PIPE)
            heard, _ = await stranger.communicate()
            await door.close()
        assert heard.strip() == b"b''"


async def test_only_one_server_listens_on_a_socket(tmp_path: Path) -> None:
    async with _door(tmp_path) as (s, door):
        mode = door.path.stat().st_mode
        assert (stat.S_ISSOCK(mode), mode & 0o777) == (True, 0o600)
        with pytest.raises(ConfigError, match="Another server listens on"):
            await UnixDoor(s.server, door.path).open()
        (tmp_path / "file").touch()
        for _ in range(2):
            with pytest.raises(ConfigError, match="is not a socket"):
                await UnixDoor(s.server, tmp_path / "file").open()
        with pytest.raises(ConfigError, match="Cannot listen on"):
            await UnixDoor(s.server, tmp_path / ("x" * 200)).open()
    assert not door.path.exists()


# ---------------------------------------------------------------- the program


def _program(root: Path, *words: str) -> ForkedProgram:
    work = str(make_home(root, {}))
    model = ("--model", "ludolf/scripted", "--no-context-files")
    return ForkedProgram(["serve", *words, *model], work, environment(root))


async def _serving(program: ForkedProgram) -> dict[str, Any]:
    line: dict[str, Any] = loads(program.stdout.readline())
    assert (line["type"], line["pid"]) == ("serving", program.pid)
    return line


async def test_a_client_on_stdio_can_end_the_server(tmp_path: Path) -> None:
    with _program(tmp_path, "--stdio") as program:
        assert "socket" not in await _serving(program)
        program.stdin.write(b'{"type":"open","id":1}\n{"type":"shutdown","id":2}\n')
        lines = [loads(line) for line in program.stdout]
        replies = [each["id"] for each in lines if each["type"] == "response"]
        assert replies == [1, 2]
        assert "server_closing" in [each["type"] for each in lines]
        assert program.wait(30) == 0


async def test_the_end_of_input_ends_a_server_on_stdio(tmp_path: Path) -> None:
    with _program(tmp_path, "--stdio") as program:
        await _serving(program)
        program.stdin.write(b'{"type":"open","id":1}\n{"type":"bash","id":2,"command":"echo x"}\n')
        program.stdin.close()
        replies = [each for each in map(loads, program.stdout) if each["type"] == "response"]
        assert [each["id"] for each in replies] == [1, 2]
        assert program.wait(30) == 0


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, -2)])
async def test_a_signal_ends_the_server_with_its_code(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    with _program(tmp_path, "--socket", "s") as program:
        path = Path((await _serving(program))["socket"])
        client = await _join(path, "a")
        await client.data("open", cwd=str(tmp_path / "work"))
        os.kill(program.pid, number)
        await client.closed()
        assert client.of_type("server_closing")
        assert program.wait(30) == code
        assert not path.exists()
        client.cut()


# ---------------------------------------------------------------- killed at each stage

STAGES: dict[str, list[dict[str, Any]]] = {
    "before the answer": [{"text": "Late.", "delayMs": 1e6}],
    "in the answer": [{"text": "Some of it.", "hang": True}],
    "during a tool": [
        {"content": [{"tool": "bash", "id": "c1", "args": {"command": "echo $$ > pid; sleep 1e6"}}]}
    ],
    "after the answer": [{"text": "All of it."}],
}
_SEEN = {
    "before the answer": "message_end",
    "in the answer": "message_update",
    "during a tool": "tool_execution_start",
    "after the answer": "agent_settled",
}


async def test_sessions_of_a_killed_server_continue_in_the_next_one(tmp_path: Path) -> None:
    """One session at each stage of a turn; the server is killed and started again."""
    sessions: dict[str, str] = {}
    clients: list[SocketClient] = []
    with _program(tmp_path, "--socket", "s") as program:
        path = Path((await _serving(program))["socket"])
        for name, replies in STAGES.items():
            script = tmp_path / f"{name}.json"
            script.write_bytes(dumps(replies))
            client = await _join(path, name)
            env = {**environment(tmp_path), "LUDOLF_SCRIPT": str(script)}
            opened = await client.data("open", cwd=str(tmp_path / "work"), env=env)
            sessions[name] = opened["session"]
            await client.data("prompt", message="go")
            await client.until(_SEEN[name])
            clients.append(client)
        pid = tmp_path / "work" / "pid"
        await holds(lambda: pid.exists() and bool(pid.read_text()))
        os.kill(program.pid, signal.SIGKILL)
        for client in clients:
            await client.closed()
            client.cut()
    assert survivors([int(pid.read_text())]) == []
    with _program(tmp_path, "--socket", "s") as program:
        path = Path((await _serving(program))["socket"])
        for name, session in sessions.items():
            client = await _join(path, name)
            script = tmp_path / "next.json"
            script.write_bytes(dumps([{"text": "Next."}]))
            env = {**environment(tmp_path), "LUDOLF_SCRIPT": str(script)}
            back = await client.data("attach", session=session, cursor="0000-5", env=env)
            assert (back["session"], back["mode"], back["underway"]) == (session, "snapshot", {})
            stored = [each["message"] for each in back["entries"] if each["type"] == "message"]
            assert text_of(stored[0]) == "go"
            assert back.get("interrupted", False) == (name != "after the answer"), name
            assert len(stored) == (1 if name in ("before the answer", "in the answer") else 2)
            await client.run("again")
            ends = client.of_type("message_end")
            assert text_of(ends[-1]["message"]) == "Next."
            client.cut()
        program.stdin.close()
        os.kill(program.pid, signal.SIGTERM)
        assert program.wait(30) == 143
