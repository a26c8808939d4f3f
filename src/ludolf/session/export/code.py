"""Code and output on the page: a block with a copy button, long ones folded after some lines."""

from ludolf.session.export.highlight import highlight_lines
from ludolf.session.export.text import attribute, plain_lines

COPY = '<button class="copy" type="button">Copy</button>'
_SPARE_LINES = 5
_LINE_CHARACTERS = 400


def code_block(code: str, language: str) -> str:
    """A block of code inside a message, never folded."""
    name = attribute(language[:24].lower())
    lang = f' data-lang="{name}"' if name else ""
    inside = "\n".join(highlight_lines("\n".join(plain_lines(code)), language))
    return f'<div class="code"{lang}>{COPY}<pre><code>{inside}</code></pre></div>'


def folded(lines: list[str], *, css: str = "", shown: int = 14, tail: bool = False) -> str:
    """Lines of HTML, the rest of a long text behind a fold; `tail` shows the end instead."""
    visible = _visible(lines[::-1] if tail else lines, shown)
    hidden = len(lines) - visible
    if hidden <= 0:
        return _pre(lines, css)
    words = f"{hidden:,} {'earlier' if tail else 'more'} line{'s' if hidden > 1 else ''}"
    summary = f"<summary>{words}</summary>"
    if tail:
        fold = f'<details class="more">{summary}{_pre(lines[:hidden], css)}</details>'
        return fold + _pre(lines[hidden:], css)
    fold = f'<details class="more">{summary}{_pre(lines[visible:], css)}</details>'
    return _pre(lines[:visible], css) + fold


def block(inside: str, css: str = "") -> str:
    """A place whose text can be copied as a whole, folds included."""
    return f'<div class="block {css}">{COPY}{inside}</div>'


def _visible(lines: list[str], shown: int) -> int:
    """How many of the lines stand outside the fold."""
    room = _LINE_CHARACTERS * shown
    few = len(lines) <= shown + _SPARE_LINES
    for count, line in enumerate(lines[: None if few else shown]):
        room -= len(line)
        if room < 0:
            return count
    return len(lines) if few else shown


def _pre(lines: list[str], css: str) -> str:
    if not lines:
        return ""
    # A first line feed after <pre> is dropped by parsers, so an empty first line needs two.
    start = "\n" if not lines[0] else ""
    name = f' class="{css}"' if css else ""
    return f"<pre{name}>{start}{chr(10).join(lines)}</pre>"
