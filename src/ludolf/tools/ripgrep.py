"""Run a search in a child process: ripgrep if it is installed, else `search.py`."""

import asyncio
import json
import os
import stat
import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from threading import Event

import msgspec

from ludolf.agent.scope import Aborted, Scope, Tasks
from ludolf.agent.tool import ToolFailure
from ludolf.base.programs import find_program
from ludolf.tools import search
from ludolf.tools.process import ProcessCommand, Running, StartError

SEARCH_SECONDS = 30.0
# Seconds until odd ignore files are looked for. Most searches end before.
MOMENT_SECONDS = 0.25
# Exit codes of ripgrep: matches, no matches, an error. Any other code is a crash.
_CODES = (0, 1, 2)
# Limits the address space of ripgrep, in KiB, if the system supports it.
_LIMITED = 'ulimit -v 1048576 2>/dev/null; exec "$0" "$@"'
# ripgrep cuts longer lines, so that no line needs more memory than this.
_COLUMNS = search.LONGEST_LINE
# Names that ripgrep reads in each folder and in its parents, and the largest size that is not odd.
_IGNORE_FILES = (".gitignore", ".ignore", ".rgignore")
_LONGEST_IGNORE_FILE = 1024 * 1024


class Grep(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of a search in all files below `root`, or in `only` one of them."""

    root: Path
    only: str | None
    pattern: str
    glob: str | None
    ignore_case: bool
    literal: bool
    context: int


@cache
def ripgrep_path(cwd: Path, path: str) -> str | None:
    """Return the program next to our interpreter, where its wheel puts it, else of `path`.

    A program in the working folder is not used: a search must not run code from that folder.
    """
    from shutil import which

    folders = [os.path.dirname(sys.executable), os.path.join(sys.prefix, "bin")]
    return which("rg", path=os.pathsep.join(folders)) or find_program("rg", path, (cwd,))


def grep_command(grep: Grep, env: Mapping[str, str], program: str | None) -> ProcessCommand:
    argv = _stand_in(_query(grep))
    if program:
        argv = ("/bin/sh", "-c", _LIMITED, program, *ripgrep_arguments(grep))
    return ProcessCommand(argv=argv, cwd=grep.root, env=env)


async def run_ripgrep(
    command: ProcessCommand, place: Path, take: Callable[[bytes], bool]
) -> int | None:
    """Call `each_record` by lines; return None if ripgrep cannot search this place.

    ripgrep reads the ignore files of a project, which may be pipes, devices or very large. Its
    memory is limited, and if it has not ended after a moment, such files are looked for.

    Raises:
        ToolFailure: as `each_record`.
    """
    scope, tasks, stop = Scope(), Tasks(), Event()
    tasks.start(_watch(scope, place, stop))
    try:
        code = await scope.run(each_record(command, b"\n", take))
    except Aborted:
        return None
    finally:
        stop.set()
        await tasks.close()
    return code if code in _CODES else None


async def _watch(scope: Scope, place: Path, stop: Event) -> None:
    await asyncio.sleep(MOMENT_SECONDS)
    if await asyncio.to_thread(_has_odd_ignore_file, place, stop):
        scope.abort()


def _has_odd_ignore_file(root: Path, stop: Event) -> bool:
    """Whether ripgrep would read an odd ignore file when it searches a folder.

    Returns False early once `stop` is set.
    """
    for folder in root.parents:
        if any(_is_odd(os.path.join(folder, name)) for name in _IGNORE_FILES):
            return True
    pending = [str(root)]
    while pending and not stop.is_set():
        try:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    if entry.name in _IGNORE_FILES and _is_odd(entry.path):
                        return True
                    if entry.name != search.ALWAYS_SKIPPED and entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
        except OSError:
            continue
    return False


def _is_odd(path: str) -> bool:
    try:
        status = os.stat(path)
    except OSError:
        return False
    if not stat.S_ISREG(status.st_mode) or status.st_size > _LONGEST_IGNORE_FILE:
        return True
    # Files of the proc file system report that they are regular and empty, and may be endless.
    return status.st_size == 0 and os.path.islink(path)


def find_command(root: Path, pattern: str, env: Mapping[str, str]) -> ProcessCommand:
    """Return the command of `search.py`: ripgrep lists files only, and `find` needs folders too."""
    argv = _stand_in({"root": str(root), "find": pattern})
    return ProcessCommand(argv=argv, cwd=root, env=env)


async def each_record(
    command: ProcessCommand, separator: bytes, take: Callable[[bytes], bool]
) -> int:
    """Pass each record of the output to `take` until it returns False.

    Returns the exit code, or 0 if `take` stopped the search.

    Raises:
        ToolFailure: the search could not start, or took too long.
    """
    try:
        async with asyncio.timeout(SEARCH_SECONDS), Running(command) as running:
            rest = b""
            while chunk := await running.read():
                *records, rest = (rest + chunk).split(separator)
                if not all(take(record) for record in records):
                    return 0
            if rest:
                take(rest)
            return await running.exit_code()
    except StartError as error:
        raise ToolFailure(str(error)) from error
    except TimeoutError:
        raise ToolFailure(
            f"Search stopped after {SEARCH_SECONDS:g} seconds. Use a narrower path or pattern."
        ) from None


def ripgrep_arguments(grep: Grep) -> tuple[str, ...]:
    """Return the arguments of ripgrep for a search in the folder in which it is started."""
    flags = ["--no-config", "--no-messages", "--hidden", "--no-require-git"]
    flags += ["--no-ignore-global", "--no-ignore-exclude", "--sort=path", "--color=never"]
    flags += ["--no-heading", "--with-filename", "--null", "--line-number"]
    flags += ["--no-context-separator", f"--max-columns={_COLUMNS}", "--max-columns-preview"]
    if grep.ignore_case:
        flags.append("--ignore-case")
    if grep.literal:
        flags.append("--fixed-strings")
    if grep.context:
        flags.append(f"--context={grep.context}")
    if grep.glob:
        flags.append(f"--glob={grep.glob}")
    # At the end, since the last matching glob decides.
    flags.append(f"--glob=!{search.ALWAYS_SKIPPED}")
    return (*flags, f"--regexp={grep.pattern}", "--", f"./{grep.only or ''}")


def _query(grep: Grep) -> dict[str, object]:
    return {
        "root": str(grep.root),
        "only": grep.only,
        "grep": grep.pattern,
        "glob": grep.glob,
        "ignoreCase": grep.ignore_case,
        "literal": grep.literal,
        "context": grep.context,
    }


def _stand_in(query: Mapping[str, object]) -> tuple[str, ...]:
    # Isolated, so that nothing in the searched folder is imported.
    python = (sys.executable, "-I", "-S", "-X", "utf8")
    # ASCII only, since a path need not be valid UTF-8.
    return (*python, search.__file__, json.dumps(query))
