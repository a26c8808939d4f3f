"""Conversations of an SDK session: open, branch, list, name and export them."""

import os
from pathlib import Path

from ludolf.base import CommandError
from ludolf.engine.engine import Engine
from ludolf.engine.feature import TreeMove, Vetoed
from ludolf.extensions.session_view import SessionView
from ludolf.protocol.results import Moved
from ludolf.session.finder import SessionRecord
from ludolf.session.store import is_held
from ludolf.session.views import ForkMessage

FilePath = str | os.PathLike[str]


class SessionHistory:
    """The methods of `AgentSession` that change, list and read conversations.

    A change of the conversation aborts the run first. An extension may refuse a change.
    """

    @property
    def engine(self) -> Engine:
        raise NotImplementedError

    @property
    def history(self) -> SessionView:
        """Return the entries of the conversation with all its branches, for reading."""
        return SessionView(self.engine.session)

    @property
    def name(self) -> str | None:
        return self.engine.session.name

    async def new_session(self, *, parent: FilePath | None = None) -> bool:
        """Start a new conversation; returns False if an extension refused.

        `parent` is the session file that the new one refers to.
        """
        try:
            await self.engine.sessions.new(None if parent is None else os.fspath(parent))
        except Vetoed:
            return False
        return True

    async def switch_session(self, path: FilePath) -> bool:
        """Continue the conversation of a session file; returns False if an extension refused.

        >>> import asyncio
        >>> from ludolf import create_session
        >>> async def main() -> int:
        ...     async with create_session(
        ...         model="ludolf/offline", store="files", session_dir="kept"
        ...     ) as session:
        ...         await session.prompt("hello")
        ...         first = session.path
        ...         await session.new_session()
        ...         await session.switch_session(first)
        ...         return len(session.messages)
        >>> asyncio.run(main())
        2

        Raises:
            CommandError: the file is missing, is not a session, or is open in this program.
        """
        target = _openable(self.engine, path)
        try:
            await self.engine.sessions.switch(str(target))
        except Vetoed:
            return False
        return True

    def get_fork_messages(self) -> tuple[ForkMessage, ...]:
        """Return the user messages that `fork` can start before: `entry_id` and `text`."""
        from ludolf.session.views import fork_messages

        return fork_messages(self.engine.session)

    async def fork(self, entry_id: str) -> str | None:
        """Start a conversation with everything before a user message; returns its text.

        Returns None if an extension refused.

        >>> import asyncio
        >>> from ludolf import create_session
        >>> async def main() -> tuple[str | None, int]:
        ...     async with create_session(model="ludolf/offline") as session:
        ...         await session.prompt("hello")
        ...         await session.prompt("thanks")
        ...         second = session.get_fork_messages()[1]
        ...         text = await session.fork(second.entry_id)
        ...         return text, len(session.messages)
        >>> asyncio.run(main())
        ('thanks', 2)

        Raises:
            CommandError: the entry is not a user message.
        """
        try:
            return await self.engine.sessions.fork(entry_id)
        except Vetoed:
            return None

    async def clone(self) -> bool:
        """Continue in a copy of the conversation; returns False if an extension refused.

        Raises:
            CommandError: the conversation is empty.
        """
        try:
            await self.engine.sessions.clone()
        except Vetoed:
            return False
        return True

    async def navigate_tree(
        self,
        entry_id: str,
        *,
        summarize: bool = False,
        instructions: str | None = None,
        label: str | None = None,
    ) -> Moved:
        """Continue at another entry of the conversation, on a new branch.

        At a user message the conversation continues before it, and `text` of the result is its
        text. `summarize` keeps a summary of the branch that is left. `cancelled` is set if an
        extension refused.

        Raises:
            CommandError: the entry does not exist, or the summary failed.
        """
        engine = self.engine
        if engine.session.get(entry_id) is None:
            raise CommandError(f"Entry not found: {entry_id}")
        await engine.abort()
        return await engine.tree.go(
            TreeMove(
                target_id=entry_id, summarize=summarize, instructions=instructions, label=label
            )
        )

    def list_sessions(self, *, everywhere: bool = False) -> tuple[SessionRecord, ...]:
        """Return the stored sessions of the folder, or of all folders, the last used first."""
        return tuple(self.engine.library.list(everywhere=everywhere))

    def set_session_name(self, name: str) -> None:
        """Name this session.

        Raises:
            CommandError: the name is empty.
        """
        self.engine.set_session_name(name)

    def rename_session(self, path: FilePath, name: str) -> None:
        """Name a stored session.

        Raises:
            CommandError: the session does not exist or is in use, or the name is empty.
        """
        engine, target = self.engine, os.fspath(path)
        if engine.library.is_current(target):
            engine.set_session_name(name)
        else:
            engine.library.rename(target, name)

    def delete_session(self, path: FilePath) -> Path:
        """Move a session file to the trash folder; returns its new path.

        Raises:
            CommandError: the session does not exist, or is the current one.
        """
        return self.engine.library.delete(os.fspath(path))

    async def export_html(self, path: FilePath | None = None, *, overwrite: bool = False) -> Path:
        """Write the conversation as an HTML page; returns its path.

        Without `path` the file is named after the session, in the working folder. `overwrite`
        replaces a file that exists.

        Raises:
            CommandError: the conversation is in memory or empty, or the file exists or cannot be
                written.
        """
        output = None if path is None else os.fspath(path)
        if output is not None and not overwrite and _absolute(self.engine, output).exists():
            raise CommandError(
                f"File exists: {output}. Choose another name, or pass overwrite=True."
            )
        written = await self.engine.export_html(output, overwrite=overwrite)
        return _absolute(self.engine, written)


def _openable(engine: Engine, path: FilePath) -> Path:
    target, current = _absolute(engine, path), engine.session.path
    if not target.exists():
        raise CommandError(f"Session file not found: {target}")
    is_current = current is not None and current.exists() and current.samefile(target)
    if is_held(target) and not is_current:
        raise CommandError(f"The session {target} is already open in this program.")
    return target


def _absolute(engine: Engine, path: FilePath) -> Path:
    return Path(engine.workspace.cwd, os.path.expanduser(path))
