"""Find ignore files on which ripgrep would hang: pipes, devices, very large files."""

import os
import stat
import threading
from pathlib import Path

# Names that ripgrep reads in each folder and in its parents.
NAMES = (".gitignore", ".ignore", ".rgignore")
LONGEST = 1024 * 1024
_SKIPPED = ".git"


def has_odd_ignore_file(root: Path, stop: threading.Event) -> bool:
    """Whether ripgrep would read an odd ignore file when it searches a folder.

    Returns False early once `stop` is set.
    """
    for folder in root.parents:
        if any(_is_odd(os.path.join(folder, name)) for name in NAMES):
            return True
    pending = [str(root)]
    while pending and not stop.is_set():
        try:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    if entry.name in NAMES and _is_odd(entry.path):
                        return True
                    if entry.name != _SKIPPED and entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
        except OSError:
            continue
    return False


def _is_odd(path: str) -> bool:
    try:
        status = os.stat(path)
    except OSError:
        return False
    if not stat.S_ISREG(status.st_mode) or status.st_size > LONGEST:
        return True
    # Files of the proc file system report that they are regular and empty, and may be endless.
    return status.st_size == 0 and os.path.islink(path)
