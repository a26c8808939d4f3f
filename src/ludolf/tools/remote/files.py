"""The tools read, write, edit and ls for a workplace."""

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from ludolf.agent.tool import ToolContext, ToolFailure, ToolOutput
from ludolf.tools.edit import (
    MAX_FILE_BYTES,
    EditTool,
    apply_edits,
    check_text,
    edit_output,
    not_editable,
)
from ludolf.tools.image_types import SNIFF_BYTES, sniff
from ludolf.tools.ls import LsTool, listing_order
from ludolf.tools.options import BuiltinToolOptions
from ludolf.tools.read import (
    LineScan,
    ReadPicture,
    ReadTool,
    Selected,
    not_opened,
    refuse_huge,
    refuse_huge_image,
    scan_text,
)
from ludolf.tools.remote.place import RemotePlace
from ludolf.tools.replacements import Replacement
from ludolf.tools.write import WriteTool

# Bytes of a text file that are fetched to show some of its lines.
MAX_FETCHED_BYTES = 64 * 1024 * 1024
_LIST = """
[ -e "$1" ] || exit 3
[ -d "$1" ] || exit 4
cd -- "$1" || exit 5
for name in * .[!.]* ..?*; do
    if [ -d "$name" ]; then printf '%s/\\0' "$name"
    elif [ -e "$name" ]; then printf '%s\\0' "$name"
    fi
done
"""
_LIST_FAILURES = {3: "Path not found", 4: "Not a directory", 5: "Cannot read directory"}


class RemoteReadTool(ReadTool):
    def __init__(self, options: BuiltinToolOptions, place: RemotePlace) -> None:
        super().__init__(options)
        self._place = place

    async def _select(self, name: str, scan: LineScan, ctx: ToolContext) -> Selected:
        path = await self._place.resolve(name)
        try:
            data = await self._place.read(path, MAX_FETCHED_BYTES + 1)
        except OSError as error:
            raise not_opened(error, path) from error
        return await asyncio.to_thread(partial(_selected, data, scan, path))


def _selected(data: bytes, scan: LineScan, path: Path) -> Selected:
    if mime_type := sniff(data[:SNIFF_BYTES]):
        refuse_huge_image(len(data))
        return ReadPicture(data, mime_type)
    refuse_huge(len(data), path, MAX_FETCHED_BYTES)
    return scan_text(data, scan)


class RemoteWriteTool(WriteTool):
    def __init__(self, place: RemotePlace) -> None:
        self._place = place

    async def _store(self, path: str, data: bytes, ctx: ToolContext) -> str:
        target = await self._place.resolve(path)
        async with self._place.lock(target):
            await self._place.write(target, data)
        return path


class RemoteEditTool(EditTool):
    def __init__(self, place: RemotePlace) -> None:
        self._place = place

    async def _edit(self, path: str, edits: Sequence[Replacement], ctx: ToolContext) -> ToolOutput:
        target = await self._place.resolve(path)
        async with self._place.lock(target):
            try:
                data = await self._place.read(target, MAX_FILE_BYTES + 1)
            except OSError as error:
                raise not_editable(error, path) from error
            changed, details = await asyncio.to_thread(_edited, data, edits, path)
            await self._place.write(target, changed)
        return edit_output(details, edits, path)


def _edited(
    data: bytes, edits: Sequence[Replacement], path: str
) -> tuple[bytes, dict[str, object]]:
    check_text(data, path)
    return apply_edits(data, edits, path)


class RemoteLsTool(LsTool):
    def __init__(self, place: RemotePlace) -> None:
        self._place = place

    async def _names(self, path: str, most: int, ctx: ToolContext) -> list[str]:
        folder = await self._place.resolve(path)
        code, output = await self._place.script(_LIST, str(folder))
        if code:
            raise ToolFailure(f"{_LIST_FAILURES.get(code, 'Cannot read directory')}: {folder}")
        names = [name.decode("utf-8", "replace") for name in output.split(b"\0") if name]
        return sorted(names, key=lambda name: listing_order(name.removesuffix("/")))[:most]
