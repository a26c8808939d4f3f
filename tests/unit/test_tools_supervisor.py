"""The supervisor of commands: nothing below it gets away, whatever it sheds or kills."""

import asyncio
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ludolf.tools import supervisor
from ludolf.tools.process import ProcessEnd, Running, StartError, shell_command
from ludolf.tools.process_tree import WARDEN, Warden
from tests.unit.test_tools_process import first_line, gone

# Each prints the number of a process that has shed group, session, parent and environment.
FREE = "env -i /bin/sh -c 'echo $$; exec /bin/sleep 60'"
THREADS = """
import os, threading, time, ctypes
print(os.getpid(), flush=True)
threading.Thread(target=time.sleep, args=(60,)).start()
ctypes.CDLL(None).syscall(60, 0)  # ends the first thread only
"""


def _detached(text: str) -> str:
    return f"env -i setsid -f /bin/sh -c {shlex.quote(text)}"


DAEMONS = {
    "empty environment": f"(setsid {FREE} &); sleep 60",
    "three levels": f"{_detached(_detached(_detached('echo $$; exec sleep 60')))}; sleep 60",
    "no files": "(env -i setsid sh -c 'echo $$; exec sleep 60 <&- >&- 2>&-' &); sleep 60",
    "deaf": "(env -i setsid sh -c 'trap \"\" TERM HUP INT; echo $$; sleep 60' &); sleep 60",
    "leader gone": f"(setsid {FREE} &); kill -STOP $$",
    "first thread ended": f"(env -i setsid {sys.executable} -c '{THREADS}' &); sleep 60",
}
# Commands that turn against what supervises them; `$PPID` is the reaper.
GRANDPARENT = "$(cut -d' ' -f4 /proc/$PPID/stat)"


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    yield
    WARDEN.end_all()


def running(text: str, cwd: Path) -> Running:
    return Running(shell_command(text, cwd=cwd, env=os.environ))


async def whole(text: str, cwd: Path) -> tuple[ProcessEnd, str]:
    output = b""
    async with running(text, cwd) as command:
        while chunk := await command.read():
            output += chunk
        return await command.end(), output.decode()


@pytest.mark.parametrize("text", DAEMONS.values(), ids=DAEMONS.keys())
def test_a_daemon_dies_with_its_command_and_not_with_another(text: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(f"(setsid {FREE} &); sleep 60", tmp_path) as other:
            unharmed = int(await first_line(other))
            async with running(text, tmp_path) as command:
                pid = int(await first_line(command))
            assert await asyncio.to_thread(gone, pid)
            assert not gone(unharmed, within=0)
        assert await asyncio.to_thread(gone, unharmed)

    asyncio.run(scenario())


@pytest.mark.parametrize("text", DAEMONS.values(), ids=DAEMONS.keys())
def test_a_daemon_dies_when_the_program_is_killed(text: str, tmp_path: Path) -> None:
    program = (
        "import asyncio, os, sys\n"
        "from pathlib import Path\n"
        "from ludolf.tools.process import Running, shell_command\n"
        "async def main():\n"
        "    command = shell_command(sys.argv[1], cwd=Path.cwd(), env=os.environ)\n"
        "    async with Running(command) as running:\n"
        "        os.write(1, await running.read())\n"
        "        await asyncio.sleep(60)\n"
        "asyncio.run(main())\n"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    words = [sys.executable, "-c", program, text]
    with subprocess.Popen(words, cwd=tmp_path, env=env, stdout=subprocess.PIPE) as agent:
        assert agent.stdout is not None
        pid = int(agent.stdout.readline())
        os.kill(agent.pid, signal.SIGKILL)
    assert gone(pid)


def test_a_daemon_that_was_left_behind_is_named_and_ends_with_the_program(tmp_path: Path) -> None:
    end, output = asyncio.run(
        whole(f"setsid {FREE} > pid & until [ -s pid ]; do :; done", tmp_path)
    )
    pid = int((tmp_path / "pid").read_text())
    assert (end.code, output) == (0, "")
    assert [left.pid for left in end.left] == [pid]
    assert not gone(pid, within=0)
    assert WARDEN.end_all() == ()
    assert gone(pid)


@pytest.mark.parametrize("victims", ["$PPID", GRANDPARENT])
def test_killing_a_supervisor_sets_nobody_free(victims: str, tmp_path: Path) -> None:
    daemon = f"(setsid {FREE} > pid &); until [ -s pid ]; do :; done"

    async def scenario() -> int:
        async with running(f"{daemon}; echo $$; kill -9 {victims}; sleep 60", tmp_path) as command:
            pid = int(await first_line(command))
            if victims == "$PPID":
                assert (await command.end()).signal == "SIGKILL"
        return pid

    for pid in (asyncio.run(scenario()), int((tmp_path / "pid").read_text())):
        assert gone(pid)
    assert asyncio.run(whole("echo again", tmp_path)) == (ProcessEnd(0, None, ()), "again\n")


def test_stopping_the_supervisors_holds_no_command(tmp_path: Path) -> None:
    text = f"kill -STOP {GRANDPARENT} $PPID; echo $$; sleep 60"

    async def scenario() -> int:
        async with running(text, tmp_path) as command:
            pid = int(await first_line(command))
        both = [whole("echo again", tmp_path) for _ in range(2)]
        assert [output for _, output in await asyncio.gather(*both)] == ["again\n"] * 2
        return pid

    assert gone(asyncio.run(scenario()))


def test_a_command_gets_no_file_no_mask_and_no_environment_of_ours(tmp_path: Path) -> None:
    text = "ls /proc/self/fd; grep -E '^Sig(Blk|Ign)' /proc/self/status; cat /proc/$PPID/environ"
    _, output = asyncio.run(whole(text, tmp_path))
    *files, _, blocked, _, ignored = output.split()
    assert files == ["0", "1", "2", "3"]  # the last one is the listing itself
    # The C library ignores two signals of its own in what it starts.
    assert (int(blocked, 16), int(ignored, 16) & ~(0b11 << 31)) == (0, 0)


def test_no_program_is_found_through_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("sh", "grep", "python", "python3", "kill", os.path.basename(sys.executable)):
        trap = tmp_path / name
        trap.write_text('#!/bin/sh\n: > "$0.ran"\n')
        trap.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    command = shell_command("sleep 60 & :", cwd=tmp_path, env={"PATH": "/usr/bin:/bin"})

    async def scenario() -> None:
        async with Running(command) as begun:
            await begun.exit_code()

    asyncio.run(scenario())
    WARDEN.end_all()
    assert list(tmp_path.glob("*.ran")) == []


def test_reapers_are_used_again_and_few_are_kept(tmp_path: Path) -> None:
    async def scenario() -> None:
        await asyncio.gather(*(whole("true", tmp_path) for _ in range(16)))
        first = {output for _, output in [await whole("echo $PPID", tmp_path) for _ in range(5)]}
        assert len(first) == 1

    asyncio.run(scenario())
    names = [Path(f"/proc/{pid}/comm") for pid in os.listdir("/proc") if pid.isdigit()]
    mine = [path.parent.name for path in names if _is(path, "ludolf-reaper")]
    ours = [pid for pid in mine if _parent(_parent(pid)) == str(os.getpid())]
    assert 1 <= len(ours) <= 8


def test_a_reaper_without_a_command_ends_after_a_while(tmp_path: Path) -> None:
    warden = Warden(idle_seconds=0.01)

    async def command() -> int:
        loop, exited = asyncio.get_running_loop(), asyncio.Event()
        reaper = warden.take(lambda message: exited.set() if message[0] == "exited" else None)
        loop.add_reader(reaper.fileno(), reaper.receive)
        reaper.run(("/bin/true",), str(tmp_path), {}, 2)
        await exited.wait()
        loop.remove_reader(reaper.fileno())
        warden.give_back(reaper, loop)
        return reaper.pid

    async def scenario() -> None:
        first = await command()
        os.kill(first, signal.SIGSTOP)  # as a process of another command may do
        assert await asyncio.to_thread(gone, first)
        assert await command() != first

    try:
        asyncio.run(asyncio.wait_for(scenario(), 30))
        assert warden.end_all() == ()
    finally:
        warden.dismiss()


def _is(comm: Path, name: str) -> bool:
    try:
        return comm.read_text().strip() == name
    except OSError:
        return False


def _parent(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]
    except OSError:
        return ""


def test_a_fork_of_this_program_does_not_keep_its_commands_alive(tmp_path: Path) -> None:
    async def scenario() -> int:
        async with running("sleep 60 & echo $!", tmp_path) as command:
            pid = int(await first_line(command))
            await command.exit_code()
        return pid

    pid = asyncio.run(scenario())
    read_end, write_end = os.pipe()
    fork = os.fork()
    if fork == 0:
        os.close(write_end)
        os.read(read_end, 1)
        os._exit(0)
    try:
        WARDEN.dismiss()
        assert gone(pid)
    finally:
        os.close(write_end)
        os.close(read_end)
        os.waitpid(fork, 0)


def test_a_command_that_cannot_start_says_why(tmp_path: Path) -> None:
    async def attempt(shell: str) -> None:
        command = shell_command("true", cwd=tmp_path, env={}, shell_path=shell)
        async with Running(command) as begun:
            assert await begun.read() == b""
            await begun.exit_code()

    (tmp_path / "plain").touch()
    with pytest.raises(StartError, match=r"Cannot start .*/plain: .*Permission denied"):
        asyncio.run(attempt(str(tmp_path / "plain")))


FORKS = """
import subprocess, sys, threading
def start():
    child = subprocess.Popen(["sleep", "60"])
    print(child.pid, flush=True)
    child.wait()
threading.Thread(target=start).start()
"""


@pytest.mark.parametrize("has_lists", [True, False])
def test_descendants_are_found_through_shells_and_threads(
    has_lists: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_lists:  # as in a kernel without lists of children
        monkeypatch.setattr(os.path, "exists", lambda path: False)
    text = f"sh -c 'sleep 60 & echo $!; wait' & exec {sys.executable} -c {shlex.quote(FORKS)}"
    with subprocess.Popen(["sh", "-c", text], stdout=subprocess.PIPE, text=True) as shell:
        assert shell.stdout is not None
        sleepers = {int(shell.stdout.readline()) for _ in range(2)}
        found = {process.pid: process.parent for process in supervisor.below(shell.pid)}
        shells = [pid for pid, parent in found.items() if parent == shell.pid]
        for pid in (*found, shell.pid):
            os.kill(pid, signal.SIGKILL)
    assert sleepers < set(found)
    assert set(found) - sleepers <= set(shells)
    assert os.getpid() not in found


READS = """
import asyncio, os, subprocess, sys
from pathlib import Path
from ludolf.tools.process import Running, shell_command

reads = []
sys.addaudithook(lambda name, args: name == "open" and reads.append(str(args[0])))
others = [subprocess.Popen(["sleep", "60"]) for _ in range(40)]

async def run():
    async with Running(shell_command("true", cwd=Path("."), env=os.environ)) as command:
        await command.exit_code()

asyncio.run(run())
reads.clear()
for _ in range(5):
    asyncio.run(run())
for other in others:
    other.kill()
    other.wait()
os.write(1, str(sum(name.startswith("/proc") for name in reads)).encode())
"""


def test_other_children_of_the_program_are_not_read_with_each_command(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", READS], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    assert int(done.stdout) <= 20
