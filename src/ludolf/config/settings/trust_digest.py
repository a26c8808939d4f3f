"""Digest of the code that a trusted project runs, to detect changes."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from ludolf.base import ConfigError
from ludolf.base.project_files import FileRefused, read_bytes
from ludolf.config.settings.executed import CannotCheck, files_below, links_to, project_code
from ludolf.config.settings.home import Home

if TYPE_CHECKING:
    from hashlib import _Hash

# Limit for the code of all extensions of a project. Hashing it takes about 0.1 s.
MOST_BYTES = 64 * 1024 * 1024
NOTHING = ""


def digest(home: Home) -> str:
    """Return the digest of a project's settings, extensions and shell; `NOTHING` without any.

    Raises:
        CannotCheck: they have too many files, more than `MOST_BYTES`, or a file is not regular.
    """
    from hashlib import sha256

    tops = project_code(home)
    if not tops:
        return NOTHING
    total, left = sha256(), MOST_BYTES
    for top in tops:
        for link in links_to(top):
            _add_name(total, link, home)
        for path in files_below(top):
            _add_name(total, path, home)
            left -= _add_content(total, path, left)
    return total.hexdigest()


def digests_of(paths: Iterable[Path]) -> dict[str, str]:
    """Return the digest of each file by its path."""
    from hashlib import sha256

    digests, left = {}, MOST_BYTES
    for path in paths:
        total = sha256()
        left -= _add_content(total, path, left)
        digests[str(path)] = total.hexdigest()
    return digests


def _add_name(total: "_Hash", path: Path, home: Home) -> None:
    total.update(os.fsencode(os.path.relpath(path, home.cwd)) + b"\0")
    try:
        total.update(os.fsencode(os.readlink(path)) + b"\0")
    except OSError:
        total.update(b"\0")  # not a link


def _add_content(total: "_Hash", path: Path, left: int) -> int:
    """Add length and content of a regular file; return its size."""
    data = _content(path, left)
    total.update(f"{-1 if data is None else len(data)}:".encode())
    total.update(data or b"")
    return len(data or b"")


def _content(path: Path, left: int) -> bytes | None:
    if not path.is_file():
        return None  # the loader takes only regular files
    try:
        return read_bytes(path, within=None, limit=left)
    except FileRefused as error:
        raise CannotCheck(str(error)) from error
    except ConfigError:
        return None  # the loader cannot read it either
