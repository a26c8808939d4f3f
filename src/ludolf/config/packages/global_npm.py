"""The folder of packages that were installed by `npm install -g`, where old versions of pi did."""

import os
import subprocess
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from tempfile import gettempdir

from ludolf.base.programs import find_program

LIMIT_SECONDS = 10.0


def global_package(name: str, command: Sequence[str], cwd: Path) -> Path | None:
    """Return the folder of a package that is installed globally; None if it is not.

    `command` is the setting `npmCommand`. A program in the project or in the folder of temporary
    files is not run: the model may have written it.
    """
    root = _global_root(tuple(command), os.environ.get("PATH", os.defpath), cwd)
    folder = None if root is None else root / name
    return folder if folder is not None and folder.is_dir() else None


@lru_cache(maxsize=4)
def _global_root(command: tuple[str, ...], path: str, cwd: Path) -> Path | None:
    """Ask the package manager; None if it is missing or fails."""
    first, *rest = command or ("npm",)
    writable = (cwd, Path(gettempdir()))
    program = first if os.path.isabs(first) else find_program(first, path, writable)
    if program is None:
        return None
    is_bun = Path(_manager(command)).stem == "bun"
    words = ("pm", "bin", "-g") if is_bun else ("root", "-g")
    try:
        done = subprocess.run(
            (program, *rest, *words),
            env=os.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=LIMIT_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    text = done.stdout.decode("utf-8", "replace").strip()
    if not os.path.isabs(text):
        return None
    return Path(text).parent / "install" / "global" / "node_modules" if is_bun else Path(text)


def _manager(command: Sequence[str]) -> str:
    """Return the program of a command such as `mise exec -- pnpm`: the word after `--`."""
    after = command[command.index("--") + 1 :] if "--" in command else command
    return after[0] if after else "npm"
