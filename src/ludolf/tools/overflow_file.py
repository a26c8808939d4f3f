"""File with the complete output of a command of which only the tail is shown."""

import os
import stat
import time
from pathlib import Path

MAX_SPILL_BYTES = 1024**3
# Folders with the output of commands in a sandbox, one for each working folder.
OUTPUT_PREFIX = "output-"
_KEEP_SECONDS = 7 * 24 * 3600
_CUT_NOTE = b"\n[output over 1 GiB is not kept]\n"


class Spill:
    """An append-only private file. A full disk ends the spill, never the command."""

    def __init__(self, folder: Path | None = None) -> None:
        self.error: str | None = None
        self._size = 0
        target = (folder or spill_folder()) / f"pi-bash-{os.urandom(8).hex()}.log"
        self.path = str(target)
        self._file = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)

    def write(self, data: bytes) -> None:
        if self.error or self._size >= MAX_SPILL_BYTES:
            return
        self._size += len(data)
        if self._size >= MAX_SPILL_BYTES:
            data += _CUT_NOTE
        try:
            write_all(self._file, data)
        except OSError as error:
            self.error = error.strerror or str(error)

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def write_all(file: int, data: bytes) -> None:
    """Write every byte, in several calls if necessary."""
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def spill_folder() -> Path:
    """Return a folder in the system's temporary folder that only this user can enter."""
    from tempfile import gettempdir, mkdtemp

    folder = Path(gettempdir()) / f"ludolf-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        if not _is_private(folder):
            return Path(mkdtemp(prefix="ludolf-"))
    _remove_old(folder)
    return folder


def make_private(folder: Path) -> Path:
    """Create a folder that only this user can enter."""
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def _is_private(folder: Path) -> bool:
    status = folder.lstat()
    private = not status.st_mode & 0o077 and status.st_uid == os.getuid()
    return stat.S_ISDIR(status.st_mode) and private


def _remove_old(folder: Path) -> None:
    limit = time.time() - _KEEP_SECONDS
    for entry in os.scandir(folder):
        try:
            if entry.name.startswith(OUTPUT_PREFIX):
                _remove_old(Path(entry.path))
            elif entry.stat(follow_symlinks=False).st_mtime < limit:
                os.unlink(entry.path)
        except OSError:
            continue  # another process of ours may clean up at the same time
