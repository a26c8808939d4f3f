"""Normalise a request for matching: mask quoted parts, remove politeness and list markers."""

import re

FIRST_MARK = 0xE000
MARK = "[\ue000-\uf8ff]"
_QUOTED = re.compile(
    rf"(?P<odd>{MARK})|"
    r"```[^\n`]*\n(?P<fence>.*?)```"
    r"|`(?P<tick>[^`\n]+)`"
    r'|"(?P<double>[^"]*)"'
    r"|“(?P<curly>[^“”]*)”"
    r"|(?<![^\s(:,])'(?P<single>[^'\n]*)'(?![^\s).,:;!?])",
    re.S,
)
_IMAGE_HINT = re.compile(r"^\[Image[^\n]*\]$", re.M)
_LEAD = re.compile(
    r"(?:\d+[.)]|[-*])\s+"
    r"|(?:please|kindly|now|first|next|finally|then|ok|okay|just|also|and|let's|let us"
    r"|i want you to|i would like you to|i'd like you to)[\s,:]+"
    r"|(?P<asking>(?:can|could|would|will) you\s+)",
    re.I,
)
_TAIL = re.compile(r"(?:,?\s+(?:please|for me|thanks|thank you))+\s*(?P<end>[.!?]*)$", re.I)
_MOST_MARKS = 1_000
_LONGEST = 200_000


class Words:
    """A request in which each quoted part is one placeholder; `inner` and `raw` restore them.

    A request that is too long or has too many quoted parts becomes empty and matches nothing.
    """

    def __init__(self, text: str) -> None:
        self._raw: list[str] = []
        self._inner: list[str] = []
        plain = _IMAGE_HINT.sub("", _without_files(text))
        hidden = _QUOTED.sub(self._hide, plain) if len(plain) <= _LONGEST else ""
        self.text = hidden.strip() if len(self._raw) <= _MOST_MARKS else ""

    def _hide(self, match: re.Match[str]) -> str:
        if len(self._raw) > _MOST_MARKS:
            return ""
        self._raw.append(match.group())
        self._inner.append(match.group(match.lastgroup or 0))
        return chr(FIRST_MARK + len(self._raw) - 1)

    def inner(self, part: str) -> str:
        """Return a part without its quotes if it is quoted completely, otherwise as written."""
        part = part.strip()
        if re.fullmatch(MARK, part):
            return self._inner[ord(part) - FIRST_MARK]
        return self.raw(part)

    def raw(self, part: str) -> str:
        return re.sub(MARK, lambda match: self._raw[ord(match.group()) - FIRST_MARK], part)

    def is_quoted(self, part: str) -> bool:
        return re.fullmatch(MARK, part.strip()) is not None


def _without_files(text: str) -> str:
    """Return the text without the files that a host inserted."""
    kept: list[str] = []
    while (start := text.find('<file name="')) >= 0 and (end := text.find("</file>", start)) >= 0:
        kept.append(text[:start])
        text = text[end + len("</file>") :]
    return "".join((*kept, text))


def polite_off(text: str) -> str:
    """Return the request without list marker, "could you please" and "thanks"."""
    text = text.strip()
    asking = False
    while (match := _LEAD.match(text)) and match.end() < len(text):
        asking = asking or match.group("asking") is not None
        text = text[match.end() :]
    text = _TAIL.sub("", text)
    return text.rstrip("?").rstrip() if asking else text
