"""Replace invisible and text-reordering characters with visible markers."""

import functools
import re

Ranges = tuple[tuple[int, int], ...]

# All default ignorable code points of Unicode 16 (which include bidirectional controls, variation
# selectors and tags), and other characters without a glyph: first and last code point.
HIDDEN: Ranges = (
    *((0xAD, 0xAD), (0x34F, 0x34F), (0x61C, 0x61C), (0x115F, 0x1160), (0x17B4, 0x17B5)),
    *((0x180B, 0x180F), (0x200B, 0x200F), (0x2028, 0x202E), (0x2060, 0x206F), (0x2800, 0x2800)),
    *((0x3164, 0x3164), (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF), (0xFFA0, 0xFFA0), (0xFFF0, 0xFFFC)),
    *((0x13430, 0x13446), (0x16FE4, 0x16FE4), (0x1BCA0, 0x1BCA3), (0x1D159, 0x1D159)),
    *((0x1D173, 0x1D17A), (0xE0000, 0xE0FFF)),
)
_EMOJI = (
    "\u00a9\u00ae\u203c\u2049\u2122\u2139\u2194-\u21aa\u231a-\u23ff\u24c2\u25aa-\u25fe\u2600-\u27bf"
    "\u2934\u2935\u2b05-\u2b55\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
)
# Arabic and the scripts from Devanagari to Sinhala, which spell words with joiners.
_JOINED = (
    "\u0620-\u065f\u066e-\u06d3\u06fa-\u06ff\u0750-\u077f\u0900-\u0df3\ufb50-\ufdff\ufe70-\ufefc"
)
_JOINERS = "\u200c\u200d"
# Joiners and selectors that belong to the adjacent character, at most one each.
_IN_USE = (
    f"(?<=[{_EMOJI}])[\ufe0e\ufe0f]"
    "|(?<=[0-9#*])\ufe0f(?=\u20e3)"
    f"|(?<=[{_EMOJI}\ufe0f])\u200d(?=[{_EMOJI}])"
    f"|(?<=[{_JOINED}])[{_JOINERS}](?=[{_JOINED}])"
)


def characters(ranges: Ranges) -> str:
    """Return the inside of a regular expression class that matches the ranges."""
    return "".join(f"{re.escape(chr(first))}-{re.escape(chr(last))}" for first, last in ranges)


def others(ranges: Ranges) -> str:
    """Return the class of all other characters, which matches faster than a negated class."""
    edges = [-1, *(edge for each in sorted(ranges) for edge in each), 0x110000]
    gaps = zip(edges[::2], edges[1::2], strict=True)
    return characters(tuple((end + 1, start - 1) for end, start in gaps if end + 1 < start))


@functools.cache
def _hidden() -> re.Pattern[str]:
    """Return the pattern, which takes milliseconds to compile: most texts do not need it."""
    return re.compile(f"(?!{_IN_USE})[{characters(HIDDEN)}]")


def show_hidden(text: str) -> str:
    """Replace invisible characters with markers such as `[U+200B]`.

    Emoji sequences, and joiners between letters of scripts that need them, stay unchanged.
    """
    if text.isascii():
        return text
    return _hidden().sub(lambda match: f"[U+{ord(match[0]):04X}]", text)


def escape_hidden(text: str) -> str:
    """Return the text on one line, with unprintable and invisible characters as Python escapes."""
    if text.isascii() and text.isprintable():
        return text
    shown = _hidden().sub(lambda match: _escape(match[0]), text)
    return "".join(
        sign if sign.isprintable() or sign in _JOINERS else _escape(sign) for sign in shown
    )


def _escape(sign: str) -> str:
    return ascii(sign)[1:-1]
