"""Our own access to files under the policy: links resolved first, then opened without any."""

import errno
import os
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ludolf.agent.tool import ToolError, Walls
from ludolf.tools.files import refuse_opened, refuse_special, write_beside
from ludolf.tools.paths import real_path
from ludolf.tools.sandbox.policy import Policy

_STEP = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_SCAN_SECONDS = 30.0


class Enclosure(Protocol):
    """What shuts commands in."""

    @property
    def tmp(self) -> "Tmp": ...

    def enclose(
        self, policy: Policy, argv: tuple[str, ...], cwd: Path, env: Mapping[str, str]
    ) -> tuple[tuple[str, ...], Path, dict[str, str]]: ...


class Tmp:
    """The private folder for temporary files: where it is, and under which name commands see it."""

    def __init__(self, real: Path, shown: Path, kept: Path) -> None:
        """`kept` is shown in it as it is: the whole output of commands."""
        self.real = real
        self.shown = shown
        self.kept = kept

    def locate(self, path: Path, cwd: Path) -> Path:
        """Where a path that commands know really is."""
        if self.real == self.shown or not path.is_relative_to(self.shown):
            return path
        if path.is_relative_to(cwd) or path.is_relative_to(self.kept):
            return path
        return self.real / path.relative_to(self.shown)


class FileWalls:
    """The walls around one working folder."""

    def __init__(self, policy: Policy, enclosure: Enclosure) -> None:
        self._policy = policy
        self._enclosure = enclosure
        self._inodes: tuple[float, frozenset[tuple[int, int]]] = (-_SCAN_SECONDS, frozenset())

    def locate(self, path: Path) -> Path:
        real = Path(real_path(self._enclosure.tmp.locate(path, self._policy.cwd)))
        if self._policy.is_hidden(real):
            raise ToolError(f"{_named(path, real)} is hidden by the sandbox: it holds credentials.")
        return real

    def hides(self, real: Path) -> bool:
        """Whether a real path is hidden, also by the name of a hard link."""
        if self._policy.is_hidden(real):
            return True
        try:
            return self._is_link_to_hidden(os.stat(real))
        except OSError:
            return False

    def open(self, path: Path) -> int:
        real = self.locate(path)
        with _folder(real.parent) as folder:
            # Non-blocking, in case it is a pipe; no link can stand here, since all were resolved.
            flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY | os.O_NOFOLLOW
            refuse_special(os.stat(real.name or ".", dir_fd=folder, follow_symlinks=False), path)
            file = os.open(real.name or ".", flags, dir_fd=folder)
        try:
            self._refuse_link_to_hidden(refuse_opened(file, path), path)
        except BaseException:
            os.close(file)
            raise
        return file

    def replace(self, path: Path, data: bytes) -> None:
        real = self._checked_target(path)
        with _folder(real.parent, make=True) as folder:
            try:
                old = os.stat(real.name, dir_fd=folder, follow_symlinks=False)
            except FileNotFoundError:
                write_beside(Path(real.name), data, None, folder)
                return
            if stat.S_ISLNK(old.st_mode):
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
            refuse_special(old, path)
            if not os.access(real.name, os.W_OK, dir_fd=folder):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            # The name gets new content; what else is linked to the old content keeps it.
            write_beside(Path(real.name), data, old, folder)

    def enclose(
        self, argv: tuple[str, ...], cwd: Path, env: Mapping[str, str]
    ) -> tuple[tuple[str, ...], Path, dict[str, str]]:
        return self._enclosure.enclose(self._policy, argv, cwd, env)

    def _checked_target(self, path: Path) -> Path:
        real = self.locate(path)
        if real.is_relative_to(os.path.realpath(self._enclosure.tmp.real)):
            return real
        policy, name = self._policy, _named(path, real)
        if policy.ground.mode == "read-only":
            raise ToolError(f"The sandbox is read-only: {name} cannot be written.")
        if not policy.is_writable(real):
            raise ToolError(
                f"{name} is outside the sandbox. Only {policy.cwd} and "
                f"{self._enclosure.tmp.shown} can be written to."
            )
        if policy.is_protected(real):
            raise ToolError(f"The sandbox keeps {name} as it is, since code is run from it.")
        return real

    def _refuse_link_to_hidden(self, found: os.stat_result, path: Path) -> None:
        if self._is_link_to_hidden(found):
            raise ToolError(f"{path} is a link to a file that the sandbox hides.")

    def _is_link_to_hidden(self, found: os.stat_result) -> bool:
        if found.st_nlink < 2 or not stat.S_ISREG(found.st_mode):
            return False
        now = time.monotonic()
        if now - self._inodes[0] >= _SCAN_SECONDS:
            self._inodes = (now, self._policy.hidden_inodes())
        return (found.st_dev, found.st_ino) in self._inodes[1]


@contextmanager
def _folder(path: Path, *, make: bool = False) -> Iterator[int]:
    """The folder itself, reached name by name, so that none of them can have become a link."""
    here = os.open("/", _STEP & ~os.O_NOFOLLOW)
    try:
        for name in path.parts[1:]:
            try:
                there = os.open(name, _STEP, dir_fd=here)
            except FileNotFoundError:
                if not make:
                    raise
                # Somebody else may be faster; if by a link, the next step fails.
                with suppress(FileExistsError):
                    os.mkdir(name, dir_fd=here)
                there = os.open(name, _STEP, dir_fd=here)
            os.close(here)
            here = there
        yield here
    finally:
        os.close(here)


def _named(path: Path, real: Path) -> str:
    return str(path) if path == real else f"{path} (real path: {real})"


if TYPE_CHECKING:

    def _proof(walls: FileWalls) -> Walls:
        return walls
