"""How many tokens a message or a context takes, from its length and the last known usage."""

from collections.abc import Iterable, Sequence

from ludolf.ai.messages import (
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
)
from ludolf.base import dumps
from ludolf.session.context import ContextView
from ludolf.session.entries import Entry, message_of, role_of

_IMAGE_CHARACTERS = 4800
AnyMessage = Message | OpaqueMessage


def message_tokens(message: AnyMessage) -> int:
    """A quarter of the characters, rounded up; what no model sees counts nothing."""
    return -(-_characters(message) // 4)


def entry_tokens(entry: Entry) -> int:
    """The same for an entry's message, remembered."""
    if entry.tokens < 0:
        entry.tokens = message_tokens(message_of(entry)) if role_of(entry) else 0
    return entry.tokens


def estimate_all(messages: Iterable[AnyMessage]) -> int:
    return sum(map(message_tokens, messages))


def context_tokens(messages: Sequence[AnyMessage], fresh_from: int = 0) -> int:
    """Usage of the last good answer plus estimates after it; without one, all is estimated."""
    for index in range(len(messages) - 1, fresh_from - 1, -1):
        known = known_usage(messages[index])
        if known:
            return known + estimate_all(messages[index + 1 :])
    return estimate_all(messages)


def view_tokens(view: ContextView) -> int:
    """`context_tokens` of a view; decodes no more messages than it must."""
    entries = view.entries
    later = 0
    for index in range(len(entries) - 1, -1, -1):
        entry = entries[index]
        if index >= view.fresh_from and role_of(entry) == "assistant":
            known = known_usage(view.message_at(entry))
            if known:
                return known + later
        later += _tokens_in(view, entry)
    return later


def request_tokens(view: ContextView) -> int | None:
    """The size of the last request that was answered, with what has come since its answer.

    None if no answer counts: nothing was said yet, or only before a compaction.
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
    """Whether a good answer has come since the last compaction, or there was no compaction."""
    if view.compacted_from is None:
        return True
    since = view.entries[view.compacted_from :]
    return any(
        role_of(entry) == "assistant" and known_usage(view.message_at(entry))
        for entry in reversed(since)
    )


def known_usage(message: AnyMessage) -> int:
    """The context size that a provider reported with an answer; 0 if the answer does not count."""
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
