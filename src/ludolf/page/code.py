"""Render code and output as blocks with a copy button; long blocks are folded.

A block only names its language; the page's script colours blocks when they become visible.
Separate blocks are returned in pieces, so that a long output is copied once, not at each level.
"""

from ludolf.page.text import attribute, content, with_plain_ends

COPY = '<button class="copy" type="button">Copy</button>'
_SPARE_LINES = 5
_LINE_CHARACTERS = 400
_PART_LINES = 60


def code_block(code: str, language: str) -> str:
    """Render a block of code inside a message, never folded."""
    inside = _escaped(code)
    if language.lower() in ("diff", "patch"):
        inside = "\n".join(map(_diff_line, inside.split("\n")))
    else:
        inside = _in_parts(inside)
    return f'<div class="code"{_lang(language)}>{COPY}<pre><code>{inside}</code></pre></div>'


def code_box(
    code: str, language: str, *, kind: str = "", css: str = "", shown: int = 14
) -> list[str]:
    """Render a separate block of code or data; lines after `shown` are folded."""
    return block(folded(_escaped(code), css=css, shown=shown, parts=True), kind, language)


def language_of(path: str) -> str:
    """Return the language of a file by its name; "" if unknown."""
    name = path.rpartition("/")[2].lower()
    stem, dot, ending = name.rpartition(".")
    return ending if dot else stem or name


def folded(
    text: str, *, css: str = "", shown: int = 14, tail: bool = False, parts: bool = False
) -> list[str]:
    """Render lines of HTML with the rest folded; `tail` shows the end instead of the start."""
    lines = text.count("\n") + 1
    most = lines if lines <= shown + _SPARE_LINES else shown
    visible, cut = (_last_lines if tail else _first_lines)(text, most, _LINE_CHARACTERS * shown)
    hidden = lines - visible
    if hidden <= 0:
        return _pre(text, css)
    words = f"{hidden:,} {'earlier' if tail else 'more'} line{'s' if hidden > 1 else ''}"
    # The line end at the cut belongs to neither side.
    hid, seen = (text[:cut], text[cut + 1 :]) if tail else (text[cut:], text[: max(0, cut - 1)])
    inside = _in_parts(hid) if parts and hidden >= 2 * _PART_LINES else hid
    summary = f'<details class="more"><summary>{words}</summary>'
    fold = [summary, *_pre(inside, css), "</details>"]
    rest = _pre(seen, css) if visible else []
    return fold + rest if tail else rest + fold


def block(inside: list[str], kind: str = "", language: str = "") -> list[str]:
    """Render an element whose text is copied and coloured as a whole, folds included."""
    return [f'<div class="block {kind}"{_lang(language)}>{COPY}', *inside, "</div>"]


def _escaped(code: str) -> str:
    # Before escaping, which would render a carriage return as a visible sign.
    return content(with_plain_ends(code))


def _in_parts(text: str) -> str:
    """Split long code into parts, since the script colours only parts near the viewport."""
    if text.count("\n") + 1 < 2 * _PART_LINES:
        return text
    lines = text.split("\n")
    starts = range(0, len(lines), _PART_LINES)
    parts = ["\n".join(lines[start : start + _PART_LINES]) for start in starts]
    return '<span class="part">' + '\n</span><span class="part">'.join(parts) + "</span>"


def _lang(language: str) -> str:
    name = attribute(language[:24].lower())
    return f' data-lang="{name}"' if name else ""


def _diff_line(line: str) -> str:
    kind = {"+": "add", "-": "del", "@": "hunk"}.get(line[:1])
    return f'<span class="d-{kind}">{line}</span>' if kind else line


def _first_lines(text: str, most: int, room: int) -> tuple[int, int]:
    """Return the number of lines outside the fold, at most `most`, and the place after them."""
    start = 0
    for count in range(most):
        end = text.find("\n", start)
        room -= (end if end >= 0 else len(text)) - start
        if room < 0:
            return count, start
        start = end + 1
    return most, start


def _last_lines(text: str, most: int, room: int) -> tuple[int, int]:
    """Return the number of lines outside the fold, at most `most`, and the place before them."""
    end = len(text)
    for count in range(most):
        before = text.rfind("\n", 0, end)
        room -= end - before - 1
        if room < 0:
            return count, end
        end = before
    return most, end


def _pre(inside: str, css: str) -> list[str]:
    # Parsers drop the first line feed after <pre>, so an empty first line needs two.
    start = "\n" if inside[:1] in ("", "\n") else ""
    name = f' class="{css}"' if css else ""
    return [f"<pre{name}>{start}", inside, "</pre>"]
