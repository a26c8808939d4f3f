"""A session read once for a page: every entry with its kind, its place in the tree, its figures.

The engine may go on writing while a page is made, so all that changes is copied at the start, and
messages are decoded here instead of being kept by the session.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from ludolf.ai.messages import (
    AssistantMessage,
    Message,
    OpaqueMessage,
    ToolCall,
    ToolResultMessage,
    Usage,
    decode_message,
    text_of,
)
from ludolf.session.entries import Entry, Header, fields, message_of, role_of
from ludolf.session.stats import OTHER_WORK, Spent
from ludolf.session.tree import Session

# One letter each in the page's data; the script knows them by the same letters.
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
_BY_ROLE = {
    "user": "user",
    "assistant": "assistant",
    "toolResult": "tool",
    "bashExecution": "bash",
    "system": "system",
    "custom": "custom",
    "branchSummary": "branch",
    "compactionSummary": "compaction",
}
_BY_TYPE = {"model_change": "model", "thinking_level_change": "level", "branch_summary": "branch"}


class Item(msgspec.Struct, eq=False):
    """One entry. `call` is what a tool result answers; `pending` are calls shown without one.

    `shown` means that the entry or something below it is more than quiet bookkeeping.
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
    """What the whole session took, over all branches."""

    kinds: dict[str, int]
    tool_calls: int
    branches: int
    spent: Spent
    by_model: dict[str, Spent]


class Story(msgspec.Struct, eq=False):
    header: Header
    name: str | None
    items: list[Item]
    path: list[int]
    roots: list[int]
    figures: Figures


def read_story(session: Session) -> Story:
    """Everything that the page shows of a session."""
    # The leaf first: an entry that comes meanwhile may be in the list, but is not needed by it.
    leaf = session.leaf
    entries = tuple(session.entries())
    items = _items(session, entries)
    roots = [item.index for item in items if item.parent < 0 and item.shown]
    _link_calls(items)
    return Story(
        header=session.header,
        name=session.name,
        items=items,
        path=_path(items, leaf),
        roots=roots,
        figures=_figures(items),
    )


def ways_on(story: Story, item: Item) -> list[int]:
    """The entries that go on from one, without those that only keep a label or a name."""
    return [child for child in item.children if story.items[child].shown]


def letter(item: Item) -> str:
    """The kind in one letter; failures and answers that only ask for tools have their own."""
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
    """The tokens that an entry cost, if it cost any."""
    if isinstance(item.message, AssistantMessage | ToolResultMessage):
        return item.message.usage
    try:
        return msgspec.convert(item.body["usage"], Usage, strict=False)
    except (KeyError, msgspec.ValidationError, UnicodeEncodeError):
        return None


def _items(session: Session, entries: Sequence[Entry]) -> list[Item]:
    place = {entry.id: index for index, entry in enumerate(entries)}
    items: list[Item] = []
    for index, entry in enumerate(entries):
        parent = place.get(entry.parent_id, -1) if entry.parent_id is not None else -1
        label = session.label(entry.id)
        items.append(_item(index, entry, -1 if parent == index else parent, label))
    for item in items:
        if item.parent >= 0:
            items[item.parent].children.append(item.index)
    for item in reversed(items):
        item.shown = item.kind != "quiet" or any(items[child].shown for child in item.children)
    return items


def _item(index: int, entry: Entry, parent: int, label: tuple[str, str] | None) -> Item:
    message = _message(entry)
    return Item(
        index=index,
        entry=entry,
        parent=parent,
        kind=_kind(entry, message),
        message=message,
        body=fields(entry) if message is None or entry.type != "message" else {},
        label=label[0] if label is not None else None,
        children=[],
    )


def _message(entry: Entry) -> Message | OpaqueMessage | None:
    if entry.type == "message":
        return entry.decoded or decode_message(entry.message)
    if entry.type in ("custom_message", "branch_summary", "compaction"):
        return message_of(entry)
    return None


def _kind(entry: Entry, message: Message | OpaqueMessage | None) -> str:
    if message is None:
        return _BY_TYPE.get(entry.type, "quiet")
    if entry.type in _BY_TYPE:
        return _BY_TYPE[entry.type]
    if getattr(message, "display", True) is False:
        return "quiet"
    return _BY_ROLE.get(role_of(entry), "quiet")


def _path(items: list[Item], leaf: str | None) -> list[int]:
    found: list[int] = []
    at = next((item.index for item in reversed(items) if item.id == leaf), -1)
    # A parent that follows its child can only be a damaged file; a circle must still end.
    while at >= 0 and len(found) <= len(items):
        found.append(at)
        at = items[at].parent
    return found[::-1]


def _link_calls(items: list[Item]) -> None:
    """Give each result its call. Some providers repeat ids, so the latest call of an id counts."""
    calls: dict[str, tuple[int, ToolCall]] = {}
    answered: set[tuple[int, str]] = set()
    for item in items:
        message = item.message
        if isinstance(message, AssistantMessage):
            calls.update((call.id, (item.index, call)) for call in message.tool_calls)
        elif isinstance(message, ToolResultMessage) and message.tool_call_id in calls:
            asker, item.call = calls[message.tool_call_id]
            answered.add((asker, message.tool_call_id))
    for item in items:
        if isinstance(item.message, AssistantMessage):
            # Where the tree parts behind a call, not every branch holds its result.
            forked = len(item.children) > 1
            item.pending = tuple(
                call
                for call in item.message.tool_calls
                if forked or (item.index, call.id) not in answered
            )


def _figures(items: list[Item]) -> Figures:
    kinds = dict.fromkeys(KINDS, 0)
    figures = Figures(kinds=kinds, tool_calls=0, branches=0, spent=Spent(), by_model={})
    for item in items:
        kinds[item.kind] += 1
        figures.branches += item.shown and not any(items[child].shown for child in item.children)
        message = item.message
        usage = usage_of(item)
        if isinstance(message, AssistantMessage):
            figures.tool_calls += len(message.tool_calls)
            name = f"{message.provider}/{message.response_model or message.model}"
        elif item.entry.type == "usage":
            name = f"{item.body.get('provider')}/{item.body.get('model')}"
        else:
            name = OTHER_WORK
        if usage is not None:
            figures.spent.add(usage)
            figures.by_model.setdefault(name, Spent()).add(usage)
    return figures
