"""Rows of a conversation in the theme and width of the terminal.

The first screen shows none of them: their modules are imported when they are needed.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ludolf.tui.cells import plain, wrap
from ludolf.tui.conversation import ASCII_SPINNER, SPINNER, SPINS_PER_SECOND, RunningCall
from ludolf.tui.images import ImageProtocol, image_protocol
from ludolf.tui.theme import Theme

if TYPE_CHECKING:
    from ludolf.tui.cards import ToolRun
    from ludolf.tui.markdown import AnswerStream
    from ludolf.tui.rows import EntryRows

_Frame = dict[str, Any]
_ASCII = str.maketrans(
    {
        **dict.fromkeys("┌┐└┘├┤┬┴┼╭╮╰╯", "+"),
        **dict.fromkeys("─━", "-"),
        **dict.fromkeys("│┃┊▏▌", "|"),
        **dict.fromkeys("●•⠿", "*"),
        **{"❯": ">", "✗": "x", "✓": "v", "·": "-", "…": "~", "×": "x", "☐": "o", "☑": "x"},
    }
)
# A preview of an approval: more is in the pager.
_PREVIEW_LINES = 200


class Drawing:
    """Makes the rows of a conversation; `use` changes theme and width.

    Args:
        theme: The colours.
        cells: The cells of a row.
        cwd: The folder of the session, which paths omit.
        is_ascii: Frames and signs are drawn in ASCII.
        protocol: How the terminal shows images.
    """

    def __init__(
        self,
        theme: Theme,
        cells: int,
        *,
        cwd: str = "",
        is_ascii: bool = False,
        protocol: ImageProtocol | None = None,
    ) -> None:
        self.theme = theme
        self.cells = cells
        self.cwd = cwd
        self.is_ascii = is_ascii
        self._protocol = protocol

    @cached_property
    def _entries(self) -> "EntryRows":
        from ludolf.tui.rows import EntryRows

        return EntryRows(self.theme, self.cells, cwd=self.cwd, protocol=self._protocol)

    def use(self, theme: Theme, cells: int) -> None:
        """Draw in another theme or width from now on."""
        self.theme = theme
        self.cells = cells
        if "_entries" in self.__dict__:
            self._entries.theme = theme
            self._entries.cells = cells

    def styled(self, role: str, text: str) -> str:
        return self.theme.paint(role, text)

    def shown(self, rows: list[str]) -> list[str]:
        """Return rows as the terminal can show them."""
        return [row.translate(_ASCII) for row in rows] if self.is_ascii else rows

    # ------------------------------------------------------------ finished rows

    def answer(self) -> "ShownAnswer":
        """Return a stream for the next answer."""
        from ludolf.tui.markdown import AnswerStream

        return ShownAnswer(self, AnswerStream(self.cells, self.theme), self._entries.separation())

    def entry(self, entry: _Frame, *, streamed: bool = False) -> list[str]:
        """Render a stored entry."""
        return self.shown(self._entries.rows(whole_entry(entry), streamed=streamed))

    def prompt(self, message: _Frame, by: str | None) -> list[str]:
        """Render a prompt, with the name of the client that sent it, if it is another one."""
        entry = whole_entry({"type": "message", "message": message})
        return self.shown(self._entries.rows(entry, sender=by or ""))

    def notice(self, text: str, role: str = "muted") -> list[str]:
        """Render a notice, which may need several rows."""
        from ludolf.tui.notices import NoticeLine

        first, *rest = [row for line in text.split("\n") for row in wrap(line, self.cells - 2)]
        rows = self._entries.notice(NoticeLine(first, role))
        return self.shown([*rows, *(self.styled(role, f"  {row}") for row in rest)])

    def event(self, frame: _Frame) -> list[str]:
        """Render an event that is a line of its own; others have no rows."""
        from ludolf.tui.notices import event_notice

        found = event_notice(frame)
        return [] if found is None else self.notice(plain(found.text), found.role)

    def thinking(self, text: str, *, shown: bool) -> list[str]:
        """Render the thinking of the model."""
        self._entries.show_thinking = shown
        return self.shown(self._entries.thinking(text))

    def result(self, frame: _Frame, seconds: float | None) -> list[str]:
        """Render a call that has ended, by the event of its end."""
        given = frame.get("result")
        result = given if isinstance(given, dict) else {}
        message = {
            "role": "toolResult",
            "toolCallId": str(frame.get("toolCallId")),
            "toolName": str(frame.get("toolName")),
            "content": result.get("content") or [],
            "isError": bool(frame.get("isError")),
            "timestamp": 0,
        }
        if "details" in result:
            message["details"] = result["details"]
        entry = whole_entry({"type": "message", "message": message})
        return self.shown(self._entries.rows(entry, seconds=seconds))

    # ------------------------------------------------------------ live rows

    def running(self, call: RunningCall, seconds: float) -> list[str]:
        """Render a call that is running."""
        from ludolf.tui.cards import ToolRun, running_tool

        run = ToolRun(name=call.name, args=call.args, seconds=seconds, cwd=self.cwd)
        run.take(call.partial)
        signs = ASCII_SPINNER if self.is_ascii else SPINNER
        sign = signs[int(seconds * SPINS_PER_SECOND) % len(signs)]
        return self.shown(running_tool(run, self.cells, self.theme, sign))

    def preview(self, name: str, args: Any) -> list[str]:
        """Return what a call of a tool would do: its command, or a diff."""
        from ludolf.tui.cards import ToolRun, tool_card

        run = ToolRun(name=name, args=args, cwd=self.cwd)
        if name == "bash":
            lines = plain(run.argument("command")).split("\n")[:_PREVIEW_LINES]
            rows = [row for line in lines for row in wrap(line, self.cells - 2)]
            return self.shown(
                [self.styled("bashMode", "$ ") + rows[0], *(f"  {r}" for r in rows[1:])]
            )
        _, *body = tool_card(run, self.cells, self.theme)
        return self.shown(body or self._argument_rows(run))

    def _argument_rows(self, run: "ToolRun") -> list[str]:
        lines = [f"{name}: {value}" for name, value in run.arguments.items()]
        text = plain("\n".join(lines)).split("\n")[:_PREVIEW_LINES]
        return [f"  {row}" for line in text if line for row in wrap(line, self.cells - 2)]


class ShownAnswer:
    """A stream whose rows the terminal can show; the first ones follow a blank row."""

    def __init__(self, drawing: Drawing, stream: "AnswerStream", before: list[str]) -> None:
        self._drawing = drawing
        self._stream = stream
        self._before = before

    @property
    def cells(self) -> int:
        return self._stream.cells

    @cells.setter
    def cells(self, cells: int) -> None:
        self._stream.cells = cells

    def feed(self, delta: str) -> list[str]:
        return self._after_gap(self._stream.feed(delta))

    def open_rows(self, most: int) -> list[str]:
        rows = self._stream.open_rows(most)
        return self._drawing.shown([*self._before, *rows][-most:] if rows and most > 0 else [])

    def end(self) -> list[str]:
        return self._after_gap(self._stream.end())

    def _after_gap(self, rows: list[str]) -> list[str]:
        if not rows:
            return []
        before, self._before = self._before, []
        return self._drawing.shown([*before, *rows])


def whole_entry(entry: _Frame) -> _Frame:
    """Return an entry with the fields that every stored one has."""
    return {"id": "live", "parentId": None, "timestamp": "1970-01-01T00:00:00.000Z", **entry}


def protocol_of(images: str, environ: Mapping[str, str]) -> ImageProtocol | None:
    """Return how to show images, by the setting and the terminal."""
    match images:
        case "kitty":
            return "kitty"
        case "iterm2":
            return "iterm2"
        case "auto":
            return image_protocol(environ)
    return None
