"""Caches by the identity of a message: its encoded form, or a changed copy."""

from collections.abc import Callable
from typing import Generic, TypeVar

from ludolf.ai.history import HistoryAdapter, ModelMessage, plain_id
from ludolf.ai.messages import AssistantMessage
from ludolf.ai.provider import Request

T = TypeVar("T")
_LIMIT = 20_000


class IdentityCache(Generic[T]):
    """Values by message identity. The entry keeps the message alive, so ids stay unique."""

    def __init__(self, limit: int = _LIMIT) -> None:
        self._limit = limit
        self._entries: dict[int, tuple[object, T]] = {}

    def get(self, message: object, build: Callable[[], T]) -> T:
        """Return the value of a message; call `build` if it is not cached."""
        entry = self._entries.get(id(message))
        if entry is None:
            if len(self._entries) >= self._limit:
                self._entries.clear()
            entry = self._entries[id(message)] = (message, build())
        return entry[1]

    def clear(self) -> None:
        self._entries.clear()

    def keep_for(self, first: object) -> None:
        """Clear the cache if the conversation does not start with a cached message."""
        if id(first) not in self._entries:
            self._entries.clear()


class Pieces(IdentityCache[bytes]):
    """Encoded forms of messages, so that a request body is a join of bytes."""


class EncodedHistory:
    """The messages of requests in the form of one API; caches those of the last conversation."""

    def __init__(self) -> None:
        self.pieces = Pieces()
        self._adapter = HistoryAdapter(self.normal_id)
        self._variant: object = None

    def normal_id(self, call_id: str, source: AssistantMessage) -> str:
        """Convert the tool call id of another API."""
        return plain_id(call_id, source)

    def messages_of(self, request: Request, flags: object = None) -> list[ModelMessage]:
        """Return the messages for the model of a request, whose `flags` affect their form."""
        messages = self._adapter.adapt(request.messages, request.model)
        if self._variant != (request.model, flags):
            self.pieces, self._variant = Pieces(), (request.model, flags)
        elif messages and request.cache != "none":
            self.pieces.keep_for(messages[0])
        return messages
