"""The write tool: create a file or replace its content."""

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ludolf.agent.tool import ToolContext, ToolDefaults, ToolFailure, ToolOutput, Walls, text_output
from ludolf.ai.strict_schema import PREFER_STRICT
from ludolf.base import without_surrogates
from ludolf.tools.files import error_text, make_folders, replace_file, settle_in_thread
from ludolf.tools.locks import file_lock, name_lock
from ludolf.tools.paths import landed_at, real_path, resolve

_PARAMETERS: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "description": "File to write, relative or absolute"},
        "content": {"type": "string", "description": "The complete new content"},
    },
    "required": ["path", "content"],
}


class WriteTool(ToolDefaults):
    name = "write"
    label = "write"
    description = (
        "Write a file. Creates it with all missing folders, or replaces its content entirely."
    )
    parameters = _PARAMETERS
    sampling = PREFER_STRICT
    snippet = "Create files or replace them entirely"
    guidelines = ("Use write for new files and full rewrites, edit for changes.",)

    async def execute(self, args: Mapping[str, Any], ctx: ToolContext) -> ToolOutput:
        address = ctx.address(args["path"])
        if ctx.documents is not None and address is not None:
            async with name_lock(address):
                await ctx.documents.write(address, without_surrogates(args["content"]))
            return text_output(f"Successfully wrote to {address}")
        target = resolve(args["path"], ctx.cwd)
        data = without_surrogates(args["content"]).encode()
        async with file_lock(target):
            await settle_in_thread(partial(_write, target, data, ctx.walls))
        return text_output(f"Successfully wrote to {landed_at(args['path'], target, ctx.cwd)}")


def _write(target: Path, data: bytes, walls: Walls | None) -> None:
    try:
        if walls is None:
            make_folders(os.path.dirname(real_path(target)))
    except OSError as error:
        raise ToolFailure(error_text(error, "mkdir", target.parent)) from error
    try:
        replace_file(target, data, walls)
    except OSError as error:
        raise ToolFailure(error_text(error, "open", target)) from error
