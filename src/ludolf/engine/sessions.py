"""Changing the conversation: new, switch, fork, clone, and moving about in its tree."""

from collections.abc import Awaitable, Callable
from pathlib import Path

from ludolf.base import CommandError
from ludolf.config.selection import as_level
from ludolf.engine.parts import Parts
from ludolf.session.entries import ThinkingLevelChange
from ludolf.session.reader import NotASession
from ludolf.session.tree import Session, new_session, open_session


class Sessions:
    """Every change first stops what runs; the session before is stored and closed."""

    def __init__(self, parts: Parts, stop: Callable[[], Awaitable[None]]) -> None:
        self._parts = parts
        self._stop = stop

    async def new(self, parent: str | None) -> None:
        await self._stop()
        place = self._parts.place
        folder = place.folder if self._parts.session.path is not None else None
        session = new_session(place.cwd, folder, self._parts.warn, parent_session=parent)
        self._replace(session)
        self._parts.models.record()

    async def switch(self, path: str) -> None:
        """Raises:
        CommandError: the file is no session, or its folder is gone.
        """
        from ludolf.session.finder import check_cwd

        place = self._parts.place
        target = self._find(path)
        await self._stop()
        self._parts.session.flush()
        try:
            session = open_session(target, place.cwd, self._parts.warn)
        except NotASession as error:
            raise CommandError(str(error)) from error
        except OSError as error:
            raise CommandError(f"Cannot open session {path}: {error.strerror}") from error
        check_cwd(session.header, target, place.cwd)
        self._replace(session)
        if session.header.cwd and session.header.cwd != place.cwd:
            self._parts.move_to(session.header.cwd)
            self._parts.resources.forget()
        self._resume()

    async def fork(self, entry_id: str) -> str:
        """A new session with all before a user's message; returns that message's text.

        Raises:
            CommandError: the entry is not a user's message.
        """
        from ludolf.session.branching import fork

        await self._stop()
        forked, text = fork(self._parts.session, entry_id, self._folder(), self._parts.warn)
        self._replace(forked)
        self._resume()
        return text

    async def clone(self) -> None:
        """Raises:
        CommandError: there is nothing to copy yet.
        """
        from ludolf.session.branching import clone

        await self._stop()
        self._replace(clone(self._parts.session, self._folder(), self._parts.warn))
        self._resume()

    # ------------------------------------------------------------ private

    def _folder(self) -> Path | None:
        path = self._parts.session.path
        return path.parent if path is not None else None

    def _find(self, path: str) -> Path:
        target = Path(self._parts.place.cwd, path).expanduser()
        if target.exists() and not target.is_file():
            raise CommandError(f"Session file is not a regular file: {path}")
        return target

    def _replace(self, session: Session) -> None:
        old, self._parts.session = self._parts.session, session
        old.close()

    def _resume(self) -> None:
        """Take model and level from the conversation, where they can still be had."""
        parts = self._parts
        context = parts.session.context
        parts.models.restore(context.model, as_level(context.thinking_level or ""))
        if context.thinking_level is None and parts.session.read_only is None:
            parts.session.append(ThinkingLevelChange(thinking_level=parts.models.level))
