"""Child processes: their output arrives whole, and none of their family survives its end."""

import asyncio
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ludolf.tools.process import Running, StartError, shell_command
from ludolf.tools.process_tree import WARDEN

STRAYS = {
    "child": "sleep 60 & echo $!; wait",
    "deaf": "sh -c 'trap \"\" TERM INT HUP; echo $$; while :; do sleep 1; done'",
    "own session": "setsid sh -c 'echo $$; exec sleep 60' & wait",
    "double fork": "(setsid sh -c 'echo $$; exec sleep 60' &); sleep 60",
    "no environment": "env -i /bin/sh -c 'echo $$; exec sleep 60'",
}


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    yield
    WARDEN.end_all()


def gone(pid: int, within: float = 15.0) -> bool:
    """Wait for the end of a process that need not be our child."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], within)[0])
    finally:
        os.close(handle)


async def collect(text: str, cwd: Path) -> tuple[int, bytes]:
    output = b""
    async with Running(shell_command(text, cwd=cwd, env=os.environ)) as running:
        while chunk := await running.read():
            output += chunk
        return await running.exit_code(), output


async def first_line(running: Running) -> str:
    output = b""
    while b"\n" not in output:
        output += await running.read() or b""
    return output.decode().splitlines()[0]


def test_both_streams_arrive_in_order_with_the_exit_code(tmp_path: Path) -> None:
    code, output = asyncio.run(collect("echo one; echo two >&2; echo three; exit 3", tmp_path))
    assert (code, output) == (3, b"one\ntwo\nthree\n")


def test_input_is_closed(tmp_path: Path) -> None:
    assert asyncio.run(collect("cat; echo rc=$?", tmp_path)) == (0, b"rc=0\n")


def test_death_by_signal_is_128_and_its_number(tmp_path: Path) -> None:
    assert asyncio.run(collect("kill -9 $$", tmp_path))[0] == 137


def test_large_output_arrives_whole(tmp_path: Path) -> None:
    code, output = asyncio.run(collect("seq 1 300000", tmp_path))
    assert code == 0
    assert output == b"".join(b"%d\n" % number for number in range(1, 300001))


def test_a_full_pipe_is_not_lost_when_the_reader_lags(tmp_path: Path) -> None:
    async def scenario() -> bytes:
        command = shell_command("head -c 900000 /dev/zero", cwd=tmp_path, env=os.environ)
        async with Running(command) as running:
            await running.exit_code()
            output = b""
            while chunk := await running.read():
                output += chunk
            return output

    assert asyncio.run(scenario()) == bytes(900_000)


def test_patience_ends_without_output(tmp_path: Path) -> None:
    async def scenario() -> bytes | None:
        command = shell_command("sleep 60", cwd=tmp_path, env=os.environ)
        async with Running(command) as running:
            return await running.read(patience=0.01)

    assert asyncio.run(scenario()) is None


@pytest.mark.parametrize("text", STRAYS.values(), ids=STRAYS.keys())
def test_leaving_early_kills_the_whole_family(text: str, tmp_path: Path) -> None:
    async def scenario() -> int:
        async with Running(shell_command(text, cwd=tmp_path, env=os.environ)) as running:
            return int(await first_line(running))

    assert gone(asyncio.run(scenario()))


def test_cancellation_kills_the_family(tmp_path: Path) -> None:
    async def work(seen: asyncio.Future[int]) -> None:
        async with Running(shell_command(STRAYS["child"], cwd=tmp_path, env=os.environ)) as running:
            seen.set_result(int(await first_line(running)))
            await running.exit_code()

    async def scenario() -> int:
        seen: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        async with asyncio.TaskGroup() as group:
            task = group.create_task(work(seen))
            pid = await seen
            task.cancel()
        return pid

    assert gone(asyncio.run(scenario()))


def test_a_child_left_behind_delays_nothing_and_ends_with_the_program(tmp_path: Path) -> None:
    async def scenario() -> tuple[float, bytes]:
        loop = asyncio.get_running_loop()
        start = loop.time()
        _code, output = await collect("sleep 60 & echo $!", tmp_path)
        return loop.time() - start, output

    seconds, output = asyncio.run(scenario())
    pid = int(output)
    assert seconds < 15
    assert not gone(pid, within=0)
    WARDEN.end_all()
    assert gone(pid)


def test_a_chatty_child_left_behind_is_heard_for_half_a_second_at_most(tmp_path: Path) -> None:
    async def scenario() -> float:
        loop = asyncio.get_running_loop()
        start = loop.time()
        await collect("(while :; do echo tick; done) & echo started", tmp_path)
        WARDEN.end_all()
        return loop.time() - start

    # Once more if the machine was busy meanwhile.
    assert any(asyncio.run(scenario()) < 1.5 for _ in range(4))


def test_orphans_that_died_do_not_stay_as_zombies(tmp_path: Path) -> None:
    async def scenario() -> int:
        _code, output = await collect("(sleep 0.01 & echo $!)", tmp_path)
        orphan = int(output)
        assert await asyncio.to_thread(gone, orphan)
        await collect("true", tmp_path)
        return orphan

    assert not os.path.exists(f"/proc/{asyncio.run(scenario())}")


def test_children_die_when_the_agent_is_killed(tmp_path: Path) -> None:
    program = (
        "import asyncio, os, sys\n"
        "from pathlib import Path\n"
        "from ludolf.tools.process import Running, shell_command\n"
        "async def main():\n"
        "    text = 'setsid sleep 60 & echo $!; sleep 60'\n"
        "    command = shell_command(text, cwd=Path.cwd(), env=os.environ)\n"
        "    async with Running(command) as running:\n"
        "        os.write(1, await running.read())\n"
        "        await running.exit_code()\n"
        "asyncio.run(main())\n"
    )
    path = os.pathsep.join(sys.path)
    with subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
    ) as agent:
        assert agent.stdout is not None
        pid = int(agent.stdout.readline())
        assert not gone(pid, within=0)
        os.kill(agent.pid, signal.SIGKILL)
        assert gone(pid)


def test_a_missing_folder_and_a_missing_shell_are_told(tmp_path: Path) -> None:
    lost = tmp_path / "lost"
    with pytest.raises(StartError, match=f"^Working directory does not exist: {lost}\nCannot exec"):
        shell_command("true", cwd=lost, env={})
    with pytest.raises(StartError, match="Shell not found: /no/shell"):
        shell_command("true", cwd=tmp_path, env={}, shell_path="/no/shell")


def test_a_command_that_cannot_start_leaves_no_descriptor_open(tmp_path: Path) -> None:
    async def attempt() -> None:
        async with Running(shell_command("x\0y", cwd=tmp_path, env=os.environ)) as running:
            await running.exit_code()

    asyncio.run(collect("true", tmp_path))
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(StartError, match="null"):
        asyncio.run(attempt())
    assert len(os.listdir("/proc/self/fd")) == before
