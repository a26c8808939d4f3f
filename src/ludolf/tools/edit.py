"""The edit tool: replace exact texts in a file and keep every other byte."""

import asyncio
import errno
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from ludolf.agent.tool import (
    Documents,
    ToolContext,
    ToolDefaults,
    ToolFailure,
    ToolOutput,
    Walls,
    text_output,
)
from ludolf.ai.sampling import PREFER_STRICT
from ludolf.base import loads, without_surrogates
from ludolf.tools.diff import Comparison
from ludolf.tools.editor_text import read_in_editor, write_in_editor
from ludolf.tools.files import closing_file, error_code, open_regular, settle_in_thread, store_file
from ludolf.tools.paths import file_lock, landed_at, name_lock, resolve
from ludolf.tools.replacements import Replacement, Span, decoded, encoded, plan, splice
from ludolf.tools.truncate import size_words

MAX_FILE_BYTES = 64 * 1024 * 1024
_BOM = b"\xef\xbb\xbf"
_CHECKED = 1 << 20

_PARAMETERS: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "description": "File to edit, relative or absolute"},
        "edits": {
            "type": "array",
            "description": "Replacements, each matched against the original content",
            "items": {
                "type": "object",
                "properties": {
                    "oldText": {
                        "type": "string",
                        "description": "Text to replace, exactly as in the file; must occur once",
                    },
                    "newText": {"type": "string", "description": "Text to put in its place"},
                },
                "required": ["oldText", "newText"],
            },
        },
    },
    "required": ["path", "edits"],
}


class EditTool(ToolDefaults):
    name = "edit"
    label = "edit"
    description = (
        "Replace parts of a file. Every oldText must occur exactly once in the file and must not "
        "overlap another. All of them are matched against the original content."
    )
    parameters = _PARAMETERS
    sampling = PREFER_STRICT
    snippet = "Change parts of a file by exact replacement"
    guidelines = (
        "Make several changes to one file with one edit call that lists them all.",
        "Keep each oldText short, but long enough to be unique in the file.",
    )

    async def prepare(self, args: Mapping[str, Any]) -> Mapping[str, Any]:
        """Accept the list as JSON text, a single edit, or its two texts at the top level."""
        prepared = dict(args)
        edits = prepared.get("edits")
        if isinstance(edits, str):
            with suppress(ValueError):
                edits = loads(edits)
        if isinstance(edits, dict):
            edits = [edits]
        if isinstance(prepared.get("oldText"), str) and isinstance(prepared.get("newText"), str):
            loose = {key: prepared.pop(key) for key in ("oldText", "newText")}
            edits = [*(edits if isinstance(edits, list) else ()), loose]
        if edits is not None:
            prepared["edits"] = edits
        return prepared

    async def execute(self, args: Mapping[str, Any], ctx: ToolContext) -> ToolOutput:
        path: str = args["path"]
        edits = [_replacement(edit) for edit in args["edits"]]
        address = ctx.address(path)
        if ctx.documents is not None and address is not None:
            details = await _edit_document(ctx.documents, address, edits)
            return edit_output(details, edits, address)
        return await self._edit(path, edits, ctx)

    async def _edit(self, path: str, edits: Sequence[Replacement], ctx: ToolContext) -> ToolOutput:
        target = resolve(path, ctx.cwd, ctx.home)
        async with file_lock(target):
            if ctx.files is not None:
                details, remark = await _edit_in_editor(target, edits, path, ctx)
            else:
                work = partial(_edit, target, edits, path, ctx.walls)
                details, remark = await settle_in_thread(work), ""
        return edit_output(details, edits, landed_at(path, target, ctx.cwd), remark)


def edit_output(
    details: dict[str, Any], edits: Sequence[Replacement], place: str, remark: str = ""
) -> ToolOutput:
    """Return the result of edits in a file; the remark is for the model."""
    text = f"Successfully replaced {len(edits)} block(s) in {place}.{remark}"
    return text_output(text, details)


async def _edit_in_editor(
    target: Path, edits: Sequence[Replacement], path: str, ctx: ToolContext
) -> tuple[dict[str, Any], str]:
    """Edit the text that the editor holds. Returns the details and a remark for the model."""
    data = await read_in_editor(target, ctx)
    if data is None:
        data = await asyncio.to_thread(_load, target, path, ctx.walls)
    changed, details = await asyncio.to_thread(apply_edits, data, edits, path)
    remark = await write_in_editor(target, changed, ctx)
    if remark is None:
        await settle_in_thread(partial(store_file, target, changed, ctx.walls))
    return details, remark or ""


async def _edit_document(
    documents: Documents, address: str, edits: Sequence[Replacement]
) -> dict[str, Any]:
    documents.check_writable(address)
    async with name_lock(address):
        document = await documents.read(address)
        if document.fixed:
            raise ToolFailure(f"Could not edit {address}: it is read-only.")
        if document.content_type.startswith("image/"):
            raise ToolFailure(f"Could not edit {address}: it is an image.")
        content = encoded(document.content)
        data, details = await asyncio.to_thread(apply_edits, content, edits, address)
        await documents.write(address, decoded(data))
    return details


def _replacement(edit: Mapping[str, str]) -> Replacement:
    old, new = (without_surrogates(edit[key]) for key in ("oldText", "newText"))
    return Replacement(old.replace("\r\n", "\n"), new.replace("\r\n", "\n"))


def _edit(
    target: Path, edits: Sequence[Replacement], path: str, walls: Walls | None
) -> dict[str, Any]:
    data, details = apply_edits(_load(target, path, walls), edits, path)
    store_file(target, data, walls)
    return details


def apply_edits(
    data: bytes, edits: Sequence[Replacement], path: str
) -> tuple[bytes, dict[str, Any]]:
    """Return the new content and the details of the result.

    Raises:
        ToolFailure: an edit cannot be made, or none changes anything.
    """
    mark = _BOM if data.startswith(_BOM) else b""
    body = data[len(mark) :]
    spans = plan(body, edits, path)
    if not _is_changed(body, spans):
        raise ToolFailure(
            f"No changes made to {path}. The replacement is the same as the text it replaces."
        )
    changed = splice(body, spans)
    compared = Comparison(body, changed, spans)
    details = {
        "diff": compared.numbered(),
        "patch": compared.patch(path),
        "firstChangedLine": compared.first_changed_line,
    }
    return mark + changed, details


def _is_changed(body: bytes, spans: Sequence[Span]) -> bool:
    """Whether the spans change more than line endings."""
    start, end = spans[0].start, spans[-1].end
    old = body[start:end]
    new = splice(old, [Span(s.start - start, s.end - start, s.text) for s in spans])
    return new.replace(b"\r\n", b"\n") != old.replace(b"\r\n", b"\n")


def _load(target: Path, path: str, walls: Walls | None) -> bytes:
    try:
        data = _read(target, walls)
    except OSError as error:
        raise not_editable(error, path) from error
    check_text(data, path)
    return data


def not_editable(error: OSError, path: str) -> ToolFailure:
    """Return the failure of an edit whose file cannot be read."""
    return ToolFailure(f"Could not edit file: {path}. Error code: {error_code(error)}.")


def check_text(data: bytes, path: str) -> None:
    """Check that a file can be edited as text.

    Raises:
        ToolFailure: it is too large, or not UTF-8.
    """
    if len(data) > MAX_FILE_BYTES:
        limit = size_words(MAX_FILE_BYTES)
        raise ToolFailure(f"Could not edit file: {path}. It is over {limit}. Use bash instead.")
    offset = _first_invalid(data)
    if offset is not None:
        raise ToolFailure(
            f"Could not edit file: {path}. It is not UTF-8 text (byte 0x{data[offset]:02x} at "
            f"offset {offset}), and editing it as text would damage it. Use bash instead."
        )


def _first_invalid(data: bytes) -> int | None:
    """Return the offset of the first byte that is not UTF-8; decodes in parts to save memory."""
    start = 0
    while start < len(data):
        end = min(start + _CHECKED, len(data))
        while end < len(data) and end > start + _CHECKED - 4 and data[end] & 0xC0 == 0x80:
            end -= 1
        try:
            data[start:end].decode()
        except UnicodeDecodeError as error:
            return start + error.start
        start = end
    return None


def _read(target: Path, walls: Walls | None) -> bytes:
    with closing_file(open_regular(target, walls)) as file:
        if walls is None and not os.access(target, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        # One read of the stated size; reading continues if the file grew or reports no size.
        with open(file, "rb", closefd=False, buffering=0) as source:
            data = source.read(min(os.fstat(file).st_size, MAX_FILE_BYTES)) or b""
            while len(data) <= MAX_FILE_BYTES and (more := source.read(_CHECKED)):
                data += more
    return data
