"""Encoded forms of messages, so that a request body is a join of bytes."""

from ludolf.ai.history import HistoryAdapter, ModelMessage, plain_id
from ludolf.ai.identity_cache import IdentityCache
from ludolf.ai.messages import AssistantMessage
from ludolf.ai.provider import Request


class Pieces(IdentityCache[bytes]):
    """Encoded forms by message."""


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
