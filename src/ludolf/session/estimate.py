"""Estimate the tokens of messages and contexts from their length and the last usage."""

from collections.abc import Iterable, Sequence

from ludolf.ai.messages import (
    AnyMessage,
    AssistantMessage,
    BashExecutionMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    CustomMessage,
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


def context_tokens(messages: Sequence[AnyMessage], fresh_from: int = 0) -> int:
    """Return the usage of the last successful answer plus estimates of the messages after it.

    Without such an answer, all messages are estimated.
    """
    for index in range(len(messages) - 1, fresh_from - 1, -1):
        usage = known_usage(messages[index])
        if usage:
            return usage + estimate_all(messages[index + 1 :])
    return estimate_all(messages)


def view_tokens(view: ContextView) -> int:
    """Return `context_tokens` of a view; decodes only the messages that it needs."""
    entries = view.entries
    later = 0
    for index in range(len(entries) - 1, -1, -1):
        entry = entries[index]
        if index >= view.fresh_from and role_of(entry) == "assistant":
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
