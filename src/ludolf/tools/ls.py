"""The ls tool: list the entries of one folder."""

import asyncio
import os
import stat
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ludolf.agent.tool import ToolContext, ToolDefaults, ToolFailure, ToolOutput, Walls, text_output
from ludolf.tools.files import closing_file, error_text
from ludolf.tools.listing import listing, whole_number
from ludolf.tools.options import parameter_schema
from ludolf.tools.paths import resolve

DEFAULT_LIMIT = 500


class LsTool(ToolDefaults):
    name = "ls"
    label = "ls"
    description = (
        "List a folder in alphabetical order, including hidden entries. Folders end with a slash."
    )
    parameters = parameter_schema(
        path=("string", "Folder to list (default: working directory)"),
        limit=("number", f"Most entries to show ({DEFAULT_LIMIT})"),
    )
    read_only = True
    snippet = "List a folder"

    async def execute(self, args: Mapping[str, Any], ctx: ToolContext) -> ToolOutput:
        limit = whole_number(args.get("limit"), DEFAULT_LIMIT)
        names = await self._names(args.get("path") or ".", limit + 1, ctx)
        if not names:
            return text_output("(empty directory)")
        notices: list[str] = []
        details: dict[str, Any] = {}
        if len(names) > limit:
            notices.append(f"{limit} entries limit reached. Use limit={limit * 2} for more")
            details["entryLimitReached"] = limit
        return listing(names[:limit], notices, details)

    async def _names(self, path: str, most: int, ctx: ToolContext) -> list[str]:
        folder = resolve(path, ctx.cwd, ctx.home)
        return await asyncio.to_thread(partial(_entries, folder, most, ctx.walls))


def _entries(path: Path, most: int, walls: Walls | None) -> list[str]:
    try:
        with closing_file(_opened(path, walls)) as folder:
            return _shown(folder, path, most, walls)
    except (FileNotFoundError, ValueError):  # a name with a null character cannot exist
        raise ToolFailure(f"Path not found: {path}") from None
    except NotADirectoryError:
        raise ToolFailure(f"Not a directory: {path}") from None
    except OSError as error:
        raise ToolFailure(f"Cannot read directory: {error_text(error, 'scandir', path)}") from error


def _opened(path: Path, walls: Walls | None) -> int:
    if walls is not None:
        return walls.open_folder(path)
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def _shown(folder: int, path: Path, most: int, walls: Walls | None) -> list[str]:
    shown: list[str] = []
    for name in sorted(os.listdir(folder), key=listing_order):
        try:
            shown.append(f"{name}/" if _is_folder(folder, path, name, walls) else name)
        except OSError:
            continue  # a broken link, or already removed
        if len(shown) == most:
            break
    return shown


def listing_order(name: str) -> tuple[str, str]:
    """Return the key by which names are sorted."""
    return name.lower(), name


def _is_folder(folder: int, path: Path, name: str, walls: Walls | None) -> bool:
    """Raises:
    OSError: the entry was removed, or is a broken link.
    """
    status = os.stat(name, dir_fd=folder, follow_symlinks=walls is None)
    if walls is not None and stat.S_ISLNK(status.st_mode):
        try:
            status = os.lstat(walls.locate(path / name))
        except ToolFailure:
            return False  # reveal nothing about a hidden path, not even that it exists
    return stat.S_ISDIR(status.st_mode)
