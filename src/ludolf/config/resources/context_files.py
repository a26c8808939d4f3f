"""Load instruction files (AGENTS.md and similar) of the user and of the project."""

import os
from pathlib import Path

import msgspec

from ludolf.base import ConfigError
from ludolf.base.project_files import IsHidden, read_text
from ludolf.config.resources.sources import LoadedItems
from ludolf.config.settings.home import OWN, Home, reader_of

NAMES = ("AGENTS.override.md", "AGENTS.md", "AGENTS.MD", "CLAUDE.md", "CLAUDE.MD")
# Characters of all files together; larger texts exceed every context window.
MOST_TEXT = 4 * 1024 * 1024
_LONGEST_MARK = 8192


class ContextFile(msgspec.Struct, frozen=True):
    path: Path
    content: str


def load_context_files(home: Home, is_hidden: IsHidden | None = None) -> LoadedItems[ContextFile]:
    """Load the user's file, then those from the filesystem root down to the project.

    These load without trust, so each must be a small regular file in the repository of its folder.
    `is_hidden` asks the sandbox. A refused file is reported in `warnings`.
    """
    hidden = _hidden_checkout(home.cwd)
    folders = (home.agent, *reversed((home.cwd, *home.cwd.parents)))
    files: dict[Path, ContextFile] = {}
    warnings: list[str] = []
    left = MOST_TEXT
    for folder in folders:
        path = context_file_in(folder)
        if path is None or path in files or folder == hidden:
            continue
        reader = OWN if folder == home.agent else reader_of(home, folder, is_hidden)
        try:
            text = reader.text(path) or ""
        except ConfigError as error:
            warnings.append(str(error))
            continue
        left -= len(text)
        if left < 0:
            warnings.append(f"{path} is not used: there are too many instruction files")
            break
        files[path] = ContextFile(path, text)
    return LoadedItems(tuple(files.values()), tuple(warnings))


def context_file_in(folder: Path) -> Path | None:
    """Return the instruction file of a folder, the first by precedence."""
    return next((folder / name for name in NAMES if (folder / name).is_file()), None)


def _hidden_checkout(cwd: Path) -> Path | None:
    """Return the main checkout around a linked worktree that has its own instructions."""
    for folder in (cwd, *cwd.parents):
        mark = folder / ".git"
        if not mark.exists():
            continue
        main = _main_checkout(mark) if mark.is_file() else None
        inside = main is not None and main in Path(os.path.realpath(folder)).parents
        return main if inside and context_file_in(folder) is not None else None
    return None


def _main_checkout(mark: Path) -> Path | None:
    try:
        text = read_text(mark, within=mark.parent, limit=_LONGEST_MARK)
        if text is None or not text.startswith("gitdir:"):
            return None
        named = text.removeprefix("gitdir:").strip()
        private = Path(os.path.realpath(mark.parent / named))
    except (ConfigError, ValueError):
        return None  # not a file of git, so it does not refer to a checkout
    # <main>/.git/worktrees/<name>; submodules are in .git/modules and not worktrees.
    shared = private.parent.parent
    is_worktree = private.parent.name == "worktrees" and shared.name == ".git"
    return shared.parent if is_worktree else None
