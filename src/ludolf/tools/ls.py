"""The ls tool: the entries of one folder."""

import asyncio
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ludolf.agent.tool import Tool, ToolContext, ToolError, ToolOutput, text_output
from ludolf.tools.files import error_text
from ludolf.tools.listing import listing, whole_number
from ludolf.tools.paths import resolve

DEFAULT_LIMIT = 500

_PARAMETERS: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "description": "Folder to list (default: working directory)"},
        "limit": {"type": "number", "description": f"Most entries to show ({DEFAULT_LIMIT})"},
    },
}


class LsTool:
    name = "ls"
    label = "ls"
    description = (
        "List a folder in alphabetical order, hidden entries included; folders end with a slash."
    )
    parameters = _PARAMETERS
    alone = False
    read_only = True
    snippet: str | None = "List a folder"
    guidelines: tuple[str, ...] = ()

    def prepare(self, args: Mapping[str, Any]) -> Mapping[str, Any]:
        return args

    async def execute(self, args: Mapping[str, Any], ctx: ToolContext) -> ToolOutput:
        folder = resolve(args.get("path") or ".", ctx.cwd)
        if ctx.walls is not None:
            folder = ctx.walls.locate(folder)
        limit = whole_number(args.get("limit"), DEFAULT_LIMIT)
        names = await asyncio.to_thread(partial(_entries, folder, limit + 1))
        if not names:
            return text_output("(empty directory)")
        notices: list[str] = []
        details: dict[str, Any] = {}
        if len(names) > limit:
            notices.append(f"{limit} entries limit reached. Use limit={limit * 2} for more")
            details["entryLimitReached"] = limit
        return listing(names[:limit], notices, details)


def _entries(folder: Path, most: int) -> list[str]:
    if not os.path.exists(folder):
        raise ToolError(f"Path not found: {folder}")
    if not os.path.isdir(folder):
        raise ToolError(f"Not a directory: {folder}")
    try:
        names = os.listdir(folder)
    except OSError as error:
        raise ToolError(f"Cannot read directory: {error_text(error, 'scandir', folder)}") from error
    shown: list[str] = []
    for name in sorted(names, key=lambda name: (name.lower(), name)):
        shown += _entry(folder, name)
        if len(shown) == most:
            break
    return shown


def _entry(folder: Path, name: str) -> list[str]:
    path = os.path.join(folder, name)
    try:
        os.stat(path)
    except OSError:
        return []  # a broken link, or gone meanwhile
    return [f"{name}/" if os.path.isdir(path) else name]


if TYPE_CHECKING:
    _proof: Tool = LsTool()
