"""How a path that a model writes becomes a path on disk."""

import os
import re
from contextlib import suppress
from pathlib import Path

from ludolf.agent.tool import ToolError

_ODD_SPACES = re.compile("[\u00a0\u2000-\u200a\u202f\u205f\u3000]")
_BEFORE_AM_PM = re.compile(r" (?=[AP]M\b)", re.IGNORECASE)
# How often a path is looked at whose links change meanwhile.
_LOOKS = 100


def resolve(path: str, cwd: Path) -> Path:
    """The absolute path that is meant: `@`, `~`, `file://` and odd spaces understood.

    Raises:
        ToolError: no file can have such a path.
    """
    text = _ODD_SPACES.sub(" ", path.removeprefix("@"))
    if text.startswith("file://"):
        text = _from_url(text)
    _refuse_impossible(text)
    return Path(os.path.normpath(cwd / os.path.expanduser(text)))


def resolve_existing(path: str, cwd: Path) -> Path:
    """As `resolve`; if nothing is there, the first spelling under which a file exists.

    Screenshots of macOS have a narrow space before AM and PM, curly apostrophes, split accents.
    """
    plain = resolve(path, cwd)
    if os.path.lexists(plain):
        return plain
    return next((found for found in _spellings(plain) if os.path.exists(found)), plain)


def exists(path: Path) -> bool:
    """Whether something is there; False, too, for a name that is too long. Follows links."""
    return os.path.exists(path)


def is_folder(path: Path) -> bool:
    return os.path.isdir(path)


def is_file(path: Path) -> bool:
    """Whether a regular file is there. Follows links."""
    return os.path.isfile(path)


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

    try:
        return unquote(urlsplit(url).path)
    except ValueError as error:
        raise ToolError(f"Invalid path: not a valid file URL ({error}).") from error


def _refuse_impossible(path: str) -> None:
    if "\0" in path:
        raise ToolError("Invalid path: it contains a NUL character.")
    try:
        path.encode()
    except UnicodeEncodeError as error:
        raise ToolError("Invalid path: it contains a lone surrogate.") from error


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
