"""The edit tool: replace exact texts in a file and leave every other byte as it was."""

import asyncio
import errno
import os
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ludolf.agent.tool import (
    Documents,
    Tool,
    ToolContext,
    ToolError,
    ToolOutput,
    Walls,
    text_output,
)
from ludolf.ai.strict_schema import PREFER_STRICT
from ludolf.base import loads, without_surrogates
from ludolf.tools.diff import Comparison
from ludolf.tools.files import error_code, error_text, open_regular, replace_file, settle_in_thread
from ludolf.tools.locks import file_lock, name_lock
from ludolf.tools.paths import landed_at, resolve
from ludolf.tools.replacements import Replacement, Span, plan, splice
from ludolf.tools.truncate import size_words

MAX_FILE_BYTES = 64 * 1024 * 1024
_BOM = "\ufeff"

_PARAMETERS: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "description": "File to edit, relative or absolute"},
        "edits": {
            "type": "array",
            "description": "Replacements, each matched against the file as it was before",
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


class EditTool:
    name = "edit"
    label = "edit"
    description = (
        "Change parts of a file. Every oldText must occur exactly once in the file and must not "
        "overlap another; all of them are matched against the file as it was before the call."
    )
    parameters = _PARAMETERS
    alone = False
    sampling = PREFER_STRICT
    snippet: str | None = "Change parts of a file by exact replacement"
    guidelines: tuple[str, ...] = (
        "Make several changes to one file with one edit call that lists them all.",
        "Keep each oldText short, but long enough to be unique in the file.",
    )

    def prepare(self, args: Mapping[str, Any]) -> Mapping[str, Any]:
        """Models also send the list as JSON text, a single edit alone, or its two texts on top."""
        prepared = dict(args)
        edits = prepared.get("edits")
        if isinstance(edits, str):
            edits = _parsed(edits)
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
            compared = await _edit_document(ctx.documents, address, edits)
            return _told(compared, edits, address, address)
        target = resolve(path, ctx.cwd)
        async with file_lock(target):
            compared = await settle_in_thread(partial(_edit, target, edits, path, ctx.walls))
        return _told(compared, edits, path, landed_at(path, target, ctx.cwd))


def _told(compared: Comparison, edits: Sequence[Replacement], path: str, place: str) -> ToolOutput:
    details = {
        "diff": compared.numbered(),
        "patch": compared.patch(path),
        "firstChangedLine": compared.first_changed_line,
    }
    return text_output(f"Successfully replaced {len(edits)} block(s) in {place}.", details)


async def _edit_document(
    documents: Documents, address: str, edits: Sequence[Replacement]
) -> Comparison:
    documents.check_writable(address)
    async with name_lock(address):
        document = await documents.read(address)
        if document.fixed:
            raise ToolError(f"Could not edit {address}: it is never to change.")
        if document.content_type.startswith("image/"):
            raise ToolError(f"Could not edit {address}: it is an image.")
        text, compared = await asyncio.to_thread(_changed, document.content, edits, address)
        await documents.write(address, text)
    return compared


def _parsed(edits: str) -> Any:
    try:
        return loads(edits)
    except ValueError:
        return edits


def _replacement(edit: Mapping[str, str]) -> Replacement:
    old, new = (without_surrogates(edit[key]) for key in ("oldText", "newText"))
    return Replacement(old.replace("\r\n", "\n"), new.replace("\r\n", "\n"))


def _edit(target: Path, edits: Sequence[Replacement], path: str, walls: Walls | None) -> Comparison:
    text, compared = _changed(_load(target, path, walls), edits, path)
    _store(target, text, walls)
    return compared


def _changed(text: str, edits: Sequence[Replacement], path: str) -> tuple[str, Comparison]:
    mark = _BOM if text.startswith(_BOM) else ""
    body = text.removeprefix(_BOM)
    flat = body.replace("\r\n", "\n")
    spans = plan(flat, edits, path)
    changed = splice(flat, spans)
    if changed == flat:
        raise ToolError(
            f"No changes made to {path}. The replacement is the same as the text it replaces."
        )
    return mark + splice(body, _in_original(body, spans)), Comparison(flat, changed)


def _load(target: Path, path: str, walls: Walls | None) -> str:
    try:
        data = _read(target, path, walls)
    except OSError as error:
        raise ToolError(f"Could not edit file: {path}. Error code: {error_code(error)}.") from error
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ToolError(
            f"Could not edit file: {path}. It is not UTF-8 text (byte 0x{data[error.start]:02x} at "
            f"offset {error.start}), and editing it as text would damage it. Use bash instead."
        ) from error


def _read(target: Path, path: str, walls: Walls | None) -> bytes:
    file = open_regular(target, walls)
    try:
        if walls is None and not os.access(target, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        with open(file, "rb", closefd=False) as source:
            data = source.read(MAX_FILE_BYTES + 1)
    finally:
        os.close(file)
    if len(data) > MAX_FILE_BYTES:
        limit = size_words(MAX_FILE_BYTES)
        raise ToolError(f"Could not edit file: {path}. It is over {limit}. Use bash instead.")
    return data


def _store(target: Path, text: str, walls: Walls | None) -> None:
    try:
        replace_file(target, text.encode(), walls)
    except OSError as error:
        raise ToolError(error_text(error, "open", target)) from error


def _in_original(body: str, spans: Sequence[Span]) -> list[Span]:
    """The spans where CRLF still counts as two characters; new lines end like the first one."""
    if "\r\n" not in body:
        return list(spans)
    first = body.index("\n")
    ending = "\r\n" if body[first - 1 : first] == "\r" else "\n"
    shifts = _crlf_places(body)

    def original(place: int) -> int:
        return place + bisect_left(shifts, place)

    return [
        Span(original(span.start), original(span.end), span.text.replace("\n", ending))
        for span in spans
    ]


def _crlf_places(body: str) -> list[int]:
    """Where each CRLF stands in the text in which it counts as one character."""
    places: list[int] = []
    at = body.find("\r\n")
    while at >= 0:
        places.append(at - len(places))
        at = body.find("\r\n", at + 2)
    return places


if TYPE_CHECKING:
    _proof: Tool = EditTool()
