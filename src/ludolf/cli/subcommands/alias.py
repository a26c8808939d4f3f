"""`ludolf install-alias`: install Ludolf under the name of another program."""

import os
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

from ludolf.base import CommandError, user_dir
from ludolf.config.settings.home import expand

# Alias -> the name of its file. Each selects the dialect of the same name; hosts of pi 0.79 start
# a program named `pi`.
FILES = {"pi": "pi", "pi-0.79": "pi", "omp": "omp", "xcsh": "xcsh", "pi-early": "pi-early"}
_MARK = "# Made by `ludolf install-alias`."
_SCRIPT = """\
#!/bin/sh
{mark} To remove it: ludolf install-alias --remove {name}
exec {python} -P -c {code} "{program}" "$@"
"""
# The name by which the script was started, or that of the alias, becomes `sys.argv[0]`.
_CODE = (
    "import sys; del sys.argv[0]; sys.path.append({packages!r}); "
    "from ludolf.cli.start import main; main()"
)


def run(words: Sequence[str]) -> int:
    """Run `ludolf install-alias WORDS`; returns the exit code.

    Raises:
        CommandError: the file exists, or the file to remove is not an alias.
    """
    arguments = _parser().parse_args(words)
    folder = expand(arguments.dir, os.environ).absolute() if arguments.dir else _own_folder()
    path = folder / FILES[arguments.name]
    if arguments.remove:
        _remove(path)
        sys.stdout.write(f"Removed {path}\n")
        return 0
    done = _make(path, arguments.name)
    sys.stdout.write(f"{done} {path}: it starts Ludolf with the dialect {arguments.name}\n")
    for line in _standing(path):
        sys.stdout.write(f"{line}\n")
    return 0


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="ludolf install-alias",
        allow_abbrev=False,
        description="Install Ludolf under the name of another program, for hosts that start it.",
    )
    parser.add_argument("name", choices=FILES, help="name of the alias; pi-0.79 is installed as pi")
    parser.add_argument("--dir", metavar="DIR", help="folder (default: the folder of ludolf)")
    parser.add_argument("--remove", action="store_true", help="remove the alias")
    return parser


def _own_folder() -> Path:
    program = Path(sys.argv[0])
    file = {"ludolf": "ludolf", **FILES}.get(program.name)
    if file is not None and program.with_name(file).is_file():
        return program.absolute().parent
    return user_dir(os.environ) / ".local" / "bin"


def _make(path: Path, name: str) -> str:
    """Write the alias; returns a word for what was done."""
    import shlex

    import ludolf

    packages = str(Path(ludolf.__file__).parents[1])
    code = shlex.quote(_CODE.format(packages=packages))
    python = shlex.quote(sys.executable)
    program = "$0" if path.name == name else f"${{0%/*}}/{name}"
    text = _SCRIPT.format(mark=_MARK, name=name, python=python, code=code, program=program)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # "x" fails if the name exists, even as a dangling link.
        with open(path, "x", encoding="utf-8", opener=_open_own) as file:
            os.fchmod(file.fileno(), 0o755)
            file.write(text)
    except FileExistsError:
        return _renew(path, name, text)
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror}") from error
    return "Made"


def _renew(path: Path, name: str, text: str) -> str:
    """Bring an alias that exists up to date."""
    if not _is_ours(path):
        raise CommandError(f"{path} already exists and was not changed")
    if path.read_text(encoding="utf-8") == text:
        return "Already there:"
    _remove(path)
    _make(path, name)
    return "Updated"


def _open_own(path: str, flags: int) -> int:
    """Create the file with mode 0700, so that other users cannot write to it before chmod."""
    return os.open(path, flags, 0o700)


def _remove(path: Path) -> None:
    if not os.path.lexists(path):
        raise CommandError(f"{path} does not exist")
    if not _is_ours(path):
        raise CommandError(f"{path} was not made by `ludolf install-alias` and was not removed")
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
    """Explain which program the name starts, given PATH."""

    def is_program(place: Path) -> bool:
        return place.is_file() and os.access(place, os.X_OK)

    folders = [Path(one) for one in os.environ.get("PATH", "").split(os.pathsep) if one]
    places = [folder / path.name for folder in folders if is_program(folder / path.name)]
    is_on_path = any(os.path.samefile(place, path) for place in places)
    lines = [] if is_on_path else [f"{path.parent} is not on PATH: add it, or use the full path"]
    before = True
    for place in places:
        if os.path.samefile(place, path):
            before = False
        elif before:
            lines.append(f"{place} comes first on PATH: `{path.name}` starts that one")
        else:
            lines.append(f"{place} comes later on PATH: `{path.name}` no longer starts it")
    return lines
