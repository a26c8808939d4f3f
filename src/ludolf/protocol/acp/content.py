"""Content blocks of the Agent Client Protocol to the input of a prompt, and parts to blocks."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote, urlsplit

from ludolf.ai.messages import Image, Part, Text
from ludolf.protocol.acp.structs import InvalidParams

# Longer embedded texts, in bytes, are named instead of included.
MAX_EMBEDDED = 50 * 1024
TITLE_LENGTH = 80
NO_IMAGES = "[An image was left out: the current model does not accept images.]"


def prompt_input(blocks: Sequence[Any], *, takes_images: bool) -> tuple[str, tuple[Part, ...]]:
    """Return the text of a prompt and its images.

    Texts that follow each other are joined as they are; linked and embedded resources stand on
    lines of their own. Nothing is read from disk.

    Raises:
        InvalidParams: a block is not valid or not supported; the text names its place.
    """
    reader = _PromptReader(takes_images)
    for place, block in enumerate(blocks):
        reader.add(block, f"session/prompt: prompt[{place}]")
    return reader.text(), tuple(reader.images)


class _PromptReader:
    def __init__(self, takes_images: bool) -> None:
        self._takes_images = takes_images
        self._pieces: list[str] = []
        self._after_link = False
        self.images: list[Part] = []

    def text(self) -> str:
        return "".join(self._pieces)

    def add(self, block: Any, where: str) -> None:
        if not isinstance(block, dict):
            raise InvalidParams(f"{where}: expected an object, got {_kind_of(block)}")
        match block.get("type"):
            case "text":
                self._text(_required(block, "text", where))
            case "image":
                self._image(_required(block, "data", where), _required(block, "mimeType", where))
            case "resource_link":
                self._link(_required(block, "uri", where), block.get("name"))
            case "resource":
                self._resource(block.get("resource"), f"{where}.resource")
            case "audio":
                raise InvalidParams(f"{where}: audio is not supported; send text or images")
            case kind:
                raise InvalidParams(f"{where}.type: unknown content type {str(kind)[:60]!r}")

    def _text(self, text: str) -> None:
        is_glued = self._after_link and text[:1].isalnum()
        self._pieces.append(f" {text}" if is_glued else text)
        self._after_link = False

    def _image(self, data: str, mime_type: str) -> None:
        if self._takes_images:
            self.images.append(Image(data=data, mime_type=mime_type))
        else:
            self._on_own_line(NO_IMAGES)

    def _link(self, uri: str, name: Any) -> None:
        path = file_path(uri)
        shown = f"{name} ({uri})" if isinstance(name, str) and name else uri
        if path is not None:
            shown = f"@{path}"
        # A link in the middle of a sentence stays there.
        self._pieces.append(shown if self._ends_open() else f" {shown}")
        self._after_link = True

    def _ends_open(self) -> bool:
        last = self._pieces[-1] if self._pieces else ""
        return not last or last[-1].isspace() or last[-1] in "([{<\"'"

    def _resource(self, resource: Any, where: str) -> None:
        if not isinstance(resource, dict):
            raise InvalidParams(f"{where}: expected an object, got {_kind_of(resource)}")
        uri = _required(resource, "uri", where)
        text, blob, mime_type = (resource.get(key) for key in ("text", "blob", "mimeType"))
        address = file_path(uri) or uri
        if isinstance(text, str):
            self._on_own_line(_embedded(address, text))
        elif not isinstance(blob, str):
            raise InvalidParams(f"{where}: expected a string `text` or `blob`")
        elif isinstance(mime_type, str) and mime_type.startswith("image/"):
            self._image(blob, mime_type)
        else:
            self._on_own_line(f"[Binary content of {address} was left out.]")

    def _on_own_line(self, text: str) -> None:
        last = self._pieces[-1] if self._pieces else ""
        self._pieces.append(("\n" if last and not last.endswith("\n") else "") + text + "\n")
        self._after_link = False


def _embedded(address: str, text: str) -> str:
    size = len(text.encode("utf-8", "replace"))
    if size > MAX_EMBEDDED:
        return f"@{address}\n[The content has {size:,} bytes and was left out.]"
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{address}\n{fence}\n{text.removesuffix(chr(10))}\n{fence}"


def file_path(uri: str) -> str | None:
    """Return the path of a `file:` address or of an absolute path; None for other addresses."""
    if uri.startswith("/"):
        return uri
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    is_local = parts.scheme == "file" and parts.netloc in ("", "localhost")
    return unquote(parts.path) if is_local and parts.path else None


def _required(block: dict[str, Any], name: str, where: str) -> str:
    value = block.get(name)
    if not isinstance(value, str):
        found = _kind_of(value) if name in block else "nothing"
        raise InvalidParams(f"{where}.{name}: expected a string, got {found}")
    return value


def _kind_of(value: Any) -> str:
    return "null" if value is None else type(value).__name__


# ---------------------------------------------------------------- to the client


def text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def content_blocks(parts: Sequence[Part]) -> list[dict[str, Any]]:
    """Return parts of a message as content blocks; empty texts are left out."""
    blocks: list[dict[str, Any]] = []
    for part in parts:
        if isinstance(part, Image):
            blocks.append({"type": "image", "data": part.data, "mimeType": part.mime_type})
        elif isinstance(part, Text) and part.text:
            blocks.append(text_block(part.text))
    return blocks


def session_title(text: str) -> str:
    """Return the first words of a prompt on one line, at most 80 characters."""
    # Only the start is split: a prompt may contain a whole file.
    line = " ".join(text[: 20 * TITLE_LENGTH].split())
    if len(line) <= TITLE_LENGTH:
        return line
    cut = line[: TITLE_LENGTH - 1]
    kept = cut.rpartition(" ")[0] if " " in cut[TITLE_LENGTH // 2 :] else cut
    return f"{kept.rstrip()}…"
