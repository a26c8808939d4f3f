"""Typed commands: the conversation, its tree, and stored sessions."""

from ludolf.client.base import CommandSender
from ludolf.protocol.results import (
    HandedOver,
    Moved,
    OpenedSession,
)
from ludolf.protocol.wire.answers import (
    Conversation,
    ConversationPage,
    Entries,
    Exported,
    Forked,
    ForkMessages,
    SessionChange,
    Sessions,
    Trashed,
    Tree,
)
from ludolf.protocol.wire.stored import StoredMessage
from ludolf.session.finder import SessionRecord
from ludolf.session.views import ForkMessage


class SessionCommands(CommandSender):
    """Where the conversation stands and where it is kept. Each method sends the command of its
    name. A change of session first ends what runs; `cancelled` says that an extension refused it.
    """

    async def get_messages(self) -> tuple[StoredMessage, ...]:
        """The conversation as the model sees it, oldest first."""
        found: Conversation = await self._call("get_messages")
        return found.messages

    async def get_messages_page(
        self, cursor: str | None = None, limit: int | None = None
    ) -> ConversationPage:
        """The same a page at a time.

        Raises:
            Refused: the cursor is stale, or the agent runs (see `code`).
        """
        page: ConversationPage = await self._call("get_messages_page", cursor=cursor, limit=limit)
        return page

    async def new_session(self, parent_session: str | None = None) -> SessionChange:
        """Begin a new conversation."""
        change: SessionChange = await self._call("new_session", parent_session=parent_session)
        return change

    async def switch_session(self, session_path: str) -> SessionChange:
        """Open a stored session.

        Raises:
            Refused: the file is not a session.
        """
        change: SessionChange = await self._call("switch_session", session_path=session_path)
        return change

    async def fork(self, entry_id: str) -> Forked:
        """A new session with all before a message of the user's; returns its text."""
        forked: Forked = await self._call("fork", entry_id=entry_id)
        return forked

    async def branch(self, entry_id: str) -> Forked:
        """Another name for `fork`."""
        forked: Forked = await self._call("branch", entry_id=entry_id)
        return forked

    async def clone(self) -> SessionChange:
        """A new session with the same conversation."""
        change: SessionChange = await self._call("clone")
        return change

    async def get_fork_messages(self) -> tuple[ForkMessage, ...]:
        """The messages that a fork can begin before."""
        found: ForkMessages = await self._call("get_fork_messages")
        return found.messages

    async def get_branch_messages(self) -> tuple[ForkMessage, ...]:
        """Another name for `get_fork_messages`."""
        found: ForkMessages = await self._call("get_branch_messages")
        return found.messages

    async def get_entries(self, since: str | None = None) -> Entries:
        """Return the entries after one, in the order of the file."""
        entries: Entries = await self._call("get_entries", since=since)
        return entries

    async def get_tree(self) -> Tree:
        """The entries as a tree. Of a very long conversation `get_entries` is to be preferred."""
        tree: Tree = await self._call("get_tree")
        return tree

    async def navigate_tree(
        self,
        target_id: str,
        *,
        summarize: bool = False,
        custom_instructions: str | None = None,
        replace_instructions: bool = False,
        label: str | None = None,
    ) -> Moved:
        """Move to another entry of the tree, optionally with a summary of the abandoned branch."""
        moved: Moved = await self._call(
            "navigate_tree",
            target_id=target_id,
            summarize=summarize,
            custom_instructions=custom_instructions,
            replace_instructions=replace_instructions,
            label=label,
        )
        return moved

    async def open_session(self, session_dir: str) -> OpenedSession:
        """Go on with the newest conversation of a folder, or begin one there.

        Raises:
            Refused: sessions are not stored.
        """
        opened: OpenedSession = await self._call("open_session", session_dir=session_dir)
        return opened

    async def handoff(self, custom_instructions: str | None = None) -> HandedOver | None:
        """Continue in a new session that begins with a summary written by the model.

        Raises:
            Refused: the agent runs, there is nothing to hand over, or the model failed.
        """
        done: HandedOver | None = await self._call(
            "handoff", custom_instructions=custom_instructions
        )
        return done

    async def set_session_name(self, name: str) -> None:
        """Name this session."""
        await self._call("set_session_name", name=name)

    async def list_sessions(self, *, all: bool = False) -> tuple[SessionRecord, ...]:
        """Stored sessions of this folder, or of all; the last used first."""
        found: Sessions = await self._call("list_sessions", all=all)
        return found.sessions

    async def rename_session(self, session_path: str, name: str) -> None:
        """Name a stored one."""
        await self._call("rename_session", session_path=session_path, name=name)

    async def delete_session(self, session_path: str) -> str:
        """Move a session's file to the trash; returns where it is now."""
        trashed: Trashed = await self._call("delete_session", session_path=session_path)
        return trashed.moved_to

    async def export_html(self, output_path: str | None = None) -> str:
        """Write the conversation as one page; returns its path."""
        exported: Exported = await self._call("export_html", output_path=output_path)
        return exported.path
