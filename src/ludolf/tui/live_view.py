"""The live area of the terminal: what runs, the editor or a question, the footer."""

from pathlib import Path
from typing import Protocol

from ludolf.base import CommandError
from ludolf.tui.cells import cut, plain
from ludolf.tui.colour import ColourDepth, colour_depth
from ludolf.tui.conversation import Conversation
from ludolf.tui.dialogs import Dialog
from ludolf.tui.drawing import Drawing, protocol_of
from ludolf.tui.footer import footer_text
from ludolf.tui.prompt_area import PromptArea
from ludolf.tui.screen import Cursor
from ludolf.tui.start_options import StartOptions
from ludolf.tui.terminal import RawTerminal, TerminalTraits
from ludolf.tui.theme import Theme, built_in_theme, load_theme

# Smaller terminals have one row for the editor and one for the footer.
LEAST_COLUMNS, LEAST_LINES = 30, 8


class LiveParts(Protocol):
    """What the live area shows."""

    conversation: Conversation
    area: PromptArea
    hint: str
    is_lost: bool
    folder: str

    @property
    def dialog(self) -> Dialog | None: ...


class LiveView:
    """Rows in the theme of the terminal.

    Attributes:
        drawing: Makes rows in the current width and theme.
        problem: What is wrong with the theme that was chosen, or empty.
    """

    def __init__(self, start: StartOptions, terminal: RawTerminal, encoding: str) -> None:
        self._start = start
        self._terminal = terminal
        self._is_ascii = "utf" not in encoding.lower()
        self._is_light = False
        self._name = start.theme
        self.problem = ""
        self._title = ""
        self.theme = self._load()
        self.drawing = Drawing(
            self.theme,
            self._cells(),
            cwd=start.cwd,
            is_ascii=self._is_ascii,
            protocol=protocol_of(start.images, start.environ),
        )

    # ------------------------------------------------------------ theme and width

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders with theme files, and further files."""
        return (self._start.agent_dir / "themes", *self._start.themes)

    def _depth(self) -> ColourDepth:
        return colour_depth(self._start.environ) if self._start.has_colour else "none"

    def _load(self) -> Theme:
        try:
            return load_theme(self._name, self.folders, self._depth(), light=self._is_light)
        except CommandError as error:
            self.problem = str(error)
            return built_in_theme(self._depth(), light=self._is_light)

    def _cells(self) -> int:
        return max(1, self._terminal.size()[0] - 1)

    def use_theme(self, name: str) -> None:
        """Change the theme.

        Raises:
            CommandError: there is no such theme.
        """
        self.theme = load_theme(name, self.folders, self._depth(), light=self._is_light)
        self._name = name
        self.drawing.use(self.theme, self._cells())

    def learn(self, capabilities: TerminalTraits) -> bool:
        """Take what the terminal says about itself; returns whether rows look different now."""
        is_light = bool(capabilities.is_light)
        if is_light == self._is_light:
            return False
        self._is_light = is_light
        self.theme = self._load()
        self.drawing.use(self.theme, self._cells())
        return True

    def resized(self) -> None:
        """Take the size of the terminal."""
        self.drawing.use(self.theme, self._cells())

    # ------------------------------------------------------------ signals

    def enter_title(self, title: str) -> None:
        """Keep the title of the window for the end, and set another."""
        self._terminal.write(b"\x1b[22;2t")
        self.set_title(title)

    def leave_title(self) -> None:
        """Set the title that the window had before."""
        self._terminal.write(b"\x1b[23;2t")

    def set_title(self, title: str) -> None:
        """Set the title of the window."""
        if title != self._title:
            self._title = title
            self._terminal.write(f"\x1b]2;{plain(title)[:200]}\x07".encode("utf-8", "replace"))

    def notify(self, text: str) -> None:
        """Signal that something needs the user, as the settings say."""
        signals = {"bell": "\x07", "osc9": f"\x1b]9;Ludolf: {text}\x07"}
        signal = signals.get(self._start.notify)
        if signal is not None:
            self._terminal.write(signal.encode())

    # ------------------------------------------------------------ rows

    def compose(self, parts: LiveParts, most: int) -> tuple[list[str], Cursor]:
        """Return the rows of the live area, at most so many, and the place of the cursor."""
        columns, lines = self._terminal.size()
        if columns < LEAST_COLUMNS or lines < LEAST_LINES:
            return self._compose_small(parts)
        conversation = parts.conversation
        below = [*self._widgets(conversation, is_below=True), self._footer(parts)]
        above = ["", *self._widgets(conversation, is_below=False), self._divider(conversation)]
        room = max(1, most - len(below) - len(above))
        work = conversation.live_rows(room - 1)
        # What runs keeps some rows, however long the text in the editor is.
        middle, cursor = self._middle(parts, max(1, room - min(len(work), room // 3)))
        work = work[len(work) + len(middle) - room :] if len(work) + len(middle) > room else work
        top = [*work, *above]
        place = None if cursor is None else (len(top) + cursor[0], cursor[1])
        return [*top, *middle, *below], place

    def _middle(self, parts: LiveParts, most: int) -> tuple[list[str], Cursor]:
        if parts.dialog is not None:
            return parts.dialog.rows(self.drawing, most)
        return parts.area.rows(self.drawing, most)

    def _compose_small(self, parts: LiveParts) -> tuple[list[str], Cursor]:
        rows, cursor = self._middle(parts, 1)
        at = cursor[0] if cursor is not None else max(0, len(rows) - 1)
        place = None if cursor is None else (0, cursor[1])
        return [*rows[at : at + 1], self._footer(parts)], place

    def _divider(self, conversation: Conversation) -> str:
        line = ("-" if self._is_ascii else "─") * self.drawing.cells
        return self.drawing.styled("accent" if conversation.is_busy else "borderMuted", line)

    def _widgets(self, conversation: Conversation, *, is_below: bool) -> list[str]:
        return [
            cut(line, self.drawing.cells)
            for lines, below in conversation.widgets.values()
            if below is is_below
            for line in lines
        ]

    def _footer(self, parts: LiveParts) -> str:
        if parts.is_lost:
            return self.drawing.styled("warning", cut("The engine is gone.", self.drawing.cells))
        text = footer_text(
            parts.conversation,
            f"{parts.folder}  {parts.hint}" if parts.hint else parts.folder,
            self.drawing.cells,
            is_ascii=self._is_ascii,
        )
        return self.drawing.styled("dim", text)
