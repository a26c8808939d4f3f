"""Paths that tools may read and write, as real paths, for our own access and for commands."""

import os
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal

import msgspec

from ludolf.tools.sandbox import sensitive_paths as places

Confinement = Literal["read-only", "workspace"]
Argv = tuple[str, ...]
# A command in the sandbox, with its working folder and environment.
Enclosed = tuple[Argv, Path, dict[str, str]]


class Ground(msgspec.Struct, frozen=True, kw_only=True):
    """Rules for every working folder of a session.

    `environ` names sockets of the user that commands must not reach and the folders of programs,
    `write` are additional writable folders, `hide` and `show` change the list of hidden paths,
    `guarded` are files from which the program itself runs code, `linked` is code that links in
    protected folders lead to.
    """

    mode: Confinement
    network: bool
    home: Path
    agent: Path
    environ: Mapping[str, str]
    write: tuple[Path, ...] = ()
    hide: tuple[Path, ...] = ()
    show: tuple[Path, ...] = ()
    guarded: tuple[Path, ...] = ()
    linked: tuple[Path, ...] = ()


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """Rules for one working folder.

    Hidden paths are looked up each time, since one may be created during the session. `start` is
    the real path of the folder that the sandbox was created for; by default that of `cwd`.
    """

    ground: Ground
    cwd: Path
    start: Path | None = None

    @property
    def folder(self) -> Path:
        return self.start or Path(os.path.realpath(self.cwd))

    @property
    def writable(self) -> tuple[Path, ...]:
        """Existing writable folders, in addition to the private one for temporary files.

        Excludes a folder inside another one, and a path with a link, which a command could change.
        """
        if self.ground.mode != "workspace":
            return ()
        more = (path for path in self.ground.write if os.path.realpath(path) == str(path))
        folders = {self.folder, *(path for path in more if path.is_dir())}
        return tuple(sorted(path for path in folders if not folders & set(path.parents)))

    @property
    def hidden(self) -> tuple[Path, ...]:
        """Real paths of existing files and folders that must not be read."""
        ground = self.ground
        named = [ground.home / name for name in places.CREDENTIALS]
        named += [ground.agent / name for name in places.OWN_CREDENTIALS]
        shown = set(real(ground.show))
        return tuple(path for path in real((*named, *ground.hide)) if path not in shown)

    def is_hidden(self, path: Path) -> bool:
        """Whether a real path, or the target of links, is hidden."""
        return any(path.is_relative_to(place) for place in self.hidden)

    def is_writable(self, path: Path) -> bool:
        return any(path.is_relative_to(place) for place in self.writable)

    def is_protected(self, path: Path) -> bool:
        """Whether code may run later from a path in a writable folder, even if it is absent."""
        if any(path.is_relative_to(place) for place in self.guarded):
            return True
        if path.is_relative_to(self.folder):
            parts = path.relative_to(self.folder).parts
            # In lower case, since some file systems are case-insensitive.
            if parts and parts[0].lower() in places.PROJECT_SETTINGS:
                return True
        parts = tuple(part.lower() for part in path.parts)
        gits = (place for place, name in enumerate(parts) if name == ".git")
        return any(_is_code_in_git(parts[place + 1 :]) for place in gits)

    @property
    def code(self) -> tuple[Path, ...]:
        """Code of this program and of links that runs outside the sandbox, links unresolved."""
        ground = self.ground
        return (*ground.guarded, *ground.linked, *program_places(), ground.agent)

    @property
    def guarded(self) -> tuple[Path, ...]:
        """Real paths of that code inside writable folders, whether or not it exists."""
        paths = (Path(os.path.realpath(path)) for path in self.code)
        return tuple(path for path in paths if self.is_writable(path))

    def hidden_inodes(self) -> frozenset[tuple[int, int]]:
        """Inodes of hidden files with several hard links, to detect them under another name."""
        return frozenset(_inodes(self.hidden))


def program_places() -> tuple[Path, ...]:
    """Return the folders of this program's own code."""
    package = Path(__file__).parents[2]
    return (package, Path(sys.prefix), Path(sys.base_prefix), Path(os.__file__).parent)


def agent_sockets(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return sockets of signing agents and terminal multiplexers of the user."""
    named = (environ.get("SSH_AUTH_SOCK"), environ.get("TMUX", "").partition(",")[0])
    folder = Path(environ.get("TMUX_TMPDIR") or "/tmp", f"tmux-{os.getuid()}")
    try:
        terminals = tuple(folder.iterdir())
    except OSError:
        terminals = ()
    return real((*map(Path, filter(None, named)), *terminals))


def real(paths: Iterable[Path]) -> tuple[Path, ...]:
    """Return the real paths of those that exist."""
    return tuple(Path(os.path.realpath(path)) for path in paths if os.path.lexists(path))


def _is_code_in_git(inside: tuple[str, ...]) -> bool:
    # `.git` itself may be a file that names another folder.
    if not inside or inside[0] in places.GIT_CODE:
        return True
    return inside[0] in ("modules", "worktrees") and bool(set(places.GIT_CODE) & set(inside))


def _inodes(roots: Iterable[Path]) -> Iterator[tuple[int, int]]:
    for root in roots:
        for path in (root, *root.rglob("*")) if root.is_dir() else (root,):
            try:
                status = path.lstat()
            except OSError:
                continue
            if stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
                yield status.st_dev, status.st_ino
