"""Split code into coloured tokens by the same table of languages as the script of the page."""

import re
from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import Path

import msgspec

_TABLE = Path(__file__).with_name("assets") / "languages.js"
_PART = re.compile("<([A-Z_]+)>")
_WORD = r"[^\W\d][\w$]*"


class _Language(msgspec.Struct):
    names: str
    keywords: list[str]
    comment: str
    key: str = ""
    string: str = "<QUOTED>"
    word: str = _WORD
    types: bool = False


class _Table(msgspec.Struct):
    parts: dict[str, str]
    languages: list[_Language]

    def whole(self, pattern: str) -> str:
        """Return a pattern with its named parts filled in."""
        return _PART.sub(lambda part: self.whole(self.parts[part[1]]), pattern)


class CodeRules(msgspec.Struct, frozen=True):
    """The tokens of one language; `kinds` belong to the groups of the pattern."""

    pattern: re.Pattern[str]
    kinds: str
    words: frozenset[str]
    types: bool


@lru_cache(64)
def code_rules(name: str) -> CodeRules | None:
    """Return the rules of a language by one of its names; None if it is unknown."""
    language = _languages().get(name.lower().removeprefix("."))
    if language is None:
        return None
    parts = {
        "c": language.comment,
        "a": language.key,
        "s": language.string,
        "n": "<NUMBER>",
        "w": language.word,
    }
    known = {kind: part for kind, part in parts.items() if part}
    pattern = "|".join(f"({_table().whole(part)})" for part in known.values())
    words = frozenset(" ".join(language.keywords).split())
    return CodeRules(re.compile(pattern, re.MULTILINE), "".join(known), words, language.types)


def code_tokens(text: str, rules: CodeRules) -> Iterator[tuple[str, int, int]]:
    """Yield kind, start and end of each token that has a colour, in their order.

    Kinds: attribute or key, comment, function, keyword, number, string, type, by first letter.
    """
    for match in rules.pattern.finditer(text):
        kind = rules.kinds[(match.lastindex or 1) - 1]
        end = match.end()
        found = _kind_of_word(match[0], text[end : end + 1], rules) if kind == "w" else kind
        if found:
            yield found, match.start(), end


def _kind_of_word(word: str, after: str, rules: CodeRules) -> str:
    small = word.lower()
    shouted = not rules.types and word != small and word == word.upper() and small in rules.words
    if word in rules.words or shouted:
        return "k"
    if after == "(":
        return "f"
    return "t" if rules.types and word[0] != small[0] else ""


@cache
def _table() -> _Table:
    source = _TABLE.read_text("utf-8")
    return msgspec.json.decode(source[source.index("{") : source.rindex("}") + 1], type=_Table)


@cache
def _languages() -> dict[str, _Language]:
    return {name: each for each in _table().languages for name in each.names.split()}
