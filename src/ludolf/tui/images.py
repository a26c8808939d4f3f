"""Show images by the protocols of kitty and iTerm2; elsewhere a line such as `[image 640×480]`."""

import struct
from binascii import a2b_base64
from collections.abc import Iterator, Mapping
from typing import Literal

from ludolf.ai.messages import Image
from ludolf.tui.cells import plain
from ludolf.tui.theme import Theme

ImageProtocol = Literal["kitty", "iterm2"]
# A cell is taken as twice as high as wide, and as 10 pixels wide.
_CELL_PIXELS = 10
_MOST_ROWS = 20
_LARGEST = 8 * 1024 * 1024
_CHUNK = 4096
# Enough base64 for the size of an image, also of a JPEG with a preview in its head.
_HEAD_CHARACTERS = 256 * 1024


def image_protocol(environment: Mapping[str, str]) -> ImageProtocol | None:
    """Return how the terminal shows images, by its environment variables; None if unknown."""
    term, program = environment.get("TERM", ""), environment.get("TERM_PROGRAM", "")
    if term.startswith(("tmux", "screen")) or "TMUX" in environment or "STY" in environment:
        return None
    if "KITTY_WINDOW_ID" in environment or "kitty" in term or "ghostty" in (term[6:], program):
        return "kitty"
    return "iterm2" if program in ("iTerm.app", "WezTerm") else None


def image_rows(
    image: Image, cells: int, theme: Theme, protocol: ImageProtocol | None = None
) -> list[str]:
    """Return the rows of an image: the picture if the terminal can show it, else its label."""
    from ludolf.page.text import data_image  # not for the first screen

    data = "".join(image.data.split())
    size = image_size(data)
    usable = size is not None and data_image(image.mime_type, data) and len(data) <= _LARGEST
    if usable and size and protocol == "kitty" and image.mime_type == "image/png":
        columns, lines = _box(size, cells)
        return ["".join(_kitty(data, columns, lines)), *[""] * (lines - 1)]
    if usable and size and protocol == "iterm2":
        columns, lines = _box(size, cells)
        place = f"inline=1;width={columns};height={lines};preserveAspectRatio=1"
        return [f"\x1b]1337;File={place}:{data}\x07"]
    return [theme.paint("muted", image_label(image)[: max(1, cells)])]


def image_label(image: Image) -> str:
    """Describe an image: `[image 640×480, 34 kB]`, without its size in pixels if unknown."""
    size = image_size(image.data)
    pixels = f" {size[0]}×{size[1]}" if size is not None else ""
    kind = "" if image.mime_type.startswith("image/") else f" {plain(image.mime_type[:40])}"
    return f"[image{pixels}{kind}, {_bytes(len(image.data) * 3 // 4)}]".replace("\n", " ")


def image_size(data: str) -> tuple[int, int] | None:
    """Return width and height of a base64 image in pixels; None if it cannot be read."""
    try:
        head = a2b_base64(data[:_HEAD_CHARACTERS].encode("ascii"))
    except (ValueError, UnicodeEncodeError):
        return None
    try:
        size = _size(head)
    except (struct.error, IndexError):
        return None
    return size if size is not None and 0 < size[0] <= 100_000 and 0 < size[1] <= 100_000 else None


def _size(head: bytes) -> tuple[int, int] | None:
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        width, height = struct.unpack_from(">II", head, 16)
    elif head.startswith((b"GIF87a", b"GIF89a")):
        width, height = struct.unpack_from("<HH", head, 6)
    elif head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return _webp_size(head)
    elif head.startswith(b"\xff\xd8"):
        return _jpeg_size(head)
    else:
        return None
    return width, height


def _webp_size(head: bytes) -> tuple[int, int] | None:
    match head[12:16]:
        case b"VP8X":
            return (
                1 + int.from_bytes(head[24:27], "little"),
                1 + int.from_bytes(head[27:30], "little"),
            )
        case b"VP8L":
            (bits,) = struct.unpack_from("<I", head, 21)
            return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
        case b"VP8 ":
            width, height = struct.unpack_from("<HH", head, 26)
            return width & 0x3FFF, height & 0x3FFF
    return None


def _jpeg_size(head: bytes) -> tuple[int, int] | None:
    at = 2
    while at + 9 < len(head) and head[at] == 0xFF:
        kind = head[at + 1]
        if 0xC0 <= kind <= 0xCF and kind not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack_from(">HH", head, at + 5)
            return width, height
        (length,) = struct.unpack_from(">H", head, at + 2)
        at += 2 + max(2, length)
    return None


def _box(size: tuple[int, int], cells: int) -> tuple[int, int]:
    """Return the columns and rows of an image, with its proportions, never enlarged."""
    width, height = size
    columns = max(1, min(cells, -(-width // _CELL_PIXELS)))
    lines = max(1, round(columns * height / width / 2))
    if lines > _MOST_ROWS:
        lines = _MOST_ROWS
        columns = max(1, min(columns, round(lines * 2 * width / height)))
    return columns, lines


def _kitty(data: str, columns: int, lines: int) -> Iterator[str]:
    # C=1 keeps the cursor in its row, q=2 asks for no reply.
    control = f"a=T,f=100,C=1,q=2,c={columns},r={lines},"
    for start in range(0, len(data), _CHUNK):
        more = int(start + _CHUNK < len(data))
        yield f"\x1b_G{control}m={more};{data[start : start + _CHUNK]}\x1b\\"
        control = "q=2,"


def _bytes(count: int) -> str:
    if count < 1_000:
        return f"{count} B"
    return f"{count / 1_000:.0f} kB" if count < 1_000_000 else f"{count / 1_000_000:.1f} MB"
