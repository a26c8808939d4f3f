"""Messages and entries of session files on the wire: known ones typed, all others as they are."""

from typing import TYPE_CHECKING, Any, ClassVar, get_args

import msgspec

from ludolf.ai.messages import Message, OpaqueMessage
from ludolf.base import Value, dumps
from ludolf.session import entries


class OpenKind(type):
    """The type of a union that also takes unknown members.

    `known` is the union of structs, `label` the key that names the kind, `other` the struct for
    the rest. An instance of the union is an instance of any of them.
    """

    known: Any
    label: str
    other: Any

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, (*get_args(cls.known), cls.other))

    def tags(cls) -> tuple[str, ...]:
        """The names of the known kinds."""
        return tuple(str(kind.__struct_config__.tag) for kind in get_args(cls.known))

    def read(cls, value: Any) -> Any:
        """The value as one of the known kinds if it fits, else as the other one."""
        try:
            return msgspec.convert(value, cls.known, dec_hook=read_open)
        except (msgspec.ValidationError, UnicodeEncodeError):
            label = value.get(cls.label) if isinstance(value, dict) else None
            return cls.other(
                label if isinstance(label, str) else "unknown", msgspec.Raw(dumps(value))
            )


def read_open(kind: Any, value: Any) -> Any:
    """Convert types that msgspec does not know; called by msgspec."""
    if isinstance(kind, OpenKind):
        return kind.read(value)
    raise NotImplementedError(kind)


class OpaqueEntry(msgspec.Struct, frozen=True):
    """An entry of unknown type or shape, as it was stored."""

    type: str
    raw: msgspec.Raw


# ---------------------------------------------------------------- messages

if TYPE_CHECKING:
    StoredMessage = Message | OpaqueMessage
else:

    class StoredMessage(metaclass=OpenKind):
        """A message of a session file, which other programs may have written."""

        known: ClassVar[Any] = Message
        label: ClassVar[str] = "role"
        other: ClassVar[type] = OpaqueMessage


# ---------------------------------------------------------------- entries


class MessageEntry(Value, tag_field="type", tag="message"):
    id: str
    parent_id: str | None
    timestamp: str
    message: StoredMessage


class ModelChange(entries.ModelChangeBody):
    id: str
    parent_id: str | None
    timestamp: str


class ThinkingLevelChange(entries.ThinkingLevelChangeBody):
    id: str
    parent_id: str | None
    timestamp: str


class Compaction(entries.CompactionBody, kw_only=True):
    id: str
    parent_id: str | None
    timestamp: str
    from_hook: bool = False


class BranchSummary(entries.BranchSummaryBody, kw_only=True):
    id: str
    parent_id: str | None
    timestamp: str
    from_hook: bool = False


class UsageEntry(entries.UsageBody, kw_only=True):
    id: str
    parent_id: str | None
    timestamp: str


class CustomEntry(entries.CustomBody, kw_only=True):
    id: str
    parent_id: str | None
    timestamp: str


class CustomMessageEntry(entries.CustomMessageBody, kw_only=True):
    id: str
    parent_id: str | None
    timestamp: str


class Label(entries.LabelBody, kw_only=True):
    id: str
    parent_id: str | None
    timestamp: str


class SessionInfo(entries.SessionInfoBody):
    id: str
    parent_id: str | None
    timestamp: str


KnownEntry = (
    MessageEntry
    | ModelChange
    | ThinkingLevelChange
    | Compaction
    | BranchSummary
    | UsageEntry
    | CustomEntry
    | CustomMessageEntry
    | Label
    | SessionInfo
)

if TYPE_CHECKING:
    StoredEntry = KnownEntry | OpaqueEntry
else:

    class StoredEntry(metaclass=OpenKind):
        """An entry of a session file, which other programs may have written."""

        known: ClassVar[Any] = KnownEntry
        label: ClassVar[str] = "type"
        other: ClassVar[type] = OpaqueEntry


class TreeNode(Value, kw_only=True):
    """An entry with all that follows it. `label` is a name that the user gave the place."""

    entry: StoredEntry
    children: tuple["TreeNode", ...]
    label: str | None = None
    label_timestamp: str | None = None
