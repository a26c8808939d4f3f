"""Changing the conversation: new, switch, fork, clone. Extensions may veto, and start anew."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from msgspec import structs

from ludolf.base import CommandError, Value, check_path
from ludolf.config.models.selection import as_level
from ludolf.engine.parts import Parts
from ludolf.session.entries import Header, ThinkingLevelChange
from ludolf.session.reader import NotASession, read_header
from ludolf.session.tree import Session, new_session, open_session
from ludolf.session.views import user_text

if TYPE_CHECKING:
    from ludolf.extensions.host import Setup, Then

Reason = Literal["new", "resume", "fork"]
SAVE_AGAIN_SECONDS = 1.0


class Opened(Value):
    """`resumed`: the folder held a conversation."""

    cancelled: bool
    resumed: bool
    session_id: str
    session_file: str


def _folder_at(path: str, cwd: str) -> Path:
    return Path(os.path.normpath(Path(cwd, os.path.expanduser(check_path(path)))))


class Sessions:
    """Every change first stops what runs; the session before is stored and closed.

    Each returns whether an extension has cancelled the change, in which case nothing happened.
    """

    def __init__(self, parts: Parts, stop: Callable[[], Awaitable[None]]) -> None:
        self._parts = parts
        self._stop = stop
        # Left while the disk refused their last entries: kept until it takes them.
        self._unsaved: list[Session] = []
        self._again: asyncio.TimerHandle | None = None

    def save_all(self) -> None:
        """Store what the disk refused, and try again later what it still refuses."""
        for session in tuple(self._unsaved):
            session.flush()
            if not session.unsaved:
                self._unsaved.remove(session)
                session.close()
        if self._parts.session.unsaved:
            self._parts.session.flush()
        self._stop_waiting()
        if self._unsaved or self._parts.session.unsaved:
            loop = asyncio.get_running_loop()
            self._again = loop.call_later(SAVE_AGAIN_SECONDS, self.save_all)

    def _stop_waiting(self) -> None:
        if self._again is not None:
            self._again.cancel()
            self._again = None

    def close(self) -> None:
        """The last try."""
        self._stop_waiting()
        for session in self._unsaved:
            session.close()
        self._unsaved = []

    async def new(
        self, parent: str | None, *, setup: "Setup | None" = None, then: "Then | None" = None
    ) -> bool:
        """Raises:
        CommandError: no file can have the path of the parent.
        """
        if parent is not None:
            check_path(parent)
        if await self._vetoed("new", None):
            return True
        await self._stop()
        place = self._parts.place
        folder = place.folder if self._parts.session.path is not None else None
        session = new_session(place.cwd, folder, self._parts.report, parent_session=parent)

        async def begin() -> None:
            self._parts.models.record()
            made = setup(session) if setup is not None else None
            if made is not None:
                await made

        await self._replace(session, "new", begin, then)
        return False

    async def switch(self, path: str, *, then: "Then | None" = None) -> bool:
        """Raises:
        CommandError: the file is not a session, or its folder is gone or outside the sandbox.
        """
        target = self._find(path)
        if await self._vetoed("resume", str(target)):
            return True
        self._parts.session.flush()
        self._check(target, path)
        await self._stop()
        session = self._open(target, path)
        self._parts.report_exposure(target)

        async def begin() -> None:
            cwd = session.header.cwd
            if cwd and cwd != self._parts.place.cwd:
                self._parts.move_to(cwd)
                self._parts.resources.forget()
            self._resume()

        await self._replace(session, "resume", begin, then)
        return False

    async def open_folder(self, folder: str) -> Opened:
        """Carry on the newest conversation of a folder, or begin one in it; stay there.

        A conversation that is open already stays as it is, and so does what runs in it.

        Raises:
            CommandError: sessions are not stored at all, or this one cannot be opened.
        """
        from ludolf.session.finder import newest

        parts = self._parts
        if parts.session.path is None:
            raise CommandError("open_session requires session persistence (omit --no-session)")
        target = _folder_at(folder, parts.place.cwd)
        found = newest(target)
        before, parts.place = parts.place, structs.replace(parts.place, custom=target)
        cancelled = True
        try:
            if self._is_open(target, found):
                cancelled = False
            elif found is not None:
                cancelled = await self.switch(str(found))
            else:
                cancelled = await self.new(None)
        finally:
            if cancelled:
                parts.place = before
        return Opened(
            cancelled=cancelled,
            resumed=not cancelled and found is not None,
            session_id=parts.session.id,
            session_file=str(parts.session.path),
        )

    def _is_open(self, folder: Path, found: Path | None) -> bool:
        session = self._parts.session
        assert session.path is not None
        if found is not None:
            return session.path == found
        return session.path.parent == folder and not session.context.entries

    async def fork(self, entry_id: str, *, then: "Then | None" = None) -> tuple[bool, str]:
        """A new session with all before a user's message; also returns that message's text.

        Raises:
            CommandError: the entry is not a user's message.
        """
        from ludolf.session.branching import fork

        entry = self._parts.session.get(entry_id)
        text = user_text(entry) if entry is not None else ""
        if await self._fork_vetoed(entry_id, "before"):
            return True, text
        forked, text = fork(self._parts.session, entry_id, self._folder(), self._parts.report)
        await self._stop()
        await self._replace(forked, "fork", self._resume_later, then)
        return False, text

    async def clone(self, *, then: "Then | None" = None) -> bool:
        """Raises:
        CommandError: there is nothing to copy yet.
        """
        from ludolf.session.branching import clone

        if await self._fork_vetoed(self._parts.session.leaf or "", "at"):
            return True
        await self._stop()
        copy = clone(self._parts.session, self._folder(), self._parts.report)
        await self._replace(copy, "fork", self._resume_later, then)
        return False

    # ------------------------------------------------------------ extensions

    async def _vetoed(self, reason: Literal["new", "resume"], target: str | None) -> bool:
        if not self._parts.extending.wants("session_before_switch"):
            return False
        from ludolf.extensions import points
        from ludolf.extensions.payloads import SessionBeforeSwitch

        payload = SessionBeforeSwitch(reason=reason, target_session_file=target)
        return (await points.before_switch(self._parts.extending.runner, payload)).cancel

    async def _fork_vetoed(self, entry_id: str, position: Literal["before", "at"]) -> bool:
        if not self._parts.extending.wants("session_before_fork"):
            return False
        from ludolf.extensions import points
        from ludolf.extensions.payloads import SessionBeforeFork

        payload = SessionBeforeFork(entry_id=entry_id, position=position)
        return (await points.before_fork(self._parts.extending.runner, payload)).cancel

    # ------------------------------------------------------------ private

    async def _replace(
        self,
        session: Session,
        reason: Reason,
        begin: Callable[[], Awaitable[Any]],
        then: "Then | None",
    ) -> None:
        extending = self._parts.extending
        target = str(session.path) if session.path is not None else None
        await extending.leave(reason, target)
        if len(self._parts.queue):
            self._parts.queue.clear()  # it was said to the conversation that is left
        old, self._parts.session = self._parts.session, session
        if old is not session:
            self._unsaved.append(old)
        self.save_all()
        await begin()
        await extending.enter(reason, old.path, then)

    def _check(self, target: Path, shown: str) -> None:
        """Refuse what cannot be opened before anything is stopped for it."""
        header = read_header(target)
        if header is not None:
            self._check_folder(header, target)
        else:
            self._open(target, shown, write=False).close()

    def _open(self, target: Path, shown: str, *, write: bool = True) -> Session:
        cwd = self._parts.place.cwd
        self.save_all()
        for session in (self._parts.session, *self._unsaved):
            if write and session.unsaved and session.path == target:
                self._unsaved = [other for other in self._unsaved if other is not session]
                return session
        try:
            session = open_session(target, cwd, self._parts.report, write=write)
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

    def _check_folder(self, header: Header, target: Path) -> None:
        from ludolf.session.finder import check_cwd

        check_cwd(header, target, self._parts.place.cwd)
        if header.cwd:
            self._parts.check_folder(header.cwd, target)

    def _folder(self) -> Path | None:
        path = self._parts.session.path
        return path.parent if path is not None else None

    def _find(self, path: str) -> Path:
        target = Path(self._parts.place.cwd, check_path(path)).expanduser()
        if os.path.exists(target) and not os.path.isfile(target):
            raise CommandError(f"Session file is not a regular file: {path}")
        return target

    async def _resume_later(self) -> None:
        self._resume()

    def _resume(self) -> None:
        """Take model and level from the conversation, where they can still be had."""
        parts = self._parts
        context = parts.session.context
        if parts.session.leaf is None:
            parts.models.record()
            return
        parts.models.restore(context.model, as_level(context.thinking_level or ""))
        if context.thinking_level is None and parts.session.read_only is None:
            parts.session.append(ThinkingLevelChange(thinking_level=parts.models.level))
