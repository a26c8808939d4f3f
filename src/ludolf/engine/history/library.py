"""The stored sessions, beside the one that is open."""

from pathlib import Path

from ludolf.base import CommandError
from ludolf.engine.parts import Parts
from ludolf.session.finder import SessionRecord, list_sessions


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
        from ludolf.session.library import rename

        rename(self._parts.place, path, name, self._parts.report)

    def delete(self, path: str) -> Path:
        """Move a session file to the trash folder; returns where it is now.

        Raises:
            CommandError: there is no such session, or it is the current one.
        """
        from ludolf.session.library import trash

        if self.is_current(path):
            raise CommandError("Cannot delete the current session. Switch to another one first.")
        return trash(self._parts.place, path, self._parts.report)

    def is_current(self, path: str) -> bool:
        from ludolf.session.library import resolve

        current = self._parts.session.path
        if current is None:
            return False
        # By what it is, not by how it is spelt.
        return current.resolve() == resolve(self._parts.place, path).resolve()
