"""`ludolf install-alias`: this program under the name of another, for hosts that insist on it."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ludolf.base import CommandError
from ludolf.config.settings.home import expand, user_dir

if TYPE_CHECKING:
    from argparse import ArgumentParser

# Each speaks the dialect of its name.
NAMES = ("pi", "omp", "xcsh", "pi-early")
_MARK = "# Made by `ludolf install-alias`."
_SCRIPT = """\
#!/bin/sh
{mark} To remove it: ludolf install-alias --remove {name}
exec {python} -P -c {code} "$0" "$@"
"""
# The name under which the script was started becomes the program's own.
_CODE = (
    "import sys; del sys.argv[0]; sys.path.append({packages!r}); "
    "from ludolf.cli.main import main; main()"
)


def run(words: Sequence[str]) -> int:
    """What `ludolf install-alias WORDS` asks for; returns the exit code.

    Raises:
        CommandError: something of that name is there already, or is not ours to remove.
    """
    try:
        arguments = _parser().parse_args(list(words))
    except SystemExit as end:
        return int(end.code or 0)
    folder = expand(arguments.dir).absolute() if arguments.dir else _own_folder()
    path = folder / arguments.name
    if arguments.remove:
        _remove(path)
        sys.stdout.write(f"Removed {path}\n")
        return 0
    _make(path)
    sys.stdout.write(f"Made {path}: it starts Ludolf, which then speaks the dialect {path.name}\n")
    for line in _standing(path):
        sys.stdout.write(f"{line}\n")
    return 0


def _parser() -> "ArgumentParser":
    from argparse import ArgumentParser

    parser = ArgumentParser(
        prog="ludolf install-alias",
        allow_abbrev=False,
        description="Start this program under the name of another, for hosts that insist on it.",
    )
    parser.add_argument("name", choices=NAMES, help="the name to be started by")
    parser.add_argument("--dir", metavar="DIR", help="where (default: beside ludolf itself)")
    parser.add_argument("--remove", action="store_true", help="remove it, if it was made by this")
    return parser


def _own_folder() -> Path:
    started = Path(sys.argv[0])
    if started.name in ("ludolf", *NAMES) and started.is_file():
        return started.absolute().parent
    return user_dir() / ".local" / "bin"


def _make(path: Path) -> None:
    import shlex

    import ludolf

    packages = str(Path(ludolf.__file__).parents[1])
    code = shlex.quote(_CODE.format(packages=packages))
    python = shlex.quote(sys.executable)
    text = _SCRIPT.format(mark=_MARK, name=path.name, python=python, code=code)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # "x" takes no name that anything has, not even a link that leads nowhere.
        with open(path, "x", encoding="utf-8", opener=_open_own) as file:
            os.fchmod(file.fileno(), 0o755)
            file.write(text)
    except FileExistsError:
        raise CommandError(f"{path} exists already, and is left as it is") from None
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror}") from error


def _open_own(path: str, flags: int) -> int:
    """Nobody else may write to it, not even before it has its mode."""
    return os.open(path, flags, 0o700)


def _remove(path: Path) -> None:
    if not os.path.lexists(path):
        raise CommandError(f"There is no {path}")
    if not _is_ours(path):
        raise CommandError(f"{path} was not made by `ludolf install-alias`, and is left as it is")
    try:
        path.unlink()
    except OSError as error:
        raise CommandError(f"{path} cannot be removed: {error.strerror}") from error


def _is_ours(path: Path) -> bool:
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        return _MARK.encode() in file.read(500)


def _standing(path: Path) -> list[str]:
    """Whether the name alone finds it, and what else has that name."""
    folders = [Path(one) for one in os.environ.get("PATH", "").split(os.pathsep) if one]
    places = [folder / path.name for folder in folders if _is_program(folder / path.name)]
    is_on_path = any(_is_same(place, path) for place in places)
    lines = [] if is_on_path else [f"{path.parent} is not on PATH: add it, or name the whole path"]
    before = True
    for place in places:
        if _is_same(place, path):
            before = False
        elif before:
            lines.append(f"{place} comes first on PATH: `{path.name}` starts that one")
        else:
            lines.append(f"{place} comes later on PATH: `{path.name}` does not start it any more")
    return lines


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _is_same(one: Path, other: Path) -> bool:
    return os.path.samefile(one, other)
