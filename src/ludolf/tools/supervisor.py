"""Supervise commands so that none of their processes outlives the program: standard library only.

Ludolf starts this program once, with a socket as its stdin, and sends one more socket for each
command that runs at the same time. For each socket the supervisor forks a reaper, which runs one
command after another. Both are subreapers: orphans become their children. So every process of a
command stays below its reaper, whatever group, session, parent or environment it leaves, and below
the supervisor if the reaper is killed. When a socket is closed, also by a SIGKILL of the program,
the process at its other end kills everything below it.

Only modules that load fast are imported: `socket`, `signal` and `typing` would double the start-up
time.
"""

from __future__ import annotations

import _socket
import marshal
import os
import select
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

# Seconds that processes get to clean up after SIGTERM, and to end after SIGKILL.
GRACE_SECONDS = 1.0
DEATH_SECONDS = 1.0
POLL_SECONDS = 0.005
# Seconds for which supervisor and reapers try to kill when the program has ended.
LAST_SECONDS = 5.0
RUN, END = b"R", b"E"
_REAP_SECONDS = 2.0
_MOST_NAMED, _MOST_FILES, _PIPES, _MOST_PIPES = 100, 65536, 3, 6
# Descriptors are moved here first, so that no number is overwritten before it is read.
_ASIDE = 64
_PR_SET_CHILD_SUBREAPER, _PR_SET_NAME = 36, 15
SIGKILL, _SIGTERM = 9, 15
_IGNORED_BY_PYTHON = (13, 25)  # SIGPIPE, SIGXFSZ


class ProcessStat:
    def __init__(self, pid: int, stat: bytes) -> None:
        # The name before the last parenthesis may contain any characters, even parentheses.
        head, _, rest = stat.rpartition(b")")
        fields = rest.split()
        self.pid, self.parent, self.session = pid, int(fields[1]), int(fields[3])
        # A process whose first thread has ended looks dead while other threads run.
        self.dead = fields[0] in (b"Z", b"X") and int(fields[17]) < 2
        # Shown to people, so characters that could control their terminal are removed.
        name = head.partition(b"(")[2].decode("utf-8", "replace")
        self.name = "".join(filter(str.isprintable, name))


def pack(*fields: Any) -> bytes:
    data = marshal.dumps(fields)
    return len(data).to_bytes(4, "big") + data


def unpack(buffer: bytearray) -> tuple[Any, ...] | None:
    """Remove one message from the front of the buffer; None if it is incomplete."""
    end = 4 + int.from_bytes(buffer[:4], "big")
    if len(buffer) < max(end, 5):
        return None
    fields: tuple[Any, ...] = marshal.loads(bytes(buffer[4:end]))
    del buffer[:end]
    return fields


def _receive(channel: _socket.socket) -> tuple[bytes, list[int]]:
    """Read one byte, none at the end, and the descriptors that came with it."""
    try:
        data, ancillary, _, _ = channel.recvmsg(1, _socket.CMSG_SPACE(4 * _MOST_PIPES))
    except ConnectionError:
        return b"", []
    files = [
        int.from_bytes(value[start : start + 4], sys.byteorder)
        for level, kind, value in ancillary
        if level == _socket.SOL_SOCKET and kind == _socket.SCM_RIGHTS
        for start in range(0, len(value) - 3, 4)
    ]
    for file in files:
        os.set_inheritable(file, False)
    return data, files


def look_up(pids: Iterable[int]) -> Iterable[ProcessStat]:
    for pid in pids:
        try:
            yield ProcessStat(pid, _read(f"/proc/{pid}/stat"))
        except OSError:
            continue


def children_of(pid: int) -> set[int]:
    """Return the children of all threads of a process; none if it has ended."""
    found: set[int] = set()
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return found
    for thread in threads:
        try:
            found.update(map(int, _read(f"/proc/{pid}/task/{thread}/children").split()))
        except OSError:
            continue  # the thread has ended; another one or another process has its children now
    return found


def below(root: int) -> list[ProcessStat]:
    """Return the living descendants of a process.

    The kernel lists the children of each process, so that the cost does not depend on the number
    of other processes. Without such lists, all processes are read.
    """
    lists = os.path.exists(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
    children = children_of if lists else _children_by_scan()
    found: set[int] = set()
    # Orphans move to this process during the search, so its children are read again at the end.
    while new := children(root) - found:
        while new:
            found |= new
            new = {pid for parent in new for pid in children(parent)} - found
    return living(found)


def _children_by_scan() -> Callable[[int], set[int]]:
    by_parent: dict[int, set[int]] = {}
    try:
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        pids = []
    for process in look_up(pids):
        by_parent.setdefault(process.parent, set()).add(process.pid)
    return lambda pid: by_parent.get(pid, set())


def living(pids: Iterable[int]) -> list[ProcessStat]:
    return [process for process in look_up(pids) if not process.dead]


def send_signal(pid: int, number: int = SIGKILL) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return  # already ended, or changed its user, so that we may not signal it


def ask_to_end(pids: Iterable[int]) -> set[int]:
    """Send SIGTERM to all if any of them handles it; return those that do."""
    tidy = {pid for pid in pids if _handles_sigterm(pid)}
    for pid in pids if tidy else ():
        send_signal(pid, _SIGTERM)
    return tidy


def _handles_sigterm(pid: int) -> bool:
    try:
        status = _read(f"/proc/{pid}/status")
    except OSError:
        return False
    caught = status.partition(b"\nSigCgt:")[2].partition(b"\n")[0]
    return bool(int(caught or b"0", 16) >> (_SIGTERM - 1) & 1)


def _read(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.read()


class _Events:
    """Wait for input on a socket and for the end of children."""

    def __init__(self, channel: int) -> None:
        self._channel = channel
        self._poll = select.poll()
        self._poll.register(channel, select.POLLIN)
        self._handles: dict[int, int] = {}
        # Whether the end of a child is reported immediately, without polling.
        self.exact = hasattr(os, "pidfd_open")

    def watch(self, pid: int) -> None:
        if pid in self._handles or not self.exact:
            return
        try:
            self._handles[pid] = os.pidfd_open(pid)
        except ProcessLookupError:
            return
        except OSError:
            self.exact = False  # an old kernel, or a seccomp filter
            return
        self._poll.register(self._handles[pid], select.POLLIN)

    def forget(self, pid: int) -> None:
        handle = self._handles.pop(pid, -1)
        if handle >= 0:
            self._poll.unregister(handle)
            os.close(handle)

    def wait(self, seconds: float | None) -> bool:
        """Wait; return whether there is input on the socket."""
        ready = self._poll.poll(None if seconds is None else seconds * 1000)
        return any(file == self._channel for file, _ in ready)


def _reap(took: Callable[[int, int], None]) -> bool:
    """Collect dead children; return whether any child is left."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if pid == 0:
            return True
        took(pid, status)


def _kill_below(seconds: float, took: Callable[[int, int], None]) -> list[ProcessStat]:
    """Kill all descendants until none is left; return those that survive."""
    until = time.monotonic() + seconds
    while _reap(took):
        left = below(os.getpid())
        if time.monotonic() > until:
            return left
        for process in left:
            send_signal(process.pid)
        time.sleep(POLL_SECONDS)
    return []


class _Reaper:
    """Run one command after another; all processes of one must have ended before the next."""

    def __init__(self, channel: _socket.socket) -> None:
        self._channel = channel
        self._events = _Events(channel.fileno())
        self._command = 0
        self._status: int | None = None
        self._busy = False

    def serve(self) -> int:
        """Return the exit code, 0 if nothing is left running."""
        self._send("hello", os.getpid())
        while True:
            patience = _REAP_SECONDS if self._events.exact else POLL_SECONDS
            has_input = self._events.wait(patience if self._busy else None)
            self._collect()
            if not has_input:
                continue
            data, files = _receive(self._channel)
            if not data:
                return 1 if _kill_below(LAST_SECONDS, self._took) else 0
            if data == RUN:
                self._run(files)
            else:
                self._end()

    def _run(self, files: list[int]) -> None:
        try:
            argv, cwd, env = self._request()
            self._command = _spawn(argv, cwd, env, files)
        except (OSError, ValueError, IndexError, EOFError) as error:
            self._send("failed", str(error))
            return
        finally:
            for file in files:
                os.close(file)
        self._busy = True
        self._events.watch(self._command)
        if len(files) >= _PIPES:
            self._send("started", self._command)

    def _request(self) -> tuple[Any, ...]:
        buffer = bytearray()
        while (fields := unpack(buffer)) is None:
            data = self._channel.recv(1 << 20)
            if not data:
                raise EOFError
            buffer += data
        return fields

    def _end(self) -> None:
        tidy = ask_to_end([process.pid for process in below(os.getpid())])
        until = time.monotonic() + GRACE_SECONDS
        # The program sends nothing now, so input means that it has ended: kill without delay.
        while living(tidy) and time.monotonic() < until and not self._events.wait(0):
            time.sleep(POLL_SECONDS)
            _reap(self._took)
        if self._command:
            send_signal(-self._command)  # for systems without a table of processes in /proc
        left = _kill_below(DEATH_SECONDS, self._took)
        self._send_exit(left)
        self._busy = bool(left)
        self._send("ended", _named(left))

    def _collect(self) -> None:
        if not self._busy:
            return
        is_left = _reap(self._took)
        if self._status is not None:
            left = below(os.getpid()) if is_left else []
            for process in left[:_MOST_NAMED]:
                self._events.watch(process.pid)
            self._send_exit(left)
            self._busy = is_left
        elif not is_left:
            self._busy = False
            self._send("idle")

    def _took(self, pid: int, status: int) -> None:
        self._events.forget(pid)
        if pid == self._command:
            self._command = 0
            self._status = status

    def _send_exit(self, left: list[ProcessStat]) -> None:
        if self._status is not None:
            code, self._status = os.waitstatus_to_exitcode(self._status), None
            self._send("exited", code, _named(left))

    def _send(self, *fields: Any) -> None:
        try:
            self._channel.sendall(pack(*fields))
        except OSError:
            return  # the program has ended; the next read of the socket shows it


def _named(left: list[ProcessStat]) -> list[tuple[int, str]]:
    return [(process.pid, process.name) for process in left[:_MOST_NAMED]]


def _spawn(argv: list[bytes], cwd: bytes, env: dict[bytes, bytes], files: list[int]) -> int:
    """Start a command with stdin, stdout and stderr and more, or with one file for all output."""
    os.chdir(cwd)
    try:
        return os.posix_spawn(
            argv[0],
            argv,
            env,
            file_actions=_file_actions(files),
            setsid=True,
            setsigmask=(),
            setsigdef=_IGNORED_BY_PYTHON,
        )
    finally:
        os.chdir("/")


def _file_actions(files: list[int]) -> list[Any]:
    # With one file, stdin stays the null device.
    pipes = (*enumerate(files),) if len(files) >= _PIPES else ((1, files[0]), (2, files[0]))
    if len(files) <= _PIPES:
        return [(os.POSIX_SPAWN_DUP2, file, number) for number, file in pipes]
    aside: list[Any] = [(os.POSIX_SPAWN_DUP2, file, _ASIDE + number) for number, file in pipes]
    placed = [(os.POSIX_SPAWN_DUP2, _ASIDE + number, number) for number, _ in pipes]
    return [*aside, *placed, *((os.POSIX_SPAWN_CLOSE, _ASIDE + number) for number, _ in pipes)]


class _Supervisor:
    def __init__(self, control: _socket.socket) -> None:
        self._control = control
        self._events = _Events(control.fileno())
        self._reapers: set[int] = set()
        # Whether a reaper was killed, so that its processes must be killed too.
        self._has_strays = False

    def serve(self) -> None:
        while True:
            patience = POLL_SECONDS if self._has_strays or not self._events.exact else None
            has_input = self._events.wait(patience)
            _reap(self._took)
            if self._has_strays:
                self._kill_strays()
            if not has_input:
                continue
            data, files = _receive(self._control)
            if not data:
                _kill_below(LAST_SECONDS, self._took)
                return
            for file in files:
                self._fork(file)
                os.close(file)

    def _fork(self, file: int) -> None:
        try:
            pid = os.fork()
        except OSError:
            return  # the program detects the end of the socket
        if pid == 0:
            os.closerange(3, file)
            os.closerange(file + 1, _MOST_FILES)
            adopt_orphans(b"ludolf-reaper")
            os._exit(_Reaper(_socket.socket(fileno=file)).serve())
        self._reapers.add(pid)
        self._events.watch(pid)

    def _took(self, pid: int, status: int) -> None:
        self._events.forget(pid)
        if pid in self._reapers:
            self._reapers.discard(pid)
            self._has_strays |= status != 0

    def _kill_strays(self) -> None:
        children = {one.pid for one in below(os.getpid()) if one.parent == os.getpid()}
        roots = children - self._reapers
        for root in roots:
            for pid in (root, *(one.pid for one in below(root))):
                send_signal(pid)
        self._has_strays = bool(roots)


def adopt_orphans(name: bytes = b"") -> None:
    """Become the parent of orphaned descendants; take a name if one is passed."""
    import ctypes

    try:
        libc = ctypes.CDLL(None)
        libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        if name:
            libc.prctl(_PR_SET_NAME, name, 0, 0, 0)
    except (OSError, AttributeError):
        return  # not Linux: only the parent relation is available


def main() -> None:
    os.closerange(3, _MOST_FILES)  # descriptors that the program inherited and passed on
    control = os.dup(0)
    os.dup2(1, 0)  # the null device
    os.chdir("/")
    adopt_orphans(b"ludolf-supervis")
    _Supervisor(_socket.socket(fileno=control)).serve()
