"""Escape untrusted text for a page; show hidden characters; render terminal colours as spans.

Every string of a session passes through `content` or `attribute` before it reaches the page.
"""

import re
from typing import Any

from ludolf.base import dumps
from ludolf.base.patterns import lazy_pattern
from ludolf.base.visible import HIDDEN, characters, others, show_hidden

# Terminal controls and halves of surrogate pairs.
_CONTROLS = ((0x00, 0x08), (0x0B, 0x1F), (0x7F, 0x9F), (0xD800, 0xDFFF))
_MARKUP = tuple((ord(sign), ord(sign)) for sign in "&<>")
_CONTROL = lazy_pattern(f"[{characters(_CONTROLS)}]")
# All other characters, each matched in one step.
_PLAIN = lazy_pattern(f"[{others((*_CONTROLS, *_MARKUP, *HIDDEN))}]*+")


def _lead(code: int) -> int:
    return chr(code).encode("utf-8", "surrogatepass")[0]


# First bytes, in UTF-8, of characters that may have to be replaced.
_SUSPECT = frozenset(
    byte
    for first, last in (*_CONTROLS, *_MARKUP, *HIDDEN)
    for byte in range(_lead(first), _lead(last) + 1)
    if not 0x80 <= byte <= 0xBF
)
# All other bytes. A text that has only these is plain, which is the fastest check.
_PLAIN_BYTES = bytes(byte for byte in range(256) if byte not in _SUSPECT)
_DATA_IMAGE = lazy_pattern(r"data:(image/[a-z]+);base64,([A-Za-z0-9+/]+={0,2})\Z")
_BASE64 = lazy_pattern(r"[A-Za-z0-9+/]+={0,2}\Z")
IMAGE_TYPES = frozenset(("image/png", "image/jpeg", "image/gif", "image/webp"))


def content(text: str) -> str:
    """Escape text between tags."""
    suspects = _suspect(text)
    if not suspects:
        return text
    if suspects.strip(b"&<>"):
        if _PLAIN.fullmatch(text):
            return text
        text = visible(text)
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _suspect(text: str) -> bytes:
    """Return the bytes of a text that may belong to characters to be replaced."""
    return text.encode("utf-8", "surrogatepass").translate(None, _PLAIN_BYTES)


def visible(text: str) -> str:
    """Replace every control and hidden character with a visible sign, before escaping."""
    if text.isascii() and text.isprintable():
        return text
    # Without the ellipsis of `one_line`: it begins with a byte that hidden characters begin with.
    if not _suspect(text.removesuffix("…")).strip(b"&<>") or _PLAIN.fullmatch(text):
        return text
    return show_hidden(_CONTROL.sub(_picture, text))


def attribute(text: str) -> str:
    """Escape text inside a quoted attribute."""
    if text.isascii() and text.isalnum():
        return text
    return content(text).replace('"', "&quot;").replace("'", "&#39;")


def script_json(value: Any) -> str:
    """Encode JSON that cannot end or change the script element around it."""
    text = dumps(value).decode()
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def plain_lines(text: str) -> list[str]:
    """Split a text into lines at any kind of line end."""
    return with_plain_ends(text).split("\n")


def with_plain_ends(text: str) -> str:
    """Replace every kind of line end with a line feed."""
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def one_line(text: str, limit: int = 120) -> str:
    """Return the start of a text as one line, for lists."""
    words = " ".join(text[: limit + 20].split())
    if len(words) <= limit and len(text) > limit + 20:
        # Much white space, or a text that is hardly longer than the line.
        words = " ".join(text[: limit * 4].split())
    return words if len(words) <= limit else f"{words[: limit - 1].rstrip()}…"


def data_image(mime_type: str, data: str) -> str | None:
    """Return the data URL of an image of the session; None if it must not be shown."""
    data = "".join(data.split())
    if mime_type not in IMAGE_TYPES or not _BASE64.match(data):
        return None
    return f"data:{mime_type};base64,{data}"


def safe_data_url(url: str) -> str | None:
    """Return a data URL of an allowed image type; None if it must not be shown."""
    image = _DATA_IMAGE.match(url)
    return url if image is not None and image[1] in IMAGE_TYPES else None


def _picture(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else "\ufffd"


# ---------------------------------------------------------------- terminal output

# An unterminated title sequence must not hide later text, so it ends on its line or is shown.
_ESCAPE = lazy_pattern(
    "(?:\x1b\\[|\x9b)(?P<numbers>[0-9;:]*+)(?P<rest>[0-?]*+[ -/]*+)(?P<end>[@-~])"
    "|\x1b[\\]PX^_][^\x07\x1b\n]{0,2000}(?:\x07|\x1b\\\\)"
    "|\x1b[()*+][0-9A-Za-z]|\x1b[=>78cDEHMNOZ]"
)
_STYLES = {1: "b", 2: "dim", 3: "i", 4: "u"}
_ENDS = {22: ("b", "dim"), 23: ("i",), 24: ("u",)}


def terminal_html(text: str) -> str:
    """Render terminal output as HTML; keep colours as classes, drop other sequences.

    Markup ends on its line, so that lines can be separated.
    """
    text = with_plain_ends(text)
    if "\x1b" not in text and "\x9b" not in text:
        return content(text)
    pieces: list[str] = []
    style: tuple[str, ...] = ()
    at = 0
    for match in _ESCAPE.finditer(text):
        pieces.append(_styled(text[at : match.start()], style))
        at = match.end()
        if match["end"] == "m" and not match["rest"]:
            style = _next_style(style, match["numbers"])
    pieces.append(_styled(text[at:], style))
    return "".join(pieces)


def _styled(text: str, style: tuple[str, ...]) -> str:
    """Render a span that ends at each line, so that lines can be separated."""
    if not style or not text:
        return content(text)
    names = " ".join(f"a-{name}" for name in style)
    return "\n".join(
        f'<span class="{names}">{line}</span>' if line else "" for line in content(text).split("\n")
    )


def _next_style(style: tuple[str, ...], numbers: str) -> tuple[str, ...]:
    codes = [int(part[:4]) if part else 0 for part in re.split("[;:]", numbers[:200])]
    kept = dict.fromkeys(style)
    while codes:
        code = codes.pop(0)
        if code == 0:
            kept.clear()
        elif code in _STYLES:
            kept[_STYLES[code]] = None
        elif code in _ENDS:
            for name in _ENDS[code]:
                kept.pop(name, None)
        elif code == 39 or 30 <= code <= 38 or 90 <= code <= 97:
            colour = _colour(code, codes)
            kept = {name: None for name in kept if not name.isdigit()}
            if colour is not None:
                kept[str(colour)] = None
        elif code == 48:
            _wide_colour(codes)
    return tuple(kept)


def _colour(code: int, codes: list[int]) -> int | None:
    if code == 38:
        return _wide_colour(codes)
    if code == 39:
        return None
    return code - 30 if code < 90 else code - 82


def _wide_colour(codes: list[int]) -> int | None:
    """Return the nearest of the sixteen colours for a 256-colour or RGB code."""
    kind = codes.pop(0) if codes else 0
    if kind == 5 and codes:
        number = codes.pop(0)
        if number < 16:
            return number
        if number >= 232:
            return 8 if number < 250 else 15
        number -= 16
        return _mixed(number // 36 * 51, number // 6 % 6 * 51, number % 6 * 51)
    if kind == 2 and len(codes) >= 3:
        red, green, blue = codes[:3]
        del codes[:3]
        return _mixed(red, green, blue)
    return None


def _mixed(red: int, green: int, blue: int) -> int:
    return (red > 110) + 2 * (green > 110) + 4 * (blue > 110)
