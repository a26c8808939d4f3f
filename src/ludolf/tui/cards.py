"""Render tool calls as cards: a head with the result and the time, then the output or the diff."""

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from ludolf.ai.messages import Image
from ludolf.page.code import language_of
from ludolf.page.diffs import FileChanges, edit_changes, numbered_changes
from ludolf.page.text import one_line
from ludolf.tui.cells import cut, plain, width
from ludolf.tui.code import CodeColours
from ludolf.tui.diffs import diff_counts, diff_rows, more_lines
from ludolf.tui.images import ImageProtocol, image_rows
from ludolf.tui.theme import Theme, bold

EDGE_LINES = 5
_WRITTEN_LINES = (15, EDGE_LINES)
_LONGEST_TITLE = 400
_EXIT = re.compile(r"\n*Command exited with code (-?[0-9]{1,10})\s*\Z")


class ToolRun(msgspec.Struct, kw_only=True):
    """A tool call with its result so far. `details` and `args` are JSON of others."""

    name: str
    args: Any = None
    text: str = ""
    images: tuple[Image, ...] = ()
    details: Any = None
    is_error: bool = False
    seconds: float | None = None
    cwd: str = ""

    def take(self, result: Any) -> None:
        """Take the result of an event or of a stored message: JSON with `content`."""
        content = result.get("content") if isinstance(result, dict) else None
        listed = content if isinstance(content, list | tuple) else ()
        parts = [part for part in listed if isinstance(part, dict)]
        self.text = content if isinstance(content, str) else "\n".join(_texts(parts))
        self.images = tuple(_images(parts))
        self.details = result.get("details") if isinstance(result, dict) else None

    def argument(self, *names: str) -> str:
        """Return the first of these arguments that is a text; "" if there is none."""
        args = self.arguments
        return next((args[name] for name in names if isinstance(args.get(name), str)), "")

    @property
    def arguments(self) -> dict[str, Any]:
        return self.args if isinstance(self.args, dict) else {}

    @property
    def path(self) -> str:
        path = self.argument("path", "file_path")
        folder = self.cwd.rstrip("/") + "/"
        return path.removeprefix(folder) if len(folder) > 1 else path


def tool_card(
    run: ToolRun, cells: int, theme: Theme, protocol: ImageProtocol | None = None
) -> list[str]:
    """Render a call that has ended."""
    chips, body = _bodies(run)(run, max(1, cells - 2), theme)
    if run.is_error and not chips:
        chips = [theme.paint("error", "failed")]
    if run.seconds is not None:
        chips.append(theme.paint("dim", spent_time(run.seconds)))
    sign = theme.paint("error", "✗") if run.is_error else theme.paint("success", "●")
    rows = [card_head(sign, run, chips, cells, theme), *(f"  {row}".rstrip(" ") for row in body)]
    for image in run.images:
        first, *rest = image_rows(image, max(1, cells - 2), theme, protocol)
        rows += [f"  {first}", *rest]
    return rows


def running_tool(run: ToolRun, cells: int, theme: Theme, sign: str = "⠿") -> list[str]:
    """Render a call that is running: its head, and the last lines of its output."""
    chips = [theme.paint("dim", spent_time(run.seconds))] if run.seconds is not None else []
    head = card_head(theme.paint("accent", sign), run, chips, cells, theme)
    # The end is enough: a long output is not split at every draw.
    lines = output_lines(run.text[-EDGE_LINES * max(cells, 80) * 4 :])[-EDGE_LINES:]
    return [head, *(f"  {_output_row(line, max(1, cells - 2), theme)}" for line in lines)]


def shell_rows(run: ToolRun, cells: int, theme: Theme, chips: list[str]) -> list[str]:
    """Render a command that a user ran directly."""
    if run.seconds is not None:
        chips = [*chips, theme.paint("dim", spent_time(run.seconds))]
    head = card_head(theme.paint("bashMode", "!"), run, chips, cells, theme)
    return [head, *(f"  {row}" for row in edges(output_lines(run.text), max(1, cells - 2), theme))]


def card_head(sign: str, run: ToolRun, chips: list[str], cells: int, theme: Theme) -> str:
    """Return the first row of a card; its title is cut so that the chips have room."""
    name = _safe(run.name[:80])
    shown = f"{sign} {theme.paint('toolTitle', bold(name))}"
    end = f"  {theme.paint('dim', ' · ').join(chips)}" if chips else ""
    title = _safe(one_line(tool_title(run), _LONGEST_TITLE))
    room = cells - width(shown) - width(end) - 2
    if title and room > 0:
        shown += "  " + (title if width(title) <= room else f"{cut(title, room - 1)}…")
    return cut(shown + end, cells)


def tool_title(run: ToolRun) -> str:
    """Return the main argument of a call as plain text of others."""
    if run.name == "bash":
        first, _, more = run.argument("command").strip().partition("\n")
        return f"{first} …" if more else first
    if run.name in ("read", "write", "edit"):
        return run.path + (_range(run.arguments) if run.name == "read" else "")
    if run.name in ("grep", "find", "ls"):
        return _search_title(run)
    return ", ".join(
        f"{key}: {one_line(str(value), 60)}"
        for key, value in list(run.arguments.items())[:6]
        if isinstance(value, str | int | float | bool)
    )


def spent_time(seconds: float) -> str:
    """Return a duration: `0.4 s`, `12 s`, `3 min 20 s`, `1 h 05 min`."""
    if seconds < 9.95:
        return f"{max(0.0, seconds):.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes = whole // 60
    if minutes < 60:
        return f"{minutes} min {whole % 60:02} s"
    return f"{minutes // 60} h {minutes % 60:02} min"


def output_lines(text: str) -> list[str]:
    """Return the lines of a program's output; of a line that was written over, the last state."""
    lines = text.replace("\r\n", "\n").rstrip("\n").split("\n") if text.strip() else []
    return [line.rstrip("\r").rpartition("\r")[2] if "\r" in line else line for line in lines]


def edges(
    lines: list[str], cells: int, theme: Theme, *, role: str = "toolOutput", language: str = ""
) -> list[str]:
    """Return rows for the first and last lines, and one for those between them."""
    hidden = len(lines) - 2 * EDGE_LINES
    if hidden <= 1:
        return _part(lines, cells, theme, role, language)
    above = _part(lines[:EDGE_LINES], cells, theme, role, language)
    below = _part(lines[-EDGE_LINES:], cells, theme, role, language)
    return [*above, cut(more_lines(hidden, theme), cells), *below]


def _part(lines: list[str], cells: int, theme: Theme, role: str, language: str) -> list[str]:
    if not language:
        return [_output_row(line, cells, theme, role) for line in lines]
    colours = CodeColours(language, theme)
    return [_shortened(colours.line(line[: cells * 4]), cells) for line in lines]


def _output_row(line: str, cells: int, theme: Theme, role: str = "toolOutput") -> str:
    # A character has seldom more than four code points; a very long line is not measured whole.
    return theme.paint(role, _shortened(_safe(line[: cells * 8]), cells))


def _shortened(row: str, cells: int) -> str:
    row = row.replace("\n", " ")
    return row if width(row) <= cells else f"{cut(row, cells - 1)}…"


# ---------------------------------------------------------------- bodies of known tools

_Body = tuple[list[str], list[str]]


def _bodies(run: ToolRun) -> Callable[[ToolRun, int, Theme], _Body]:
    if run.name == "bash":
        return _bash_body
    if run.is_error:
        return _other_body
    return {"read": _read_body, "write": _write_body, "edit": _edit_body}.get(run.name, _other_body)


def _bash_body(run: ToolRun, cells: int, theme: Theme) -> _Body:
    ended = _EXIT.search(run.text[-200:])
    text = run.text[: len(run.text) - len(ended[0])] if ended is not None else run.text
    chips = [theme.paint("error", f"exit {ended[1]}")] if ended is not None else []
    failed = run.is_error and ended is None
    return chips, edges(output_lines(text), cells, theme, role="error" if failed else "toolOutput")


def _read_body(run: ToolRun, cells: int, theme: Theme) -> _Body:
    return [], edges(output_lines(run.text), cells, theme, language=language_of(run.path))


def _write_body(run: ToolRun, cells: int, theme: Theme) -> _Body:
    content = run.argument("content")
    changes = edit_changes({"oldText": "", "newText": content.removesuffix("\n")})
    for number, line in enumerate(changes.lines, start=1):
        line.number = str(number)
    return _changed(changes, cells, theme, _WRITTEN_LINES)


def _edit_body(run: ToolRun, cells: int, theme: Theme) -> _Body:
    stored = run.details.get("diff") if isinstance(run.details, dict) else None
    args = run.arguments
    changes = numbered_changes(stored) if isinstance(stored, str) else edit_changes(args)
    if not changes.lines:
        return _other_body(run, cells, theme)
    return _changed(changes, cells, theme, (30, 10))


def _changed(changes: FileChanges, cells: int, theme: Theme, shown: tuple[int, int]) -> _Body:
    first, last = shown
    counts = diff_counts(changes, theme)
    return [counts] if counts else [], diff_rows(changes, cells, theme, first=first, last=last)


def _other_body(run: ToolRun, cells: int, theme: Theme) -> _Body:
    role = "error" if run.is_error else "toolOutput"
    return [], edges(output_lines(run.text), cells, theme, role=role)


def _search_title(run: ToolRun) -> str:
    pattern, path = run.argument("pattern"), run.path
    words = [pattern] if pattern else []
    if path or not pattern:
        words.append(f"in {path}" if pattern else path or ".")
    if glob := run.argument("glob"):
        words.append(f"({glob})")
    return " ".join(words)


def _range(args: Mapping[str, Any]) -> str:
    first, limit = args.get("offset"), args.get("limit")
    if not isinstance(first, int) and not isinstance(limit, int):
        return ""
    start = first if isinstance(first, int) else 1
    return f":{start}–{start + limit - 1 if isinstance(limit, int) else ''}"


def _texts(parts: list[dict[str, Any]]) -> list[str]:
    texts = (part.get("text") for part in parts if part.get("type") == "text")
    return [text for text in texts if isinstance(text, str)]


def _images(parts: list[dict[str, Any]]) -> list[Image]:
    images = []
    for part in parts:
        data, mime_type = part.get("data"), part.get("mimeType")
        if part.get("type") == "image" and isinstance(data, str) and isinstance(mime_type, str):
            images.append(Image(data=data, mime_type=mime_type))
    return images


def _safe(text: str) -> str:
    return plain(text).replace("\n", " ")
