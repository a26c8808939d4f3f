"""Choose files of a package by patterns, with the meaning that pi gives them."""

import os
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from ludolf.base.patterns import lazy_pattern
from ludolf.config.resources.ignore import glob_shape

if TYPE_CHECKING:
    from ludolf.config.resources.linear_pattern import LinearPattern

_MARKS = ("!", "+", "-")
_BRACES = lazy_pattern(r"\{([^{},]*(?:,[^{},]*)+)\}")
# Alternatives in braces multiply.
_MOST_ALTERNATIVES = 64


def is_override(entry: str) -> bool:
    """Return whether an entry changes the choice of the others instead of naming files."""
    return entry.startswith(_MARKS)


def has_wildcard(entry: str) -> bool:
    return "*" in entry or "?" in entry


def chosen(files: Sequence[Path], patterns: Iterable[str], base: Path) -> list[Path]:
    """Return the files that patterns allow, in their order.

    A plain pattern includes, `!pattern` excludes, `+path` includes and `-path` excludes one file
    whatever the patterns say. Without a plain pattern all files are included.
    """
    by_mark: dict[str, list[str]] = {mark: [] for mark in ("", *_MARKS)}
    for pattern in patterns:
        mark = pattern[:1] if is_override(pattern) else ""
        by_mark[mark].append(pattern.removeprefix(mark))

    def is_chosen(path: Path) -> bool:
        if is_named(path, by_mark["-"], base):
            return False
        if is_named(path, by_mark["+"], base):
            return True
        included = not by_mark[""] or _matches(path, by_mark[""], base)
        return included and not _matches(path, by_mark["!"], base)

    return [path for path in files if is_chosen(path)]


def changed(files: Sequence[Path], patterns: Iterable[str], base: Path) -> dict[Path, bool]:
    """Return only the files that patterns mention, and whether the last of them includes each."""
    states: dict[Path, bool] = {}
    for pattern in patterns:
        exact, enabled = pattern.startswith(("+", "-")), not pattern.startswith(("!", "-"))
        target = [pattern[1:] if is_override(pattern) else pattern]
        test = is_named if exact else _matches
        states |= {path: enabled for path in files if test(path, target, base)}
    return states


def is_named(path: Path, names: Iterable[str], base: Path) -> bool:
    """Return whether a path, or the folder of a skill, is one of the names."""
    own = [text for place in _places(path) for text in (_relative(place, base), place.as_posix())]
    return any(name.removeprefix("./") in own for name in names)


def _matches(path: Path, patterns: Iterable[str], base: Path) -> bool:
    texts = [
        text
        for place in _places(path)
        for text in (_relative(place, base), place.name, place.as_posix())
    ]
    shapes = [shape for pattern in patterns for shape in _shapes(pattern)]
    return any(shape.search(text) for shape in shapes for text in texts)


def _places(path: Path) -> tuple[Path, ...]:
    return (path, path.parent) if path.name == "SKILL.md" else (path,)


def _relative(path: Path, base: Path) -> str:
    return Path(os.path.relpath(path, base)).as_posix()


@lru_cache(maxsize=256)
def _shapes(pattern: str) -> "tuple[LinearPattern, ...]":
    from ludolf.config.resources.linear_pattern import LinearPattern, Unsupported

    shapes = []
    for glob in _alternatives(pattern.removeprefix("./")):
        try:
            shapes.append(LinearPattern(rf"\A{glob_shape(glob)}\Z"))
        except (Unsupported, re.error):
            continue  # such as a range from z to a; it matches nothing
    return tuple(shapes)


def _alternatives(pattern: str) -> list[str]:
    waiting: list[str] = [pattern]
    found: list[str] = []
    while waiting and len(found) + len(waiting) <= _MOST_ALTERNATIVES:
        text = waiting.pop()
        braces = _BRACES.search(text)
        if braces is None:
            found.append(text)
            continue
        start, end = braces.span()
        waiting += [f"{text[:start]}{part}{text[end:]}" for part in braces[1].split(",")]
    return found
