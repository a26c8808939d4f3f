"""Replace the session: new, switch, fork, clone. Features may veto a change."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from ludolf.base import CommandError, check_path, expand_user
from ludolf.config.models.selection import as_level
from ludolf.engine.bundles import Bundles, Component
from ludolf.engine.conversation import Conversation
from ludolf.engine.feature import SessionMove, Vetoed
from ludolf.protocol.results import OpenedSession
from ludolf.session.entries import SessionHeader, ThinkingLevelChangeBody
from ludolf.session.finder import SessionRecord, check_cwd, list_sessions, newest
from ludolf.session.reader import NotASession, read_header
from ludolf.session.store import check_not_held
from ludolf.session.tree import Session, new_session, open_session

if TYPE_CHECKING:
    from ludolf.extensions.host import Setup, Then


SAVE_AGAIN_SECONDS = 1.0


def _folder_at(path: str, cwd: str, home: Path) -> Path:
    return Path(os.path.normpath(Path(cwd, expand_user(check_path(path), home))))


class SessionSwitcher(Component):
    """Every change first stops what runs; the previous session is stored and closed.

    All changes raise Vetoed if a feature refuses them; nothing has changed then.
    """

    def __init__(
        self,
        bundles: Bundles,
        stop: Callable[[], Awaitable[None]],
        enter_folder: Callable[[str], None],
    ) -> None:
        super().__init__(bundles)
        self._stop = stop
        self._enter_folder = enter_folder
        # Sessions that were left while the disk refused their last entries.
        self.unsaved: list[Session] = []
        self._timer: asyncio.TimerHandle | None = None

    def save_all(self) -> None:
        """Store entries that the disk refused, and schedule another attempt if it still does."""
        for session in tuple(self.unsaved):
            session.flush()
            if not session.unsaved:
                self.unsaved.remove(session)
                session.close()
        if self.conversation.session.unsaved:
            self.conversation.session.flush()
        self._cancel_timer()
        if self.unsaved or self.conversation.session.unsaved:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(SAVE_AGAIN_SECONDS, self.save_all)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def close(self) -> None:
        """Store the rest, for the last time."""
        self._cancel_timer()
        for session in self.unsaved:
            session.close()
        self.unsaved = []

    async def new(
        self, parent: str | None, *, setup: "Setup | None" = None, then: "Then | None" = None
    ) -> None:
        """Begin an empty session; `setup` may write its first entries.

        Raises:
            CommandError: no file can have the path of the parent.
        """
        if parent is not None:
            check_path(parent)
        for feature in self.features:
            await feature.before_switch("new", None)
        await self._stop()
        place, old = self.conversation.place, self.conversation.session
        folder = place.folder if old.path is not None else None
        report = self.conversation.hub.report
        session = new_session(place.cwd, folder, report, parent_session=parent)
        async with self._replaced(session, SessionMove(reason="new", then=then)):
            self.models.record()
            written = setup(session) if setup is not None else None
            if written is not None:
                await written

    async def switch(self, path: str, *, then: "Then | None" = None) -> None:
        """Raises:
        CommandError: the file is not a session, or its folder is gone or outside the sandbox.
        """
        target = self._find(path)
        for feature in self.features:
            await feature.before_switch("resume", str(target))
        self.conversation.session.flush()
        self._check(target, path)
        await self._stop()
        session = self._open(target, path)
        async with self._replaced(session, SessionMove(reason="resume", then=then)):
            if session.header.cwd:
                self._enter_folder(session.header.cwd)
            self._resume()

    async def open_folder(self, folder: str) -> OpenedSession:
        """Continue the newest conversation of a folder, or begin one in it; stay there.

        A conversation that is already open stays as it is, with its running prompt.

        Raises:
            CommandError: sessions are not stored at all, or this one cannot be opened.
        """
        conversation = self.conversation
        if conversation.session.path is None:
            raise CommandError("open_session requires session persistence (omit --no-session)")
        before = conversation.place
        target = _folder_at(folder, before.cwd, before.home)
        existing = newest(target)
        conversation.place = structs.replace(before, custom=target)
        cancelled = True
        try:
            if self._is_open(target, existing):
                pass
            elif existing is not None:
                await self.switch(str(existing))
            else:
                await self.new(None)
            cancelled = False
        except Vetoed:
            pass
        finally:
            if cancelled:
                conversation.place = before
        return OpenedSession(
            cancelled=cancelled,
            resumed=not cancelled and existing is not None,
            session_id=conversation.session.id,
            session_file=str(conversation.session.path),
        )

    def _is_open(self, folder: Path, found: Path | None) -> bool:
        session = self.conversation.session
        assert session.path is not None
        if found is not None:
            return session.path == found
        return session.path.parent == folder and not session.context.entries

    def text_at(self, entry_id: str) -> str:
        """Return the text of a user's message; empty for any other entry."""
        from ludolf.session.views import user_text

        entry = self.conversation.session.get(entry_id)
        return user_text(entry) if entry is not None else ""

    async def fork(self, entry_id: str, *, then: "Then | None" = None) -> str:
        """Begin a session with everything before a user's message; returns its text.

        Raises:
            CommandError: the entry is not a user's message.
        """
        from ludolf.session.branching import fork

        for feature in self.features:
            await feature.before_fork(entry_id, "before")
        session, report = self.conversation.session, self.conversation.hub.report
        forked, text = fork(session, entry_id, self._folder(), report)
        await self._stop()
        async with self._replaced(forked, SessionMove(reason="fork", then=then)):
            self._resume()
        return text

    async def clone(self, *, then: "Then | None" = None) -> None:
        """Raises:
        CommandError: there is nothing to copy yet.
        """
        from ludolf.session.branching import clone

        for feature in self.features:
            await feature.before_fork(self.conversation.session.leaf or "", "at")
        await self._stop()
        session, report = self.conversation.session, self.conversation.hub.report
        copy = clone(session, self._folder(), report)
        async with self._replaced(copy, SessionMove(reason="fork", then=then)):
            self._resume()

    # ------------------------------------------------------------ private

    @asynccontextmanager
    async def _replaced(self, session: Session, move: SessionMove) -> AsyncIterator[None]:
        """Replace the session; the block prepares the new one before features enter it."""
        conversation, old = self.conversation, self.conversation.session
        target = str(session.path) if session.path is not None else None
        for feature in self.features:
            await feature.leave_session(move.reason, target)
        if len(conversation.queue):
            conversation.queue.clear_texts()  # written for the conversation that is left
        conversation.replace(session)
        if old is not session:
            self.unsaved.append(old)
        self.save_all()
        yield
        entered = structs.replace(move, previous=old.path)
        for feature in self.features:
            await feature.enter_session(entered)

    def _check(self, target: Path, shown: str) -> None:
        """Raise for a file that cannot be opened, before anything is stopped for it."""
        own = (self.conversation.session, *self.unsaved)
        if not any(_is_file_of(session, target) for session in own):
            check_not_held(target)
        header = read_header(target)
        if header is not None:
            self._check_folder(header, target)
        else:
            self._open(target, shown, write=False).close()

    def _open(self, target: Path, shown: str, *, write: bool = True) -> Session:
        cwd = self.conversation.place.cwd
        self.save_all()
        for session in (self.conversation.session, *self.unsaved):
            if write and session.unsaved and session.path == target:
                self.unsaved = [other for other in self.unsaved if other is not session]
                return session
        try:
            session = open_session(target, cwd, self.conversation.hub.report, write=write)
        except NotASession as error:
            raise CommandError(str(error)) from error
        except OSError as error:
            raise CommandError(f"Cannot open session {shown}: {error.strerror}") from error
        try:
            self._check_folder(session.header, target)
        except CommandError:
            session.close()
            raise
        return session

    def _check_folder(self, header: SessionHeader, target: Path) -> None:
        check_cwd(header, target, self.conversation.place.cwd)
        if header.cwd:
            self.features.check_folder(Path(header.cwd), target)

    def _folder(self) -> Path | None:
        path = self.conversation.session.path
        return path.parent if path is not None else None

    def _find(self, path: str) -> Path:
        place = self.conversation.place
        target = Path(place.cwd, expand_user(check_path(path), place.home))
        if os.path.exists(target) and not os.path.isfile(target):
            raise CommandError(f"Session file is not a regular file: {path}")
        return target

    def _resume(self) -> None:
        """Take model and level from the conversation, if they are still available."""
        session, models = self.conversation.session, self.models
        if session.leaf is None:
            models.record()
            return
        context = session.context
        models.restore(context.model, as_level(context.thinking_level or ""))
        if context.thinking_level is None and session.read_only is None:
            session.append(ThinkingLevelChangeBody(thinking_level=models.level))


def _is_file_of(session: Session, target: Path) -> bool:
    path = session.path
    return path is not None and os.path.realpath(path) == os.path.realpath(target)


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
        from ludolf.session.library import rename, resolve

        if not self.is_current(path):
            check_not_held(resolve(self._conversation.place, path))
        rename(self._conversation.place, path, name, self._conversation.hub.report)

    def delete(self, path: str) -> Path:
        """Move a session file to the trash folder; returns where it is now.

        Raises:
            CommandError: the session does not exist, is in use, or is the current one.
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
