"""Where prompts are written: the editor with history, search, completion and images."""

import base64
import os
import re
from collections.abc import Sequence
from typing import Any, Protocol
from urllib.parse import unquote

from ludolf.tui.bindings import Bindings
from ludolf.tui.cells import cut, plain
from ludolf.tui.complete import (
    CompletionMenu,
    CompletionQuery,
    Suggestion,
    command_suggestions,
    common_beginning,
    path_suggestions,
    query_at,
)
from ludolf.tui.editor import LineEditor
from ludolf.tui.keys import InputEvent, KeyPress, Paste
from ludolf.tui.prompt_history import HistorySearch, PromptHistory

EDITOR_ROWS = 10
PLACEHOLDER = "Type a task, / for commands, @ for files"
_IMAGE_NAME = re.compile(r"\.(png|jpe?g|gif|webp)$", re.IGNORECASE)
_MARKER = re.compile(r"\[image (\d+)\]")
_MOST_DROPPED = 4096
_LARGEST_IMAGE = 16 * 1024 * 1024


class AreaWriter(Protocol):
    """Styles the rows of the area."""

    cells: int
    is_ascii: bool

    def styled(self, role: str, text: str) -> str: ...


class PromptArea:
    """The editor and what belongs to it.

    Args:
        bindings: The keys of the editor.
        history: The prompts of this folder.
        cwd: The folder that typed paths begin in.
        home: The folder that `~` stands for.
    """

    def __init__(self, bindings: Bindings, history: PromptHistory, cwd: str, home: str) -> None:
        self.editor = LineEditor(bindings)
        # Commands by name, with their descriptions.
        self.commands: Sequence[tuple[str, str]] = ()
        # Commands whose arguments can be completed.
        self.completing: set[str] = set()
        self.menu: CompletionMenu | None = None
        self._bindings = bindings
        self._history = history
        self._search: HistorySearch | None = None
        self._images: dict[int, dict[str, Any]] = {}
        self._cwd, self._home = cwd, home
        # The place where the user closed the menu.
        self._closed_at: int | None = None

    # ------------------------------------------------------------ the text

    @property
    def is_empty(self) -> bool:
        return not self.editor.text

    def take(self) -> tuple[str, list[dict[str, Any]]]:
        """Return the prompt and its images, and empty the editor."""
        shown = {int(found[1]) for found in _MARKER.finditer(self.editor.text)}
        images = [image for number, image in self._images.items() if number in shown]
        text = self.editor.take()
        self._images.clear()
        self._close()
        return text, images

    def put_back(self, text: str) -> None:
        """Put a text before what is written."""
        rest = self.editor.text
        self.editor.text = f"{text}\n\n{rest}" if rest.strip() else text
        self._close()

    def clear(self) -> None:
        """Empty the editor; the history keeps what was written."""
        self._history.add(self.editor.expanded())
        self.editor.take()
        self._images.clear()
        self._close()

    def add_image(self, data: str, mime: str) -> None:
        """Add an image, base64, at the cursor."""
        number = len(self._images) + 1
        self._images[number] = {"type": "image", "data": data, "mimeType": mime}
        self.editor.insert(f"[image {number}] ")

    def attach_file(self, path: str) -> bool:
        """Add the image of a file; returns False if it is not one, or is too large."""
        kind = _IMAGE_NAME.search(path)
        try:
            if kind is None or os.path.getsize(path) > _LARGEST_IMAGE:
                return False
            with open(path, "rb") as file:
                data = file.read(_LARGEST_IMAGE)
        except OSError:
            return False
        mime = kind[1].lower().replace("jpg", "jpeg")
        self.add_image(base64.b64encode(data).decode(), f"image/{mime}")
        return True

    def remember(self, text: str) -> None:
        self._history.add(text)

    # ------------------------------------------------------------ keys

    def handle(self, event: InputEvent) -> bool:
        """Obey a key or a paste; returns whether it was for the area."""
        if isinstance(event, Paste):
            return self._paste(event)
        if not isinstance(event, KeyPress):
            return False
        if self._search is not None and self._search_key(event):
            return True
        if self.menu is not None and self._menu_key(event):
            return True
        if self._bindings.matches(event, "tui.input.tab"):
            return self._complete_path()
        is_taken = self._edit(event)
        if is_taken:
            self._complete()
        return is_taken

    def _edit(self, key: KeyPress) -> bool:
        if self._bindings.matches(key, "app.history.search"):
            self._search = HistorySearch(self._history)
            return True
        if self.editor.handle(key):
            return True
        if self._bindings.matches(key, "tui.editor.cursorUp"):
            return self._walk(self._history.older(self.editor.text))
        if self._bindings.matches(key, "tui.editor.cursorDown"):
            return self._walk(self._history.newer())
        return False

    def _walk(self, text: str | None) -> bool:
        if text is not None:
            self.editor.text = text
            self._close()
        return True

    def _paste(self, event: Paste) -> bool:
        path = self._dropped(event.text)
        if path is None:
            self.editor.handle(event)
        elif not self.attach_file(os.path.join(self._cwd, path)):
            self.editor.insert(f'@"{path}" ' if " " in path else f"@{path} ")
        self._complete()
        return True

    def _dropped(self, text: str) -> str | None:
        """Return the path of a file that was dropped on the terminal; None for other text."""
        word = text.strip().strip("'\"").replace("\\ ", " ")
        if word.startswith("file://"):
            word = unquote(word.removeprefix("file://"))
        is_path = word.startswith("/") and "\n" not in word and len(word) < _MOST_DROPPED
        if not is_path or "\0" in word or not os.path.exists(word):
            return None
        inside = os.path.relpath(word, self._cwd)
        return word if inside.startswith("..") else inside

    # ------------------------------------------------------------ history search

    def _search_key(self, key: KeyPress) -> bool:
        assert self._search is not None
        if self._search.handle(key):
            return True
        match, is_found, self._search = self._search.match, self._search.found, None
        if not is_found or key.name in ("escape", "ctrl+c", "ctrl+g"):
            return True
        if match:
            self.editor.text = match
        return key.name == "tab"

    # ------------------------------------------------------------ completion

    def wanted(self) -> CompletionQuery | None:
        """Return the query for files or arguments whose answer is missing."""
        query = self._query()
        if query is None or query.kind == "command" or self._closed_at == query.start:
            return None
        return None if self.menu is not None and self.menu.query == query else query

    def offer(self, query: CompletionQuery, items: Sequence[Suggestion]) -> None:
        """Show suggestions, if the text still asks for them."""
        if query != self._query():
            return
        # Arguments that are complete are sent by Enter.
        is_over = query.kind == "arguments" and any(one.text == query.query for one in items)
        self.menu = CompletionMenu(query, items) if items and not is_over else None

    def _query(self) -> CompletionQuery | None:
        return query_at(self.editor.text, self.editor.cursor, self.completing)

    def _complete(self) -> None:
        query = self._query()
        if query is None or self._closed_at != query.start:
            self._closed_at = None
        if query is None or self._closed_at is not None:
            self.menu = None
        elif query.kind == "command":
            self.offer(query, command_suggestions(query.query, self.commands))
        elif self.menu is not None and self.menu.query.kind != query.kind:
            self.menu = None

    def _menu_key(self, key: KeyPress) -> bool:
        assert self.menu is not None
        matches = self._bindings.matches
        if matches(key, "tui.select.up"):
            self.menu.move(-1)
        elif matches(key, "tui.select.down"):
            self.menu.move(1)
        elif matches(key, "tui.input.tab"):
            self._accept()
        elif matches(key, "tui.input.submit"):
            is_command = self.menu.query.kind == "command"
            self._accept()
            return not is_command  # a command is sent at once
        elif matches(key, "app.interrupt"):
            self._closed_at = self.menu.query.start
            self.menu = None
        else:
            return False
        return True

    def _accept(self) -> None:
        assert self.menu is not None
        query, chosen = self.menu.query, self.menu.chosen
        self.menu = None
        self.editor.replace(query.start, self.editor.cursor, chosen.text)
        if chosen.goes_on:
            self._complete()

    def _complete_path(self) -> bool:
        editor = self.editor
        start, items = path_suggestions(editor.text, editor.cursor, self._cwd, self._home)
        if not items:
            return True
        query = CompletionQuery("path", start, editor.text[start : editor.cursor])
        common = common_beginning(items)
        if len(items) == 1 or len(common) > len(query.query):
            editor.replace(start, editor.cursor, common)
            self.menu = None
        else:
            self.menu = CompletionMenu(query, items)
        return True

    def _close(self) -> None:
        self.menu = None
        self._search = None
        self._closed_at = None

    # ------------------------------------------------------------ rows

    def rows(self, writer: AreaWriter, most: int) -> tuple[list[str], tuple[int, int]]:
        """Return the rows of the editor and the menu, and the place of the cursor."""
        if self._search is not None:
            return self._search_rows(writer)
        menu = [] if self.menu is None else self.menu.rows(writer.cells - 2, most - 1)
        editor_rows = max(1, min(EDITOR_ROWS, most - len(menu)))
        rows, (row, column) = self.editor.rows(writer.cells - 2, editor_rows)
        if self.is_empty:
            rows = [writer.styled("dim", cut(PLACEHOLDER, writer.cells - 2))]
        role = "bashMode" if self.editor.text.startswith("!") else "accent"
        shown = [
            (writer.styled(role, "> ") if number == 0 else "  ") + each
            for number, each in enumerate(rows)
        ]
        for text, is_chosen in menu:
            mark = (">" if writer.is_ascii else "❯") if is_chosen else " "
            shown.append(writer.styled("accent" if is_chosen else "muted", f"{mark} {text}"))
        return shown, (row, column + 2)

    def _search_rows(self, writer: AreaWriter) -> tuple[list[str], tuple[int, int]]:
        assert self._search is not None
        state = "" if self._search.found else " (nothing found)"
        head = f"Search{state}: {self._search.query}"
        match = " ".join(plain(self._search.match).split())
        rows = [
            writer.styled("accent", cut(head, writer.cells)),
            writer.styled("muted", cut(f"  {match}", writer.cells)),
        ]
        return rows, (0, min(writer.cells, len(head)))
