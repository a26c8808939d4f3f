"""Everything that a command started, found again and ended: by group, by parentage, by a mark.

A process can leave its group (`setsid`) and its parent (a double fork), but it keeps the mark in
its environment; and since we are its subreaper, it cannot leave our own line of descent. A program
that only uses us is not made one: there, who sheds group, parent and environment is free.
"""

import os
import signal
import time
from collections.abc import Iterable
from typing import NamedTuple

MARK = "LUDOLF_FAMILY"
_PR_SET_CHILD_SUBREAPER = 36
_KILL_ROUNDS = 50
# How long those may take that clean up when they are asked to end, and how long death takes.
GRACE_SECONDS = 1.0
_DEATH_SECONDS = 0.5
POLL_SECONDS = 0.005

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
    name: str


class Warden:
    """The one place that knows this program's commands, their guard and their strays."""

    def __init__(self) -> None:
        # How many sessions are open in a program that is not ours: its orphans stay whose they are.
        self.guests = 0
        self._adopts = False
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
            self._start_guard()
        if not self.guests and not self._adopts:
            _become_subreaper()
            self._adopts = True
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

    def left_behind(self, leader: int, mark: str) -> tuple[Process, ...]:
        """What an ended command left running: it was their parent, now we are, or init is."""
        needle = f"{MARK}={mark}\0".encode()
        return tuple(
            child
            for child in (_children() if self._adopts else _processes().values())
            if not child.dead
            and child.pid not in self._leaders
            and child.pid != self._guard_pid
            and (child.session == leader or _carries(child.pid, needle))
        )

    def ask(self, leader: int, mark: str, *, leader_lives: bool) -> set[int]:
        """Ask a command with all its kin to end, if any of them cleans up then: returns those."""
        return _ask(f"{MARK}={mark}\0".encode(), {leader} if leader_lives else set())

    def kill(self, leader: int, mark: str, *, leader_lives: bool) -> None:
        """Kill a command with all its kin; its owner still has to reap the leader."""
        if leader_lives:
            # Not yet reaped, so its number cannot name a stranger, and neither can its group's.
            _signal(-leader)
        self._kill_all(f"{MARK}={mark}\0".encode(), {leader} if leader_lives else set())

    def end_all(self) -> tuple[Process, ...]:
        """End whatever any command left running; for the end of the program.

        Who cleans up when asked to end may do so for a moment. Returns those that survive all of
        it: they have changed their user, or hang in the kernel.
        """
        if not self._token:
            return ()
        needle = f"{MARK}={self._token}.".encode()
        _wait_for(_ask(needle, self._kin()), GRACE_SECONDS)
        killed = self._kill_all(needle, self._kin())
        left = _wait_for(killed, _DEATH_SECONDS)
        self._dismiss_guard()
        self._reap()
        self._token = ""
        return left

    def _kin(self) -> set[int]:
        """Our descendants in sessions other than our own."""
        processes = _processes()
        kin = _descendants(processes, {os.getpid()}) - {os.getpid(), self._guard_pid}
        return {pid for pid in kin if processes[pid].session != os.getsid(0)}

    def _kill_all(self, needle: bytes, roots: set[int]) -> set[int]:
        killed: set[int] = set()
        for _ in range(_KILL_ROUNDS):
            found = _members(needle, roots) - killed
            if not found:
                break
            for pid in found:
                _signal(pid)
            killed |= found
        self._strays |= killed - self._leaders
        return killed

    def _reap(self) -> None:
        for process in _children() if self._adopts else ():
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


def living(pids: set[int]) -> tuple[Process, ...]:
    """Those that have not ended."""
    return tuple(process for process in _look_up(pids) if not process.dead)


def _wait_for(pids: set[int], seconds: float) -> tuple[Process, ...]:
    """Wait until all have ended, at most so long; those that have not."""
    deadline = time.monotonic() + seconds
    while (left := living(pids)) and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
    return left


def _ask(needle: bytes, roots: set[int]) -> set[int]:
    members = _members(needle, roots)
    tidy = {pid for pid in members if _cleans_up(pid)}
    # The others would just die of it, or are deaf: nothing is gained by waiting for them.
    for pid in members if tidy else ():
        _signal(pid, signal.SIGTERM)
    return tidy


def _cleans_up(pid: int) -> bool:
    """Whether a process does something of its own when it is asked to end."""
    try:
        status = _read(f"/proc/{pid}/status")
    except OSError:
        return False
    caught = status.partition(b"\nSigCgt:")[2].partition(b"\n")[0]
    return bool(int(caught or b"0", 16) >> (signal.SIGTERM - 1) & 1)


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
        head, _, rest = stat.rpartition(b")")
        state, parent, _group, session = rest.split()[:4]
        # It is shown to people: what could control their terminal is left out.
        name = "".join(filter(str.isprintable, head.partition(b"(")[2].decode("utf-8", "replace")))
        yield Process(pid, int(parent), int(session), state in (b"Z", b"X"), name)


def _carries(pid: int, needle: bytes) -> bool:
    try:
        return needle in _read(f"/proc/{pid}/environ")
    except OSError:
        return False


def _read(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.read()


def _signal(pid: int, number: int = signal.SIGKILL) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return  # already gone, or changed its user: out of our reach


def _reaped(pid: int) -> bool:
    """True when nothing of that process is left for us to do."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return not os.path.exists(f"/proc/{pid}")
