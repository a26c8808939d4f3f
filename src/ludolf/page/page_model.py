"""The story of a session: its entries with their places in the tree, and totals.

A story is built entry by entry, for an export and for a growing session file.
"""

from collections.abc import Iterable
from datetime import datetime
from itertools import islice
from typing import Any

import msgspec

from ludolf.ai.messages import (
    AssistantMessage,
    Message,
    OpaqueMessage,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
    decode_message,
    text_of,
)
from ludolf.page.text import attribute
from ludolf.session.entries import (
    Entry,
    SessionHeader,
    fields,
    message_of,
    role_of,
    text_field,
    time_ms,
)
from ludolf.session.stats import OTHER_WORK, Spending
from ludolf.session.tree import clean_name

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
# The body of all items whose message is decoded.
_NO_BODY: dict[str, Any] = {}
# Bytes of a tool result that is decoded again when it is rendered, so that not all are in memory.
_LONG_RESULT = 800
# Entries that change another entry or the story.
_NOTES = ("label", "session_info")
# A fork describes each branch by its first entry with text, at most this number of levels below.
_FORK_SEES = 9


class Item(msgspec.Struct, eq=False, gc=False):
    """One entry. `call` is the call of a tool result; `pending` are calls without a result.

    `shown` means that the entry or one below it is more than bookkeeping. `anchor` is the id as
    an attribute, `moment` the time in Unix milliseconds, and `size` the estimated height. `line`
    is the entry as one line for the tree; "" until it is rendered. The message of a long tool
    result has no content: `stored_message` returns it.
    """

    index: int
    entry: Entry
    kind: str
    message: Message | OpaqueMessage | None
    body: dict[str, Any]
    usage: Usage | None
    calls: tuple[ToolCall, ...]
    anchor: str
    moment: int
    size: int
    parent: int = -1
    label: str | None = None
    call: ToolCall | None = None
    pending: tuple[ToolCall, ...] = ()
    children: list[int] = []
    shown: bool = False
    line: str = ""

    @property
    def id(self) -> str:
        return self.entry.id


class Figures(msgspec.Struct):
    """Totals of the session, over all branches."""

    kinds: dict[str, int]
    spending: Spending
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
        inner = {item.parent for item in self.items if item.shown}
        return len([item for item in self.items if item.shown and item.index not in inner])


def ways_on(story: Story, item: Item) -> list[int]:
    """Return the children of an entry, without those that only store a label or a name."""
    return [child for child in item.children if story.items[child].shown]


def letter(item: Item) -> str:
    """Return the letter of an entry; failures and answers with only tool calls have their own."""
    message = item.message
    if isinstance(message, AssistantMessage):
        if message.failed:
            return "r"
        if item.calls and not text_of(message.content).strip():
            return "e"
    elif isinstance(message, ToolResultMessage) and message.is_error:
        return "f"
    return KINDS[item.kind]


def story_of(header: SessionHeader, entries: Iterable[Entry], leaf: str | None) -> Story:
    """Return the story of these entries, whose path ends at the leaf."""
    growth = Growth(header)
    growth.add(entries)
    growth.lead_to(leaf)
    return growth.story


class Growth:
    """A story to which entries are added in the order of the file; the last one is the leaf.

    `touched` maps each entry that changed after it was added to the number of entries at that time.
    """

    def __init__(self, header: SessionHeader) -> None:
        figures = Figures(kinds=dict.fromkeys(KINDS, 0), spending=Spending())
        self.story = Story(header, figures)
        self.touched: dict[int, int] = {}
        self.relinked = False
        self._parted = False
        self._place: dict[str, int] = {}
        self._early: dict[str, list[int]] = {}
        self._calls: dict[str, tuple[int, ToolCall]] = {}
        self._answered: set[tuple[int, str]] = set()

    def add(self, entries: Iterable[Entry]) -> None:
        """Add new entries. Sets `relinked` if a parent came after its child."""
        items = self.story.items
        for entry in entries:
            item = _item(len(items), entry)
            items.append(item)
            self._link(item)
            self._count(item)
            self._relate(item)
            if entry.type in _NOTES:
                self._note(item)
        if items:
            self.lead_to(items[-1].id)

    def lead_to(self, leaf: str | None) -> None:
        """End the path at this entry; the path is empty if the entry does not exist."""
        story = self.story
        at = self._place.get(leaf, -1) if leaf is not None else -1
        new: list[int] = []
        while at >= 0 and at not in story.active:
            new.append(at)
            at = story.items[at].parent
        while story.path and story.path[-1] != at:
            story.active.discard(story.path.pop())
        story.path += reversed(new)
        story.active.update(new)

    # ------------------------------------------------------------ one entry

    def _link(self, item: Item) -> None:
        """Insert the item below its parent and above children that came before it."""
        entry, items = item.entry, self.story.items
        if entry.parent_id is not None and entry.parent_id != entry.id:
            item.parent = self._place.get(entry.parent_id, -1)
            if item.parent < 0:
                self._early.setdefault(entry.parent_id, []).append(item.index)
        self._place[entry.id] = item.index
        if item.parent >= 0:
            self._put_below(items[item.parent], item)
        if entry.id in self._early:
            self._adopt(item, self._early.pop(entry.id))
        if item.kind != "quiet" or any(items[child].shown for child in item.children):
            self._show(item)

    def _adopt(self, item: Item, children: list[int]) -> None:
        above = set(self._upwards(item))
        for child in children:
            # A cycle of parents is cut at the entry that would close it.
            if child not in above:
                self.story.items[child].parent = item.index
                self._put_below(item, self.story.items[child])
        self.relinked = True
        self.story.path.clear()
        self.story.active.clear()

    def _put_below(self, item: Item, child: Item) -> None:
        item.children.append(child.index)
        self._parted = self._parted or len(item.children) > 1

    def _show(self, item: Item) -> None:
        """Mark an entry and all above it as shown, and update the forks above."""
        item.shown = True
        if item.parent < 0 or (not self._parted and self.story.items[item.parent].shown):
            return
        for step, index in enumerate(self._upwards(item)):
            above = self.story.items[index]
            if above.shown and (step > _FORK_SEES or not self._parted):
                break
            above.shown = True
            if self._forks(above):
                self._touch(above)

    def _forks(self, item: Item) -> bool:
        """Whether several shown branches continue from here; stops counting at the second."""
        if len(item.children) < 2:
            return False
        items = self.story.items
        shown = (child for child in item.children if items[child].shown)
        return len(tuple(islice(shown, 2))) == 2

    def _upwards(self, item: Item) -> Iterable[int]:
        """Yield the entries above an item, the nearest first."""
        at = item.parent
        while at >= 0:
            yield at
            at = self.story.items[at].parent

    def _count(self, item: Item) -> None:
        figures, message = self.story.figures, item.message
        figures.kinds[item.kind] += 1
        if isinstance(message, AssistantMessage):
            figures.tool_calls += len(item.calls)
            figures.spending.add_answer(message)
        elif item.entry.type == "usage":
            figures.spending.add_body(item.body, item.usage)
        elif item.usage is not None:
            figures.spending.add(OTHER_WORK, item.usage)

    def _relate(self, item: Item) -> None:
        """Assign a result to its call. Some providers repeat ids, so the latest call counts."""
        message, items = item.message, self.story.items
        if item.calls:
            for call in item.calls:
                self._calls[call.id] = item.index, call
            item.pending = item.calls
        elif isinstance(message, ToolResultMessage) and message.tool_call_id in self._calls:
            asker, item.call = self._calls[message.tool_call_id]
            self._answered.add((asker, message.tool_call_id))
            self._set_pending(items[asker])
        if item.parent >= 0 and len(items[item.parent].children) == 2:
            self._set_pending(items[item.parent])

    def _set_pending(self, item: Item) -> None:
        if not isinstance(item.message, AssistantMessage):
            return
        # If the tree forks after a call, not every branch contains its result.
        forked = len(item.children) > 1
        item.pending = tuple(
            [call for call in item.calls if forked or (item.index, call.id) not in self._answered]
        )
        self._touch(item)

    def _note(self, item: Item) -> None:
        if item.entry.type == "label":
            target = self._place.get(text_field(item.body, "targetId"), -1)
            if target >= 0:
                labelled = self.story.items[target]
                labelled.label = text_field(item.body, "label") or None
                self._touch(labelled)
        elif item.entry.type == "session_info":
            self.story.name = clean_name(text_field(item.body, "name")) or None

    def _touch(self, item: Item) -> None:
        self.touched[item.index] = len(self.story.items)


def _item(index: int, entry: Entry) -> Item:
    message = _message(entry)
    body = fields(entry) if message is None or entry.type != "message" else _NO_BODY
    usage: Usage | None
    calls: tuple[ToolCall, ...] = ()
    if isinstance(message, AssistantMessage):
        usage, calls, size = message.usage, message.tool_calls, _size(text_of(message.content))
    elif isinstance(message, ToolResultMessage):
        usage, size = message.usage, 2 if len(entry.message) < _LONG_RESULT else 4
    else:
        usage = _usage(body) if "usage" in body else None
        size = _size(text_of(message.content)) if isinstance(message, UserMessage) else 1
    kind, anchor = _kind(entry, message), attribute(entry.id)
    moment = _moment(entry.timestamp)
    return Item(index, entry, kind, message, body, usage, calls, anchor, moment, size)


def _usage(body: dict[str, Any]) -> Usage | None:
    try:
        return msgspec.convert(body["usage"], Usage, strict=False)
    except (msgspec.ValidationError, UnicodeEncodeError):
        return None


def _moment(stamp: str) -> int:
    """Return a time as Unix milliseconds; 0 if it cannot be parsed."""
    # The form of nearly all entries, without the steps that other forms need.
    if len(stamp) == 24 and stamp[-1] == "Z":
        try:
            return round(datetime.fromisoformat(stamp).timestamp() * 1000)
        except ValueError:
            return 0
    return time_ms(stamp)


def _size(text: str) -> int:
    """Estimate the height, so that the scroll bar is nearly right before anything is drawn.

    The style sheet defines the steps; each is about twice as high as the one before.
    """
    lines = len(text) // 90 + text.count("\n")
    return min(7, lines.bit_length() - 1) if lines > 3 else 1


class _ResultHead(msgspec.Struct, rename="camel", kw_only=True):
    """A tool result without its content."""

    tool_call_id: str
    tool_name: str
    usage: Usage | None = None
    is_error: bool
    timestamp: int


_read_head = msgspec.json.Decoder(_ResultHead).decode


def _message(entry: Entry) -> Message | OpaqueMessage | None:
    if entry.type == "message":
        return _without_content(entry) or stored_message(entry)
    if entry.type in ("custom_message", "branch_summary", "compaction"):
        return message_of(entry)
    return None


def stored_message(entry: Entry) -> Message | OpaqueMessage:
    """Return the message of an entry with all of its content."""
    return entry.decoded or decode_message(entry.message)


def _without_content(entry: Entry) -> ToolResultMessage | None:
    """Return a long tool result without its content; None for other messages, and unusual ones."""
    if entry.decoded is not None or len(entry.message) < _LONG_RESULT:
        return None
    if role_of(entry) != "toolResult":
        return None
    try:
        head = _read_head(entry.message)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return ToolResultMessage(
        tool_call_id=head.tool_call_id,
        tool_name=head.tool_name,
        content=(),
        usage=head.usage,
        is_error=head.is_error,
        timestamp=head.timestamp,
    )


def _kind(entry: Entry, message: Message | OpaqueMessage | None) -> str:
    if message is None:
        return _BY_TYPE.get(entry.type, "quiet")
    if entry.type in _BY_TYPE:
        return _BY_TYPE[entry.type]
    if getattr(message, "display", True) is False:
        return "quiet"
    return _BY_ROLE.get(role_of(entry), "quiet")
