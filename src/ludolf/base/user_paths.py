"""Home folders of users, and paths that begin with `~`."""

import os
from collections.abc import Mapping
from pathlib import Path


def user_dir(environ: Mapping[str, str]) -> Path:
    """Return the user's home directory; "/" if neither the environment nor the system names one."""
    folder = environ.get("HOME") or environ.get("USERPROFILE")
    return Path(folder or _of_user(None) or "/")


def expand_user(path: str, home: Path | str) -> str:
    """Return the path with `home` in place of a leading `~`, and the folder of a user for `~name`.

    The path of an unknown user stays as it is.
    """
    if not path.startswith("~"):
        return path
    name, slash, rest = path[1:].partition("/")
    folder = _of_user(name) if name else os.fspath(home)
    return path if folder is None else (folder.rstrip("/") + slash + rest) or "/"


def _of_user(name: str | None) -> str | None:
    import pwd

    try:
        entry = pwd.getpwuid(os.getuid()) if name is None else pwd.getpwnam(name)
    except (KeyError, ValueError):
        return None
    return entry.pw_dir
