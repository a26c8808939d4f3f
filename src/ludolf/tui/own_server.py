"""Start the server of this terminal: a process of its own that outlives a hang-up."""

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from ludolf.base.addresses import Address
from ludolf.config.settings.server_places import socket_folders

# A longer path does not fit into the address of a Unix socket.
_LONGEST_SOCKET_PATH = 100
_MOST_ERROR_BYTES = 16 * 1024


class OwnServer:
    """The process, and the connection to it.

    Attributes:
        address: The connected socket, for `RemoteClient`.
    """

    def __init__(
        self, process: "subprocess.Popen[bytes]", fd: int, path: Path | None, errors: IO[bytes]
    ) -> None:
        self.process = process
        self.address = Address("fd", str(fd))
        self._path = path
        self._errors = errors

    def reason(self) -> str:
        """Return why the process has ended: the end of what it wrote to stderr."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(1.0)
        self._errors.seek(0)
        lines = self._errors.read(_MOST_ERROR_BYTES).decode("utf-8", "replace").splitlines()
        said = [line for line in lines if line.strip() and not line.startswith("Warning: ")]
        if said:
            return said[-1].removeprefix("Error: ")
        code = self.process.poll()
        return "" if code is None else f"It ended with code {code}."

    def clean_up(self) -> None:
        """Remove the socket that a killed server left."""
        if self.process.poll() is not None and self._path is not None:
            with contextlib.suppress(OSError):
                self._path.unlink(missing_ok=True)
                Path(f"{self._path}.lock").unlink(missing_ok=True)


def start_own_server(environ: Mapping[str, str], cwd: str, *, aborts: bool) -> OwnServer:
    """Start a server for this terminal; it is answered for as soon as it runs.

    Args:
        environ: The environment of the server and of its tools.
        cwd: The folder of the session.
        aborts: Whether a run is stopped when the terminal hangs up.
    """
    here, there = socket.socketpair()
    errors = tempfile.TemporaryFile(prefix="ludolf-")  # noqa: SIM115 - open as long as the server
    path = _socket_path(environ)
    words = ["serve", "--private", str(there.fileno())]
    words += ["--on-hangup", "abort" if aborts else "finish"]
    words += ["--socket", str(path)] if path is not None else []
    with there:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "ludolf", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            pass_fds=(there.fileno(),),
            start_new_session=True,
            env=dict(environ),
            cwd=cwd,
        )
    return OwnServer(process, here.detach(), path, errors)


def _socket_path(environ: Mapping[str, str]) -> Path | None:
    """Return where other clients find the server; None if the path would be too long."""
    folders = [each for each in socket_folders(environ) if each.parent.is_dir()]
    for number in range(100):
        for folder in folders[:1]:
            path = folder / f"terminal-{os.getpid()}{f'-{number}' if number else ''}.sock"
            if len(os.fsencode(path)) > _LONGEST_SOCKET_PATH:
                return None
            if not path.exists():
                return path
    return None
