"""How a path that a model writes becomes a path on disk."""

import os
import re
from contextlib import suppress
from pathlib import Path

_ODD_SPACES = re.compile("[\u00a0\u2000-\u200a\u202f\u205f\u3000]")
_BEFORE_AM_PM = re.compile(r" (?=[AP]M\b)", re.IGNORECASE)
# How often a path is looked at whose links change meanwhile.
_LOOKS = 100


def resolve(path: str, cwd: Path) -> Path:
    """The absolute path that is meant: `@`, `~`, `file://` and odd spaces understood."""
    text = _ODD_SPACES.sub(" ", path.removeprefix("@"))
    if text.startswith("file://"):
        text = _from_url(text)
    return Path(os.path.normpath(cwd / os.path.expanduser(text)))


def resolve_existing(path: str, cwd: Path) -> Path:
    """As `resolve`; if nothing is there, the first spelling under which a file exists.

    Screenshots of macOS have a narrow space before AM and PM, curly apostrophes, split accents.
    """
    plain = resolve(path, cwd)
    if os.path.lexists(plain):
        return plain
    return next((found for found in _spellings(plain) if found.exists()), plain)


def real_path(path: str | Path) -> str:
    """The path with every link followed.

    Python's own can fail when a link goes away between being seen and being read: asked again, it
    tells what is there now. Who changes a path that fast all the time gets an `OSError`.
    """
    for _ in range(_LOOKS - 1):
        with suppress(OSError):
            return os.path.realpath(path)
    return os.path.realpath(path)


def landed_at(path: str, target: Path, cwd: Path) -> str:
    """The path as given; where it leads out of the working folder, the real one too."""
    real = real_path(target)
    inside = Path(real).is_relative_to(os.path.realpath(cwd))
    return path if inside or real == path else f"{path} (real path: {real})"


def _from_url(url: str) -> str:
    from urllib.parse import unquote, urlsplit

    return unquote(urlsplit(url).path)


def _spellings(plain: Path) -> tuple[Path, ...]:
    from unicodedata import normalize

    text = str(plain)
    split = normalize("NFD", text)
    return (
        Path(_BEFORE_AM_PM.sub("\u202f", text)),
        Path(split),
        Path(text.replace("'", "\u2019")),
        Path(split.replace("'", "\u2019")),
    )
