"""The messages of one prompt, gathered from its events."""

from ludolf.ai.messages import Message, UserMessage
from ludolf.client.events import Resynced, TypedEvent
from ludolf.protocol.answer import Answer, answer_of, checked
from ludolf.protocol.events import LimitReached
from ludolf.protocol.wire.frames import MessageEnd
from ludolf.protocol.wire.stored import MessageEntry


class PromptMessages:
    """A snapshot replaces the messages that its events did not reach the client."""

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._limit: LimitReached | None = None

    def add(self, event: TypedEvent) -> None:
        match event:
            case MessageEnd(message=message) if isinstance(message, Message):
                self._messages.append(message)
            case LimitReached() if self._limit is None:
                self._limit = event
            case Resynced():
                self._messages = _after_prompt(event)

    def answer(self) -> Answer:
        """Raises:
        PromptFailed: the model could not answer.
        """
        return checked(answer_of(self._messages, self._limit))


def _after_prompt(event: Resynced) -> list[Message]:
    """The stored messages from the last one of the user on."""
    entries = event.snapshot.entries or ()
    stored = [each.message for each in entries if isinstance(each, MessageEntry)]
    messages = [each for each in stored if isinstance(each, Message)]
    of_user = [at for at, each in enumerate(messages) if isinstance(each, UserMessage)]
    return messages[of_user[-1] :] if of_user else messages
