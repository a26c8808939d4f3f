"""What tools may touch, as real paths; the same for our own access and for commands."""

import os
import stat
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

import msgspec

from ludolf.tools.sandbox import sensitive_paths as places

Mode = Literal["read-only", "workspace"]


class Ground(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for every working folder of a session.

    `write` are further folders that may be written to, `hide` and `show` change the list of hidden
    places, `guarded` are files that the program itself runs code from, `linked` is code that links
    in protected folders lead to.
    """

    mode: Mode
    network: bool
    home: Path
    agent: Path
    write: tuple[Path, ...] = ()
    hide: tuple[Path, ...] = ()
    show: tuple[Path, ...] = ()
    guarded: tuple[Path, ...] = ()
    linked: tuple[Path, ...] = ()


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """The ground with one working folder on it.

    Hidden places are looked up each time: one may come to be while the session lasts. `start` is
    the real path of the folder that the walls are built around; by default that of `cwd`.
    """

    ground: Ground
    cwd: Path
    start: Path | None = None

    @property
    def folder(self) -> Path:
        return self.start or Path(os.path.realpath(self.cwd))

    @property
    def writable(self) -> tuple[Path, ...]:
        """Existing folders that may be written to, next to the private one for temporary files.

        A folder within another one is left out, and so is a path with a link: a command could
        make it lead elsewhere.
        """
        if self.ground.mode != "workspace":
            return ()
        more = (path for path in self.ground.write if os.path.realpath(path) == str(path))
        wanted = {self.folder, *(path for path in more if path.is_dir())}
        return tuple(sorted(path for path in wanted if not wanted & set(path.parents)))

    @property
    def hidden(self) -> tuple[Path, ...]:
        """Existing places that must not be read, by their real paths."""
        ground = self.ground
        named = [ground.home / name for name in places.CREDENTIALS]
        named += [ground.agent / name for name in places.OWN_CREDENTIALS]
        shown = set(real(ground.show))
        return tuple(path for path in real((*named, *ground.hide)) if path not in shown)

    def is_hidden(self, path: Path) -> bool:
        """For a real path, or one that links lead to."""
        return any(path.is_relative_to(place) for place in self.hidden)

    def is_writable(self, path: Path) -> bool:
        return any(path.is_relative_to(place) for place in self.writable)

    def is_protected(self, path: Path) -> bool:
        """Whether code is run later from a path in a writable place, also if nothing is there."""
        if any(path.is_relative_to(place) for place in self.guarded):
            return True
        if path.is_relative_to(self.folder):
            parts = path.relative_to(self.folder).parts
            # In lower case, since some file systems do not tell the difference.
            if parts and parts[0].lower() in places.PROJECT_SETTINGS:
                return True
        return _is_git_code(tuple(part.lower() for part in path.parts))

    @property
    def code(self) -> tuple[Path, ...]:
        """Code that runs outside the sandbox: of this program, or by links; links unresolved."""
        ground = self.ground
        return (*ground.guarded, *ground.linked, *program_places(), ground.agent)

    @property
    def guarded(self) -> tuple[Path, ...]:
        """Real paths of that code where a writable place holds it, or would hold it."""
        found = (Path(os.path.realpath(path)) for path in self.code)
        return tuple(path for path in found if self.is_writable(path))

    def hidden_inodes(self) -> frozenset[tuple[int, int]]:
        """Of hidden files with several names, to recognize them under another name."""
        return frozenset(_inodes(self.hidden))


def program_places() -> tuple[Path, ...]:
    """Where this program's own code lies."""
    package = Path(__file__).parents[2]
    return (package, Path(sys.prefix), Path(sys.base_prefix), Path(os.__file__).parent)


def agent_sockets() -> tuple[Path, ...]:
    """Where somebody signs for the user, or types into a terminal of theirs."""
    named = (os.environ.get("SSH_AUTH_SOCK"), os.environ.get("TMUX", "").partition(",")[0])
    folder = Path(os.environ.get("TMUX_TMPDIR") or "/tmp", f"tmux-{os.getuid()}")
    try:
        terminals = tuple(folder.iterdir())
    except OSError:
        terminals = ()
    return real((*map(Path, filter(None, named)), *terminals))


def real(paths: Iterable[Path]) -> tuple[Path, ...]:
    """The real paths of those that exist."""
    return tuple(Path(os.path.realpath(path)) for path in paths if os.path.lexists(path))


def _is_git_code(parts: tuple[str, ...]) -> bool:
    return any(
        _is_code_in_git(parts[place + 1 :]) for place, name in enumerate(parts) if name == ".git"
    )


def _is_code_in_git(inside: tuple[str, ...]) -> bool:
    # `.git` itself may be a file that names another folder.
    if not inside or inside[0] in places.GIT_CODE:
        return True
    return inside[0] in ("modules", "worktrees") and bool(set(places.GIT_CODE) & set(inside))


def _inodes(roots: Iterable[Path]) -> Iterator[tuple[int, int]]:
    for root in roots:
        for path in (root, *root.rglob("*")) if root.is_dir() else (root,):
            try:
                found = path.lstat()
            except OSError:
                continue
            if stat.S_ISREG(found.st_mode) and found.st_nlink > 1:
                yield found.st_dev, found.st_ino
