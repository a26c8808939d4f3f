"""The read tool: return part of a text file, or an image."""

import asyncio
import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET, structs

from ludolf.agent.tool import (
    Document,
    ToolContext,
    ToolDefaults,
    ToolFailure,
    ToolOutput,
    Walls,
    text_output,
)
from ludolf.ai.messages import Part, Text
from ludolf.ai.sampling import PREFER_STRICT
from ludolf.tools.editor_text import read_in_editor
from ludolf.tools.files import closing_file, error_text, open_regular
from ludolf.tools.image_types import MAX_IMAGE_BYTES, SNIFF_BYTES, sniff
from ludolf.tools.options import BuiltinToolOptions, image_limits, parameter_schema
from ludolf.tools.paths import resolve_existing
from ludolf.tools.truncate import (
    MAX_BYTES,
    MAX_LINES,
    Totals,
    Truncation,
    keep_head,
    measure,
    size_words,
)

MAX_SCAN_BYTES = 256 * 1024 * 1024
_CHUNK = 1024 * 1024
# Slightly more than is shown, to detect that text follows the last complete line.
_HEAD_BYTES = MAX_BYTES + 8
# Drawn in words.
_TEXT_IMAGES = ("image/svg+xml",)
_NO_VISION = "[Current model does not support images. The image will be omitted from this request.]"


class ReadTool(ToolDefaults):
    name = "read"
    label = "read"
    description = (
        "Read a text file or an image (JPEG, PNG, GIF, WebP, BMP). Text is cut after "
        f"{MAX_LINES} lines or {MAX_BYTES // 1024}KB, whichever comes first. Use offset and limit "
        "to read more."
    )
    parameters = parameter_schema(
        "path",
        path=("string", "File to read, relative or absolute"),
        offset=("number", "First line to show, counted from 1"),
        limit=("number", "Number of lines to show"),
    )
    read_only = True
    sampling = PREFER_STRICT
    snippet = "Read the content of a file"
    guidelines = ("Use read instead of cat or sed to read files.",)

    def __init__(self, options: BuiltinToolOptions) -> None:
        self._options = options

    async def execute(self, args: Mapping[str, Any], ctx: ToolContext) -> ToolOutput:
        start = max(0, int(args.get("offset") or 1) - 1)
        limit = None if args.get("limit") is None else max(0, int(args["limit"]))
        address = ctx.address(args["path"])
        if ctx.documents is not None and address is not None:
            document = await ctx.documents.read(address)
            work = partial(_look_into, document, LineScan(start, limit), address)
            return _remarked(await self._output(await asyncio.to_thread(work), ctx), document)
        selected = await self._select(args["path"], LineScan(start, limit), ctx)
        return await self._output(selected, ctx, args["path"])

    async def _select(self, name: str, scan: "LineScan", ctx: ToolContext) -> "Selected":
        path = resolve_existing(name, ctx.cwd, ctx.home)
        text = await read_in_editor(path, ctx)
        look: Callable[[], Selected] = partial(_look_at, path, scan, ctx.walls)
        if text is not None:
            look = partial(scan_text, text, scan)
        return await asyncio.to_thread(look)

    async def _output(
        self, selected: "Selected", ctx: ToolContext, path: str | None = None
    ) -> ToolOutput:
        """`path` is the file for other tools; None if only this tool can read the content."""
        if isinstance(selected, ReadPicture):
            return await self._image_output(selected, ctx)
        return _text_output(selected, path)

    async def _image_output(self, picture: "ReadPicture", ctx: ToolContext) -> ToolOutput:
        from ludolf.tools.images import fit_image

        own = image_limits(ctx.input_limits) if ctx.input_limits else self._options.image_limits
        limits = own if self._options.auto_resize else None
        fitted = await fit_image(picture.data, limits)
        mime_type = fitted.image.mime_type if fitted.image else picture.mime_type
        notes = [f"Read image file [{mime_type}]", *fitted.hints]
        if not ctx.takes_images:
            notes.append(_NO_VISION)
        text: Part = Text(text="\n".join(notes))
        return ToolOutput(content=(text, fitted.image) if fitted.image else (text,))


class ReadPicture(msgspec.Struct, frozen=True):
    data: bytes
    mime_type: str


class ReadLines(msgspec.Struct, frozen=True, kw_only=True):
    """Selected lines of a file: as much of their text as is shown, and the size of all."""

    head: bytes
    totals: Totals
    first: int
    lines: int
    file_lines: int
    first_line_bytes: int


Selected = ReadPicture | ReadLines


def _look_at(path: Path, scan: "LineScan", walls: Walls | None) -> Selected:
    with closing_file(_open(path, walls)) as file:
        try:
            opening = os.read(file, SNIFF_BYTES)
            if mime_type := sniff(opening):
                return ReadPicture(_read_all(file, opening), mime_type)
            return _select(file, opening, path, scan)
        except OSError as error:
            raise ToolFailure(error_text(error, "read")) from error


def _open(path: Path, walls: Walls | None) -> int:
    try:
        return open_regular(path, walls)
    except OSError as error:
        raise not_opened(error, path) from error


def not_opened(error: OSError, path: Path) -> ToolFailure:
    """Return the failure of a read."""
    if isinstance(error, IsADirectoryError):
        return ToolFailure(error_text(error, "read"))
    return ToolFailure(error_text(error, "access", path))


def _read_all(file: int, opening: bytes) -> bytes:
    chunks, size = [opening], len(opening)
    while chunk := os.read(file, _CHUNK):
        chunks.append(chunk)
        size += len(chunk)
        refuse_huge_image(size)
    return b"".join(chunks)


def _select(file: int, opening: bytes, path: Path, scan: "LineScan") -> ReadLines:
    refuse_huge(os.fstat(file).st_size, path)
    seen = 0
    chunk = opening
    while chunk:
        seen += len(chunk)
        refuse_huge(seen, path)
        scan.feed(chunk)
        chunk = os.read(file, _CHUNK)
    return scan.finish()


def refuse_huge_image(size: int) -> None:
    """Raises:
    ToolFailure: an image has more bytes than tools read.
    """
    if size > MAX_IMAGE_BYTES:
        raise ToolFailure(f"Image is too large to read: more than {size_words(MAX_IMAGE_BYTES)}.")


def refuse_huge(size: int, path: Path, limit: int = MAX_SCAN_BYTES) -> None:
    """Raises:
    ToolFailure: a text has more bytes than tools read.
    """
    if size > limit:
        raise ToolFailure(
            f"File is too large to read: more than {size_words(limit)}. "
            f"Use bash: sed -n '1,200p' {path} | head -c {MAX_BYTES}"
        )


class LineScan:
    """Scan a file once; keep only as much of the selected lines as can be shown."""

    def __init__(self, start: int, limit: int | None) -> None:
        self._start = start
        self._stop = None if limit is None else start + limit
        self._line = 0
        self._head = bytearray()
        self._bytes = 0
        self._newlines = 0
        self._first_line = 0
        self._ends_with_newline = False

    def feed(self, chunk: bytes) -> None:
        newlines = chunk.count(b"\n")
        begin = self._offset_of(chunk, self._start, newlines)
        end = len(chunk) if self._stop is None else self._offset_of(chunk, self._stop, newlines)
        self._line += newlines
        if begin < end:
            self._take(memoryview(chunk)[begin:end], chunk.count(b"\n", begin, end))

    def _offset_of(self, chunk: bytes, line: int, newlines: int) -> int:
        """Return where the line begins in the chunk: 0 if before it, its length if after it."""
        skip = line - self._line
        if skip > newlines:
            return len(chunk)
        at = 0
        for _ in range(skip):
            at = chunk.index(b"\n", at) + 1
        return at

    def _take(self, part: memoryview, newlines: int) -> None:
        if self._newlines == 0:
            at = bytes(part).find(b"\n")
            self._first_line += len(part) if at < 0 else at
        self._head += part[: max(0, _HEAD_BYTES - len(self._head))]
        self._bytes += len(part)
        self._newlines += newlines
        self._ends_with_newline = part[-1] == 0x0A

    def finish(self) -> ReadLines:
        file_lines = self._line + 1
        if self._start >= file_lines:
            offset = self._start + 1
            raise ToolFailure(f"Offset {offset} is beyond end of file ({file_lines} lines total)")
        stop = file_lines if self._stop is None else min(self._stop, file_lines)
        # Lines are joined, so the newline after the last of them is not part of the selection.
        joined = self._ends_with_newline and stop < file_lines
        open_line = self._bytes > 0 and not self._ends_with_newline
        return ReadLines(
            head=bytes(self._head[: self._bytes - 1] if joined else self._head),
            totals=Totals(lines=self._newlines + open_line, bytes=self._bytes - joined),
            first=self._start + 1,
            lines=stop - self._start,
            file_lines=file_lines,
            first_line_bytes=self._first_line,
        )


def _look_into(document: Document, scan: LineScan, address: str) -> Selected:
    if document.content_type.startswith("image/") and document.content_type not in _TEXT_IMAGES:
        return _picture(document, address)
    return scan_text(document.content.encode("utf-8", "replace"), scan)


def scan_text(data: bytes, scan: LineScan) -> ReadLines:
    for at in range(0, len(data), _CHUNK):
        scan.feed(data[at : at + _CHUNK])
    return scan.finish()


def _picture(document: Document, address: str) -> ReadPicture:
    from base64 import b64decode

    try:
        data = b64decode(document.content, validate=True)
    except ValueError as error:
        raise ToolFailure(f"The image at {address} is not base64: {error}") from error
    return ReadPicture(data, sniff(data[:SNIFF_BYTES]) or document.content_type)


def _remarked(output: ToolOutput, document: Document) -> ToolOutput:
    """Return the output with the notes of the document."""
    details = output.details if isinstance(output.details, dict) else {}
    typed = {**details, "contentType": document.content_type}
    notes = "\n".join(f"[{note}]" for note in document.notes)
    more = (Text(text=notes),) if notes else ()
    return structs.replace(output, details=typed, content=(*output.content, *more))


def _text_output(selection: ReadLines, path: str | None) -> ToolOutput:
    text = selection.head.decode("utf-8", "replace")
    # Replacement marks are longer than the bytes that they replace, so measure the shown text.
    whole = len(selection.head) == selection.totals.bytes
    shown = keep_head(text, totals=measure(text) if whole else selection.totals)
    details = {"truncation": shown.as_json()} if shown.truncated else UNSET
    if shown.first_line_exceeds_limit:
        return text_output(_too_wide(selection, path), details)
    notice = _notice(selection, shown)
    return text_output(f"{shown.content}\n\n[{notice}]" if notice else shown.content, details)


def _too_wide(selection: ReadLines, path: str | None) -> str:
    line, size = selection.first, size_words(selection.first_line_bytes)
    limit = size_words(MAX_BYTES)
    if path is None:
        # No other tool can show the rest, so show the beginning.
        begin = selection.head[:MAX_BYTES].decode("utf-8", "ignore")
        return f"{begin}\n\n[Line {line} is {size}; only its first {limit} are shown.]"
    return (
        f"[Line {line} is {size}, exceeds {limit} limit. "
        f"Use bash: sed -n '{line}p' {path} | head -c {MAX_BYTES}]"
    )


def _notice(selection: ReadLines, shown: Truncation) -> str | None:
    first, total = selection.first, selection.file_lines
    if shown.truncated:
        last = first + shown.output_lines - 1
        cause = "" if shown.truncated_by == "lines" else f" ({size_words(MAX_BYTES)} limit)"
        return f"Showing lines {first}-{last} of {total}{cause}. Use offset={last + 1} to continue."
    after = first + selection.lines
    if after <= total:
        return f"{total - after + 1} more lines in file. Use offset={after} to continue."
    return None
