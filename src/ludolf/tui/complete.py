"""Completion below the editor: `/` commands and their arguments, `@` files, paths by Tab."""

import os
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ludolf.tui.cells import cut, plain

MOST_ROWS = 8
MOST_FILES = 50
_COMMAND = re.compile(r"/(\S*)$")
_ARGUMENTS = re.compile(r"/(\S+) ([^\n]*)$")
_FILE = re.compile(r"(?:^|(?<=\s))@(\"[^\"\n]*|[^\s\"]*)$")
_PATH = re.compile(r"(?:^|(?<=[\s\"'(=@]))([^\s\"'(=@]*)$")


class Suggestion(msgspec.Struct, frozen=True):
    """One row of the menu. `text` replaces what was typed."""

    label: str
    text: str
    detail: str = ""
    # The menu stays open after a choice: a folder, whose files follow.
    goes_on: bool = False


class CompletionQuery(msgspec.Struct, frozen=True):
    """What to complete: text from `start` to the cursor, for arguments those of `command`."""

    kind: str
    start: int
    query: str
    command: str = ""


def query_at(text: str, cursor: int, completing: Collection[str] = ()) -> CompletionQuery | None:
    """Return what a menu should open for without Tab: a command, or a file after `@`.

    `completing` are the commands whose arguments can be completed.
    """
    before = text[:cursor]
    found = _COMMAND.match(before)
    if found is not None:
        return CompletionQuery("command", 0, found[1])
    arguments = _ARGUMENTS.match(before)
    if arguments is not None and arguments[1] in completing:
        return CompletionQuery("arguments", arguments.start(2), arguments[2], arguments[1])
    file = _FILE.search(before)
    if file is not None:
        return CompletionQuery("file", file.start(), file[1].removeprefix('"'))
    return None


def command_suggestions(query: str, commands: Sequence[tuple[str, str]]) -> list[Suggestion]:
    """Return the commands that fit, those that begin with the query first."""
    low = query.lower()
    fits = [(name, detail) for name, detail in commands if _is_within(low, name.lower())]
    fits.sort(key=lambda item: (not item[0].lower().startswith(low), low not in item[0].lower()))
    return [
        Suggestion(f"/{plain(name)}", f"/{name} ", " ".join(plain(detail).split()))
        for name, detail in fits
    ]


def _is_within(letters: str, text: str) -> bool:
    rest = iter(text)
    return all(letter in rest for letter in letters)


def file_suggestions(files: Sequence[tuple[str, bool]]) -> list[Suggestion]:
    """Return files that the server found, as mentions."""
    rows = []
    for path, is_folder in files:
        name = f"{path}/" if is_folder else path
        quoted = f'@"{name}"' if " " in name else f"@{name}"
        text = quoted if is_folder else f"{quoted} "
        rows.append(Suggestion(plain(name), text, goes_on=is_folder))
    return rows


def argument_suggestions(items: Sequence[Mapping[str, Any]]) -> list[Suggestion]:
    """Return completions of arguments that the server found."""
    rows = []
    for item in items:
        value, detail = str(item.get("value")), " ".join(str(item.get("description") or "").split())
        rows.append(Suggestion(plain(str(item.get("label") or value)), value, plain(detail)))
    return rows


def path_suggestions(text: str, cursor: int, cwd: str, home: str) -> tuple[int, list[Suggestion]]:
    """Return where the path before the cursor begins, and the paths that begin so."""
    found = _PATH.search(text[:cursor])
    if found is None:
        return cursor, []
    typed = found[1]
    folder, _, name = typed.rpartition("/")
    shown = typed[: len(typed) - len(name)]
    place = Path(
        cwd,
        os.path.join(home, folder[2:])
        if folder[:2] in ("~", "~/")
        else folder or ("/" if typed.startswith("/") else "."),
    )
    rows = []
    try:
        with os.scandir(place) as entries:
            for entry in entries:
                if entry.name.startswith(name) and (name or not entry.name.startswith(".")):
                    end = "/" if entry.is_dir() else ""
                    rows.append((entry.name + end, shown + entry.name + end, bool(end)))
    except OSError:
        return found.start(1), []
    rows.sort()
    return found.start(1), [Suggestion(plain(a), b, goes_on=c) for a, b, c in rows[:MOST_FILES]]


class CompletionMenu:
    """The suggestions for one place in the text.

    Attributes:
        query: What is completed.
        items: The suggestions.
    """

    def __init__(self, query: CompletionQuery, items: Sequence[Suggestion]) -> None:
        self.query = query
        self.items = list(items)
        self._at = 0

    @property
    def chosen(self) -> Suggestion:
        return self.items[self._at]

    def move(self, rows: int) -> None:
        self._at = (self._at + rows) % len(self.items)

    def rows(self, cells: int, most: int) -> list[tuple[str, bool]]:
        """Return rows without styles, each with whether it is the chosen one."""
        most = max(1, min(most, MOST_ROWS))
        top = max(0, min(self._at - most // 2, len(self.items) - most))
        shown = self.items[top : top + most]
        widest = max((len(each.label) for each in shown), default=0)
        column = min(widest, cells // 2)
        return [
            (cut(f"{each.label:<{column}}  {each.detail}".rstrip(), cells), top + n == self._at)
            for n, each in enumerate(shown)
        ]


def common_beginning(items: Sequence[Suggestion]) -> str:
    """Return what all suggestions begin with."""
    first, last = min(each.text for each in items), max(each.text for each in items)
    same = 0
    while same < min(len(first), len(last)) and first[same] == last[same]:
        same += 1
    return first[:same]
