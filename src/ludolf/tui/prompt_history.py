"""The prompts of a folder: a file per folder, walks with the arrows, search with Ctrl+R."""

import hashlib
import os
from pathlib import Path

import msgspec

from ludolf.config.settings.files import replace_text
from ludolf.tui.keys import KeyPress

MOST_PROMPTS = 1000
MOST_PROMPT_LETTERS = 100_000
_MOST_FILE_BYTES = 16 * 1024 * 1024
_APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW


def history_path(agent_dir: Path, folder: str) -> Path:
    """Return the file of the prompts that were sent in a folder."""
    digest = hashlib.blake2b(os.fsencode(folder), digest_size=8).hexdigest()
    return agent_dir / "prompt-history" / f"{digest}.jsonl"


class PromptHistory:
    """The last prompts, oldest first, and a walk through them.

    Args:
        path: The file, which only its owner can read; one JSON string a line. It is read when it
            is first needed. A file that cannot be read or written counts as empty.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._prompts: list[str] | None = None
        self._at: int | None = None
        self._draft = ""

    @property
    def prompts(self) -> list[str]:
        """All prompts, oldest first."""
        if self._prompts is None:
            self._prompts = self._load()
        return self._prompts

    def add(self, prompt: str) -> None:
        """Keep a prompt, unless it begins with a space, is empty, or is the same as the last."""
        self.rest()
        is_kept = prompt.strip() and prompt[0] != " " and len(prompt) <= MOST_PROMPT_LETTERS
        if not is_kept or self.prompts[-1:] == [prompt]:
            return
        self.prompts.append(prompt)
        del self.prompts[:-MOST_PROMPTS]
        try:
            self._append(prompt)
        except OSError:
            return  # a folder that cannot be written to has a history for this run

    def older(self, draft: str) -> str | None:
        """Return the prompt before the current one, or None; the draft is kept for the way back."""
        at = len(self.prompts) if self._at is None else self._at
        if at == 0:
            return None
        if self._at is None:
            self._draft = draft
        self._at = at - 1
        return self.prompts[self._at]

    def newer(self) -> str | None:
        """Return the prompt after the current one, at the end the draft, then None."""
        if self._at is None:
            return None
        self._at += 1
        if self._at < len(self.prompts):
            return self.prompts[self._at]
        draft = self._draft
        self.rest()
        return draft

    def rest(self) -> None:
        """End the walk: the next one begins at the last prompt."""
        self._at, self._draft = None, ""

    def find(self, query: str, before: int | None = None) -> int | None:
        """Return the index of the last prompt that contains the query, letters of any case."""
        wanted = query.casefold()
        end = len(self.prompts) if before is None else before
        for index in range(min(end, len(self.prompts)) - 1, -1, -1):
            if wanted in self.prompts[index].casefold():
                return index
        return None

    def _load(self) -> list[str]:
        try:
            with self._path.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - _MOST_FILE_BYTES))
                lines = file.read(_MOST_FILE_BYTES).split(b"\n")
        except OSError:
            return []
        prompts = [prompt for line in lines if (prompt := _decoded(line))]
        if len(prompts) > 2 * MOST_PROMPTS:
            self._shorten(prompts[-MOST_PROMPTS:])
        return prompts[-MOST_PROMPTS:]

    def _shorten(self, prompts: list[str]) -> None:
        try:
            replace_text(self._path, b"".join(map(_encoded, prompts)).decode())
        except OSError:
            return  # it is shortened another time

    def _append(self, prompt: str) -> None:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(self._path, _APPEND, 0o600)
        try:
            os.fchmod(descriptor, 0o600)
            os.write(descriptor, b"\n" + _encoded(prompt))
        finally:
            os.close(descriptor)


def _encoded(prompt: str) -> bytes:
    return msgspec.json.encode(prompt.encode("utf-8", "replace").decode()) + b"\n"


def _decoded(line: bytes) -> str:
    try:
        return msgspec.json.decode(line, type=str)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""


class HistorySearch:
    """A search backwards through the prompts, while it is open.

    Attributes:
        query: What is searched for.
        match: The prompt that was found last, or empty.
        found: Whether the query is in it.
    """

    def __init__(self, history: PromptHistory) -> None:
        self.query = ""
        self.match = ""
        self.found = True
        self._history = history
        self._at: int | None = None

    def handle(self, key: KeyPress) -> bool:
        """Obey a key that changes the search; others end it, and the caller obeys them."""
        if key.text:
            self.query += key.text
            self._search(None if self._at is None else self._at + 1)
        elif key.name == "backspace":
            self.query = self.query[:-1]
            self._search(None)
        elif key.name == "ctrl+r":
            self._search(self._at)
        else:
            return False
        return True

    def _search(self, before: int | None) -> None:
        if not self.query:
            self.match, self.found, self._at = "", True, None
            return
        index = self._history.find(self.query, before)
        self.found = index is not None
        if index is not None:
            self._at = index
            self.match = self._history.prompts[index]
