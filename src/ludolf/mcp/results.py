"""Convert results of servers to content for models: texts, images, files and structured data."""

import asyncio
import base64
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from ludolf.agent.tool import ToolFailure, ToolOutput
from ludolf.ai.messages import Image, Part, Text
from ludolf.base import dumps, loads
from ludolf.mcp.cleaning import clean_output, clean_text
from ludolf.mcp.definitions import ToolDefinition
from ludolf.mcp.schema_limits import is_deeper
from ludolf.mcp.wire import Json
from ludolf.tools.files import write_all
from ludolf.tools.images import fit_block
from ludolf.tools.options import ImageLimits
from ludolf.tools.truncate import MAX_BYTES, Totals, Truncation, keep_head, size_words

T = TypeVar("T")

NO_OUTPUT = "(no output)"
_MOST_ITEMS = 10_000
_MOST_IMAGES = 20
_MOST_FILES = 20
_MAX_ADDRESS = 2048
_MAX_NAME = 200
# Larger structured data is in the text only, not in the details of the result.
_MAX_DETAILS = 256 * 1024
# Larger texts are not parsed to compare them with structured data.
_MAX_COMPARED = 1024 * 1024
_MAX_NESTING = 100
# A text is written and measured in pieces, so that a long one is not copied as a whole.
_PIECE = 256 * 1024
_ENDINGS = {
    "application/gzip": ".gz",
    "application/json": ".json",
    "application/pdf": ".pdf",
    "application/zip": ".zip",
    "audio/aac": ".aac",
    "audio/flac": ".flac",
    "audio/mp4": ".m4a",
    "audio/mpeg": ".mp3",
    "audio/ogg": ".ogg",
    "audio/wav": ".wav",
    "audio/webm": ".weba",
    "audio/x-wav": ".wav",
    "image/svg+xml": ".svg",
    "image/tiff": ".tiff",
    "text/csv": ".csv",
    "text/html": ".html",
    "text/plain": ".txt",
    "video/mp4": ".mp4",
}
_SAFE_ENDING = re.compile(r"\.[a-zA-Z0-9]{1,10}")


async def tool_output(
    result: Json,
    *,
    definition: ToolDefinition,
    folder: Path,
    limits: ImageLimits | None = None,
) -> ToolOutput:
    """Convert the result of `tools/call`.

    `folder` receives long texts and other content as files that only the user can read. Images are
    shrunk to `limits`.

    Raises:
        ToolFailure: the tool reports an error; the text has the server's words.
    """
    content = _Content(folder, f"mcp-{definition.name.removeprefix('mcp__')}", limits)
    await content.add_all(_listed(result.get("content")))
    details: dict[str, Any] = {"server": definition.server, "tool": definition.tool}
    structured = result.get("structuredContent")
    if is_deeper(structured, _MAX_NESTING):
        content.broken += 1
    elif structured is not None:
        encoded = _encoded(structured)
        says = partial(_says, content.texts, structured, encoded)
        if not await _off_loop(says, size=content.size + len(encoded)):
            content.add_text(encoded)
        if len(encoded) <= _MAX_DETAILS:
            details["structuredContent"] = structured
    output = ToolOutput(content=await content.parts(), details=details)
    if result.get("isError") is True:
        raise ToolFailure(_joined_text(output.content), output)
    return output


async def resource_parts(
    result: Json, *, server: str, folder: Path, limits: ImageLimits | None = None
) -> tuple[Part, ...]:
    """Convert the result of `resources/read`, as `tool_output` does with embedded resources."""
    content = _Content(folder, f"mcp-{re.sub(r'[^a-zA-Z0-9_]', '_', server)}", limits)
    resources = _listed(result.get("contents"))
    await content.add_all([{"type": "resource", "resource": each} for each in resources])
    return await content.parts()


async def prompt_parts(
    result: Json, *, server: str, folder: Path, limits: ImageLimits | None = None
) -> tuple[Part, ...]:
    """Convert the messages of `prompts/get`; the text names the role where it changes."""
    content = _Content(folder, f"mcp-{re.sub(r'[^a-zA-Z0-9_]', '_', server)}", limits)
    role = "user"
    for message in _listed(result.get("messages")):
        if not isinstance(message, Mapping):
            content.broken += 1
            continue
        speaker = "assistant" if message.get("role") == "assistant" else "user"
        if speaker != role:
            content.add_text(f"[{speaker}]")
            role = speaker
        await content.add_all(_listed(message.get("content")))
    return await content.parts()


def _listed(value: Any) -> list[Any]:
    """Return a list of items; some servers send one item without a list."""
    if isinstance(value, list):
        return value
    return [] if value is None else [value]


def _joined_text(parts: Iterable[Part]) -> str:
    return "\n".join(part.text for part in parts if isinstance(part, Text))


# ---------------------------------------------------------------- items


class _Content:
    """Collects the items of one result."""

    def __init__(self, folder: Path, name: str, limits: ImageLimits | None) -> None:
        self.broken = 0
        self._folder = folder
        self._name = name
        self._limits = limits or ImageLimits()
        self._parts: list[Part] = []
        self._images = 0
        self._files = 0

    @property
    def texts(self) -> list[str]:
        return [part.text for part in self._parts if isinstance(part, Text)]

    @property
    def size(self) -> int:
        return sum(map(len, self.texts))

    def add_text(self, text: str) -> None:
        if text:
            self._parts.append(Text(text=text))

    async def add_all(self, items: Sequence[Any]) -> None:
        for item in items[:_MOST_ITEMS]:
            if not (isinstance(item, Mapping) and await self._add(item)):
                self.broken += 1
        self.broken += max(0, len(items) - _MOST_ITEMS)

    async def parts(self) -> tuple[Part, ...]:
        """Return the parts; long text is cut, and the whole is saved in a file."""
        if self.broken:
            are = "item is" if self.broken == 1 else "items are"
            self.add_text(f"[{self.broken} {are} left out: broken or of an unknown kind]")
        if not self._parts:
            return (Text(text=NO_OUTPUT),)
        parts = tuple(_joined(self._parts))
        texts = [part.text for part in parts if isinstance(part, Text)]
        # Only the beginning is needed, because the sizes are known: no copy of a long text.
        opening = "\n".join(text[: MAX_BYTES + 2] for text in texts)
        totals = await _off_loop(partial(_totals, texts), size=self.size)
        shown = keep_head(opening, totals=totals)
        if not shown.truncated:
            return parts
        images = tuple(part for part in parts if isinstance(part, Image))
        note = await self._cut_note(texts, shown)
        return (Text(text=f"{_head(texts[0], shown)}\n\n[{note}]"), *images)

    async def _cut_note(self, texts: Sequence[str], shown: Truncation) -> str:
        pieces = _pieces(texts)
        where = await asyncio.to_thread(_save, self._folder, self._name, ".txt", pieces)
        lines = f"Showing lines 1-{shown.output_lines} of {shown.total_lines}"
        if shown.first_line_exceeds_limit:
            lines = f"Showing the first {size_words(MAX_BYTES)} of {size_words(shown.total_bytes)}"
        elif shown.truncated_by == "bytes":
            lines = f"{lines} ({size_words(MAX_BYTES)} limit)"
        if isinstance(where, OSError):
            return f"{lines}. The full output could not be kept: {where.strerror or where}"
        return f"{lines}. Full output: {where}"

    async def _add(self, item: Mapping[str, Any]) -> bool:
        """Add one item; return whether it was usable."""
        match item:
            case {"type": "text", "text": str(text)}:
                self.add_text(await _off_loop(partial(clean_output, text), size=len(text)))
                return True
            case {"type": "image", "data": str(data)}:
                return await self._add_image(data, _mime_type(item), "image")
            case {"type": "audio", "data": str(data)}:
                return await self._add_file(data, _mime_type(item), "audio")
            case {"type": "resource_link", "uri": str(address)}:
                self._add_link(item, address)
                return True
            case {"type": "resource", "resource": Mapping() as resource}:
                return await self._add_resource(resource)
        return False

    def _add_link(self, item: Mapping[str, Any], address: str) -> None:
        name = _line(item.get("name"), _MAX_NAME) or _line(item.get("title"), _MAX_NAME)
        about = _line(item.get("description"), 4 * _MAX_NAME)
        place = _line(address, _MAX_ADDRESS)
        link = f"{name} ({place})" if name else place
        self.add_text(f"{link}: {about}" if about else link)

    async def _add_resource(self, resource: Mapping[str, Any]) -> bool:
        address = _line(resource.get("uri"), _MAX_ADDRESS)
        match resource:
            case {"text": str(text)}:
                self.add_text(f"{address or 'resource'}:")
                self.add_text(await _off_loop(partial(clean_output, text), size=len(text)))
                return True
            case {"blob": str(data)}:
                kind = _mime_type(resource)
                if kind.startswith("image/"):
                    return await self._add_image(data, kind, address)
                return await self._add_file(data, kind, address)
        return False

    async def _add_image(self, data: str, mime_type: str, source: str) -> bool:
        if self._images >= _MOST_IMAGES:
            return False
        self._images += 1
        fitted = await fit_block(Image(data=data, mime_type=mime_type), self._limits)
        if fitted.image is None:
            # A kind of image that models do not accept, such as SVG, can be read as a file.
            return await self._add_file(data, mime_type, source)
        for hint in fitted.hints:
            self.add_text(hint)
        self._parts.append(fitted.image)
        return True

    async def _add_file(self, data: str, mime_type: str, source: str) -> bool:
        if self._files >= _MOST_FILES:
            return False
        decoded = await asyncio.to_thread(_decoded, data)
        if not decoded:
            return False
        self._files += 1
        ending = _ending(mime_type, source)
        where = await asyncio.to_thread(_save, self._folder, self._name, ending, [decoded])
        about = f"{source or 'resource'}: {mime_type or 'unknown type'}, {size_words(len(decoded))}"
        if isinstance(where, OSError):
            self.add_text(f"[{about}, could not be saved: {where.strerror or where}]")
        else:
            self.add_text(f"[{about}, saved as {where}]")
        return True


async def _off_loop(work: Callable[[], T], *, size: int) -> T:
    """Run work on long texts in a thread, so that other tasks run meanwhile."""
    return await asyncio.to_thread(work) if size > _PIECE else work()


def _line(value: Any, limit: int) -> str:
    return clean_text(value, limit).replace("\n", " ") if isinstance(value, str) else ""


def _mime_type(item: Mapping[str, Any]) -> str:
    return _line(item.get("mimeType"), _MAX_NAME).partition(";")[0].strip().lower()


def _decoded(data: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except ValueError:
        return b""


def _ending(mime_type: str, source: str) -> str:
    """Return the ending of a file's name, by its type or by its address."""
    if mime_type in _ENDINGS:
        return _ENDINGS[mime_type]
    ending = os.path.splitext(source.partition("?")[0].rpartition("/")[2])[1]
    return ending if _SAFE_ENDING.fullmatch(ending) else ".bin"


def _save(folder: Path, name: str, ending: str, pieces: Iterable[bytes]) -> str | OSError:
    """Write a new file that only the user can read; return its path, or the error."""
    target = folder / f"{name}-{os.urandom(8).hex()}{ending}"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            for piece in pieces:
                write_all(file, piece)
        finally:
            os.close(file)
    except OSError as error:
        return error
    return str(target)


# ---------------------------------------------------------------- texts


def _joined(parts: Iterable[Part]) -> Iterator[Part]:
    """Join texts that follow each other."""
    texts: list[str] = []
    for part in parts:
        if isinstance(part, Text):
            texts.append(part.text)
            continue
        if texts:
            yield Text(text="\n".join(texts))
            texts = []
        yield part
    if texts:
        yield Text(text="\n".join(texts))


def _pieces(texts: Sequence[str]) -> Iterator[bytes]:
    for at, text in enumerate(texts):
        if at:
            yield b"\n"
        for start in range(0, len(text), _PIECE):
            yield text[start : start + _PIECE].encode("utf-8", "replace")


def _totals(texts: Sequence[str]) -> Totals:
    newlines = sum(text.count("\n") for text in texts) + max(0, len(texts) - 1)
    is_open = bool(texts) and not texts[-1].endswith("\n")
    size = sum(map(len, _pieces(texts)))
    return Totals(lines=newlines + is_open, bytes=size)


def _head(first: str, shown: Truncation) -> str:
    """Return what is shown: whole lines, or the beginning of a line that is too long."""
    if not shown.first_line_exceeds_limit:
        return shown.content
    return first[:MAX_BYTES].encode("utf-8", "replace")[:MAX_BYTES].decode("utf-8", "ignore")


def _encoded(structured: Any) -> str:
    return clean_output(dumps(structured).decode("utf-8", "replace"))


def _says(texts: Sequence[str], structured: Any, encoded: str) -> bool:
    """Return whether the texts already state the structured data.

    Some servers wrap a plain value as `{"result": value}`.
    """
    values = [structured]
    if isinstance(structured, Mapping) and set(structured) == {"result"}:
        values.append(structured["result"])
    for text in (*texts, *(["\n".join(texts)] if len(texts) > 1 else ())):
        if text == encoded or text in values:
            return True
        if len(text) > _MAX_COMPARED:
            # Parsing would take a multiple of its memory.
            if text[:_MAX_NAME].lstrip()[:1] in ("{", "[") and len(encoded) <= len(text):
                return True
            continue
        try:
            if loads(text) in values:
                return True
        except ValueError:
            continue
    return False
