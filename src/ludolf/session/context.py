"""Context for the model: messages, model and thinking level of a path of the tree, and its size."""

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import msgspec

from ludolf.ai.messages import (
    AnyMessage,
    AssistantMessage,
    BashExecutionMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    CustomMessage,
    Message,
    OpaqueMessage,
    Text,
    Thinking,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    decode_message,
)
from ludolf.base import Value, dumps, loads
from ludolf.session.entries import (
    Entry,
    encode_message,
    fields,
    message_json,
    message_of,
    role_of,
    text_field,
)

_SILENT = ("", "-", "system")
_EDITABLE = ("user", "assistant", "toolResult", "custom")
ModelRef = tuple[str, str]


class ContextView:
    """Incremental context of a growing path; rebuilt after a compaction, an edit or `forget`.

    `fresh_from`: index of the first message whose usage counts for this context; a compaction or an
    edit came after the earlier ones. `compacted_from`: index of the first message after the last
    compaction.
    """

    def __init__(self) -> None:
        self.fresh_from = 0
        self.compacted_from: int | None = None
        self._seen = 0
        self._slots: list[Entry] = []
        self._messages: list[Message | OpaqueMessage] = []
        self._edits: dict[str, Message | OpaqueMessage] = {}
        self._model_entry: Entry | None = None
        self._level_entry: Entry | None = None
        self._stale = True

    @property
    def entries(self) -> Sequence[Entry]:
        """Return the entries that contribute a message, in the order of the messages."""
        return self._slots

    @property
    def model(self) -> ModelRef | None:
        """Provider and id of the model that was selected, or that answered, last."""
        return None if self._model_entry is None else _model_of(self._model_entry)

    @property
    def thinking_level(self) -> str | None:
        if self._level_entry is None:
            return None
        return text_field(fields(self._level_entry), "thinkingLevel") or None

    def forget(self) -> None:
        """Invalidate the context after the path or the omitted entries have changed."""
        self._stale = True

    def follow(self, path: Sequence[Entry], omitted: AbstractSet[str]) -> None:
        """Add the entries that were appended to the path since the last call.

        The path begins at the root; `omitted` entries are left out.
        """
        if len(path) == self._seen and not self._stale:
            return
        new = path[self._seen :]
        if self._stale or any(entry.type in ("compaction", "context_edit") for entry in new):
            self._rebuild(path, omitted)
            return
        self._find_settings(new)
        self._slots.extend(_speaking(new, omitted))
        self._seen = len(path)

    def messages(self) -> Sequence[Message | OpaqueMessage]:
        """Return the messages; each is decoded once."""
        for entry in self._slots[len(self._messages) :]:
            self._messages.append(self.message_at(entry))
        return self._messages

    def message_at(self, entry: Entry) -> Message | OpaqueMessage:
        """Return the message of an entry, after edits."""
        return self._edits.get(entry.id) or message_of(entry)

    def messages_json(self) -> list[msgspec.Raw]:
        """Return the messages as JSON; unedited ones are the bytes of the file."""
        return [
            msgspec.Raw(encode_message(self._edits[entry.id]))
            if entry.id in self._edits
            else message_json(entry)
            for entry in self._slots
        ]

    def _rebuild(self, path: Sequence[Entry], omitted: AbstractSet[str]) -> None:
        self._messages = []
        self._model_entry = self._level_entry = None
        self._find_settings(path)
        cut = _last_index(path, "compaction")
        edits = _edits(path)
        removed = omitted | {target for target, content in edits.items() if content is None}
        front = [path[cut], *_speaking(_kept_before(path, cut), removed)] if cut >= 0 else []
        self._slots = [*front, *_speaking(path[cut + 1 :], removed)]
        self._edits = {
            entry.id: _edited(entry, edits[entry.id]) for entry in self._slots if entry.id in edits
        }
        self.compacted_from = len(front) if front else None
        self.fresh_from = self._fresh_from(path, len(front))
        self._seen, self._stale = len(path), False

    def _find_settings(self, entries: Sequence[Entry]) -> None:
        """Find the last entry that sets the level, and the last one that sets the model."""
        levels = (each for each in reversed(entries) if each.type == "thinking_level_change")
        models = (
            each
            for each in reversed(entries)
            if each.type == "model_change" or role_of(each) == "assistant"
        )
        self._level_entry = next(levels, self._level_entry)
        self._model_entry = next(models, self._model_entry)

    def _fresh_from(self, path: Sequence[Entry], least: int) -> int:
        last_edit = _last_index(path, "context_edit")
        if last_edit < 0:
            return least
        later = {entry.id for entry in path[last_edit:]}
        return max(least, sum(1 for entry in self._slots if entry.id not in later))


def _speaking(entries: Iterable[Entry], omitted: AbstractSet[str]) -> Iterable[Entry]:
    """Return the entries that contribute a message; a compaction does so only at the start."""
    for entry in entries:
        if entry.type == "compaction" or entry.id in omitted:
            continue
        if (entry.role or role_of(entry)) not in _SILENT:
            yield entry


def _kept_before(path: Sequence[Entry], cut: int) -> Sequence[Entry]:
    first = text_field(fields(path[cut]), "firstKeptEntryId")
    for index in range(cut):
        if path[index].id == first:
            return path[index:cut]
    return ()


def _last_index(path: Sequence[Entry], kind: str) -> int:
    for index in range(len(path) - 1, -1, -1):
        if path[index].type == kind:
            return index
    return -1


def _edits(path: Sequence[Entry]) -> dict[str, Any]:
    """Return the latest edit of each target: its new content, or None if it is removed."""
    edits: dict[str, Any] = {}
    for entry in path:
        if entry.type == "context_edit":
            body = fields(entry)
            replacement = body.get("replacement")
            content = replacement.get("content") if isinstance(replacement, dict) else None
            edits[text_field(body, "targetId")] = content
    return edits


def _edited(entry: Entry, content: Any) -> Message | OpaqueMessage:
    message = message_of(entry)
    role = role_of(entry)
    if role not in _EDITABLE:
        return message
    if isinstance(content, str) and role in ("assistant", "toolResult"):
        content = [{"type": "text", "text": content}]
    value = loads(encode_message(message))
    return decode_message(dumps({**value, "content": content}))


def _model_of(entry: Entry) -> ModelRef:
    if entry.type == "model_change":
        body = fields(entry)
        return text_field(body, "provider"), text_field(body, "modelId")
    message = message_of(entry)
    if isinstance(message, AssistantMessage):
        return message.provider, message.model
    body = loads(encode_message(message))
    return text_field(body, "provider"), text_field(body, "model")


_IMAGE_CHARACTERS = 4800


def message_tokens(message: AnyMessage) -> int:
    """Estimate a message: a quarter of its characters, rounded up; 0 if models do not see it."""
    return -(-_characters(message) // 4)


def entry_tokens(entry: Entry) -> int:
    """Estimate the message of an entry; the result is cached."""
    if entry.tokens < 0:
        entry.tokens = message_tokens(message_of(entry)) if role_of(entry) else 0
    return entry.tokens


def estimate_all(messages: Iterable[AnyMessage]) -> int:
    return sum(map(message_tokens, messages))


def view_tokens(view: ContextView) -> int:
    """Return the usage of the last successful answer plus estimates of the messages after it.

    Without such an answer, all messages are estimated. Only the messages that count are decoded.
    """
    entries = view.entries
    later = 0
    for index in range(len(entries) - 1, -1, -1):
        entry = entries[index]
        if index >= view.fresh_from and (entry.role or role_of(entry)) == "assistant":
            usage = known_usage(view.message_at(entry))
            if usage:
                return usage + later
        later += _tokens_in(view, entry)
    return later


def request_tokens(view: ContextView) -> int | None:
    """Return the tokens of the last answered request and of the messages since its answer.

    None if no answer counts: there is none, or none since a compaction.
    """
    later = 0
    for entry in reversed(view.entries[view.fresh_from :]):
        message = view.message_at(entry)
        if isinstance(message, AssistantMessage) and known_usage(message):
            usage = message.usage
            return usage.input + usage.cache_read + usage.cache_write + later
        later += _tokens_in(view, entry)
    return None


def has_known_usage(view: ContextView) -> bool:
    """Return whether a successful answer followed the last compaction; True without one."""
    if view.compacted_from is None:
        return True
    since = view.entries[view.compacted_from :]
    return any(
        role_of(entry) == "assistant" and known_usage(view.message_at(entry))
        for entry in reversed(since)
    )


def known_usage(message: AnyMessage) -> int:
    """Return the context size that a provider reported; 0 if the answer does not count."""
    if isinstance(message, AssistantMessage) and not message.failed:
        return message.usage.context
    return 0


def _tokens_in(view: ContextView, entry: Entry) -> int:
    message = view.message_at(entry)
    return entry_tokens(entry) if message is entry.decoded else message_tokens(message)


def _characters(message: AnyMessage) -> int:
    match message:
        case UserMessage() | ToolResultMessage() | CustomMessage():
            return _content_characters(message.content)
        case AssistantMessage():
            return _content_characters(message.content)
        case BashExecutionMessage():
            return len(message.command) + len(message.output)
        case BranchSummaryMessage() | CompactionSummaryMessage():
            return len(message.summary)
        case OpaqueMessage():
            return 0


def _content_characters(content: str | Sequence[object]) -> int:
    if isinstance(content, str):
        return len(content)
    return sum(map(_block_characters, content))


def _block_characters(block: object) -> int:
    match block:
        case Text():
            return len(block.text)
        case Thinking():
            return len(block.thinking)
        case ToolCall():
            return len(block.name) + len(dumps(block.arguments).decode())
        case _:
            return _IMAGE_CHARACTERS


class CompactionSettings(Value):
    enabled: bool = True
    reserve_tokens: int = 16384
    keep_recent_tokens: int = 20000


def should_compact(tokens: int, context_window: int, settings: CompactionSettings) -> bool:
    return settings.enabled and tokens > context_window - settings.reserve_tokens
