"""What tools may touch, as real paths; the same for our own access and for commands."""

import os
import stat
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

import msgspec

from ludolf.tools.sandbox import places

Mode = Literal["read-only", "workspace"]


class Ground(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for every working folder of a session.

    `write` are further folders that may be written to, `hide` and `show` change the list of hidden
    places, `guarded` are files that the program itself runs code from.
    """

    mode: Mode
    network: bool
    home: Path
    agent: Path
    write: tuple[Path, ...] = ()
    hide: tuple[Path, ...] = ()
    show: tuple[Path, ...] = ()
    guarded: tuple[Path, ...] = ()


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """The ground with one working folder on it. Paths are looked up anew each time: what is hidden
    may come to be while the session lasts."""

    ground: Ground
    cwd: Path

    @property
    def folder(self) -> Path:
        return Path(os.path.realpath(self.cwd))

    @property
    def writable(self) -> tuple[Path, ...]:
        """Existing folders that may be written to, beside the private one for temporary files."""
        own = (self.folder,) if self.ground.mode == "workspace" else ()
        more = self.ground.write if self.ground.mode == "workspace" else ()
        return (*own, *(path for path in real(more) if path.is_dir()))

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
            if parts and parts[0] in places.PROJECT_SETTINGS:
                return True
        return _is_git_code(path.parts)

    @property
    def guarded(self) -> tuple[Path, ...]:
        """Existing code of this very program, where a writable place holds it."""
        own = (*self.ground.guarded, *program_places())
        return tuple(path for path in real(own) if self.is_writable(path))

    @property
    def protected(self) -> tuple[Path, ...]:
        """Existing places within writable ones that stay as they are."""
        folder = self.folder
        settings = [folder / name for name in places.PROJECT_SETTINGS]
        git = folder / ".git"
        run = [git] if git.is_file() else [git / name for name in places.GIT_CODE]
        found = [path for path in (*settings, *run) if path.exists() and not path.is_symlink()]
        return (*found, *self.guarded) if self.ground.mode == "workspace" else ()

    def hidden_inodes(self) -> frozenset[tuple[int, int]]:
        """Of all hidden files, to know them again under the name of a hard link."""
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
    if ".git" not in parts:
        return False
    inside = parts[parts.index(".git") + 1 :]
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
            if stat.S_ISREG(found.st_mode):
                yield found.st_dev, found.st_ino
