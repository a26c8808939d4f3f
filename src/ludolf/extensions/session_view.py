"""Read-only view of the session for extensions."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ludolf.ai.messages import Message, OpaqueMessage
from ludolf.session.entries import Entry, SessionHeader, fields, message_of, role_of
from ludolf.session.tree import Session


class EntryView:
    """One entry. Its fields are attributes in snake_case: `custom_type`, `data`, `summary` ….

    `message` is the message of an entry that adds one to the conversation.
    """

    __slots__ = ("_body", "_entry")

    def __init__(self, entry: Entry) -> None:
        self._entry = entry
        self._body: dict[str, Any] | None = None

    @property
    def id(self) -> str:
        return self._entry.id

    @property
    def stored(self) -> Entry:
        """Return the entry itself."""
        return self._entry

    @property
    def type(self) -> str:
        return self._entry.type

    @property
    def parent_id(self) -> str | None:
        return self._entry.parent_id

    @property
    def timestamp(self) -> str:
        return self._entry.timestamp

    @property
    def message(self) -> Message | OpaqueMessage:
        """Return the message of the entry.

        Raises:
            AttributeError: the entry has no message.
        """
        if not role_of(self._entry):
            raise AttributeError(f"a {self.type} entry has no message")
        return message_of(self._entry)

    @property
    def fields(self) -> dict[str, Any]:
        """Return a copy of all stored fields."""
        return fields(self._entry)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if self._body is None:
            self._body = fields(self._entry)
        first, *more = name.split("_")
        wire = first + "".join(part.capitalize() for part in more)
        if wire not in self._body:
            raise AttributeError(f"a {self.type} entry has no {name}")
        return self._body[wire]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EntryView) and other._entry is self._entry

    def __hash__(self) -> int:
        return hash(self._entry.id)

    def __repr__(self) -> str:
        return f"<entry {self.id} {self.type}>"


def views(entries: Iterable[Entry]) -> tuple[EntryView, ...]:
    return tuple(EntryView(entry) for entry in entries)


class TreeNodeView:
    """An entry with its children, on all branches."""

    __slots__ = ("children", "entry", "label")

    def __init__(self, entry: EntryView, label: str | None) -> None:
        self.entry = entry
        self.label = label
        self.children: list[TreeNodeView] = []


class SessionView:
    """The current conversation and all its branches."""

    def __init__(self, session: Session) -> None:
        self._session = session

    @property
    def id(self) -> str:
        return self._session.id

    @property
    def file(self) -> Path | None:
        """Return the session file; None for a session in memory."""
        return self._session.path

    @property
    def directory(self) -> Path | None:
        return self._session.path.parent if self._session.path is not None else None

    @property
    def name(self) -> str | None:
        return self._session.name

    @property
    def cwd(self) -> str:
        return self._session.header.cwd

    @property
    def header(self) -> SessionHeader:
        return self._session.header

    @property
    def leaf_id(self) -> str | None:
        return self._session.leaf

    def entries(self) -> tuple[EntryView, ...]:
        """Return the entries of all branches, in file order."""
        return views(self._session.entries())

    def branch(self, from_id: str | None = None) -> tuple[EntryView, ...]:
        """Return the entries from the root to an entry, by default to the leaf."""
        if from_id is None:
            return views(self._session.path_to_leaf())
        return views(self._session.path_to(from_id))

    def entry(self, entry_id: str) -> EntryView | None:
        entry = self._session.get(entry_id)
        return EntryView(entry) if entry is not None else None

    def children(self, entry_id: str | None) -> tuple[EntryView, ...]:
        """Return the children of an entry; for None, the entries without a parent."""
        return views(e for e in self._session.entries() if e.parent_id == entry_id)

    def label(self, entry_id: str) -> str | None:
        label = self._session.label(entry_id)
        return label[0] if label is not None else None

    def messages(self) -> tuple[Message | OpaqueMessage, ...]:
        """Return the conversation as the model receives it."""
        return tuple(self._session.context.messages())

    def tree(self) -> tuple[TreeNodeView, ...]:
        """Return the roots of the tree with their descendants."""
        nodes = {
            e.id: TreeNodeView(EntryView(e), self.label(e.id)) for e in self._session.entries()
        }
        roots = []
        for entry in self._session.entries():
            parent = self._session.parent(entry)
            if parent is None:
                roots.append(nodes[entry.id])
            else:
                nodes[parent.id].children.append(nodes[entry.id])
        return tuple(roots)
