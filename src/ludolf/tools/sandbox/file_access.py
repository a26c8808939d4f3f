"""File access of tools under the policy: resolve links first, then open without links."""

import errno
import os
import stat
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec

from ludolf.agent.tool import ToolFailure, Walls
from ludolf.tools.files import refuse_opened, refuse_special, write_atomically
from ludolf.tools.output import make_private
from ludolf.tools.sandbox.links import follow, open_folder
from ludolf.tools.sandbox.policy import Argv, Enclosed, Policy, program_places, real

_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY | os.O_NOFOLLOW
_SCAN_SECONDS = 30.0


class Enclosure(Protocol):
    """A means to restrict commands: bubblewrap or Landlock."""

    @property
    def tmp(self) -> "Tmp": ...

    def enclose(
        self, policy: Policy, argv: Argv, cwd: Path, env: Mapping[str, str]
    ) -> Enclosed: ...


class Tmp(msgspec.Struct, frozen=True):
    """The private folder for temporary files, and other folders that commands see differently.

    Commands see `real` under the name `shown`. `kept` contains the complete output of commands. It
    and `real` are in `base`, which is hidden otherwise, since it also contains folders of other
    processes. `private` folders are hidden too, except for the `public` paths in them.
    """

    real: Path
    shown: Path
    kept: Path
    around: Path | None = None
    private: tuple[Path, ...] = ()
    public: tuple[Path, ...] = ()

    @property
    def base(self) -> Path:
        return self.around or self.real

    def locate(self, path: Path, seen: tuple[Path, ...]) -> Path:
        """Return the place on disk of a path in the view of commands.

        `seen` are paths that are the same in both.
        """
        if self.real == self.shown or not path.is_relative_to(self.shown):
            return path
        if any(path.is_relative_to(place) for place in (*seen, self.kept)):
            return path
        return self.real / path.relative_to(self.shown)

    def hiding(self, path: Path, seen: tuple[Path, ...]) -> Path | None:
        """Return the private folder that contains a path; None if tools may see it."""
        shown = (*seen, self.kept, self.real, *self.public)
        if any(path.is_relative_to(place) for place in shown):
            return None
        return next(
            (place for place in (self.base, *self.private) if path.is_relative_to(place)), None
        )


class FileWalls:
    """Sandboxed file access for one working folder."""

    def __init__(self, policy: Policy, enclosure: Enclosure) -> None:
        self._policy = policy
        self._enclosure = enclosure
        self._inodes: tuple[float, frozenset[tuple[int, int]]] = (-_SCAN_SECONDS, frozenset())
        self._cwd = Path(os.path.realpath(policy.cwd))
        self._program = real(program_places())

    @property
    def output_folder(self) -> Path:
        return make_private(self._enclosure.tmp.kept)

    def locate(self, path: Path) -> Path:
        policy, tmp = self._policy, self._enclosure.tmp
        seen = (policy.folder, *policy.writable, *self._program)
        # Commands start in the real folder; a link to it may be in a hidden folder.
        if path.is_relative_to(policy.cwd):
            path = self._cwd / path.relative_to(policy.cwd)

        def on_disk(step: Path) -> Path:
            return tmp.locate(step, seen)

        real = on_disk(follow(path, on_disk).path)
        if policy.is_hidden(real):
            name = _named(path, real)
            raise ToolFailure(f"{name} is hidden by the sandbox: it contains credentials.")
        if (private := tmp.hiding(real, seen)) is not None:
            raise ToolFailure(f"{path} is hidden by the sandbox: {private} is private.")
        if len(real.parts) > 2 and real.parts[1] == "proc" and real.parts[2].isdigit():
            raise ToolFailure(f"{path} is hidden by the sandbox: process files may contain keys.")
        return real

    def hides(self, real: Path) -> bool:
        """Whether a real path is hidden, also by the name of a hard link."""
        if self._policy.is_hidden(real):
            return True
        try:
            return self._is_hidden_file(os.stat(real))
        except OSError:
            return False

    def open(self, path: Path) -> int:
        real = self.locate(path)
        with open_folder(real.parent) as folder:
            # Non-blocking, in case it is a pipe. All links were resolved, so a link is an error.
            refuse_special(os.stat(real.name or ".", dir_fd=folder, follow_symlinks=False), path)
            file = os.open(real.name or ".", _READ, dir_fd=folder)
        try:
            if self._is_hidden_file(refuse_opened(file, path)):
                raise ToolFailure(f"{path} is a link to a file that the sandbox hides.")
        except BaseException:
            os.close(file)
            raise
        return file

    def open_folder(self, path: Path) -> int:
        real = self.locate(path)
        with open_folder(real) as folder:
            return os.open(".", _READ | os.O_DIRECTORY, dir_fd=folder)

    def hidden_among(self, folder: Path, names: Iterable[str]) -> frozenset[str]:
        place = self.locate(folder)
        return frozenset(name for name in names if self._is_hidden_at(place / name))

    def replace(self, path: Path, data: bytes) -> None:
        real = self._checked_target(path)
        with open_folder(real.parent, make=True) as folder:
            try:
                old = os.stat(real.name, dir_fd=folder, follow_symlinks=False)
            except FileNotFoundError:
                write_atomically(folder, real.name, data, None)
                return
            if stat.S_ISLNK(old.st_mode):
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
            refuse_special(old, path)
            if not os.access(real.name, os.W_OK, dir_fd=folder):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            # The name gets new content; other hard links keep the old content.
            write_atomically(folder, real.name, data, old)

    def check_writable(self, path: Path) -> None:
        self._checked_target(path)

    def enclose(self, argv: Argv, cwd: Path, env: Mapping[str, str]) -> Enclosed:
        return self._enclosure.enclose(self._policy, argv, cwd, env)

    def _checked_target(self, path: Path) -> Path:
        real = self.locate(path)
        if real.is_relative_to(os.path.realpath(self._enclosure.tmp.real)):
            return real
        policy, name = self._policy, _named(path, real)
        if policy.ground.mode == "read-only":
            raise ToolFailure(f"The sandbox is read-only: {name} cannot be written.")
        if not policy.is_writable(real):
            raise ToolFailure(
                f"{name} is outside the sandbox. Only {policy.start or policy.cwd} and "
                f"{self._enclosure.tmp.shown} can be written to."
            )
        if policy.is_protected(real):
            raise ToolFailure(f"The sandbox protects {name}: code is run from it.")
        return real

    def _is_hidden_at(self, path: Path) -> bool:
        try:
            return self._is_hidden_file(os.lstat(path))
        except OSError:
            return True  # removed since it was found

    def _is_hidden_file(self, status: os.stat_result) -> bool:
        """Whether a file is a hidden one under the name of a hard link."""
        if status.st_nlink < 2 or not stat.S_ISREG(status.st_mode):
            return False
        now = time.monotonic()
        if now - self._inodes[0] >= _SCAN_SECONDS:
            self._inodes = (now, self._policy.hidden_inodes())
        return (status.st_dev, status.st_ino) in self._inodes[1]


def _named(path: Path, real: Path) -> str:
    return str(path) if path == real else f"{path} (real path: {real})"


if TYPE_CHECKING:

    def _proof(walls: FileWalls) -> Walls:
        return walls
