"""Colour for code: comments, strings, numbers, words. One regular expression, one pass."""

from ludolf.session.export.languages import find_language
from ludolf.session.export.text import content

# A larger text is a log or data; colour would only make the page heavy.
_LARGEST = 200_000


def highlight_lines(code: str, language: str) -> list[str]:
    """The lines of code as HTML; spans never reach over a line end."""
    if language.lower() in ("diff", "patch"):
        return [_diff_line(line) for line in code.split("\n")]
    known = find_language(language) if len(code) <= _LARGEST else None
    if known is None:
        return content(code).split("\n")
    pattern, keywords, types = known
    out: list[str] = []
    at = 0
    for match in pattern.finditer(code):
        kind = match.lastgroup or ""
        if kind == "w":
            kind = _word_kind(match[0], code[match.end() : match.end() + 1], keywords, types)
        if not kind:
            continue
        out.append(content(code[at : match.start()]))
        out.append(_span(kind, match[0]))
        at = match.end()
    out.append(content(code[at:]))
    return "".join(out).split("\n")


def language_of(path: str) -> str:
    """The language that a file name tells, or "" """
    name = path.rpartition("/")[2].lower()
    stem, dot, ending = name.rpartition(".")
    return ending if dot else stem or name


def _word_kind(word: str, after: str, keywords: frozenset[str], types: bool) -> str:
    if word in keywords or (word.isupper() and not types and word.lower() in keywords):
        return "k"
    if after == "(":
        return "f"
    return "t" if types and word[0].isupper() else ""


def _span(kind: str, text: str) -> str:
    safe = content(text)
    if "\n" not in safe:
        return f'<span class="t-{kind}">{safe}</span>'
    return "\n".join(
        f'<span class="t-{kind}">{line}</span>' if line else "" for line in safe.split("\n")
    )


def _diff_line(line: str) -> str:
    kind = {"+": "add", "-": "del", "@": "hunk"}.get(line[:1])
    return f'<span class="d-{kind}">{content(line)}</span>' if kind else content(line)
