"""Parse the inline markup of one paragraph in linear time; a writer decides how it looks."""

import re
from bisect import bisect_right
from typing import Protocol

import msgspec

from ludolf.base.patterns import lazy_pattern
from ludolf.page.text import safe_data_url

_TOKEN = lazy_pattern(
    r"(?=[\\`*_~!\[\]<&hH\n])(?:"
    r"\\(?P<escaped>[!-/:-@\[-`{-~])"
    r"|(?P<hard>\\\n)"
    r"|(?P<code>`+)"
    r"|(?P<marks>\*+|_+|~+)"
    r"|(?P<open>!?\[)"
    r"|(?P<close>\])"
    r"|(?P<angle><)"
    r"|(?P<url>(?i:https?://))"
    r"|(?P<entity>&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,30});)"
    r"|(?P<line>\n))"
)
_RUN = lazy_pattern("`+")
_ANGLE = lazy_pattern(
    r"<(?:(?P<url>(?i:https?://|mailto:)[^\s<>]{1,2000})"
    r"|(?P<mail>[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8})"
    r"|(?P<br>[bB][rR] ?/?))>"
)
# All repeats are bounded, and no two parts match the same characters, which avoids backtracking.
_TARGET = lazy_pattern(
    r"\([ \n]{0,8}(?:<(?P<wrapped>[^<>\n]{0,4000})>"
    r"|(?P<bare>[^\s()<>]{0,4000}(?:\([^\s()<>]{0,500}\)[^\s()<>]{0,500}){0,8}))"
    r"(?:[ \n]{1,8}(?:\"[^\"\n]{0,500}\"|'[^'\n]{0,500}'))?[ \n]{0,8}\)"
)
_DATA_TARGET = lazy_pattern(
    r"\((?P<bare>data:image/[a-z]{1,10};base64,[A-Za-z0-9+/=]{1,20000000})\)"
)
_BARE_URL = lazy_pattern(r"(?i:https?://)[^\s<>\"`\]\[{}|\\^]{1,4000}")
_SAFE_URL = lazy_pattern(r"(?i:https?://[^\s/]|mailto:[^\s])[^\s\x00-\x20]*\Z")
_TAGS = {"*": "em", "_": "em", "**": "strong", "__": "strong", "~~": "del"}


class InlineWriter(Protocol):
    """Turns each piece of a paragraph into a string; the strings are joined.

    `soft`, `hard` and `tag_break` stand for a line end, a line end that must stay, and `<br>`.
    """

    soft: str
    hard: str
    tag_break: str

    def text(self, text: str) -> str:
        """Return text without markup. It comes from others, as all arguments here."""
        ...

    def code(self, text: str) -> str: ...

    def opening(self, tag: str) -> str:
        """Return the start of `em`, `strong` or `del`."""
        ...

    def closing(self, tag: str) -> str: ...

    def link(self, url: str, inside: str) -> str:
        """Return a link to a safe URL; `inside` is written already."""
        ...

    def dead_link(self, url: str, inside: str) -> str: ...

    def image(self, source: str, label: str) -> str:
        """Return an image whose source is a data URL of an allowed type."""
        ...

    def remote_image(self, inside: str) -> str: ...


def write_inline(text: str, writer: InlineWriter) -> str:
    """Parse one paragraph and return it as the writer writes it."""
    if not has_markup(text):
        return writer.soft.join(map(writer.text, text.split("\n")))
    return _Inline(text, writer).render()


def has_markup(text: str) -> bool:
    """Return whether a text may contain more than words and line ends."""
    # Most texts contain none of these. To look for each is faster than a regular expression.
    return (
        ("`" in text or "*" in text or "_" in text or "[" in text or "<" in text)
        or ("&" in text or "\\" in text or "~" in text or "]" in text)
        or "://" in text
    )


def safe_url(url: str) -> str | None:
    """Return the URL if a link may lead to it, else None."""
    return url if _SAFE_URL.match(url) else None


class _Opener(msgspec.Struct, gc=False):
    """An opening delimiter; `at` is its place in the output, `start` in the text."""

    kind: str
    at: int
    start: int
    alive: bool = True


class _Inline:
    """Render in one pass over the tokens. An opener stays text until its end is found.

    Each opener is pushed once and popped once, so the time is linear.
    """

    def __init__(self, text: str, writer: InlineWriter) -> None:
        self._text = text
        self._writer = writer
        self._write = writer.text
        self._links: list[int] = []  # places of links in the output
        self._out: list[str] = []
        self._stack: list[_Opener] = []
        self._brackets: list[_Opener] = []
        self._counts = dict.fromkeys(_TAGS, 0)
        self._runs: dict[int, list[int]] = {}

    def render(self) -> str:
        text, at = self._text, 0
        for run in _RUN.finditer(text):
            self._runs.setdefault(len(run[0]), []).append(run.start())
        while (match := _TOKEN.search(text, at)) is not None:
            if match.start() > at:
                self._out.append(self._write(text[at : match.start()]))
            at = self._take(match)
        self._out.append(self._write(text[at:]))
        return "".join(self._out)

    def _take(self, match: re.Match[str]) -> int:
        """Handle one token; return the place to continue from."""
        match match.lastgroup:
            case "escaped":
                self._out.append(self._write(match["escaped"]))
            case "hard":
                self._out.append(self._writer.hard)
            case "line":
                self._out.append(self._writer.soft)
            case "code":
                return self._code(match)
            case "marks":
                self._marks(match)
            case "open":
                self._open(match)
            case "close":
                return self._close_bracket(match)
            case "angle":
                return self._angle(match)
            case "url":
                return self._url(match)
            case _:
                self._out.append(self._write(_entity(match[0])))
        return match.end()

    def _code(self, match: re.Match[str]) -> int:
        runs = self._runs.get(len(match[0]), [])
        index = bisect_right(runs, match.start())
        if index == len(runs):
            self._out.append(match[0])
            return match.end()
        inside = self._text[match.end() : runs[index]].replace("\n", " ")
        if inside.strip() and inside[0] == inside[-1] == " ":
            inside = inside[1:-1]
        self._out.append(self._writer.code(inside))
        return runs[index] + len(match[0])

    # ------------------------------------------------------------ emphasis

    def _marks(self, match: re.Match[str]) -> None:
        sign, left = match[0][0], len(match[0])
        before = self._text[match.start() - 1] if match.start() else " "
        after = self._text[match.end()] if match.end() < len(self._text) else " "
        opens, closes = _flanks(sign, before, after)
        if sign == "~" and left != 2:
            opens = closes = False
        while left and closes and (width := self._close(sign, left)):
            left -= width
        while left and opens:
            width = min(left, 2)
            kind = sign * width
            self._counts[kind] += 1
            self._stack.append(_Opener(kind, len(self._out), match.start()))
            self._out.append(kind)
            left -= width
        if left:
            self._out.append(sign * left)

    def _close(self, sign: str, left: int) -> int:
        kinds = {sign} if left == 1 else {sign, sign * 2}
        if not any(self._counts.get(kind) for kind in kinds):
            return 0
        while (opener := self._pop()).kind not in kinds:
            pass
        tag = _TAGS[opener.kind]
        self._out[opener.at] = self._writer.opening(tag)
        self._out.append(self._writer.closing(tag))
        return len(opener.kind)

    def _pop(self) -> _Opener:
        opener = self._stack.pop()
        opener.alive = False
        if opener.kind in self._counts:
            self._counts[opener.kind] -= 1
        return opener

    # ------------------------------------------------------------ links

    def _open(self, match: re.Match[str]) -> None:
        opener = _Opener(match[0], len(self._out), match.end())
        self._stack.append(opener)
        self._brackets.append(opener)
        self._out.append(match[0])

    def _close_bracket(self, match: re.Match[str]) -> int:
        while self._brackets and not self._brackets[-1].alive:
            self._brackets.pop()
        opener = self._brackets.pop() if self._brackets else None
        target = _DATA_TARGET.match(self._text, match.end()) or _TARGET.match(
            self._text, match.end()
        )
        if opener is None or target is None:
            self._out.append("]")
            return match.end()
        while self._pop() is not opener:
            pass
        url = target["bare"] or target.groupdict().get("wrapped") or ""
        self._link(opener, url, self._text[opener.start : match.start()])
        return target.end()

    def _link(self, opener: _Opener, url: str, label: str) -> None:
        inside = self._out[opener.at + 1 :]
        has_link = bool(self._links) and self._links[-1] > opener.at
        del self._out[opener.at :]
        while self._links and self._links[-1] >= opener.at:
            self._links.pop()
        source = safe_data_url(url) if opener.kind == "![" else None
        if source is not None:
            self._out.append(self._writer.image(source, label))
            return
        shown = "".join(inside) or self._write(url)
        if has_link:
            shown = self._write(label)
        if opener.kind == "![":
            shown = self._writer.remote_image(shown)
        if safe_url(url) is None:
            shown = self._writer.dead_link(url, shown)
        elif opener.kind == "[" or not self._brackets:
            self._links.append(opener.at)
            shown = self._writer.link(url, shown)
        self._out.append(shown)
        # No link inside a link, and at most one image: deeper nesting would be copied each time.
        del self._brackets[: None if opener.kind == "[" else -1]

    def _angle(self, match: re.Match[str]) -> int:
        angle = _ANGLE.match(self._text, match.start())
        if angle is None:
            self._out.append(self._write("<"))
            return match.end()
        if angle["br"]:
            self._out.append(self._writer.tag_break)
        else:
            self._auto(angle["url"] or f"mailto:{angle['mail']}", angle["url"] or angle["mail"])
        return angle.end()

    def _url(self, match: re.Match[str]) -> int:
        before = self._text[match.start() - 1] if match.start() else " "
        bare = None if before.isalnum() else _BARE_URL.match(self._text, match.start())
        if bare is None:
            self._out.append(self._write(match[0]))
            return match.end()
        url = _without_tail(bare[0])
        self._auto(url, url)
        return match.start() + len(url)

    def _auto(self, url: str, shown: str) -> None:
        written = self._write(shown)
        if safe_url(url) is not None:
            self._links.append(len(self._out))
            written = self._writer.link(url, written)
        self._out.append(written)


def _flanks(sign: str, before: str, after: str) -> tuple[bool, bool]:
    """Whether a delimiter run between two characters can begin and can end emphasis."""
    space_before, space_after = before.isspace(), after.isspace()
    word_before, word_after = before.isalnum(), after.isalnum()
    opens = not space_after and (word_after or not word_before)
    closes = not space_before and (word_before or not word_after)
    if sign == "_":
        return opens and not word_before, closes and not word_after
    return opens, closes


def _without_tail(url: str) -> str:
    """Remove punctuation that belongs to the sentence around the URL."""
    surplus = url.count(")") - url.count("(")
    end = len(url)
    while end:
        last = url[end - 1]
        if last == ")" and surplus > 0:
            surplus -= 1
        elif last not in ".,;:!?'*_~":
            break
        end -= 1
    return url[:end]


def _entity(text: str) -> str:
    from html import unescape

    return unescape(text)
