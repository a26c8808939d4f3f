"""Stored sessions other than the open one: list, rename, delete."""

from pathlib import Path

from ludolf.base import CommandError
from ludolf.engine.conversation import Conversation
from ludolf.session.finder import SessionRecord, list_sessions


class Library:
    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation

    def list(self, *, everywhere: bool) -> list[SessionRecord]:
        """List sessions, the last used first."""
        return list_sessions(self._conversation.place, everywhere=everywhere)

    def rename(self, path: str, name: str) -> None:
        """Name a stored session other than the current one.

        Raises:
            CommandError: the session does not exist or is in use, or the name is empty.
        """
        from ludolf.session.library import rename

        rename(self._conversation.place, path, name, self._conversation.hub.report)

    def delete(self, path: str) -> Path:
        """Move a session file to the trash folder; returns where it is now.

        Raises:
            CommandError: the session does not exist, or is the current one.
        """
        from ludolf.session.library import trash

        if self.is_current(path):
            raise CommandError("Cannot delete the current session. Switch to another one first.")
        return trash(self._conversation.place, path, self._conversation.hub.report)

    def is_current(self, path: str) -> bool:
        from ludolf.session.library import resolve

        current = self._conversation.session.path
        if current is None:
            return False
        # Compare the files, not the spelling of their paths.
        return current.resolve() == resolve(self._conversation.place, path).resolve()
