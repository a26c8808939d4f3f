"""Record files that a sandbox creates in a working folder, and remove them, also after a kill."""

import os
import signal
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from ludolf.tools.sandbox.links import open_folder

_PREFIX = "left-"
# Removes files when the program is killed. The commands in the sandbox end with the program, but
# possibly a moment later.
_SWEEPER = """
cd /
trap '' HUP INT TERM
read -r line
rm -f -- "$@"
sleep 1
rm -f -- "$@"
"""


class LeftoverPaths(msgspec.Struct):
    """`made` are empty files and folders that mounts need; `foreign` must not exist at all."""

    made: list[str] = []
    foreign: list[str] = []


class Leftovers:
    """The record of one sandbox, in a folder that commands cannot see."""

    def __init__(self, base: Path) -> None:
        self._base = base
        self._file = base / f"{_PREFIX}{os.getpid()}-{os.urandom(6).hex()}"
        self._record = LeftoverPaths()
        self._sweeper: tuple[int, int] | None = None

    def forbid(self, paths: Iterable[Path]) -> None:
        """Remove these absent paths in every `sweep`, and when the program is killed."""
        self._record.foreign = [str(path) for path in paths]
        if self._record.foreign:
            self._save()
            self._sweeper = _start_sweeper(self._record.foreign)

    def make(self, path: Path, *, folder: bool) -> None:
        """Create an empty file or folder; record it first, so that a kill does not leave it.

        Raises:
            OSError: the file or folder cannot be created.
        """
        if str(path) not in self._record.made:
            self._record.made.append(str(path))
            self._save()
        with open_folder(path.parent) as parent:
            if folder:
                os.mkdir(path.name, dir_fd=parent)
            else:
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
                os.close(os.open(path.name, flags, 0o644, dir_fd=parent))

    def stands_for(self, path: Path) -> Path | None:
        """Return the empty folder that was created above a path; None if there is none."""
        made = (each for each in path.parents if str(each) in self._record.made)
        return next((each for each in made if each.is_dir()), None)

    def adopt(self, path: Path) -> None:
        """Share an empty file or folder that another running sandbox has created."""
        if str(path) not in self._record.made and any(
            str(path) in other.made for other in self._others()
        ):
            self._record.made.append(str(path))
            self._save()

    def sweep(self) -> tuple[Path, ...]:
        """Remove paths that must not exist; return those that did."""
        return tuple(path for path in map(Path, self._record.foreign) if _unlinked(path))

    def close(self) -> None:
        self.sweep()
        shared = {path for other in self._others() for path in other.made}
        _remove_empty(path for path in self._record.made if path not in shared)
        self._file.unlink(missing_ok=True)
        if self._sweeper is not None:
            process, pipe = self._sweeper
            self._sweeper = None
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
            os.close(pipe)

    def _others(self) -> Iterator[LeftoverPaths]:
        for file in self._base.glob(f"{_PREFIX}*"):
            if file != self._file and _is_alive(file):
                yield _read(file)

    def _save(self) -> None:
        temporary = self._file.with_name(f".{self._file.name}")
        temporary.write_bytes(msgspec.json.encode(self._record))
        os.replace(temporary, self._file)


def _start_sweeper(paths: list[str]) -> tuple[int, int]:
    """Start a process that waits for the end of this one; return its pid and the pipe to it."""
    receive, send = os.pipe()
    to_null = (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)
    actions = [(os.POSIX_SPAWN_DUP2, receive, 0), to_null, (os.POSIX_SPAWN_DUP2, 1, 2)]
    argv = ["sh", "-c", _SWEEPER, "sweeper", *paths]
    env = {"PATH": "/usr/bin:/bin"}
    try:
        # A new process group, so that a signal to the group of the program does not end it.
        process = os.posix_spawn("/bin/sh", argv, env, file_actions=actions, setpgroup=0)
    except OSError:
        os.close(send)
        raise
    finally:
        os.close(receive)
    return process, send


def remove_of_dead(base: Path) -> None:
    """Remove files that sandboxes of killed programs left."""
    for file in base.glob(f"{_PREFIX}*"):
        if _is_alive(file):
            continue
        record = _read(file)
        for path in record.foreign:
            _unlinked(Path(path))
        _remove_empty(record.made)
        file.unlink(missing_ok=True)


def is_running(owner: str) -> bool:
    """Whether the process with this pid exists."""
    return not owner.isdigit() or os.path.exists(f"/proc/{owner}")


def _is_alive(file: Path) -> bool:
    return is_running(file.name.removeprefix(_PREFIX).partition("-")[0])


def _read(file: Path) -> LeftoverPaths:
    try:
        return msgspec.json.decode(file.read_bytes(), type=LeftoverPaths)
    except (OSError, msgspec.DecodeError):
        return LeftoverPaths()


def _unlinked(path: Path) -> bool:
    try:
        with open_folder(path.parent) as parent:
            os.unlink(path.name, dir_fd=parent)
    except OSError:
        return False  # absent, or a folder, which git does not read
    return True


def _remove_empty(paths: Iterable[str]) -> None:
    for path in sorted(map(Path, paths), reverse=True):
        try:
            with open_folder(path.parent) as parent:
                status = os.stat(path.name, dir_fd=parent, follow_symlinks=False)
                if stat.S_ISDIR(status.st_mode):
                    os.rmdir(path.name, dir_fd=parent)
                elif stat.S_ISREG(status.st_mode) and not status.st_size:
                    os.unlink(path.name, dir_fd=parent)
        except OSError:
            continue  # absent, or no longer empty
