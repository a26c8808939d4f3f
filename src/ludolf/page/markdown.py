"""Render Markdown as HTML in linear time; raw HTML is escaped.

Supported: headings, paragraphs, lists with tasks, quotes, fenced and indented code, tables, rules.
Not supported: reference links, footnotes, HTML blocks.
"""

import re
from bisect import bisect_right
from collections.abc import Callable

import msgspec

from ludolf.page.code import code_block
from ludolf.page.text import attribute, content, plain_lines, safe_data_url

# Skipped first: most of a text contains none of these.
_SIGN = re.compile(r"[\\`*_~\[\]<&]")
_TOKEN = re.compile(
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
_RUN = re.compile("`+")
_ANGLE = re.compile(
    r"<(?:(?P<url>(?i:https?://|mailto:)[^\s<>]{1,2000})"
    r"|(?P<mail>[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8})"
    r"|(?P<br>[bB][rR] ?/?))>"
)
# All repeats are bounded, and no two parts match the same characters, which avoids backtracking.
_TARGET = re.compile(
    r"\([ \n]{0,8}(?:<(?P<wrapped>[^<>\n]{0,4000})>"
    r"|(?P<bare>[^\s()<>]{0,4000}(?:\([^\s()<>]{0,500}\)[^\s()<>]{0,500}){0,8}))"
    r"(?:[ \n]{1,8}(?:\"[^\"\n]{0,500}\"|'[^'\n]{0,500}'))?[ \n]{0,8}\)"
)
_DATA_TARGET = re.compile(r"\((?P<bare>data:image/[a-z]{1,10};base64,[A-Za-z0-9+/=]{1,20000000})\)")
_BARE_URL = re.compile(r"(?i:https?://)[^\s<>\"`\]\[{}|\\^]{1,4000}")
_SAFE_URL = re.compile(r"(?i:https?://[^\s/]|mailto:[^\s])[^\s\x00-\x20]*\Z")
_TAGS = {"*": "em", "_": "em", "**": "strong", "__": "strong", "~~": "del"}


def render_inline(text: str, *, breaks: bool = False) -> str:
    """Render one paragraph as HTML. `breaks` renders line ends as line breaks."""
    if "://" not in text and _SIGN.search(text) is None:
        return content(text).replace("\n", "<br>\n") if breaks else content(text)
    return _Inline(text, breaks).render()


def safe_url(url: str) -> str | None:
    """Return the URL if a link may lead to it, else None."""
    return url if _SAFE_URL.match(url) else None


def link(url: str, inside: str) -> str:
    href = attribute(url)
    return f'<a href="{href}" rel="noopener noreferrer nofollow" target="_blank">{inside}</a>'


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

    def __init__(self, text: str, breaks: bool) -> None:
        self._text = text
        self._newline = "<br>\n" if breaks else "\n"
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
                self._out.append(content(text[at : match.start()]))
            at = self._take(match)
        self._out.append(content(text[at:]))
        return "".join(self._out)

    def _take(self, match: re.Match[str]) -> int:
        """Handle one token; return the place to continue from."""
        match match.lastgroup:
            case "escaped":
                self._out.append(content(match["escaped"]))
            case "hard":
                self._out.append("<br>\n")
            case "line":
                self._out.append(self._newline)
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
                self._out.append(_entity(match[0]))
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
        self._out.append(f"<code>{content(inside)}</code>")
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
        self._out[opener.at] = f"<{tag}>"
        self._out.append(f"</{tag}>")
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
        del self._out[opener.at :]
        source = safe_data_url(url) if opener.kind == "![" else None
        if source is not None:
            self._out.append(f'<img src="{source}" alt="{attribute(label)}">')
            return
        shown = "".join(inside) or content(url)
        if "<a " in shown:
            shown = content(label)
        if opener.kind == "![":
            shown = f'<span class="remote">image</span> {shown}'
        if safe_url(url) is None:
            shown = f'<span class="dead" title="{attribute(url[:300])}">{shown}</span>'
        elif opener.kind == "[" or not self._brackets:
            shown = link(url, shown)
        self._out.append(shown)
        # No link inside a link, and at most one image: deeper nesting would be copied each time.
        del self._brackets[: None if opener.kind == "[" else -1]

    def _angle(self, match: re.Match[str]) -> int:
        angle = _ANGLE.match(self._text, match.start())
        if angle is None:
            self._out.append("&lt;")
            return match.end()
        if angle["br"]:
            self._out.append("<br>")
        else:
            self._auto(angle["url"] or f"mailto:{angle['mail']}", angle["url"] or angle["mail"])
        return angle.end()

    def _url(self, match: re.Match[str]) -> int:
        before = self._text[match.start() - 1] if match.start() else " "
        bare = None if before.isalnum() else _BARE_URL.match(self._text, match.start())
        if bare is None:
            self._out.append(content(match[0]))
            return match.end()
        url = _without_tail(bare[0])
        self._auto(url, url)
        return match.start() + len(url)

    def _auto(self, url: str, shown: str) -> None:
        safe = safe_url(url) is not None
        self._out.append(link(url, content(shown)) if safe else content(shown))


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

    return content(unescape(text))


# Maximum nesting. Each level copies its lines once, so this bounds the work per line.
_DEEPEST = 12
_FENCE = re.compile(r"(`{3,}|~{3,})[ \t]*([^`\n]*)\Z")
_HEADING = re.compile(r"(#{1,6})(?:[ \t]+(.*))?\Z", re.DOTALL)
_MARKER = re.compile(r"([-*+]|[0-9]{1,9}[.)])(?:( {1,4})(?! )| )?")
_TASK = re.compile(r"\[([ xX])\] ")
_ALIGN = re.compile(r":?-+:?\Z")
# First characters of lines that end or underline the paragraph before them.
_ENDINGS = frozenset("`~#>-*+_=0123456789")
_SETEXT = re.compile(r"(=+|-+)[ \t]*\Z")


def render_markdown(text: str, *, breaks: bool = False) -> str:
    """Render a text as HTML. `breaks` renders line ends in paragraphs as line breaks."""
    lines = [line.expandtabs(4) if "\t" in line else line for line in plain_lines(text)]
    return _Blocks(lines, breaks=breaks).render()


class _Blocks:
    """The blocks of one container: the text itself, a quote or a list item."""

    def __init__(
        self, lines: list[str], *, breaks: bool, depth: int = 0, tight: bool = False
    ) -> None:
        self._lines = lines
        self._breaks = breaks
        self._depth = depth
        self._tight = tight
        self._at = 0
        self._out: list[str] = []

    def render(self) -> str:
        while self._at < len(self._lines):
            line = self._lines[self._at]
            bare = line.lstrip(" ")
            if not bare.strip():
                self._at += 1
            elif len(line) - len(bare) >= 4:
                self._indented()
            else:
                self._block(bare)
        return "".join(self._out)

    def _block(self, bare: str) -> None:
        for kind in _BLOCKS.get(bare[0], _DIGIT if bare[0].isdigit() else ()):
            if kind(self, bare):
                return
        if not self._table(bare):
            self._paragraph()

    # ------------------------------------------------------------ leaves

    def _indented(self) -> None:
        taken: list[str] = []
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line.strip() and not line.startswith("    "):
                break
            taken.append(line[4:])
            self._at += 1
        self._out.append(code_block("\n".join(taken).strip("\n"), ""))

    def _fence(self, bare: str) -> bool:
        opening = _FENCE.match(bare)
        if opening is None:
            return False
        indent = len(self._lines[self._at]) - len(bare)
        mark = opening[1]
        taken: list[str] = []
        self._at += 1
        while self._at < len(self._lines):
            line = self._lines[self._at]
            self._at += 1
            inner = line.strip()
            if inner.startswith(mark) and not inner.strip(mark[0]):
                break
            taken.append(line[min(indent, len(line) - len(line.lstrip(" "))) :])
        language = opening[2].strip().partition(" ")[0]
        self._out.append(code_block("\n".join(taken), language))
        return True

    def _heading(self, bare: str) -> bool:
        heading = _HEADING.match(bare.rstrip())
        if heading is None:
            return False
        self._add_heading(len(heading[1]), (heading[2] or "").rstrip("#").rstrip())
        self._at += 1
        return True

    def _add_heading(self, level: int, text: str) -> None:
        # The page has its own h1 and h2; headings of a message start at h3.
        tag = f"h{min(level + 2, 6)}"
        self._out.append(f'<{tag} class="l{level}">{render_inline(text)}</{tag}>')

    def _rule(self, bare: str) -> bool:
        if not _is_rule(bare):
            return False
        self._out.append("<hr>")
        self._at += 1
        return True

    def _table(self, bare: str) -> bool:
        if "|" not in bare or self._at + 1 >= len(self._lines):
            return False
        below = _cells(self._lines[self._at + 1])
        head = _cells(bare)
        if len(head) != len(below) or not all(map(_ALIGN.match, below)):
            return False
        classes = [_align(cell) for cell in below]
        self._at += 2
        body: list[str] = []
        while self._at < len(self._lines) and "|" in self._lines[self._at]:
            body.append(_row(_cells(self._lines[self._at]), classes, "td"))
            self._at += 1
        top = _row(head, classes, "th")
        inside = f"<thead>{top}</thead><tbody>{''.join(body)}</tbody>"
        self._out.append(f'<div class="table"><table>{inside}</table></div>')
        return True

    def _paragraph(self) -> None:
        taken: list[str] = []
        while self._at < len(self._lines):
            line = self._lines[self._at]
            bare = line.lstrip(" ")
            if not bare.strip():
                break
            if taken and bare[0] in _ENDINGS and len(line) - len(bare) < 4:
                if _SETEXT.match(bare):
                    self._at += 1
                    self._add_heading(1 if bare[0] == "=" else 2, "\n".join(taken))
                    return
                if _interrupts(bare):
                    break
            hard = line.endswith("  ")
            taken.append(f"{bare.rstrip()}\\" if hard else bare.rstrip())
            self._at += 1
        text = render_inline("\n".join(taken).removesuffix("\\"), breaks=self._breaks)
        self._out.append(text if self._tight else f"<p>{text}</p>")

    # ------------------------------------------------------------ containers

    def _quote(self, _bare: str) -> bool:
        if self._depth >= _DEEPEST:
            return False
        inner: list[str] = []
        while self._at < len(self._lines):
            bare = self._lines[self._at].lstrip(" ")
            if bare.startswith(">"):
                inner.append(bare[2:] if bare.startswith("> ") else bare[1:])
            elif not bare.strip() or _interrupts(bare) or not inner[-1].strip():
                break
            else:
                inner.append(bare)
            self._at += 1
        self._out.append(f"<blockquote>{self._inside(inner)}</blockquote>")
        return True

    def _list(self, bare: str) -> bool:
        marker = _marker(bare)
        if marker is None or self._depth >= _DEEPEST:
            return False
        kind = marker[1][-1]
        items: list[list[str]] = []
        loose = False
        while self._at < len(self._lines):
            bare = self._lines[self._at].lstrip(" ")
            item_marker = _marker(bare)
            if item_marker is None or item_marker[1][-1] != kind or _is_rule(bare):
                break
            item, ended_blank = self._item(item_marker, len(self._lines[self._at]) - len(bare))
            more = self._at < len(self._lines) and _marker(self._lines[self._at].lstrip(" "))
            loose = loose or _has_gap(item) or bool(ended_blank and more)
            items.append(item)
        number = int(marker[1][:-1]) if kind in ".)" else None
        self._out.append(self._list_html(items, number, loose))
        return True

    def _item(self, marker: re.Match[str], indent: int) -> tuple[list[str], bool]:
        """Return the lines of one item without their indent, and whether a blank line ends it."""
        width = indent + len(marker[0])
        taken = [self._lines[self._at][width:]]
        blank = False
        self._at += 1
        while self._at < len(self._lines):
            line = self._lines[self._at]
            bare = line.lstrip(" ")
            inner = len(line) - len(bare)
            if bare.strip() and not self._belongs(bare, inner, indent, width, blank):
                break
            blank = not bare.strip()
            taken.append(line[min(inner, width) :])
            self._at += 1
        while len(taken) > 1 and not taken[-1].strip():
            taken.pop()
        return taken, blank

    def _belongs(self, bare: str, inner: int, indent: int, width: int, blank: bool) -> bool:
        if inner >= width:
            return True
        if _marker(bare) is not None:
            # Two spaces are enough below "1. ", since models and people write that.
            return inner >= indent + 2
        return not blank and not _interrupts(bare)

    def _list_html(self, items: list[list[str]], number: int | None, loose: bool) -> str:
        out: list[str] = []
        for item in items:
            start = "<li>"
            if (task := _TASK.match(item[0])) is not None:
                sign = "☐" if task[1] == " " else "☑"
                start = f'<li class="task"><span class="box">{sign}</span> '
                item[0] = item[0][4:]
            out.append(f"{start}{self._inside(item, tight=not loose)}</li>")
        if number is None:
            return f"<ul>{''.join(out)}</ul>"
        first = f' start="{number}"' if number != 1 else ""
        return f"<ol{first}>{''.join(out)}</ol>"

    def _inside(self, lines: list[str], *, tight: bool = False) -> str:
        inner = _Blocks(lines, breaks=self._breaks, depth=self._depth + 1, tight=tight)
        return inner.render()


_BLOCKS: dict[str, tuple[Callable[[_Blocks, str], bool], ...]] = {
    "`": (_Blocks._fence,),
    "~": (_Blocks._fence,),
    "#": (_Blocks._heading,),
    ">": (_Blocks._quote,),
    "-": (_Blocks._rule, _Blocks._list),
    "*": (_Blocks._rule, _Blocks._list),
    "+": (_Blocks._list,),
    "_": (_Blocks._rule,),
}
_DIGIT = (_Blocks._list,)


def _marker(bare: str) -> re.Match[str] | None:
    """Match the marker of a list item: followed by a space or alone on its line."""
    marker = _MARKER.match(bare)
    if marker is None or (marker.end() == len(marker[1]) and bare[marker.end() :].strip()):
        return None
    return marker


def _is_rule(bare: str) -> bool:
    signs = bare.replace(" ", "")
    return len(signs) >= 3 and signs[0] in "-*_" and not signs.strip(signs[0])


def _interrupts(bare: str) -> bool:
    """Whether a line ends the paragraph before it."""
    first = bare[0]
    if first in "`~":
        return _FENCE.match(bare) is not None
    if first == "#":
        return _HEADING.match(bare.rstrip()) is not None
    if first == ">":
        return True
    if first in "-*+_" and _is_rule(bare):
        return True
    marker = _marker(bare)
    if marker is None or marker.end() >= len(bare):
        return False
    return not marker[1][0].isdigit() or marker[1][:-1] == "1"


def _has_gap(lines: list[str]) -> bool:
    """Whether a blank line separates blocks of an item; blank lines in a fence do not count."""
    fenced = blank = False
    for line in lines:
        bare = line.strip()
        if bare.startswith(("```", "~~~")):
            fenced = not fenced
        if blank and bare and _marker(bare) is None:
            return True
        blank = not bare and not fenced
    return False


def _cells(line: str) -> list[str]:
    """Return the cells of a table row; a bar after a backslash does not separate cells."""
    row = line.strip().removeprefix("|")
    if row.endswith("|") and not row.endswith("\\|"):
        row = row[:-1]
    parts = re.split(r"(?<!\\)\|", row)
    return [part.strip().replace("\\|", "|") for part in parts]


def _align(cell: str) -> str:
    """Return the attribute of the cells below a delimiter cell."""
    if not cell.endswith(":"):
        return ""
    return ' class="center"' if cell.startswith(":") else ' class="right"'


def _row(cells: list[str], classes: list[str], tag: str) -> str:
    # Short rows are not padded: a wide head over many of them would add too many cells.
    out = (
        f"<{tag}{name}>{render_inline(cell)}</{tag}>"
        for cell, name in zip(cells, classes, strict=False)
    )
    return f"<tr>{''.join(out)}</tr>"
