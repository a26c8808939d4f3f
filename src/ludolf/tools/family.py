"""Everything that a command started, found again and ended: by group, by parentage, by a mark.

A process can leave its group (`setsid`) and its parent (a double fork), but it keeps the mark in
its environment; and since we are its subreaper, it cannot leave our own line of descent.
"""

import os
import signal
from collections.abc import Iterable
from typing import NamedTuple

MARK = "LUDOLF_FAMILY"
_PR_SET_CHILD_SUBREAPER = 36
_KILL_ROUNDS = 50

# A killed agent runs no clean-up. This shell sees its end of the pipe close and kills what carries
# the mark; one for all commands costs less than a launcher around each (about 0.8 ms a command).
_GUARD_SCRIPT = """
cd /
trap '' HUP INT TERM
read -r line
for round in 1 2 3; do
    for file in $(grep -lsF "$1" /proc/[0-9]*/environ); do
        pid=${file#/proc/}
        kill -KILL "${pid%/environ}"
    done
done
"""


class Process(NamedTuple):
    pid: int
    parent: int
    session: int
    dead: bool


class Warden:
    """The one place that knows this program's commands, their guard and their strays."""

    def __init__(self) -> None:
        self._token = ""
        self._count = 0
        self._guard_pid = 0
        self._guard_pipe = -1
        self._leaders: set[int] = set()
        self._strays: set[int] = set()

    def new_mark(self) -> str:
        """The mark for one more command; the first one also sets up guard and subreaper."""
        if not self._token:
            self._token = os.urandom(8).hex()
            _become_subreaper()
            self._start_guard()
        self._count += 1
        return f"{self._token}.{self._count}"

    def started(self, leader: int) -> None:
        """From now on this child is its owner's to reap."""
        self._leaders.add(leader)
        self._strays.discard(leader)

    def ended(self, leader: int) -> None:
        """The owner has reaped its child; orphans of it that are dead are reaped too."""
        self._leaders.discard(leader)
        self._reap()

    def kill(self, leader: int, mark: str, *, leader_lives: bool) -> None:
        """Kill a command with all its kin; its owner still has to reap the leader."""
        if leader_lives:
            # Not yet reaped, so its number cannot name a stranger, and neither can its group's.
            _signal(-leader)
        self._kill_all(f"{MARK}={mark}\0".encode(), {leader} if leader_lives else set())

    def end_all(self) -> None:
        """Kill whatever any command left running; for the end of the program."""
        if not self._token:
            return
        processes = _processes()
        own_session = os.getsid(0)
        kin = _descendants(processes, {os.getpid()}) - {os.getpid(), self._guard_pid}
        ours = {pid for pid in kin if processes[pid].session != own_session}
        self._kill_all(f"{MARK}={self._token}.".encode(), ours)
        self._dismiss_guard()
        self._reap()
        self._token = ""

    def _kill_all(self, needle: bytes, roots: set[int]) -> None:
        killed: set[int] = set()
        for _ in range(_KILL_ROUNDS):
            found = _members(needle, roots) - killed
            if not found:
                break
            for pid in found:
                _signal(pid)
            killed |= found
        self._strays |= killed - self._leaders

    def _reap(self) -> None:
        for process in _children():
            if process.pid not in self._leaders and self._is_adopted(process):
                self._strays.add(process.pid)
        self._strays = {pid for pid in self._strays if not _reaped(pid)}

    def _is_adopted(self, child: Process) -> bool:
        # What this program forks by itself shares its session or leads one of its own. A leader
        # may still be an orphan that called setsid; then it carries the mark.
        if child.session == os.getsid(0):
            return False
        return child.session != child.pid or _carries(child.pid, f"{MARK}={self._token}.".encode())

    def _start_guard(self) -> None:
        if not os.path.isdir("/proc/self"):
            return
        receive, self._guard_pipe = os.pipe()
        to_null = (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)
        actions = [(os.POSIX_SPAWN_DUP2, receive, 0), to_null, (os.POSIX_SPAWN_DUP2, 1, 2)]
        argv = ["sh", "-c", _GUARD_SCRIPT, "guard", f"{MARK}={self._token}."]
        env = {"PATH": os.environ.get("PATH", os.defpath)}
        try:
            self._guard_pid = os.posix_spawn(
                "/bin/sh", argv, env, file_actions=actions, setsid=True
            )
        finally:
            os.close(receive)

    def _dismiss_guard(self) -> None:
        if self._guard_pipe >= 0:
            os.close(self._guard_pipe)
            self._strays.add(self._guard_pid)
            self._guard_pipe = -1


WARDEN = Warden()


def _become_subreaper() -> None:
    import ctypes

    try:
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    except (OSError, AttributeError):
        return  # not Linux: groups and parentage must do


def _members(needle: bytes, roots: set[int]) -> set[int]:
    """Living processes that carry the mark, the roots, and the descendants of both."""
    processes = _processes()
    marked = {pid for pid in processes if pid in roots or _carries(pid, needle)}
    kin = _descendants(processes, marked)
    return {pid for pid in kin if pid in processes and not processes[pid].dead}


def _descendants(processes: dict[int, Process], roots: set[int]) -> set[int]:
    by_parent: dict[int, list[int]] = {}
    for process in processes.values():
        by_parent.setdefault(process.parent, []).append(process.pid)
    found = set(roots)
    todo = list(roots)
    while todo:
        new = [pid for pid in by_parent.get(todo.pop(), ()) if pid not in found]
        found.update(new)
        todo.extend(new)
    return found


def _processes() -> dict[int, Process]:
    try:
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return {}
    return {process.pid: process for process in _look_up(pids)}


def _children() -> list[Process]:
    try:
        text = _read(f"/proc/self/task/{os.getpid()}/children")
    except OSError:
        return []
    return list(_look_up(int(pid) for pid in text.split()))


def _look_up(pids: Iterable[int]) -> Iterable[Process]:
    for pid in pids:
        try:
            stat = _read(f"/proc/{pid}/stat")
        except OSError:
            continue
        # The name before the last parenthesis may hold anything, even spaces and parentheses.
        state, parent, _group, session = stat.rpartition(b")")[2].split()[:4]
        yield Process(pid, int(parent), int(session), state in (b"Z", b"X"))


def _carries(pid: int, needle: bytes) -> bool:
    try:
        return needle in _read(f"/proc/{pid}/environ")
    except OSError:
        return False


def _read(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.read()


def _signal(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return  # already gone, or changed its user: out of our reach


def _reaped(pid: int) -> bool:
    """True when nothing of that process is left for us to do."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return not os.path.exists(f"/proc/{pid}")
