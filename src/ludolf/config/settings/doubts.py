"""Find settings that may ask for approval, a sandbox or masked secrets but cannot be parsed.

Such a file ends the start: to continue without it would switch off a safety feature.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ludolf.base import ConfigError
from ludolf.base.patterns import lazy_pattern
from ludolf.base.project_files import read_bytes
from ludolf.config.settings.files import CONFIG_LIMIT, decode, read_text

GUARDED_KEYS = ("approval", "sandbox", "secrets")
# Prefixes of `approvals` and `sandboxing`, which differ too much from the keys for a typo.
_STEMS = ("approv", "aprov", "sandbox", "secret")
_ESCAPE = lazy_pattern(r"\\u([0-9a-fA-F]{4})")
_NO_LETTERS = lazy_pattern(r"[\W\d_]+")
_NEAR = 2


def doubt_of_missing(path: Path, link: Path) -> str:
    """Return the reason why a settings file may exist whose path contains a broken link."""
    return f"{path} cannot be read: {link} is a link to something missing. {_advice()}"


def doubt_of_invalid(path: Path, error: ConfigError) -> str | None:
    """Return the reason why an invalid file ends the start; None if it has no safety keys."""
    try:
        data = read_bytes(path, within=None, limit=CONFIG_LIMIT)
        text = decode(data or b"", errors="strict")
    except (ConfigError, UnicodeDecodeError):
        return f"{path} cannot be read: {error}. {_advice()}"
    if not _mentions(text):
        return None
    keys = "approval, sandbox or secrets"
    return f"{path} cannot be read ({error}), and it holds settings for {keys}. Correct it first."


def doubt_of_keys(raw: Mapping[str, Any], known: Iterable[str], name: str) -> str | None:
    """Return an error for a key that looks like a misspelt safety key."""
    for key in raw.keys() - set(known):
        meant = _meant(key)
        if meant is not None:
            return f'{name}: unknown key "{key}". Did you mean "{meant}"? Correct or remove it.'
    return None


def doubt_of_repeats(path: Path) -> str | None:
    """Return an error for a key that occurs twice in one object of a settings file."""
    import json

    repeated: list[str] = []

    def note(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        seen: dict[str, Any] = {}
        for key, value in pairs:
            if key in seen:
                repeated.append(key)
            seen[key] = value
        return seen

    json.loads(read_text(path) or "{}", object_pairs_hook=note)
    if not repeated:
        return None
    return f'{path}: the key "{repeated[0]}" occurs twice in one object. Remove one of them.'


# ---------------------------------------------------------------- private


def _advice() -> str:
    return "It may ask for approval or a sandbox. Correct it first, or remove it."


def _mentions(text: str) -> bool:
    plain = _ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)
    plain = _folded(plain)
    if any(stem in _NO_LETTERS.sub("", plain) for stem in _STEMS):
        return True
    return any(_meant(word) for word in set(_NO_LETTERS.split(plain)))


def _folded(text: str) -> str:
    """Return the text without differences of case and of compatible characters."""
    import unicodedata

    return unicodedata.normalize("NFKC", text).casefold()


def _meant(key: str) -> str | None:
    letters = _NO_LETTERS.sub("", _folded(key))
    for name, stems in zip(GUARDED_KEYS, (_STEMS[:2], _STEMS[2:3], _STEMS[3:]), strict=True):
        if letters.startswith(stems) or _distance(letters, name) <= _NEAR:
            return name
    return None


def _distance(one: str, other: str) -> int:
    """Return the Levenshtein distance of two words."""
    if abs(len(one) - len(other)) > _NEAR:
        return _NEAR + 1
    row = list(range(len(other) + 1))
    for place, letter in enumerate(one, 1):
        above, row = row, [place]
        for index, sign in enumerate(other):
            row.append(min(row[-1] + 1, above[index + 1] + 1, above[index] + (letter != sign)))
    return row[-1]
