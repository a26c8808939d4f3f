"""The stored sessions of a project or of all: listed, renamed, put into the trash."""

from pathlib import Path

from ludolf.base import CommandError, now_ms
from ludolf.engine.parts import Parts
from ludolf.session.finder import SessionRecord, list_sessions
from ludolf.session.reader import NotASession
from ludolf.session.tree import open_session


class Library:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def list(self, *, everywhere: bool) -> list[SessionRecord]:
        """The last used first."""
        return list_sessions(self._parts.place, everywhere=everywhere)

    def rename(self, path: str, name: str) -> None:
        """Name a stored session other than the current one.

        Raises:
            CommandError: there is no such session, it is in use, or the name is empty.
        """
        if not name.strip():
            raise CommandError("Session name cannot be empty")
        target = self._existing(path)
        try:
            session = open_session(target, self._parts.place.cwd, self._parts.warn)
        except NotASession as error:
            raise CommandError(str(error)) from error
        try:
            session.set_name(name)
        finally:
            session.close()

    def delete(self, path: str) -> Path:
        """Move a session file to the trash folder; returns where it is now.

        Raises:
            CommandError: there is no such session, or it is the current one.
        """
        target = self._existing(path)
        if self.is_current(path):
            raise CommandError("Cannot delete the current session. Switch to another one first.")
        try:
            open_session(target, self._parts.place.cwd, self._parts.warn, write=False)
        except NotASession as error:
            raise CommandError(str(error)) from error
        trash = self._parts.home.agent / "trash"
        trash.mkdir(mode=0o700, parents=True, exist_ok=True)
        kept = trash / target.name
        if kept.exists():
            kept = trash / f"{target.stem}-{now_ms()}{target.suffix}"
        target.rename(kept)
        return kept

    def is_current(self, path: str) -> bool:
        current = self._parts.session.path
        # By what it is, not by how it is spelt.
        return current is not None and current.resolve() == self._resolve(path).resolve()

    def _resolve(self, path: str) -> Path:
        return Path(self._parts.place.cwd, path).expanduser()

    def _existing(self, path: str) -> Path:
        target = self._resolve(path)
        if not target.is_file():
            raise CommandError(f"File not found: {path}")
        return target
