"""A text with a cursor: insert, delete, undo, kill ring, words. It knows nothing of keys."""

import re
from collections import deque

from ludolf.tui.cells import cluster_after, cluster_before

MARKER = re.compile(r"\[paste ([0-9]+): [0-9]+ (?:lines|letters)\]")
MOST_UNDO_STEPS = 500
MOST_UNDO_LETTERS = 4_000_000
MOST_KILLS = 30
_FORBIDDEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_WORD = re.compile(r"\w+|[^\w\s]+")


def typed_text(text: str) -> str:
    """Return the text without control characters except tabs and line feeds."""
    return _FORBIDDEN.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


class EditedText:
    """The text, its cursor, and what can be undone and yanked.

    Attributes:
        text: The text.
        cursor: An index into the text, never inside of a character or of a paste's marker.
        pastes: Texts of the markers, by number.
    """

    def __init__(self) -> None:
        self.text = ""
        self.cursor = 0
        self.pastes: dict[int, str] = {}
        self._undo: deque[tuple[str, int]] = deque(maxlen=MOST_UNDO_STEPS)
        self._undo_letters = 0
        self._kills: deque[str] = deque(maxlen=MOST_KILLS)
        self._last = ""  # the kind of the last change: type, kill, yank
        self._yanked = (0, 0)

    def settle(self) -> None:
        """End the current step: the next change can be undone alone."""
        self._last = ""

    def replace(self, start: int, end: int, new: str) -> None:
        """Put a text in place of a range; the cursor moves behind it."""
        self._keep()
        self._last = ""
        self._put(start, end, new)

    def type(self, text: str) -> None:
        """Insert what a key writes; a word is undone at once."""
        if self._last != "type" or text.isspace():
            self._keep()
        self._last = "type"
        self._put(self.cursor, self.cursor, text)

    def kill(self, start: int, end: int) -> None:
        """Delete a range; kills in a row make one entry of the ring."""
        if start == end:
            return
        killed = self.text[start:end]
        self._keep()
        if self._last != "kill":
            self._kills.append(killed)
        elif start < self.cursor:
            self._kills[-1] = killed + self._kills[-1]
        else:
            self._kills[-1] += killed
        self._put(start, end, "")
        self._last = "kill"

    def yank(self) -> None:
        """Insert the last entry of the kill ring."""
        if self._kills:
            start = self.cursor
            self.replace(start, start, self._kills[-1])
            self._yanked = (start, self.cursor)
            self._last = "yank"

    def yank_earlier(self) -> None:
        """Put the entry before it in place of what was just yanked."""
        if self._last == "yank" and len(self._kills) > 1:
            self._kills.rotate(1)
            start, end = self._yanked
            self._put(start, end, self._kills[-1])
            self._yanked = (start, self.cursor)

    def undo(self) -> None:
        """Return to the state before the last step."""
        self._last = ""
        if self._undo:
            self.text, self.cursor = self._undo.pop()
            self._undo_letters -= len(self.text)

    def forget(self) -> None:
        """Empty the text, without a way back; the kill ring stays."""
        self.text, self.cursor, self._last = "", 0, ""
        self.pastes.clear()
        self._undo.clear()
        self._undo_letters = 0

    def before(self, index: int) -> int:
        """Return the index one character, or one marker, to the left."""
        at = cluster_before(self.text, index)
        return self._edge(at, left=True)

    def after(self, index: int) -> int:
        """Return the index one character, or one marker, to the right."""
        at = cluster_after(self.text, index)
        return self._edge(at, left=False)

    def word_before(self, index: int) -> int:
        """Return the start of the word to the left; a line feed is a word."""
        head = self.text[:index]
        rest = head.rstrip(" \t")
        if rest.endswith("\n"):
            return len(rest) - 1 if rest == head else len(rest)
        start = max(rest.rfind(" "), rest.rfind("\n"), rest.rfind("\t")) + 1
        for match in _WORD.finditer(rest, start):
            start = match.start()
        return self._edge(start, left=True)

    def word_after(self, index: int) -> int:
        """Return the end of the word to the right; a line feed is a word."""
        if self.text.startswith("\n", index):
            return index + 1
        match = re.compile(r"[ \t]*(?:\w+|[^\w\s]+)?").match(self.text, index)
        end = match.end() if match else index
        return self._edge(end if end > index else self.after(index), left=False)

    def _edge(self, index: int, *, left: bool) -> int:
        """Return the index, or the edge of the marker that it is in."""
        if not self.pastes:
            return index
        start = self.text.rfind("[paste ", max(0, index - 64), index + 7)
        while start >= 0:
            match = MARKER.match(self.text, start)
            if match and match.start() < index < match.end() and int(match[1]) in self.pastes:
                return match.start() if left else match.end()
            start = self.text.rfind("[paste ", max(0, index - 64), start)
        return index

    def _put(self, start: int, end: int, new: str) -> None:
        self.text = self.text[:start] + new + self.text[end:]
        self.cursor = start + len(new)

    def _keep(self) -> None:
        """Remember the state for undo."""
        if len(self._undo) == self._undo.maxlen:
            self._undo_letters -= len(self._undo[0][0])
        self._undo.append((self.text, self.cursor))
        self._undo_letters += len(self.text)
        while self._undo_letters > MOST_UNDO_LETTERS and len(self._undo) > 1:
            self._undo_letters -= len(self._undo.popleft()[0])
