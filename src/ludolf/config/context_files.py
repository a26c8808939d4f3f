"""Instruction files (AGENTS.md and kin) of the user and of every folder down to the project."""

from pathlib import Path

import msgspec

from ludolf.base import ConfigError
from ludolf.config.files import read_text
from ludolf.config.home import Home

NAMES = ("AGENTS.override.md", "AGENTS.md", "AGENTS.MD", "CLAUDE.md", "CLAUDE.MD")


class ContextFile(msgspec.Struct, frozen=True):
    path: Path
    content: str


class ContextFiles(msgspec.Struct, frozen=True, kw_only=True):
    items: tuple[ContextFile, ...] = ()
    warnings: tuple[str, ...] = ()


def load_context_files(home: Home) -> ContextFiles:
    """The user's file first, then from the root of the filesystem down to the project.

    These load without trust: they are words for the model, not settings.
    """
    hidden = _hidden_checkout(home.cwd)
    folders = (home.agent, *reversed((home.cwd, *home.cwd.parents)))
    found: dict[Path, ContextFile] = {}
    warnings: list[str] = []
    for folder in folders:
        path = context_file_in(folder)
        if path is None or path in found or folder == hidden:
            continue
        try:
            found[path] = ContextFile(path, read_text(path) or "")
        except ConfigError as error:
            warnings.append(str(error))
    return ContextFiles(items=tuple(found.values()), warnings=tuple(warnings))


def context_file_in(folder: Path) -> Path | None:
    """The one file of a folder that counts."""
    return next((folder / name for name in NAMES if (folder / name).is_file()), None)


def _hidden_checkout(cwd: Path) -> Path | None:
    """The main checkout around a linked worktree that brings instructions of its own."""
    for folder in (cwd, *cwd.parents):
        mark = folder / ".git"
        if not mark.exists():
            continue
        main = _main_checkout(mark) if mark.is_file() else None
        inside = main is not None and main in folder.resolve().parents
        return main if inside and context_file_in(folder) is not None else None
    return None


def _main_checkout(mark: Path) -> Path | None:
    try:
        text = mark.read_text("utf-8", "replace").strip()
    except OSError:
        return None
    if not text.startswith("gitdir:"):
        return None
    private = (mark.parent / text.removeprefix("gitdir:").strip()).resolve()
    # <main>/.git/worktrees/<name>; submodules live in .git/modules and are no worktrees.
    shared = private.parent.parent
    is_worktree = private.parent.name == "worktrees" and shared.name == ".git"
    return shared.parent if is_worktree else None
