"""Remove terminal control and invisible characters from the texts of servers."""

import re
from collections.abc import Iterator

from ludolf.base import without_surrogates
from ludolf.base.visible import HIDDEN, characters

# Terminal control, in the form that begins with ESC and as one C1 character. A control string
# without an end ends with its line or after 4,096 characters.
_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d\x9e\x9f])"
    r"[^\n\x07\x18\x1a\x1b\x9c]{0,4096}(?:[\x07\x18\x1a\x9c]|\x1b\\)?"
    r"|\x1b[ -/]*[0-~]?"
    r"|[\x80-\x9f]"
)
_TAGS = re.compile("[\U000e0000-\U000e0fff]")
_C1_BYTES = re.compile(rb"\xc2[\x80-\x9f]")
_TAG_BYTES = re.compile(rb"\xf3\xa0[\x80-\xbf]")
_PIECE = 256 * 1024
_LONGEST_ESCAPE = 4200
_LINE_ENDS = re.compile("\r\n?|[\u2028\u2029]")
_CONTROLS = re.compile(f"[\0-\x08\x0b-\x1f\x7f{characters(HIDDEN)}]")
_SUSPECT = re.compile(f"[\0-\x08\x0b-\x1f\x7f-\x9f{characters(HIDDEN)}]")
CUT_MARK = "…"


def clean_text(text: str, limit: int) -> str:
    """Return the text without control and invisible characters, at most `limit` characters.

    Newlines and tabs stay. Escape sequences are removed as a whole.
    """
    if text.isascii() and text.isprintable():
        return cut_text(text, limit)
    # The pieces that are removed can be longer than the limit, but not without bounds.
    return cut_text(_cleaned(text[: 16 * limit + 8192]).strip(), limit)


def is_clean(text: str) -> bool:
    """Return whether a name or value has no character that `clean_text` removes."""
    return (text.isascii() and text.isprintable()) or _cleaned(text) == text


def _cleaned(text: str) -> str:
    text = without_surrogates(text)
    if not _SUSPECT.search(text):
        return text
    return _CONTROLS.sub("", _LINE_ENDS.sub("\n", _ESCAPES.sub("", text)))


def clean_output(text: str) -> str:
    """Return a text of a result without escape sequences and tag characters."""
    if "\x1b" in text or _contains(text, _C1_BYTES):
        text = "".join(_ESCAPES.sub("", piece) for piece in _pieces(text))
    text = without_surrogates(text)
    return _TAGS.sub("", text) if _contains(text, _TAG_BYTES) else text


def _pieces(text: str) -> Iterator[str]:
    """Split a long text, if possible before an escape: replacing takes a multiple of the memory."""
    start = 0
    while start < len(text):
        end = start + _PIECE
        if end < len(text):
            escape = text.rfind("\x1b", end - _LONGEST_ESCAPE, end)
            end = escape if escape > start else end
        yield text[start:end]
        start = end


def _contains(text: str, sign: re.Pattern[bytes]) -> bool:
    """Return whether the UTF-8 form matches: much faster in long texts than a class of characters.

    The text is encoded in pieces, so that a long one is not copied as a whole.
    """
    return not text.isascii() and any(
        sign.search(text[at : at + _PIECE].encode("utf-8", "surrogatepass"))
        for at in range(0, len(text), _PIECE)
    )


def cut_text(text: str, limit: int) -> str:
    """Return the text, cut with a mark if it is longer than `limit` characters."""
    return text if len(text) <= limit else text[: max(0, limit - len(CUT_MARK))] + CUT_MARK
