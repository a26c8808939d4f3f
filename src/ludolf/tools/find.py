"""The find tool: find files and folders by name."""

import os
from collections.abc import Mapping
from typing import Any

from ludolf.agent.tool import ToolContext, ToolDefaults, ToolFailure, ToolOutput
from ludolf.tools.listing import listing, searched_path, whole_number
from ludolf.tools.options import parameter_schema
from ludolf.tools.process import inside
from ludolf.tools.ripgrep import each_record, find_command
from ludolf.tools.search import TOO_DEEP

DEFAULT_LIMIT = 1000
_TOO_DEEP_NOTICE = (
    "Some folders were not searched: their paths exceed the system limit. "
    "Use bash: cd into one of them and search there"
)


class FindTool(ToolDefaults):
    name = "find"
    label = "find"
    description = (
        "Find files and folders by glob pattern. Returns paths relative to the searched folder. "
        "Includes hidden files; respects .gitignore."
    )
    parameters = parameter_schema(
        "pattern",
        pattern=("string", "Glob such as '*.py' for names, 'src/**/*.py' for paths"),
        path=("string", "Folder to search (default: working directory)"),
        limit=("number", f"Most results to show ({DEFAULT_LIMIT})"),
    )
    read_only = True
    snippet = "Find files by name"

    async def execute(self, args: Mapping[str, Any], ctx: ToolContext) -> ToolOutput:
        limit = whole_number(args.get("limit"), DEFAULT_LIMIT)
        paths, notices = await self._paths(args, limit, ctx)
        return _output(paths, limit, notices)

    async def _paths(
        self, args: Mapping[str, Any], limit: int, ctx: ToolContext
    ) -> tuple[list[str], list[str]]:
        """Return the paths, at most one more than the limit, and notices about the search."""
        folder, _, _ = searched_path(args, ctx, takes_files=False)
        paths: list[str] = []

        def take(record: bytes) -> bool:
            if record:
                paths.append(os.fsdecode(record))
            return len(paths) <= limit

        command = find_command(folder, args["pattern"], ctx.environment())
        code = await each_record(inside(command, ctx.walls), b"\0", take)
        if code not in (0, TOO_DEEP):
            raise ToolFailure(paths[0].strip() if paths else f"Search failed with code {code}")
        return paths, [_TOO_DEEP_NOTICE] if code == TOO_DEEP else []


def _output(paths: list[str], limit: int, notices: list[str]) -> ToolOutput:
    if not paths:
        return listing(["No files found matching pattern"], notices, {})
    details: dict[str, Any] = {}
    if len(paths) > limit:
        notices.append(
            f"{limit} results limit reached. Use limit={limit * 2} for more, or refine pattern"
        )
        details["resultLimitReached"] = limit
    return listing(paths[:limit], notices, details)
