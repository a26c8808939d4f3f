"""Rows of a conversation in the theme and width of the terminal."""

from typing import Any

from ludolf.tui.cells import cut, plain, wrap
from ludolf.tui.conversation import RunningCall
from ludolf.tui.markdown import AnswerStream, markdown_rows
from ludolf.tui.theme import Theme

Frame = dict[str, Any]


class Drawing:
    """Makes the rows of a conversation."""

    def __init__(self, theme: Theme, cells: int, *, is_ascii: bool) -> None:
        self.theme = theme
        self.cells = cells
        self.is_ascii = is_ascii

    def styled(self, role: str, text: str) -> str:
        return self.theme.paint(role, text)

    def answer(self) -> AnswerStream:
        return AnswerStream(self.cells, self.theme)

    def notice(self, text: str, role: str = "muted") -> list[str]:
        return [self.styled(role, row) for row in wrap(text, self.cells)]

    def entry(self, entry: Frame) -> list[str]:
        m = entry.get("message") or {}
        return ["", *markdown_rows(str(m)[:500], self.cells, self.theme)]

    def prompt(self, message: Frame, by: str | None) -> list[str]:
        from ludolf.tui.conversation import message_text

        return ["", *(f"> {row}" for row in wrap(plain(message_text(message)), self.cells - 2)), ""]

    def thinking(self, text: str, seconds: float | None, *, shown: bool) -> list[str]:
        return self.notice(f"Thought for {seconds or 0:.0f} s")

    def card(
        self, call: RunningCall, result: Frame, *, is_error: bool, seconds: float | None
    ) -> list[str]:
        return self.notice(cut(f"{call.name} {call.args} {result}", self.cells))

    def running(self, call: RunningCall, seconds: float) -> list[str]:
        return self.notice(cut(f"{call.name} {call.args}", self.cells))

    def preview(self, name: str, args: Any) -> list[str]:
        return self.notice(f"{args}")
