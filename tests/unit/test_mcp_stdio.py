"""Servers as child processes: their faults end with a reason, and none of their processes stays."""

import asyncio
import os
import select
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from ludolf.base.jsonrpc import RpcFrame
from ludolf.mcp.connection import ConnectionLimits, connect
from ludolf.mcp.stdio import MAX_LINE_BYTES, STDERR_BYTES, StdioLink
from ludolf.mcp.wire import McpError, StdioServer
from ludolf.tools.process_tree import WARDEN
from tests.mcp_server import program
from tests.unit.test_mcp_connection import Host
from tests.unit.test_tools_process import gone

PROGRAM = """
import asyncio, sys
from ludolf.mcp.connection import connect
from tests.mcp_server import program
from tests.unit.test_mcp_connection import Host

async def main():
    connection = await connect(program("stubborn"), Host())
    print(connection.pid, connection.stderr.strip(), flush=True)
    await connection.closed.wait()

asyncio.run(main())
"""


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    yield
    WARDEN.end_all()


class Ear:
    """Owner of a link without a protocol: waits for lines and for the end."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.reason: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def received(self, frame: RpcFrame) -> None:
        self.lines.append(bytes(frame))

    def lost(self, reason: str) -> None:
        self.reason.set_result(reason)


def shell(text: str, cwd: Path) -> StdioServer:
    return StdioServer(argv=("/bin/sh", "-c", text), env=dict(os.environ), cwd=cwd)


async def end_of(server: StdioServer, *, max_line: int = 1 << 20) -> tuple[str, list[bytes]]:
    """The reason for which the link was lost, and the lines before."""
    ear = Ear()
    link = StdioLink(server, ear, max_line=max_line, grace=0)
    await link.start()
    try:
        return await ear.reason, ear.lines
    finally:
        await link.close()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("echo one; echo two >&2; exit 3", "The server ended with exit code 3: two"),
        (r"printf '\033[31mred\n\n' >&2; exit 0", "The server ended with exit code 0: [31mred"),
        ("seq 1 9 >&2; exit 1", "The server ended with exit code 1: 7\n8\n9"),
        ("kill -9 $$", "The server was ended by signal 9"),
        ("exec 1>&-; sleep 60", "The server closed its output"),
        ("(setsid sleep 60 &); exit 4", "The server ended with exit code 4"),
    ],
)
async def test_the_end_of_a_server_has_a_reason(text: str, reason: str, tmp_path: Path) -> None:
    assert (await end_of(shell(text, tmp_path)))[0] == reason


async def test_lines_arrive_whole_however_they_are_written(tmp_path: Path) -> None:
    text = "printf 'a'; printf 'b\\n\\ncc\\nd'; head -c 300000 /dev/zero; echo; printf unfinished"
    _, lines = await end_of(shell(text, tmp_path))
    assert lines == [b"ab", b"cc", b"d" + bytes(300_000)]


@pytest.mark.parametrize("text", ["head -c 3000000 /dev/zero; sleep 60", "seq -s x 1 300000"])
async def test_a_line_that_is_too_long_ends_the_link(text: str, tmp_path: Path) -> None:
    reason, lines = await end_of(shell(text, tmp_path))
    assert reason == "The server wrote a line that was too long, more than 1 MiB"
    assert lines == []


async def test_the_end_of_a_large_stderr_is_kept(tmp_path: Path) -> None:
    ear = Ear()
    text = "head -c 5000000 /dev/zero >&2; printf 'the end' >&2; echo; echo ready; read line"
    link = StdioLink(shell(text, tmp_path), ear)
    await link.start()
    await link.heard
    await link.close()
    assert len(link.stderr) == STDERR_BYTES
    assert link.stderr.endswith("the end")


async def test_a_server_that_does_not_read_its_input_is_given_up(tmp_path: Path) -> None:
    ear = Ear()
    link = StdioLink(shell("sleep 60", tmp_path), ear, grace=0)
    await link.start()
    for _ in range(70):
        link.send(bytes(1 << 20))
    assert await ear.reason == "The server does not read its input"
    await link.close()


async def test_what_is_written_arrives_although_the_pipe_was_full(tmp_path: Path) -> None:
    ear = Ear()
    link = StdioLink(shell("head -c 800008 | wc -c", tmp_path), ear)
    await link.start()
    for _ in range(8):
        link.send(bytes(100_000))
    await ear.reason
    assert [line.strip() for line in ear.lines] == [b"800008"]
    await link.close()


async def test_programs_that_cannot_start_are_named(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("not a program")
    path = {"PATH": str(tmp_path)}
    cases = {
        "no-such-program": "no such program in PATH",
        "./missing": "the file does not exist",
        "./text": "Permission denied",
        "text": "no such program in PATH",
    }
    for name, reason in cases.items():
        server = StdioServer(argv=(name,), env=path, cwd=tmp_path)
        with pytest.raises(McpError, match=f"Cannot start .*{name.strip('./')}.*{reason}"):
            await connect(server, Host())
    missing = StdioServer(argv=("/bin/true",), env=path, cwd=tmp_path / "none")
    with pytest.raises(McpError, match="none does not exist"):
        await connect(missing, Host())


async def test_the_environment_and_the_folder_are_those_of_the_entry(tmp_path: Path) -> None:
    (tmp_path / "tool").symlink_to("/bin/sh")
    env = {"PATH": str(tmp_path), "GIVEN": "yes"}
    server = StdioServer(argv=("tool", "-c", "echo $GIVEN $HOME $PWD"), env=env, cwd=tmp_path)
    _, lines = await end_of(server)
    assert lines == [f"yes {tmp_path}".encode()]


async def test_a_stubborn_server_and_its_daemon_end_with_the_connection() -> None:
    connections = [await connect(program("stubborn"), Host()) for _ in range(2)]
    pids = [int(each.stderr) for each in connections] + [each.pid or 0 for each in connections]
    await asyncio.gather(*(each.close() for each in connections))
    assert all(gone(pid, within=0) for pid in pids)


async def test_closing_twice_is_harmless() -> None:
    connection = await connect(program("plain"), Host())
    await asyncio.gather(connection.close(), connection.close())
    await connection.close()
    assert gone(connection.pid or 0)


async def test_cancelling_the_start_leaves_no_process(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    os.mkfifo(note)
    server = shell(f"echo $$ > {note}; exec sleep 60", tmp_path)
    task = asyncio.ensure_future(connect(server, Host(), limits=ConnectionLimits(grace=0)))
    with await asyncio.to_thread(open, note) as file:
        pid = int(await asyncio.to_thread(file.readline))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert gone(pid)


def test_nothing_survives_a_program_that_is_killed() -> None:
    words = [sys.executable, "-c", PROGRAM]
    with subprocess.Popen(words, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]) as host:
        assert host.stdout is not None
        assert select.select([host.stdout], [], [], 30)[0]
        pids = [int(word) for word in host.stdout.readline().split()]
        host.kill()
    assert len(pids) == 2
    assert all(gone(pid) for pid in pids)


def test_the_limits_are_those_of_the_documentation() -> None:
    assert MAX_LINE_BYTES == 32 << 20
    assert msgspec.to_builtins(ConnectionLimits()) == {
        "first_byte": 60.0,
        "handshake": 10.0,
        "silence": 10.0,
        "request": 60.0,
        "call_total": 900.0,
        "pauses": (0.5, 2.0),
        "grace": 1.0,
    }
