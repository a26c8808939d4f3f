"""The write tool: create a file or replace its content."""

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ludolf.agent.tool import ToolContext, ToolDefaults, ToolFailure, ToolOutput, Walls, text_output
from ludolf.ai.sampling import PREFER_STRICT
from ludolf.base import without_surrogates
from ludolf.tools.editor_text import write_in_editor
from ludolf.tools.files import error_text, make_folders, settle_in_thread, store_file
from ludolf.tools.options import parameter_schema
from ludolf.tools.paths import file_lock, landed_at, name_lock, real_path, resolve


class WriteTool(ToolDefaults):
    name = "write"
    label = "write"
    description = (
        "Write a file. Creates it with all missing folders, or replaces its content entirely."
    )
    parameters = parameter_schema(
        "path",
        "content",
        path=("string", "File to write, relative or absolute"),
        content=("string", "The complete new content"),
    )
    sampling = PREFER_STRICT
    snippet = "Create files or replace them entirely"
    guidelines = ("Use write for new files and full rewrites, edit for changes.",)

    async def execute(self, args: Mapping[str, Any], ctx: ToolContext) -> ToolOutput:
        address = ctx.address(args["path"])
        if ctx.documents is not None and address is not None:
            async with name_lock(address):
                await ctx.documents.write(address, without_surrogates(args["content"]))
            return text_output(f"Successfully wrote to {address}")
        data = without_surrogates(args["content"]).encode()
        return text_output(f"Successfully wrote to {await self._store(args['path'], data, ctx)}")

    async def _store(self, path: str, data: bytes, ctx: ToolContext) -> str:
        """Write the file; return its path and a remark for the message."""
        target = resolve(path, ctx.cwd, ctx.home)
        async with file_lock(target):
            remark = await write_in_editor(target, data, ctx)
            if remark is None:
                await settle_in_thread(partial(_write, target, data, ctx.walls))
        return landed_at(path, target, ctx.cwd) + (remark or "")


def _write(target: Path, data: bytes, walls: Walls | None) -> None:
    try:
        if walls is None:
            make_folders(os.path.dirname(real_path(target)))
    except OSError as error:
        raise ToolFailure(error_text(error, "mkdir", target.parent)) from error
    store_file(target, data, walls)
