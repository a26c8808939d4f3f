"""Colour code line by line, as it arrives; comments and strings continue on the next line."""

import re

from ludolf.page.languages import CodeRules, code_rules, code_tokens
from ludolf.tui.cells import plain
from ludolf.tui.theme import Theme

_LONGEST_LINE = 2_000
_LONGEST_NAME = 24
_ROLES = {
    "a": "syntaxVariable",
    "c": "syntaxComment",
    "f": "syntaxFunction",
    "k": "syntaxKeyword",
    "n": "syntaxNumber",
    "s": "syntaxString",
    "t": "syntaxType",
}
_OPENER = re.compile(r"""[A-Za-z]{0,2}(?:\"""|'''|["'`])|/\*|--\[\[|<!--""")
_DIFF_ROLES = {"+": "toolDiffAdded", "-": "toolDiffRemoved", "@": "accent"}


class CodeColours:
    """Colours the lines of one text, in their order."""

    def __init__(self, language: str, theme: Theme) -> None:
        name = language[:_LONGEST_NAME].lower()
        self._theme = theme
        self._rules = code_rules(name)
        self._is_diff = name in ("diff", "patch")
        self._open = ""  # the start of a token that continues on the next line

    def line(self, line: str) -> str:
        """Return the next line with colours."""
        shown, self._open = self._coloured(plain(line))
        return shown

    def preview(self, line: str) -> str:
        """Return the start of the next line with colours; the line follows later as a whole."""
        return self._coloured(plain(line))[0]

    def _coloured(self, line: str) -> tuple[str, str]:
        if self._is_diff:
            return self._theme.paint(_DIFF_ROLES.get(line[:1], "toolDiffContext"), line), ""
        if self._rules is None:
            return self._theme.paint("mdCodeBlock", line), ""
        if len(line) > _LONGEST_LINE:
            return line, self._open
        return self._by_rules(line, self._rules)

    def _by_rules(self, line: str, rules: CodeRules) -> tuple[str, str]:
        # The token under way is opened again, and a line feed shows whether the last one goes on.
        text, shift = f"{self._open}{line}\n", len(self._open)
        out: list[str] = []
        at, opener = shift, ""
        for kind, start, end in code_tokens(text, rules):
            first, last = max(start, shift), min(end, len(text) - 1)
            out.append(text[at:first])
            out.append(self._theme.paint(_ROLES[kind], text[first:last]))
            at = max(at, last)
            if end == len(text) and kind in "cs":
                found = _OPENER.match(text, start)
                opener = found[0] if found is not None else ""
        out.append(text[at:-1])
        return "".join(out), opener
