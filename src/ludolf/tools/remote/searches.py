"""The tools grep and find for a workplace: ripgrep there, else the system's grep and find."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ludolf.agent.tool import ToolContext, ToolFailure, ToolOutput
from ludolf.base import LudolfError
from ludolf.tools.file_finder import LIST_FLAGS, MOST_PATHS
from ludolf.tools.find import FindTool
from ludolf.tools.grep import DEFAULT_LIMIT, GrepMatches, GrepTool, grep_of
from ludolf.tools.listing import whole_number
from ludolf.tools.remote.globs import found_by, searched_by
from ludolf.tools.remote.place import PathKind, RemotePlace
from ludolf.tools.ripgrep import Grep, ripgrep_arguments

_NO_RIPGREP = 91
_RIPGREP = """
cd -- "$1" || exit 2
command -v rg >/dev/null 2>&1 || exit 91
shift
exec rg "$@" 2>&1
"""
# Prints each file name with a null character, then its matching lines. A first search lists the
# files, because not every grep can separate names from lines.
_GREP = """
exec 2>&1
cd -- "$1" || exit 2
only=$2 pattern=$3 context=$4 case=$5 mode=$6
if [ -z "$mode" ]; then
    mode=-E
    printf 1 | grep -qP '[[:digit:]]' 2>/dev/null && mode=-P
fi
text=-I
grep -I x /dev/null 2>/dev/null
[ $? -gt 1 ] && text=
printf x | grep $mode $case -e "$pattern" >/dev/null
[ $? -gt 1 ] && exit 2
if [ -n "$only" ]; then
    printf '%s\\n' "./$only"
else
    find . -name .git -prune -o -type f -exec grep -l $text $mode $case -e "$pattern" {} + \
        2>/dev/null | LC_ALL=C sort
fi | while IFS= read -r file; do
    printf '%s\\0\\n' "$file"
    grep -n $text $mode $case -C "$context" -e "$pattern" "$file" 2>/dev/null
done
exit 0
"""
_FIND = """
cd -- "$1" || exit 2
find . -name .git -prune -o ! -name . -type d -exec printf '%s/\\0' {} + \
    -o ! -name . -exec printf '%s\\0' {} + 2>/dev/null
exit 0
"""
_NOT_IGNORED = "ripgrep is not installed there, so .gitignore was not applied"


class _Enough(LudolfError):
    """The search has found as much as is shown."""


class _Records:
    """Splits output into records and passes them on until there are enough."""

    def __init__(self, separator: bytes, take: Callable[[bytes], bool]) -> None:
        self._separator = separator
        self._take = take
        self._rest = b""

    async def feed(self, data: bytes) -> None:
        *records, self._rest = (self._rest + data).split(self._separator)
        if not all(self._take(record) for record in records):
            raise _Enough

    async def run(self, place: RemotePlace, script: str, *args: str) -> int:
        """Run a search; return its exit code, or 0 if it was stopped."""
        try:
            code = await place.stream(self.feed, script, *args)
        except _Enough:
            return 0
        if self._rest:
            self._take(self._rest)
        return code


async def _searched(
    place: RemotePlace, args: Mapping[str, Any], *, takes_files: bool
) -> tuple[Path, PathKind]:
    target = await place.resolve(args.get("path") or ".")
    kind = await place.kind(target)
    if kind is None:
        raise ToolFailure(f"Path not found: {target}")
    if kind != "folder" and not (takes_files and kind == "file"):
        expected = "regular file" if takes_files else "directory"
        raise ToolFailure(f"Not a {expected}: {target}")
    return target, kind


class RemoteGrepTool(GrepTool):
    def __init__(self, place: RemotePlace) -> None:
        super().__init__()
        self._place = place

    async def execute(self, args: Mapping[str, Any], ctx: ToolContext) -> ToolOutput:
        target, kind = await _searched(self._place, args, takes_files=True)
        grep = grep_of(args, target, one_file=kind == "file")
        limit = whole_number(args.get("limit"), DEFAULT_LIMIT)
        matches = GrepMatches(limit, grep.context)
        records = _Records(b"\n", matches.take)
        code = await records.run(self._place, _RIPGREP, str(grep.root), *ripgrep_arguments(grep))
        if code != _NO_RIPGREP:
            return matches.result(code)
        matches = GrepMatches(limit, grep.context)
        code = await _plain_grep(self._place, grep, matches)
        return matches.result(code, [] if grep.only else [_NOT_IGNORED])


async def _plain_grep(place: RemotePlace, grep: Grep, matches: GrepMatches) -> int:
    wanted, name = searched_by(grep.glob), b""

    def take(record: bytes) -> bool:
        nonlocal name
        if record.endswith(b"\0"):
            name = record[:-1].removeprefix(b"./")
            return True
        if name and not record[:1].isdigit():
            return True  # a separator between matches
        if name and not grep.only and not wanted(os.fsdecode(name)):
            return True
        return matches.take(name + b"\0" + record if name else record)

    return await _Records(b"\n", take).run(
        place,
        _GREP,
        str(grep.root),
        grep.only or "",
        grep.pattern,
        str(grep.context),
        "-i" if grep.ignore_case else "",
        "-F" if grep.literal else "",
    )


class RemoteFindTool(FindTool):
    def __init__(self, place: RemotePlace) -> None:
        self._place = place

    async def _paths(
        self, args: Mapping[str, Any], limit: int, ctx: ToolContext
    ) -> tuple[list[str], list[str]]:
        folder, _ = await _searched(self._place, args, takes_files=False)
        notices: list[str] = []
        entries = _Entries()
        root = str(folder)
        code = await entries.records.run(self._place, _RIPGREP, root, *LIST_FLAGS, "--null")
        if code == _NO_RIPGREP:
            notices.append(_NOT_IGNORED)
            entries = _Entries()
            code = await entries.records.run(self._place, _FIND, root)
        if code > 1:
            raise ToolFailure(f"Search failed with code {code}")
        fits = found_by(args["pattern"], root)
        shown = (f"{path}/" if is_folder else path for path, is_folder in entries.ordered(fits))
        return [path for path, _ in zip(shown, range(limit + 1), strict=False)], notices


class _Entries:
    """Files of a listing, and their folders."""

    def __init__(self) -> None:
        self.records = _Records(b"\0", self._take)
        self._found: dict[str, bool] = {}

    def _take(self, record: bytes) -> bool:
        path = os.fsdecode(record).removeprefix("./")
        if path.endswith("/"):
            self._found[path[:-1]] = True
        elif path:
            self._found[path] = False
            folder = path.rpartition("/")[0]
            while folder and folder not in self._found:
                self._found[folder] = True
                folder = folder.rpartition("/")[0]
        return len(self._found) < MOST_PATHS

    def ordered(self, fits: Callable[[str], bool]) -> list[tuple[str, bool]]:
        """Return the paths that fit and whether each is a folder, as a walk visits them."""
        chosen = [(path, is_folder) for path, is_folder in self._found.items() if fits(path)]
        return sorted(chosen, key=lambda entry: entry[0].split("/"))
