"""Arguments and results of tools that list lines, cut at the byte limit, with notices."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import UNSET

from ludolf.agent.tool import ToolContext, ToolFailure, ToolOutput, text_output
from ludolf.tools.paths import resolve
from ludolf.tools.truncate import MAX_BYTES, NO_LINE_LIMIT, keep_head, size_words


def listing(
    lines: Sequence[str],
    notices: Sequence[str],
    details: dict[str, Any],
    *,
    later_notices: Sequence[str] = (),
) -> ToolOutput:
    """Return a result with these lines; the notice about the byte limit precedes later ones."""
    shown_notices = list(notices)
    # File names that are not UTF-8 come as lone surrogates.
    shown = keep_head(
        "\n".join(line.encode("utf-8", "replace").decode() for line in lines),
        max_lines=NO_LINE_LIMIT,
    )
    if shown.truncated:
        shown_notices.append(f"{size_words(MAX_BYTES)} limit reached")
        details = {**details, "truncation": shown.as_json()}
    text = shown.content
    shown_notices += later_notices
    if shown_notices:
        text = f"{text}\n\n[{'. '.join(shown_notices)}]"
    return text_output(text, details or UNSET)


def searched_path(
    args: Mapping[str, Any], ctx: ToolContext, *, takes_files: bool
) -> tuple[Path, Path, bool]:
    """Return the path to search, its place on disk, and whether it is a folder.

    Raises:
        ToolFailure: it does not exist, the sandbox hides it, or it cannot be searched.
    """
    target = resolve(args.get("path") or ".", ctx.cwd, ctx.home)
    place = target if ctx.walls is None else ctx.walls.locate(target)
    if not os.path.exists(place):
        raise ToolFailure(f"Path not found: {target}")
    is_folder = os.path.isdir(place)
    if not is_folder and not (takes_files and os.path.isfile(place)):
        expected = "regular file" if takes_files else "directory"
        raise ToolFailure(f"Not a {expected}: {target}")
    return target, place, is_folder


def whole_number(value: float | None, default: int, least: int = 1) -> int:
    return default if value is None else max(least, int(value))
