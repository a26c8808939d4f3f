"""Render tool calls with their results, and shell commands, as cards that open and close."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from ludolf.ai.messages import (
    BashExecutionMessage,
    Image,
    Part,
    ToolCall,
    ToolResultMessage,
    text_of,
)
from ludolf.page.code import block, code_box, folded, language_of
from ludolf.page.diff import Diff, edits_diff, numbered_diff
from ludolf.page.text import attribute, content, data_image, one_line, plain_lines, terminal_lines


class Card(msgspec.Struct):
    """Content of a card: a title line with chips, then its parts."""

    name: str
    title: str
    parts: list[str]
    chips: list[str] = []


def tool_card(call: ToolCall | None, result: ToolResultMessage | None, cwd: str) -> str:
    """Render a call and its result; either may be missing."""
    args = call.arguments if call is not None and isinstance(call.arguments, dict) else {}
    name = call.name if call is not None else result.tool_name if result is not None else ""
    make = _CARDS.get(name, _other_card)
    card = make(name, {**args}, result, cwd)
    state = "done"
    if result is None:
        state = "pending"
        card.chips.append(_chip("no result"))
    elif result.is_error:
        state = "failed"
        card.chips.append(_chip("failed", "bad"))
    if result is not None:
        card.parts.extend(image_figures(result.content))
    return _card_html(card, state)


def bash_card(run: BashExecutionMessage) -> str:
    """Render a command that the host ran directly."""
    chips = []
    if run.exclude_from_context:
        chips.append(_chip("not sent to the model"))
    if run.truncated:
        chips.append(_chip("output shortened"))
    failed = run.cancelled or bool(run.exit_code)
    if run.cancelled:
        chips.append(_chip("cancelled", "bad"))
    elif run.exit_code:
        chips.append(_chip(f"exit {run.exit_code}", "bad"))
    parts = [*_command(run.command), *_output(run.output, tail=True)]
    card = Card(name="$", title=_first_line(run.command), parts=parts, chips=chips)
    return _card_html(card, "failed" if failed else "done")


def image_figures(parts: tuple[Part, ...]) -> list[str]:
    return [_figure(part) for part in parts if isinstance(part, Image)]


def json_block(value: Any) -> str:
    """Render any JSON, indented and folded."""
    return code_box(_pretty(value), "json", kind="json", css="wrap")


# ---------------------------------------------------------------- cards of known tools


def _bash_card(_name: str, args: dict[str, Any], result: ToolResultMessage | None, _: str) -> Card:
    command = _text(args, "command")
    parts = [*_command(command), *_output(_result_text(result), tail=True)]
    return Card(name="$", title=_first_line(command), parts=parts, chips=[])


def _read_card(name: str, args: dict[str, Any], result: ToolResultMessage | None, cwd: str) -> Card:
    path = _text(args, "path") or _text(args, "file_path")
    title = content(_short(path, cwd)) + _range(args)
    failed = result is not None and result.is_error
    return Card(
        name=name,
        title=title,
        parts=_code(_result_text(result), "" if failed else language_of(path), 8),
        chips=[],
    )


def _write_card(
    name: str, args: dict[str, Any], result: ToolResultMessage | None, cwd: str
) -> Card:
    path = _text(args, "path") or _text(args, "file_path")
    parts = _code(_text(args, "content"), language_of(path), 20)
    if result is not None and result.is_error:
        parts += _output(_result_text(result))
    return Card(name=name, title=content(_short(path, cwd)), parts=parts, chips=[])


def _edit_card(name: str, args: dict[str, Any], result: ToolResultMessage | None, cwd: str) -> Card:
    path = _text(args, "path") or _text(args, "file_path")
    details = result.details if result is not None else None
    stored = details.get("diff") if isinstance(details, dict) else None
    diff = numbered_diff(stored) if isinstance(stored, str) else edits_diff(args)
    parts = [block(folded(diff.lines, css="diff", shown=80), "changes")] if diff.lines else []
    if result is None or result.is_error or not diff.lines:
        parts += _output(_result_text(result))
    chips = _changes_chips(diff)
    return Card(name=name, title=content(_short(path, cwd)), parts=parts, chips=chips)


def _search_card(
    name: str, args: dict[str, Any], result: ToolResultMessage | None, cwd: str
) -> Card:
    pattern, path = _text(args, "pattern"), _text(args, "path")
    words = [f"<b>{content(one_line(pattern, 160))}</b>"] if pattern else []
    if path or not pattern:
        words.append(f"{'in ' if pattern else ''}{content(_short(path or '.', cwd))}")
    if glob := _text(args, "glob"):
        words.append(f"({content(one_line(glob, 80))})")
    return Card(
        name=name, title=" ".join(words), parts=_output(_result_text(result), shown=8), chips=[]
    )


def _other_card(name: str, args: dict[str, Any], result: ToolResultMessage | None, _: str) -> Card:
    short = ", ".join(
        f"{key}: {one_line(str(value), 60)}"
        for key, value in list(args.items())[:6]
        if isinstance(value, str | int | float | bool)
    )
    parts = [json_block(args)] if args else []
    parts += _output(_result_text(result))
    return Card(name=name, title=content(one_line(short, 140)), parts=parts, chips=[])


_Make = Callable[[str, dict[str, Any], ToolResultMessage | None, str], Card]
_CARDS: dict[str, _Make] = {
    "bash": _bash_card,
    "read": _read_card,
    "write": _write_card,
    "edit": _edit_card,
    "grep": _search_card,
    "find": _search_card,
    "ls": _search_card,
}


# ---------------------------------------------------------------- parts


def _card_html(card: Card, state: str) -> str:
    chips = "".join(card.chips)
    name = f'<span class="name">{content(card.name[:80])}</span>'
    title = f'<span class="title">{card.title}</span>' if card.title else ""
    summary = f"<summary>{name}{title}{chips}</summary>"
    nothing = "" if state == "pending" else '<p class="empty">No output</p>'
    inside = "".join(card.parts) or nothing
    body = f'<div class="out">{inside}</div>' if inside else ""
    return f'<details class="call {state}" open>{summary}{body}</details>'


def _chip(text: str, css: str = "") -> str:
    return f'<span class="chip {css}">{content(text)}</span>'


def _changes_chips(diff: Diff) -> list[str]:
    chips = []
    if diff.added:
        chips.append(_chip(f"+{diff.added}", "plus"))
    if diff.removed:
        chips.append(_chip(f"−{diff.removed}", "minus"))
    return chips


def _command(command: str) -> list[str]:
    """Render the whole command if the title shows only its start."""
    lines = plain_lines(command.strip())
    if len(lines) == 1 and len(command) <= 160:
        return []
    return [code_box("\n".join(lines), "bash", kind="command", css="wrap")]


def _output(text: str, *, shown: int = 14, tail: bool = False) -> list[str]:
    if not text.strip():
        return []
    lines = terminal_lines(text.rstrip("\n"))
    return [block(folded(lines, css="wrap", shown=shown, tail=tail))]


def _code(text: str, language: str, shown: int) -> list[str]:
    if not text:
        return []
    return [code_box(text.rstrip("\n"), language, shown=shown)]


def _figure(image: Image) -> str:
    source = data_image(image.mime_type, image.data)
    if source is None:
        return f'<p class="empty">Image of type {content(image.mime_type[:60])} not shown</p>'
    return f'<figure class="image"><img src="{attribute(source)}" alt="" loading="lazy"></figure>'


def _range(args: Mapping[str, Any]) -> str:
    first, limit = args.get("offset"), args.get("limit")
    if not isinstance(first, int) and not isinstance(limit, int):
        return ""
    start = first if isinstance(first, int) else 1
    end = str(start + limit - 1) if isinstance(limit, int) else ""
    return f'<span class="range">:{start}–{end}</span>'


def _first_line(command: str) -> str:
    lines = plain_lines(command.strip())
    more = " …" if len(lines) > 1 else ""
    return content(one_line(lines[0], 160) + more)


def _short(path: str, cwd: str) -> str:
    folder = cwd.rstrip("/") + "/"
    return one_line(path.removeprefix(folder) if len(folder) > 1 else path, 200)


def _result_text(result: ToolResultMessage | None) -> str:
    return text_of(result.content, "\n") if result is not None else ""


def _text(args: Mapping[str, Any], name: str) -> str:
    value = args.get(name)
    return value if isinstance(value, str) else ""


def _pretty(value: Any) -> str:
    import json

    try:
        plain = json.dumps(value, ensure_ascii=False)
        pretty = json.dumps(value, ensure_ascii=False, indent=2)
    except RecursionError:
        return "nested too deeply to be shown"
    # Indented JSON with hundreds of levels would be mostly spaces.
    return pretty if len(pretty) < 6 * len(plain) + 200 else plain
