"""Warn about private files that other users can read."""

import os
import stat
from pathlib import Path

_READ_BY_OTHERS = stat.S_IRGRP | stat.S_IROTH
_ENTERED_BY_OTHERS = stat.S_IXGRP | stat.S_IXOTH


def exposure(path: Path) -> str | None:
    """Return a warning if other users can read the file; None if modes prevent it."""
    try:
        mode = stat.S_IMODE(os.stat(path).st_mode)
        if not mode & _READ_BY_OTHERS or not all(map(_is_open, path.absolute().parents)):
            return None
    except OSError:
        return None
    return f"Other users can read {path} (mode {mode:04o}). To keep it private: chmod 600 {path}"


def _is_open(folder: Path) -> bool:
    return bool(os.stat(folder).st_mode & _ENTERED_BY_OTHERS)
