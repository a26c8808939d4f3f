"""Entries in full, for the pager."""

from collections.abc import Iterable, Mapping
from typing import Any

from ludolf.tui.cards import ToolRun, card_head, output_lines, tool_card
from ludolf.tui.cells import plain, wrap
from ludolf.tui.drawing import Drawing, whole_entry
from ludolf.tui.rows import EntryRows

_Frame = dict[str, Any]


class WholeEntries:
    """Renders entries in full, for the pager.

    Args:
        drawing: Theme and signs.
        entries: All entries, which hold the calls of results.
    """

    def __init__(self, drawing: Drawing, entries: Iterable[_Frame]) -> None:
        self._drawing = drawing
        self._calls = {str(call.get("id")): call for call in _calls(entries)}

    def rows(self, entry: _Frame, cells: int) -> list[str]:
        """Return the rows of an entry, the first one blank."""
        message = entry.get("message")
        role = message.get("role") if isinstance(message, dict) else ""
        if isinstance(message, dict) and role == "toolResult":
            rows = self._result(message, cells)
        elif isinstance(message, dict) and role == "bashExecution":
            run = ToolRun(name="bash", args={"command": message.get("command")})
            run.text = str(message.get("output") or "")
            rows = self._output(run, cells, "!")
        else:
            drawing = self._drawing
            own = EntryRows(drawing.theme, cells, cwd=drawing.cwd, show_thinking=True)
            rows = own.rows(whole_entry(entry))
        return self._drawing.shown(["", *rows]) if rows else []

    def _result(self, message: Mapping[str, Any], cells: int) -> list[str]:
        call = self._calls.get(str(message.get("toolCallId")), {})
        is_error = bool(message.get("isError"))
        run = ToolRun(
            name=str(message.get("toolName")),
            args=call.get("arguments"),
            is_error=is_error,
            cwd=self._drawing.cwd,
        )
        run.take(message)
        if run.name in ("edit", "write") and not is_error:
            return tool_card(run, cells, self._drawing.theme)
        return self._output(run, cells, "✗" if is_error else "●")

    def _output(self, run: ToolRun, cells: int, sign: str) -> list[str]:
        theme = self._drawing.theme
        rows = [
            card_head(
                theme.paint("error" if run.is_error else "accent", sign), run, [], cells, theme
            )
        ]
        command = plain(run.argument("command"))
        if "\n" in command:
            rows += [f"  $ {row}" for line in command.split("\n") for row in wrap(line, cells - 4)]
        for line in output_lines(run.text):
            rows += [f"  {theme.paint('toolOutput', row)}" for row in wrap(plain(line), cells - 2)]
        return rows


def _calls(entries: Iterable[_Frame]) -> Iterable[_Frame]:
    for entry in entries:
        message = entry.get("message")
        content = message.get("content") if isinstance(message, dict) else None
        for block in content if isinstance(content, list) else ():
            if isinstance(block, dict) and block.get("type") == "toolCall":
                yield block
