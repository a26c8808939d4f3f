"""Find the paths of a working folder that commands must not change, before the first one runs."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ludolf.agent.tool import ToolFailure
from ludolf.base import ConfigError
from ludolf.base.project_files import read_text
from ludolf.tools.sandbox import sensitive_paths as places
from ludolf.tools.sandbox.links import follow
from ludolf.tools.sandbox.policy import Policy

# Maximum number of entries to search for links in folders of settings.
_MOST_ENTRIES = 10_000
# Folders of a repository that contain neither settings nor other repositories.
_NO_SETTINGS = ("objects", "refs", "logs", "hooks", "info", "lfs")


class NoSandbox(ToolFailure):
    """The requested sandbox is not available; the text says why and what to do."""


class GuardedPath(NamedTuple):
    """A path to protect; while it is absent, an empty file or folder takes its place."""

    path: Path
    is_folder: bool


class Pinned(NamedTuple):
    """A folder that contains entries: writable, but protected from renaming and removal."""

    path: Path
    inode: tuple[int, int]

    def is_same(self) -> bool:
        """Whether the path is still the same folder; a replacement could become a link."""
        return _inode(self.path) == self.inode


class Guard(NamedTuple):
    entries: tuple[GuardedPath, ...]
    pinned: tuple[Pinned, ...]
    # Files that redirect git to other settings. git fails on an empty file in their place.
    foreign: tuple[Path, ...]


def survey(policy: Policy) -> Guard:
    """Find the paths to protect.

    Raises:
        NoSandbox: a command could replace a link that leads to code.
    """
    if policy.ground.mode != "workspace":
        return Guard((), (), ())
    roots = policy.writable
    repositories = tuple(each for root in _tops(policy) for each in _repositories(root))
    entries: dict[Path, bool] = {}
    inside = [each for each in repositories if _is_below(each, roots)]
    pinned = set(inside)
    code = ((path, path.is_dir() or not path.exists()) for path in policy.code)
    for path, is_folder in (*_fixed(policy), *_of_git(repositories), *code):
        _add(GuardedPath(path, is_folder), policy, entries)
    for path in (*entries, *pinned, *policy.hidden):
        pinned |= {each for each in path.parents if _is_below(each, roots)}
    foreign = [each / "commondir" for each in inside]
    return Guard(
        tuple(GuardedPath(path, entries[path]) for path in sorted(entries, key=_depth)),
        tuple(Pinned(path, _inode(path)) for path in sorted(pinned, key=_depth) if path.is_dir()),
        tuple(path for path in foreign if not os.path.lexists(path)),
    )


def code_by_links(policy: Policy) -> tuple[Path, ...]:
    """Return code outside the protected names that links and git settings lead to."""
    if policy.ground.mode != "workspace":
        return ()
    paths: list[Path] = []
    for root in _tops(policy):
        repositories = tuple(_repositories(root))
        paths += [path for path, _ in _of_git(repositories)]
        for each in repositories:
            paths += _links_in(each / "hooks")
    for path, _ in _fixed(policy):
        paths += _links_in(path)
    return tuple(paths)


def _is_below(path: Path, roots: tuple[Path, ...]) -> bool:
    return any(root in path.parents for root in roots)


def _inode(path: Path) -> tuple[int, int]:
    try:
        status = os.lstat(path)
    except OSError:
        return (0, 0)
    return status.st_dev, status.st_ino


def _tops(policy: Policy) -> set[Path]:
    """Return the folders in which git may work."""
    return {policy.folder, *policy.writable}


def _depth(path: Path) -> tuple[int, Path]:
    return len(path.parts), path


def _fixed(policy: Policy) -> Iterator[tuple[Path, bool]]:
    for name in places.PROJECT_SETTINGS:
        path = policy.folder / name
        yield path, path.is_dir() or not os.path.lexists(path)
    for root in _tops(policy):
        # A folder without a repository may get one; a file or link names the real one.
        git = root / ".git"
        if os.path.lexists(git) and (git.is_symlink() or not git.is_dir()):
            yield git, git.is_dir()


def _of_git(repositories: tuple[Path, ...]) -> Iterator[tuple[Path, bool]]:
    for each in repositories:
        yield each / "config.worktree", False
        if (each / "commondir").exists():
            yield each / "commondir", False
        else:
            yield each / "hooks", True
            yield each / "config", False


def _add(entry: GuardedPath, policy: Policy, entries: dict[Path, bool]) -> None:
    followed, roots = follow(entry.path.absolute()), policy.writable
    for link in followed.links:
        if not _is_below(link, roots):
            continue
        if link.parent in _tops(policy):
            raise NoSandbox(
                f"No sandbox for {policy.cwd}: {link} is a link that leads to code, and a command "
                "could replace it. Replace the link by its target, or start read-only."
            )
        # A mount cannot cover a link, but it can cover its folder.
        entries[link.parent] = True
    if _is_below(followed.path, roots):
        entries.setdefault(followed.path, entry.is_folder)


# ---------------------------------------------------------------- repositories


def _repositories(root: Path) -> Iterator[Path]:
    """Yield the folders from which git reads settings and hooks for a working folder."""
    named = root / ".git"
    git = follow(named).path if named.is_dir() else _named_in(named, "gitdir:")
    if git is None:
        return
    yield git
    shared = _named_in(git / "commondir", "")
    if shared is not None:
        yield shared
    for base in {git, shared or git}:
        yield from _below(base / "modules")
        yield from _below(base / "worktrees")


def _named_in(file: Path, prefix: str) -> Path | None:
    """Return the folder that a file of git names; None if it does not exist."""
    try:
        text = read_text(file, within=None, limit=4096)
    except ConfigError:
        return None
    if text is None or not text.startswith(prefix):
        return None
    name = text.removeprefix(prefix).strip()
    if not name or "\0" in name:
        return None
    folder = follow(file.parent / name).path
    return folder if folder.is_dir() else None


def _below(folder: Path) -> Iterator[Path]:
    for place, names, files in os.walk(folder):
        names[:] = [name for name in names if name not in _NO_SETTINGS]
        if "HEAD" in files:
            yield Path(place)


def _links_in(folder: Path) -> list[Path]:
    links: list[Path] = []
    seen = 0
    for place, names, files in os.walk(folder):
        paths = (os.path.join(place, name) for name in (*names, *files))
        links += [Path(path) for path in paths if os.path.islink(path)]
        seen += len(names) + len(files)
        if seen > _MOST_ENTRIES:
            break
    return links
