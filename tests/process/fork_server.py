"""Start programs as forks of one interpreter that has imported Ludolf already.

A start costs the import of the program and of its HTTP library, about 0.25 s of CPU time; a fork
costs about 0.01 s. Each program is still a process with pipes, an environment and a folder to
itself. It differs from an executed one in its command line, in the memory that its environment was
passed in, and in that lazy imports find their modules loaded. Tests of these carry
`pytest.mark.exec`.

This file is also the server's program: standard library and Ludolf only.
"""

import atexit
import functools
import importlib
import json
import os
import pkgutil
import selectors
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress

# Variables that the interpreter reads when it starts: a fork comes too late for them.
_OF_THE_START = ("PYTHON", "LC_", "LANG", "TZ", "LD_")
_SIZE = struct.Struct("!I")
_STATUS = struct.Struct("!i")


def can_fork(env: Mapping[str, str]) -> bool:
    """Whether a fork of the server equals a start with this environment."""
    own = _server_env()
    changed = {name for name in env.keys() | own.keys() if env.get(name) != own.get(name)}
    return not any(name.startswith(_OF_THE_START) for name in changed)


def fork(
    words: Sequence[str], cwd: str, env: Mapping[str, str], files: tuple[int, int, int]
) -> tuple[int, int]:
    """Fork a program with these descriptors as stdin, stdout and stderr.

    Returns its process id, and a descriptor from which its wait status can be read once it ended.
    """
    return _server().fork(words, cwd, env, files)


def read_status(descriptor: int) -> int:
    """Wait for the end of a program; returns its exit code, or minus the signal that killed it."""
    with open(descriptor, "rb", buffering=0) as file:
        data = file.read(_STATUS.size)
    assert data, "the fork server has ended"
    return os.waitstatus_to_exitcode(_STATUS.unpack(data)[0])


class _Remote:
    """The server as a test sees it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())],
                pass_fds=(theirs.fileno(),),
                env=_server_env(),
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )
        atexit.register(self._close)

    def _close(self) -> None:
        self._socket.close()
        self._process.wait()

    def fork(
        self, words: Sequence[str], cwd: str, env: Mapping[str, str], files: tuple[int, int, int]
    ) -> tuple[int, int]:
        status, theirs = os.pipe()
        body = json.dumps([list(words), cwd, dict(env)]).encode()
        try:
            with self._lock:
                socket.send_fds(self._socket, [_SIZE.pack(len(body))], [*files, theirs])
                self._socket.sendall(body)
                answer = _read_exactly(self._socket, _SIZE.size)
        finally:
            os.close(theirs)
        return _SIZE.unpack(answer)[0], status


@functools.cache
def _server() -> _Remote:
    return _Remote()


def _server_env() -> dict[str, str]:
    return {"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8"}


def _read_exactly(channel: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = channel.recv(size - len(data))
        if not piece:
            raise EOFError("the fork server has ended")
        data += piece
    return data


# ---------------------------------------------------------------- the server


def _import_everything() -> None:
    import ludolf

    for module in pkgutil.walk_packages(ludolf.__path__, "ludolf."):
        # Adapters need their harness, which is not installed here.
        if not module.name.endswith("__main__") and ".adapters" not in module.name:
            importlib.import_module(module.name)
    importlib.import_module("aiohttp")


def _serve(channel: socket.socket) -> None:
    wakes, wake = os.pipe()
    for descriptor in (wakes, wake):
        os.set_blocking(descriptor, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    ends: dict[int, int] = {}
    selector = selectors.DefaultSelector()
    selector.register(channel, selectors.EVENT_READ)
    selector.register(wakes, selectors.EVENT_READ)
    while True:
        ready = {key.fileobj for key, _ in selector.select()}
        if wakes in ready:
            with suppress(BlockingIOError):
                os.read(wakes, 4096)
        _reap(ends)
        if channel in ready and not _start_next(channel, ends):
            return


def _reap(ends: dict[int, int]) -> None:
    while ends:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        descriptor = ends.pop(pid)
        with suppress(BrokenPipeError):  # a test that failed waits for nothing
            os.write(descriptor, _STATUS.pack(status))
        os.close(descriptor)


def _start_next(channel: socket.socket, ends: dict[int, int]) -> bool:
    """Take one request; False if there will not be another."""
    head, files, _, _ = socket.recv_fds(channel, _SIZE.size, 4)
    if not head:
        return False
    words, cwd, env = json.loads(_read_exactly(channel, _SIZE.unpack(head)[0]))
    *streams, end = files
    pid = os.fork()
    if not pid:
        _become(words, cwd, env, streams)
    for descriptor in streams:
        os.close(descriptor)
    ends[pid] = end
    channel.sendall(_SIZE.pack(pid))
    return True


def _become(words: list[str], cwd: str, env: dict[str, str], streams: list[int]) -> None:
    """Be the program. `main` ends the process; what it raises, the interpreter reports."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
    os.closerange(3, 1024)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    import ludolf
    from ludolf.cli.main import main

    sys.argv = [os.path.join(os.path.dirname(ludolf.__file__), "__main__.py"), *words]
    main()


if __name__ == "__main__":
    del sys.path[0]
    _import_everything()
    import gc

    gc.collect()
    gc.freeze()
    _serve(socket.socket(fileno=int(sys.argv[1])))
