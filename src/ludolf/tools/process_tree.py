"""Start, list and end the processes of commands through the supervisor.

`supervisor.py` runs as a separate process. It starts with the first command and serves all sessions
of this program.
"""

import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ludolf.tools import supervisor
from ludolf.tools.supervisor import DEATH_SECONDS, GRACE_SECONDS, POLL_SECONDS, ProcessStat

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

# Number of reapers kept for later commands; a new one costs about a millisecond.
_MOST_IDLE = 8
# Seconds until a reaper without a command is ended, since it takes memory.
_IDLE_SECONDS = 0.5
_SEND_SECONDS = 10.0
# Imported rather than run as a script, since Python caches the bytecode of imports only.
_PROGRAM = "import sys; sys.path.append(sys.argv[1]); import supervisor; supervisor.main()"
_BLOCKED = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)

ReaperMessage = tuple[Any, ...]


class Reaper:
    """The process that runs one command at a time; everything the command starts is below it."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._buffer = bytearray()
        self.pid = 0
        # Whether processes of a command are running, and whether the reaper itself is gone.
        self.busy = False
        self.gone = False
        self.idle_since = 0.0
        self.survivors: tuple[tuple[int, str], ...] = ()
        self.report: Callable[[ReaperMessage], None] | None = None

    def fileno(self) -> int:
        return self._channel.fileno()

    def run(self, argv: Sequence[str], cwd: str, env: Mapping[str, str], *files: int) -> None:
        """Send a command; the reaper answers with `failed` or, when it has ended, with `exited`.

        `files` is one descriptor for all output, or stdin, stdout, stderr and at most three more;
        then the reaper also answers with `started` and the pid.

        Raises:
            OSError: the reaper does not take it.
            ValueError: an argument or a variable cannot be encoded.
        """
        variables = {os.fsencode(name): os.fsencode(value) for name, value in env.items()}
        request = supervisor.pack([os.fsencode(word) for word in argv], os.fsencode(cwd), variables)
        self.go_on()
        self._channel.settimeout(_SEND_SECONDS)
        try:
            socket.send_fds(self._channel, [supervisor.RUN], files)
            self._channel.sendall(request)
        except OSError:
            self.kill()
            raise
        self._channel.setblocking(False)
        self.busy = True

    def end(self) -> None:
        """End all processes: those that handle SIGTERM get a second, then all are killed."""
        self.go_on()
        try:
            self._channel.send(supervisor.END)
        except OSError:
            self._lose()

    def receive(self) -> None:
        """Report the messages that have arrived."""
        while True:
            try:
                # The flag of the call: another process may share the descriptor and its mode.
                data = self._channel.recv(65536, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self._lose()
                return
            self._buffer += data
            while (message := supervisor.unpack(self._buffer)) is not None:
                self._take(message)

    def go_on(self) -> None:
        """Continue the reaper, which a command may have stopped: it has the same user."""
        if self.pid and not self.gone:
            supervisor.send_signal(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """Kill a reaper that does not answer; the supervisor kills everything below it."""
        if not self.gone and self.pid:
            supervisor.send_signal(self.pid)
        self.close()

    def close(self) -> None:
        """End the reaper, which immediately kills all processes below it."""
        self._lose()
        if self.report is None:
            self._channel.close()
        else:
            # An event loop still waits for this descriptor, so its number must not be reused yet.
            with suppress(OSError):
                self._channel.shutdown(socket.SHUT_RDWR)

    def _take(self, message: ReaperMessage) -> None:
        kind = message[0]
        if kind == "hello":
            self.pid = message[1]
        elif kind == "started":
            self.busy = True
        elif kind == "exited":
            self.busy = bool(message[2])
        elif kind == "ended":
            self.survivors = tuple(message[1])
            self.busy = bool(self.survivors)
        else:
            self.busy = False
        if self.report is not None:
            self.report(message)

    def _lose(self) -> None:
        if not self.gone:
            self.gone = True
            self.busy = False
            if self.report is not None:
                self.report(("lost",))


class Warden:
    """The reapers of this program and the supervisor that forks them."""

    def __init__(self, idle_seconds: float = _IDLE_SECONDS) -> None:
        self._idle_seconds = idle_seconds
        # When the next timer ends idle reapers.
        self._looks_at = 0.0
        # Number of open sessions in an embedding program, whose orphans must not be adopted.
        self.guests = 0
        self._control: socket.socket | None = None
        self._pid = 0
        self._rights: object = None
        self._adopts = False
        self._idle: list[Reaper] = []
        self._others: list[Reaper] = []
        self._dead: set[int] = set()
        # Children that this program started.
        self._own: set[int] = set()
        # Sessions of an embedding program may run in different threads.
        self._lock = threading.RLock()
        os.register_at_fork(after_in_child=self._forget)

    def take(self, report: Callable[[ReaperMessage], None]) -> Reaper:
        """Return a reaper that is free for a command; `report` gets its messages.

        Raises:
            OSError: the supervisor cannot be started.
        """
        with self._lock:
            reaper = self._free()
            reaper.report = report
            self._others.append(reaper)
        return reaper

    def give_back(self, reaper: Reaper, loop: "AbstractEventLoop | None") -> None:
        """Return a reaper after its command; processes that the command left keep running.

        The event loop ends the reaper if no other command takes it soon.
        """
        with self._lock:
            reaper.report = None
            if reaper.gone:
                reaper.close()
            self._sort()
            self._reap()
            if loop is not None:
                self._look_later(loop)

    def end_all(self) -> tuple[tuple[int, str], ...]:
        """End all processes that commands left running; for the end of the program.

        Processes that handle SIGTERM get a moment to clean up. Returns the pid and name of those
        that survive: they have changed their user, or hang in the kernel.
        """
        reapers = [reaper for reaper in self._others if reaper.busy]
        for reaper in reapers:
            reaper.survivors = ()
            reaper.end()
        until = time.monotonic() + GRACE_SECONDS + DEATH_SECONDS
        left = reapers
        while (left := [one for one in left if one.busy and not one.survivors]) and (
            seconds := until - time.monotonic()
        ) > 0:
            for reaper in _readable(left, seconds):
                reaper.receive()
        survivors = {pid: name for reaper in reapers for pid, name in reaper.survivors}
        self.dismiss()
        survivors |= {each.pid: each.name for each in self._end_adopted()}
        self._reap()
        return tuple(survivors.items())

    def dismiss(self) -> None:
        """End the supervisor, its reapers, and all processes below them."""
        with self._lock:
            for reaper in (*self._idle, *self._others):
                reaper.kill() if reaper.busy else reaper.close()
            self._idle, self._others = [], []
            if self._control is not None:
                self._control.close()
                self._control = None
                supervisor.send_signal(self._pid, signal.SIGCONT)
                self._dead.add(self._pid)

    def _free(self) -> Reaper:
        if not self.guests and not self._adopts:
            supervisor.adopt_orphans()
            self._adopts = True
        if self._rights != (now := _rights()):
            self.dismiss()  # its processes would keep rights that this process has dropped
            self._rights = now
        for reaper in (*self._idle, *self._others):
            if reaper.report is None:
                reaper.receive()
        self._sort()
        return self._idle.pop() if self._idle else self._new()

    def _new(self) -> Reaper:
        ours, theirs = socket.socketpair()
        if self._control is not None:
            supervisor.send_signal(self._pid, signal.SIGCONT)
        with theirs:
            if self._control is None or not _sent(self._control, theirs):
                self._start()
                assert self._control is not None
                if not _sent(self._control, theirs):
                    ours.close()
                    raise OSError("the supervisor of commands does not start")
        return Reaper(ours)

    def _start(self) -> None:
        if self._control is not None:
            self._control.close()
            self._dead.add(self._pid)
        self._control, theirs = socket.socketpair()
        # Not through a virtual environment or anything else that a command could have changed.
        python = os.path.realpath(sys.executable)
        null = (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_RDWR, 0)
        with theirs:
            self._pid = os.posix_spawn(
                python,
                (python, "-I", "-S", "-c", _PROGRAM, os.path.dirname(supervisor.__file__)),
                {},
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, theirs.fileno(), 0),
                    null,
                    (os.POSIX_SPAWN_DUP2, 1, 2),
                ],
                setsid=True,
                setsigmask=_BLOCKED,
            )
        self._control.settimeout(_SEND_SECONDS)

    def _look_later(self, loop: "AbstractEventLoop") -> None:
        now = time.monotonic()
        # A loop that ended may have dropped its timer, which is then overdue.
        if self._idle and self._looks_at <= now:
            first = min(reaper.idle_since for reaper in self._idle) + self._idle_seconds
            self._looks_at = max(first, now)
            loop.call_later(self._looks_at - now, self._end_idle, loop)

    def _end_idle(self, loop: "AbstractEventLoop") -> None:
        with self._lock:
            latest = time.monotonic() - self._idle_seconds
            for reaper in [one for one in self._idle if one.idle_since <= latest]:
                self._idle.remove(reaper)
                reaper.go_on()
                reaper.close()
            self._looks_at = 0.0
            self._look_later(loop)

    def _sort(self) -> None:
        """Sort reapers into free and busy ones; drop those that have ended."""
        for reaper in tuple(self._others):
            if reaper.gone:
                reaper.close()
                self._others.remove(reaper)
            elif reaper.report is None and not reaper.busy:
                self._others.remove(reaper)
                reaper.idle_since = time.monotonic()
                self._idle.append(reaper)
        alive = [reaper for reaper in self._idle if not reaper.gone]
        for reaper in (*alive[_MOST_IDLE:], *(each for each in self._idle if each.gone)):
            reaper.close()
        self._idle = alive[:_MOST_IDLE]

    def _end_adopted(self) -> list[ProcessStat]:
        """End descendants in other process sessions; return those that survive.

        Such processes are, for example, orphans of a supervisor that was killed.
        """
        pids = self._adopted()
        _wait_for(supervisor.ask_to_end(pids), GRACE_SECONDS)
        for pid in pids | self._adopted():
            supervisor.send_signal(pid)
        self._dead |= pids
        return _wait_for(pids, DEATH_SECONDS / 2)

    def _adopted(self) -> set[int]:
        if not self._adopts:
            return set()
        own = os.getsid(0)
        kin = {one.pid for one in supervisor.below(os.getpid()) if one.session != own}
        return kin - self._dead

    def _reap(self) -> None:
        if self._adopts:
            own, children = os.getsid(0), supervisor.children_of(os.getpid())
            # Direct forks of this program share its session or lead their own. They stay so: only
            # new children are looked at, because a program may have hundreds.
            for child in supervisor.look_up(children - self._own):
                (self._own if child.session in (own, child.pid) else self._dead).add(child.pid)
            self._own &= children
        self._dead = {pid for pid in self._dead if not _reaped(pid)}

    def _forget(self) -> None:
        """Close the sockets in a fork of this process: closing the last copy ends the commands."""
        for reaper in (*self._idle, *self._others):
            reaper.report = None
            reaper.close()
        if self._control is not None:
            self._control.close()
        self._control, self._idle, self._others = None, [], []
        self._dead, self._own = set(), set()
        self._lock = threading.RLock()


WARDEN = Warden()


def _rights() -> object:
    return os.getresuid(), os.getresgid(), os.getgroups()


def _sent(control: socket.socket, channel: socket.socket) -> bool:
    try:
        socket.send_fds(control, [supervisor.RUN], [channel.fileno()])
    except OSError:
        return False
    return True


def _readable(reapers: Sequence[Reaper], seconds: float) -> list[Reaper]:
    poll = select.poll()
    for reaper in reapers:
        poll.register(reaper.fileno(), select.POLLIN)
    ready = {file for file, _ in poll.poll(seconds * 1000)}
    return [reaper for reaper in reapers if reaper.fileno() in ready]


def _wait_for(pids: set[int], seconds: float) -> list[ProcessStat]:
    """Wait at most `seconds` until all have ended; return those that have not."""
    deadline = time.monotonic() + seconds
    while (left := supervisor.living(pids)) and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
    return left


def _reaped(pid: int) -> bool:
    """Whether the process has ended and needs no further `waitpid`."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return not os.path.exists(f"/proc/{pid}")
