"""The grep tool: find lines that match a pattern."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ludolf.agent.tool import ToolContext, ToolDefaults, ToolFailure, ToolOutput, Walls
from ludolf.tools.files import error_text
from ludolf.tools.listing import listing, searched_path, whole_number
from ludolf.tools.options import parameter_schema
from ludolf.tools.process import inside
from ludolf.tools.ripgrep import Grep, each_record, grep_command, ripgrep_path, run_ripgrep
from ludolf.tools.search import TOO_DEEP

DEFAULT_LIMIT = 100
MAX_LINE_CHARS = 500
# Exit code of ripgrep and of `search.py` if a file could not be read.
_PARTIAL_CODES = (2, TOO_DEEP)
_PARTIAL_NOTICE = "Some files or folders could not be searched: not readable, or too deep"


class GrepTool(ToolDefaults):
    name = "grep"
    label = "grep"
    description = (
        "Search the content of files. Returns path, line number and line of each match. Includes "
        f"hidden files; respects .gitignore. Lines are cut after {MAX_LINE_CHARS} characters."
    )
    parameters = parameter_schema(
        "pattern",
        pattern=("string", "Regular expression, or plain text (literal)"),
        path=("string", "File or folder (default: working directory)"),
        glob=("string", "Only search matching files, such as '*.py'"),
        ignoreCase=("boolean", "Ignore case (default: false)"),
        literal=("boolean", "Treat the pattern as plain text"),
        context=("number", "Lines to show around each match (0)"),
        limit=("number", f"Most matches to show ({DEFAULT_LIMIT})"),
    )
    read_only = True
    snippet = "Search the content of files"

    def __init__(self, program: str | None = "", *, path: str = "") -> None:
        """`program` is ripgrep, None to search without it, "" to look it up in `path`."""
        self._program = program
        self._path = path

    async def execute(self, args: Mapping[str, Any], ctx: ToolContext) -> ToolOutput:
        target, place, is_folder = searched_path(args, ctx, takes_files=True)
        grep = grep_of(args, target, one_file=not is_folder)
        if grep.only and ctx.walls is not None:
            await asyncio.to_thread(_check_readable, target, ctx.walls)
        limit = whole_number(args.get("limit"), DEFAULT_LIMIT)
        matches, code = await self._search(grep, place, ctx, limit)
        if ctx.walls is not None and not grep.only:
            await asyncio.to_thread(matches.drop_hidden, grep.root, ctx.walls)
        return matches.result(code)

    async def _search(
        self, grep: Grep, place: Path, ctx: ToolContext, limit: int
    ) -> "tuple[GrepMatches, int]":
        env = ctx.environment()
        program = ripgrep_path(ctx.cwd, self._path) if self._program == "" else self._program
        if program is not None:
            matches = GrepMatches(limit, grep.context)
            command = inside(grep_command(grep, env, program), ctx.walls)
            code = await run_ripgrep(command, place, matches.take)
            if code is not None:
                return matches, code
        matches = GrepMatches(limit, grep.context)
        command = inside(grep_command(grep, env, None), ctx.walls)
        return matches, await each_record(command, b"\n", matches.take)


def _check_readable(path: Path, walls: Walls) -> None:
    """Raises:
    ToolFailure: the file is hidden, or not a regular file.
    """
    try:
        os.close(walls.open(path))
    except OSError as error:
        raise ToolFailure(error_text(error, "open", path)) from error


def grep_of(args: Mapping[str, Any], target: Path, *, one_file: bool) -> Grep:
    """Return the search that the arguments of a call ask for."""
    return Grep(
        root=target.parent if one_file else target,
        only=target.name if one_file else None,
        pattern=args["pattern"],
        glob=args.get("glob") or None,
        ignore_case=bool(args.get("ignoreCase")),
        literal=bool(args.get("literal")),
        context=whole_number(args.get("context"), 0, least=0),
    )


class _Line(msgspec.Struct):
    path: str
    number: int
    is_match: bool
    text: str

    def shown(self) -> str:
        text = self.text
        if len(text) > MAX_LINE_CHARS:
            text = f"{text[:MAX_LINE_CHARS]}... [truncated]"
        if self.is_match:
            return f"{self.path}:{self.number}: {text}"
        return f"{self.path}-{self.number}- {text}"


class GrepMatches:
    """Collect the lines of a search until there are more matches than the limit."""

    def __init__(self, limit: int, context: int) -> None:
        self.lines: list[_Line] = []
        self.message = ""
        self._limit = limit
        self._context = context
        self._count = 0

    def take(self, record: bytes) -> bool:
        path, null, rest = record.partition(b"\0")
        if not null or not rest[:1].isdigit():
            self.message = f"{self.message}\n{record.decode('utf-8', 'replace')}".strip()
            return True
        line = _parsed(path, rest)
        self._count += line.is_match
        if self._count <= self._limit:
            self.lines.append(line)
            return True
        return self._take_as_context(line)

    def drop_hidden(self, root: Path, walls: Walls) -> None:
        """Remove lines of hidden files that appear under another name by a hard link."""
        hidden = walls.hidden_among(root, {line.path for line in self.lines})
        self.lines = [line for line in self.lines if line.path not in hidden]
        if not any(line.is_match for line in self.lines):
            self.lines = []  # context of the first match beyond the limit

    def result(self, code: int, notices: Sequence[str] = ()) -> ToolOutput:
        """Return the result of a search that ended with an exit code.

        Raises:
            ToolFailure: the search failed.
        """
        is_partial = code in _PARTIAL_CODES and not self.message
        if not self.lines and not is_partial and (code > 1 or (code and self.message)):
            raise ToolFailure(self.message or f"Search failed with code {code}")
        return self._output((*notices, _PARTIAL_NOTICE) if is_partial else notices)

    def _output(self, notices: Sequence[str] = ()) -> ToolOutput:
        if not self.lines:
            return listing(["No matches found"], notices, {})
        details: dict[str, Any] = {}
        limit_notices: list[str] = []
        if self._count > self._limit:
            self._drop_context_of_the_next()
            details["matchLimitReached"] = self._limit
            limit_notices.append(
                f"{self._limit} matches limit reached. "
                f"Use limit={self._limit * 2} for more, or refine pattern"
            )
        if any(len(line.text) > MAX_LINE_CHARS for line in self.lines):
            details["linesTruncated"] = True
            cut = f"Some lines truncated to {MAX_LINE_CHARS} chars. Use read tool to see full lines"
            notices = (cut, *notices)
        shown = [line.shown() for line in self.lines]
        return listing(shown, limit_notices, details, later_notices=notices)

    def _take_as_context(self, line: _Line) -> bool:
        """Beyond the limit, keep only the lines after the last match."""
        last = next(each for each in reversed(self.lines) if each.is_match)
        if line.path != last.path or line.number > last.number + self._context:
            return False
        line.is_match = False
        self.lines.append(line)
        return True

    def _drop_context_of_the_next(self) -> None:
        last = max(index for index, line in enumerate(self.lines) if line.is_match)
        reach = self.lines[last].number + self._context
        path = self.lines[last].path
        after = [
            line for line in self.lines[last + 1 :] if line.path == path and line.number <= reach
        ]
        self.lines[last + 1 :] = after


def _parsed(path: bytes, rest: bytes) -> _Line:
    digits = len(rest) - len(rest.lstrip(b"0123456789"))
    name = os.fsdecode(path).removeprefix("./")
    text = rest[digits + 1 :].decode("utf-8", "replace").rstrip("\r")
    return _Line(name, int(rest[:digits]), rest[digits : digits + 1] == b":", text)
