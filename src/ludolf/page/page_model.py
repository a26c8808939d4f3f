"""Data of a page: every entry with its kind and place in the tree, and totals of the session."""

from typing import Any

import msgspec

from ludolf.ai.messages import (
    AssistantMessage,
    Message,
    OpaqueMessage,
    ToolCall,
    ToolResultMessage,
    Usage,
    text_of,
)
from ludolf.session.entries import Entry, SessionHeader
from ludolf.session.stats import Spent

# One letter each in the page's data; the script uses the same letters.
KINDS = {
    "user": "u",
    "assistant": "a",
    "tool": "t",
    "bash": "b",
    "compaction": "c",
    "branch": "s",
    "custom": "x",
    "system": "y",
    "model": "m",
    "level": "l",
    "quiet": "q",
}


class Item(msgspec.Struct, eq=False):
    """One entry. `call` is the call of a tool result; `pending` are calls without a result.

    `shown` means that the entry or one below it is more than bookkeeping.
    """

    index: int
    entry: Entry
    parent: int
    kind: str
    message: Message | OpaqueMessage | None
    body: dict[str, Any]
    label: str | None
    call: ToolCall | None = None
    pending: tuple[ToolCall, ...] = ()
    children: list[int] = []
    shown: bool = False

    @property
    def id(self) -> str:
        return self.entry.id


class Figures(msgspec.Struct):
    """Totals of the session, over all branches."""

    kinds: dict[str, int]
    spent: Spent
    by_model: dict[str, Spent]
    tool_calls: int = 0


class Story(msgspec.Struct, eq=False):
    """`path` leads from a root to the leaf; `active` is the same as a set."""

    header: SessionHeader
    figures: Figures
    name: str | None = None
    items: list[Item] = []
    path: list[int] = []
    active: set[int] = set()

    @property
    def roots(self) -> list[int]:
        return [item.index for item in self.items if item.parent < 0 and item.shown]

    @property
    def branches(self) -> int:
        """Number of leaves of the tree."""
        items = self.items
        return sum(
            item.shown and not any(items[child].shown for child in item.children) for item in items
        )


def ways_on(story: Story, item: Item) -> list[int]:
    """Return the children of an entry, without those that only store a label or a name."""
    return [child for child in item.children if story.items[child].shown]


def letter(item: Item) -> str:
    """Return the letter of an entry; failures and answers with only tool calls have their own."""
    match item.message:
        case AssistantMessage() as answer if answer.failed:
            return "r"
        case AssistantMessage() as answer if answer.tool_calls:
            return KINDS["assistant"] if text_of(answer.content).strip() else "e"
        case ToolResultMessage(is_error=True):
            return "f"
        case _:
            return KINDS[item.kind]


def usage_of(item: Item) -> Usage | None:
    """Return the token usage of an entry; None if it has none."""
    if isinstance(item.message, AssistantMessage | ToolResultMessage):
        return item.message.usage
    try:
        return msgspec.convert(item.body["usage"], Usage, strict=False)
    except (KeyError, msgspec.ValidationError, UnicodeEncodeError):
        return None
