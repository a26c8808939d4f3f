"""Find files of a project by a few letters of their path, for the completion of a front end."""

import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from ludolf.base import Value
from ludolf.tools.process import ProcessCommand
from ludolf.tools.ripgrep import each_record, find_command, ripgrep_path, run_ripgrep
from ludolf.tools.search import ALWAYS_SKIPPED

# A larger project is searched up to here.
MOST_PATHS = 200_000
_NO_MATCH = -1
# Arguments of ripgrep that list the files below the folder in which it is started.
LIST_FLAGS = (
    *("--files", "--no-config", "--no-messages", "--hidden", "--no-require-git"),
    *("--no-ignore-global", "--no-ignore-exclude", "--color=never", f"--glob=!{ALWAYS_SKIPPED}"),
)


class FoundFile(Value):
    """A file or folder below the working folder; the path has slashes, and none at its end."""

    path: str
    is_directory: bool


async def find_files(
    root: Path, query: str, limit: int, env: Mapping[str, str]
) -> tuple[FoundFile, ...]:
    """Return the best matches, the best first. Ignore files of the project apply.

    The letters of the query must occur in the path in this order; without a query, the paths
    nearest to the root match best.

    Raises:
        ToolFailure: the search could not start, or took too long.
    """
    found = _Candidates(query)
    program = ripgrep_path(root, env.get("PATH", os.defpath))
    code = None
    if program is not None:
        command = ProcessCommand(argv=(program, *LIST_FLAGS), cwd=root, env=env)
        code = await run_ripgrep(command, root, found.take)
    if code is None:
        found = _Candidates(query)
        await each_record(find_command(root, "*", env), b"\0", found.take)
    return found.best(limit)


class _Candidates:
    """The paths that match; folders are those of the files."""

    def __init__(self, query: str) -> None:
        self._query = query.lower().removeprefix("./")
        self._count = 0
        self._scores: dict[str, tuple[int, bool]] = {}
        self._folders: set[str] = set()

    def take(self, record: bytes) -> bool:
        path = os.fsdecode(record).removesuffix("\n")
        if path:
            self._count += 1
            if path.endswith("/"):
                self._add_folder(path.rstrip("/"))
            else:
                self._add(path, is_folder=False)
                self._add_folder(path.rpartition("/")[0])
        return self._count < MOST_PATHS

    def _add_folder(self, path: str) -> None:
        while path and path not in self._folders:
            self._folders.add(path)
            self._add(path, is_folder=True)
            path = path.rpartition("/")[0]

    def _add(self, path: str, *, is_folder: bool) -> None:
        score = match_score(self._query, path)
        if score != _NO_MATCH:
            self._scores[path] = score, is_folder

    def best(self, limit: int) -> tuple[FoundFile, ...]:
        ordered = sorted(self._scores.items(), key=lambda item: (-item[1][0], len(item[0]), item))
        return tuple(
            FoundFile(path=_text(path), is_directory=is_folder)
            for path, (_, is_folder) in ordered[:limit]
        )


def _text(path: str) -> str:
    """Return a path that JSON can hold: file names need not be UTF-8."""
    return path.encode("utf-8", "replace").decode() if not path.isascii() else path


@cache
def _is_boundary(before: str) -> bool:
    return not before.isalnum()


def match_score(query: str, path: str) -> int:
    """Return how well a path matches a query in lower case; -1: not at all."""
    whole = path.lower()
    name = whole.rpartition("/")[2]
    if not query:
        return 1000 - 100 * min(9, whole.count("/"))
    if query in name:
        bonus = 300 if name == query else 200 if name.startswith(query) else 100
        return 1000 + bonus - min(90, len(name) - len(query))
    if query in whole:
        return 900 - min(90, len(whole) - len(query))
    return _letters_score(query, whole)


def _letters_score(query: str, whole: str) -> int:
    """Count letters that continue the letter before or begin a word; found from the end."""
    score, at, last = 0, len(whole), None
    for letter in reversed(query):
        at = whole.rfind(letter, 0, at)
        if at < 0:
            return _NO_MATCH
        if last is not None and last == at + 1:
            score += 3
        elif at == 0 or _is_boundary(whole[at - 1]):
            score += 5
        last = at
    return score
