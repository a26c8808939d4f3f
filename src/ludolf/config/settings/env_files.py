"""Read `.env` files with every value that a program could read from them."""

import os
import re
from collections import ChainMap
from collections.abc import Iterator, Mapping
from pathlib import Path

from ludolf.base import ConfigError
from ludolf.base.patterns import lazy_pattern

# A larger file does not hold settings.
_MOST_VALUES = 5_000
_LONGEST = 32 * 1024
# Nested values are parsed several times.
_MOST_WORK = 4 * 1024 * 1024
_MOST_VARIABLES = 16
_MOST_FOLDERS = 1_000
_DEPTH = 4
_EXAMPLE = (".example", ".sample", ".template", ".dist")
_PASSED_OVER = frozenset(
    (
        *(".git", ".hg", ".svn", ".venv", "venv", ".tox", ".nox", "node_modules", "__pycache__"),
        *(".cache", ".mypy_cache", ".pytest_cache", ".ruff_cache"),
    )
)
_NAME = r"(?<![\w.-])[A-Za-z_][\w.-]*+"
_ASSIGNED = lazy_pattern(
    rf"({_NAME})[\"']?[ \t]*+[:+?]?=[ \t]*+"
    rf"|(?:^|[{{,])[ \t]*+(?:-[ \t]+)?[\"']?({_NAME})[\"']?[ \t]*+:[ \t]+",
    re.MULTILINE,
)
_QUOTED = r"\"(?:\\.|[^\"\\])*+\"|'(?:\\.|[^'\\])*+'|'[^']*+'|`[^`]*+`"
_WORD = lazy_pattern(rf"(?:{_QUOTED}|\\.|[^\s;&|\"'`\\])++", re.DOTALL)
_PIECE = lazy_pattern(rf"{_QUOTED}|\\.|[^\"'`\\]+", re.DOTALL)
_GOES_ON = lazy_pattern(rf"[ \t]*(?:$|[;&|\r\n]|#|{_NAME}=)")
_COMMENT = lazy_pattern(r"(?<!\s)\s++#.*")
_ESCAPE = lazy_pattern(r"\\(.)", re.DOTALL)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}
_VARIABLE = lazy_pattern(r"\$(?:\{(\w+)(?::?[-+?=]([^}]*))?\}|(\w+))")


def env_files(folder: Path) -> tuple[list[Path], bool]:
    """Return the `.env` files in a folder tree, and whether the search was complete.

    Searches four levels deep, in at most 1,000 folders, without following links to folders.
    """
    found: list[Path] = []
    level, seen = [str(folder)], 0
    for _ in range(_DEPTH + 1):
        below: list[str] = []
        for place in level:
            if seen == _MOST_FOLDERS:
                return found, False
            seen += 1
            files, folders = _listed(place)
            found += files
            below += folders
        level = below
    return found, True


def _listed(place: str) -> tuple[list[Path], list[str]]:
    files, folders = [], []
    try:
        with os.scandir(place) as entries:
            for entry in entries:
                if _is_env_file(entry.name):
                    files.append(Path(entry.path))
                elif entry.name not in _PASSED_OVER and entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
    except OSError:
        pass  # commands of the same user cannot list it either
    return sorted(files), sorted(folders)


def _is_env_file(name: str) -> bool:
    return (name.startswith(".env") or name.endswith(".env")) and not name.endswith(_EXAMPLE)


def decode(data: bytes) -> str:
    """Decode the text of a file: UTF-8 or UTF-16."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", "replace")
    return data.decode("utf-8-sig", "replace").replace("\0", "")


def read_values(text: str, environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield names with each of their possible values, the most likely one first.

    Programs differ in quotes, escapes, comments and variables within values.

    Raises:
        ConfigError: the text has more than 5,000 values, or too many nested ones.
    """
    values: dict[str, str] = {}
    environment = dict(environment)
    work = 0
    for count, match in enumerate(_ASSIGNED.finditer(text)):
        name = match[1] or match[2]
        candidates = list(dict.fromkeys(_candidates(text, match.end())))
        work += sum(map(len, candidates))
        if count == _MOST_VALUES or work > _MOST_WORK:
            raise ConfigError("it has too many values")
        for value in candidates:
            yield name, value
            expanded = _expand(value, ChainMap(values, environment))
            if expanded != value:
                yield name, expanded
                value = expanded
            values.setdefault(name, value)


def _candidates(text: str, at: int) -> Iterator[str]:
    end = text.find("\n", at, at + _LONGEST)
    line = text[at : end if end >= 0 else at + _LONGEST].strip()
    word = _WORD.match(text, at, at + _LONGEST)
    is_quoted = line[:1] in ("'", '"', "`")
    words = [word[0]] if word and (is_quoted or _GOES_ON.match(text, word.end())) else []
    if is_quoted and word:
        words.append(_PIECE.findall(word[0])[0])
    for each in words:
        yield _joined(each, unescape=True)
        yield _joined(each, unescape=False)
    if is_quoted and word:
        return
    plain = _COMMENT.sub("", line, count=1)
    yield plain
    yield plain.strip("'\"`;,")
    yield plain.partition("#")[0].rstrip()


def _joined(word: str, *, unescape: bool) -> str:
    """Join the quoted and unquoted parts of a value."""
    joined = ""
    for piece in _PIECE.findall(word):
        inner = piece[1:-1] if piece[0] in "'\"`" and len(piece) > 1 else piece
        joined += _ESCAPE.sub(_meant, inner) if unescape else inner
    return joined.rstrip("\r")


def _meant(escape: re.Match[str]) -> str:
    return _ESCAPES.get(escape[1], escape[1])


def _expand(value: str, known: Mapping[str, str]) -> str:
    if not 0 < value.count("$") <= _MOST_VARIABLES:
        return value

    def text(found: re.Match[str]) -> str:
        return known.get(found[1] or found[3]) or found[2] or ""

    expanded = _VARIABLE.sub(text, value)
    return expanded if len(expanded) <= _LONGEST else value
