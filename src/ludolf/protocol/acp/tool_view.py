"""Show tool calls to a client: title, kind and locations, diffs and content of the result."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ludolf.agent.tool import ToolOutput
from ludolf.base import dumps, loads
from ludolf.base.visible import escape_hidden
from ludolf.protocol.acp.call_sources import NO_FACTS, TODO_TOOLS, ReadText, ToolFacts
from ludolf.protocol.acp.content import content_blocks, file_path, text_block
from ludolf.protocol.acp.structs import ToolKind

# A diff with more bytes is replaced by a line of text.
MAX_DIFF = 256 * 1024
# Larger arguments and details, as JSON, are sent with their long strings cut.
MAX_RAW = 256 * 1024
_LONG_STRING = 4 * 1024
_MOST_ITEMS = 1000
_TITLE_LENGTH = 200
_AROUND = 3
# Compiled when they are used, not at the start.
_MCP_NAME = r"(?s)mcp__(.+?)__(.+)"
_ADDRESS = r"[A-Za-z][A-Za-z0-9+.-]+://"
_HUNK = r"@@ -\d+(?:,\d+)? \+(\d+)(?:,\d+)? @@"

_KINDS: Mapping[str, ToolKind] = {
    "read": "read",
    "write": "edit",
    "edit": "edit",
    "bash": "execute",
    "grep": "search",
    "find": "search",
    "ls": "search",
    "task": "think",
}
Blocks = list[dict[str, Any]]


class ToolView(msgspec.Struct, frozen=True):
    title: str
    kind: ToolKind
    locations: tuple[dict[str, Any], ...] = ()


def kind_of_tool(name: str, facts: ToolFacts = NO_FACTS) -> ToolKind:
    """Return the kind of a tool; tools of others are `read` if they are read-only."""
    if name in TODO_TOOLS:
        return "other"
    return _KINDS.get(name) or ("read" if facts.read_only else "other")


def tool_title(name: str, facts: ToolFacts = NO_FACTS) -> str:
    """Return the title of a call whose arguments are not known yet."""
    found = re.fullmatch(_MCP_NAME, name)
    if found and facts.label in ("", name):
        return _on_one_line(f"{found[2]} ({found[1]})")
    return _on_one_line(facts.label or name) or "tool"


def view_call(
    name: str, args: Mapping[str, Any], cwd: Path, facts: ToolFacts = NO_FACTS
) -> ToolView:
    """Return the title, the kind and the locations of a call with all its arguments."""
    kind = kind_of_tool(name, facts)
    path = _text(args, "path")
    match name:
        case "read" | "write" | "edit" if path:
            lines = _line_range(args) if name == "read" else ""
            title = f"{name.capitalize()} {path}{lines}"
        case "bash":
            title = _text(args, "command") or "bash"
        case "grep" | "find" if _text(args, "pattern"):
            verb = "Search for" if name == "grep" else "Find"
            where = f" in {path}" if path else ""
            title = f"{verb} {_text(args, 'pattern')}{where}"
        case "ls":
            title = f"List {path or '.'}"
        case _:
            title = tool_title(name, facts)
    return ToolView(_on_one_line(title), kind, _locations(name, args, cwd))


def absolute_path(path: str, cwd: Path) -> Path | None:
    """Return the file that a tool's path denotes; None for a document with another address."""
    text = path.removeprefix("@")
    if text.startswith("file://"):
        text = file_path(text) or ""
    if not text or "\0" in text or re.match(_ADDRESS, text):
        return None
    return Path(os.path.normpath(cwd / os.path.expanduser(text)))


def _locations(name: str, args: Mapping[str, Any], cwd: Path) -> tuple[dict[str, Any], ...]:
    path = _text(args, "path")
    place = absolute_path(path, cwd) if name in _KINDS and path else None
    if place is None:
        return ()
    line = _number(args, "offset") if name == "read" else None
    return ({"path": str(place), "line": line} if line else {"path": str(place)},)


def _line_range(args: Mapping[str, Any]) -> str:
    start, count = _number(args, "offset"), _number(args, "limit")
    if count:
        return f":{start or 1}-{(start or 1) + count - 1}"
    return f":{start}" if start else ""


def _number(args: Mapping[str, Any], name: str) -> int | None:
    value = args.get(name)
    is_line = isinstance(value, int | float) and 0 < value < 2**31
    return int(value) if is_line and value is not None else None


def _text(args: Mapping[str, Any], name: str) -> str:
    value = args.get(name)
    return value if isinstance(value, str) else ""


def _on_one_line(text: str) -> str:
    cut = text[: _TITLE_LENGTH + 1]
    line = escape_hidden(" ".join(cut.split()))
    return line if len(text) <= _TITLE_LENGTH else f"{line[: _TITLE_LENGTH - 1]}…"


# ---------------------------------------------------------------- content


def preview(name: str, args: Mapping[str, Any], cwd: Path, read: ReadText) -> Blocks:
    """Show what a call is going to do: the diff of a write or an edit, or the command."""
    path = absolute_path(_text(args, "path"), cwd)
    if name == "bash":
        return [text_content(fenced(_text(args, "command"), "sh"))]
    if name == "write" and path is not None:
        return [diff_content(path, read(path), _text(args, "content"))]
    if name == "edit" and path is not None:
        whole = read(path)
        return [diff_content(path, *_widened(whole, *edit)) for edit in edits_of(args)]
    return []


def result_content(
    name: str, args: Mapping[str, Any], output: ToolOutput, cwd: Path, old_text: str | None
) -> Blocks:
    """Show the result of a call that succeeded; `old_text` is the file before a write."""
    path = absolute_path(_text(args, "path"), cwd)
    if name == "write" and path is not None:
        return [diff_content(path, old_text, _text(args, "content"))]
    if name == "edit" and path is not None:
        patch = output.details.get("patch") if isinstance(output.details, dict) else None
        pieces = hunks_of(patch) if isinstance(patch, str) else []
        pieces = pieces or list(edits_of(args))
        return [diff_content(path, old, new) for old, new in pieces]
    return output_content(output)


def output_content(output: ToolOutput) -> Blocks:
    """Show texts and images of a result as they are."""
    return [{"type": "content", "content": block} for block in content_blocks(output.content)]


def text_content(text: str) -> dict[str, Any]:
    return {"type": "content", "content": text_block(text)}


def diff_content(path: Path, old: str | None, new: str) -> dict[str, Any]:
    """Return a diff; `old` is None if the file is new. A large one becomes a line of text."""
    size = len(new.encode("utf-8", "replace")) + len((old or "").encode("utf-8", "replace"))
    if size > MAX_DIFF:
        return text_content(f"{path}: the change has {size:,} bytes and is not shown as a diff.")
    return {"type": "diff", "path": str(path), "oldText": old, "newText": new}


def fenced(text: str, language: str = "") -> str:
    """Return the text as a fenced block of Markdown."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text.removesuffix(chr(10))}\n{fence}"


def edits_of(args: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Return old and new text of each replacement, in every shape that the edit tool accepts."""
    edits = args.get("edits")
    if isinstance(edits, str):
        try:
            edits = loads(edits)
        except ValueError:
            edits = []
    listed = [edits] if isinstance(edits, dict) else edits if isinstance(edits, list) else []
    for edit in (*listed, args):
        if isinstance(edit, Mapping):
            old, new = edit.get("oldText"), edit.get("newText")
            if isinstance(old, str) and isinstance(new, str):
                yield old, new


def _widened(whole: str | None, old: str, new: str) -> tuple[str, str]:
    """Extend both texts to whole lines, with the lines around the place."""
    at = whole.find(old) if whole is not None and old else -1
    if whole is None or at < 0:
        return old, new
    start, end = whole.rfind("\n", 0, at) + 1, at + len(old)
    for _ in range(_AROUND):
        start = whole.rfind("\n", 0, max(0, start - 1)) + 1
    for _ in range(_AROUND + (not old.endswith("\n"))):
        end = whole.find("\n", end) + 1 or len(whole)
    before, after = whole[start:at], whole[at + len(old) : end]
    return before + old + after, before + new + after


def hunks_of(patch: str) -> list[tuple[str, str]]:
    """Return old and new text of each hunk of a unified diff."""
    hunks: list[tuple[list[str], list[str]]] = []
    last = ""
    for line in patch.split("\n"):
        if re.match(_HUNK, line):
            hunks.append(([], []))
        elif hunks and line:
            old, new = hunks[-1]
            sides = {"-": (old,), "+": (new,)}.get(line[0], (old, new))
            if line[0] == "\\":
                _drop_newline({"-": (old,), "+": (new,)}.get(last, (old, new)))
            else:
                for side in sides:
                    side.append(f"{line[1:]}\n")
            last = line[0]
    return [("".join(old), "".join(new)) for old, new in hunks]


def _drop_newline(sides: Sequence[list[str]]) -> None:
    for side in sides:
        side[-1:] = [line.removesuffix("\n") for line in side[-1:]]


# ---------------------------------------------------------------- arguments and details


def raw_value(value: Any) -> Any:
    """Return arguments or details for the client; long strings are cut if the whole is large."""
    try:
        return value if len(dumps(value)) <= MAX_RAW else _shortened(value)
    except (RecursionError, TypeError, ValueError):
        return None


def raw_details(name: str, details: Any) -> Any:
    """Return the details of a result; those of a command without the output, which is shown."""
    cut = details.get("truncation") if isinstance(details, dict) else None
    if name == "bash" and isinstance(cut, dict):
        sizes = {key: value for key, value in cut.items() if key != "content"}
        details = {**details, "truncation": sizes}
    return raw_value(details)


def _shortened(value: Any) -> Any:
    if isinstance(value, str):
        rest = len(value) - _LONG_STRING
        return value if rest <= 0 else f"{value[:_LONG_STRING]}… ({rest:,} more characters)"
    if isinstance(value, Mapping):
        return {key: _shortened(item) for key, item in list(value.items())[:_MOST_ITEMS]}
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return [_shortened(item) for item in value[:_MOST_ITEMS]]
    return value
