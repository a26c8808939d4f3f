"""Read and write JSON files that users and other programs edit too."""

import codecs
import os
import re
import stat
from pathlib import Path
from typing import Any

from ludolf.base import ConfigError, loads
from ludolf.base.patterns import lazy_pattern
from ludolf.base.project_files import Reader, read_bytes

# 64 MiB: more than the largest list of models, and small enough for memory.
CONFIG_LIMIT = 64 * 1024 * 1024
Stamp = tuple[int, int, int, int, int]
_READ_BY_OTHERS = stat.S_IRGRP | stat.S_IROTH
_ENTERED_BY_OTHERS = stat.S_IXGRP | stat.S_IXOTH
_COMMENT = lazy_pattern(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_NOT_LINE_END = lazy_pattern(r"[^\n]")
_TRAILING_COMMA = lazy_pattern(r'("(?:\\.|[^"\\])*")|,(?=\s*[}\]])', re.DOTALL)


def read_text(path: Path) -> str | None:
    """Read a text file without a leading BOM; return None if it does not exist.

    Raises:
        ConfigError: the file exists but cannot be read, is not regular, or has more than 64 MiB.
    """
    data = read_bytes(path, within=None, limit=CONFIG_LIMIT)
    if data is None:
        return None
    try:
        return decode(data)
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: {error}") from error


def decode(data: bytes, errors: str = "replace") -> str:
    """Decode UTF-8, or UTF-16 with the byte order mark that PowerShell writes.

    Raises:
        UnicodeDecodeError: a UTF-16 file ends within a character; with `errors="strict"`, the
            bytes are not UTF-8.
    """
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16")
    return data.decode("utf-8", errors).removeprefix("\ufeff")


def read_object(
    path: Path, *, relaxed: bool = False, reader: Reader | None = None
) -> dict[str, Any]:
    """Read the JSON object in a file; a missing or blank file counts as `{}`.

    `reader` reads a file that a project supplies.

    Raises:
        ConfigError: the file is not readable, not JSON, or not an object; the text does not have
            its path.
    """
    text = read_text(path) if reader is None else reader.text(path)
    if text is None or not text.strip():
        return {}
    try:
        value = _parse(text, relaxed=relaxed)
    except (ValueError, RecursionError) as error:
        raise ConfigError(str(error) or "nested too deeply") from error
    if not isinstance(value, dict):
        raise ConfigError("expected an object")
    return value


def write_object(path: Path, value: dict[str, Any]) -> None:
    """Replace a JSON file as `replace_text` does.

    Raises:
        OSError: the file could not be written; the old one is unchanged.
    """
    import json

    replace_text(path, json.dumps(value, indent=2, ensure_ascii=False))


def replace_text(path: Path, text: str) -> None:
    """Replace a file atomically; follow links and keep the mode of an existing file.

    A new file is readable by its owner only.

    Raises:
        OSError: the file could not be written; the old one is unchanged.
    """
    # Otherwise a link to a shared dotfiles folder would be replaced by a regular file.
    target = Path(os.path.realpath(path))
    fresh = target.with_name(f".{target.name}.{os.getpid()}.{os.urandom(4).hex()}")
    data = text.encode("utf-8", "surrogatepass")
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        if target.exists():
            os.chmod(fresh, target.stat().st_mode & 0o7777)
        os.replace(fresh, target)
    except OSError:
        fresh.unlink(missing_ok=True)
        raise


def stamp(path: Path) -> Stamp | None:
    """Return a value that differs after a change of the file; None if it is missing."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def broken_link(path: Path) -> Path | None:
    """Return the link to something missing in the path of a missing file; None if none is there."""
    place = next(each for each in (path, *path.parents) if os.path.lexists(each))
    return None if os.path.exists(place) else place


def exposure(path: Path) -> str | None:
    """Return a warning if other users can read the file; None if modes prevent it."""
    mode = _mode_for_others(path)
    if mode is None:
        return None
    return f"Other users can read {path} (mode {mode:04o}). To keep it private: chmod 600 {path}"


def is_exposed(path: Path) -> bool:
    """Return whether the modes of the file and of its folders let other users read it."""
    return _mode_for_others(path) is not None


def _mode_for_others(path: Path) -> int | None:
    try:
        mode = stat.S_IMODE(os.stat(path).st_mode)
        if not mode & _READ_BY_OTHERS or not all(map(_is_open, path.absolute().parents)):
            return None
    except OSError:
        return None
    return mode


def _is_open(folder: Path) -> bool:
    return bool(os.stat(folder).st_mode & _ENTERED_BY_OTHERS)


def _parse(text: str, *, relaxed: bool) -> Any:
    try:
        return loads(text)
    except ValueError:
        if not relaxed:
            raise
    import json

    plain = _COMMENT.sub(lambda match: match[1] or _NOT_LINE_END.sub(" ", match[0]), text)
    return json.loads(_TRAILING_COMMA.sub(lambda match: match[1] or "", plain))
