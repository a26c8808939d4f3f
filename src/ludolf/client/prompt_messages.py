"""The messages of one prompt, gathered from its events."""

from ludolf.ai.messages import Message, UserMessage
from ludolf.client.events import Resynced, TypedEvent
from ludolf.protocol.answer import Answer, PromptFailed, answer_of, checked
from ludolf.protocol.events import LimitReached, StructuredOutput
from ludolf.protocol.wire.frames import MessageEnd
from ludolf.protocol.wire.stored import MessageEntry


class PromptMessages:
    """A snapshot holds the messages after the one before, so it replaces the events since.

    `is_structured`: the prompt had an output schema.
    """

    def __init__(self, *, is_structured: bool = False) -> None:
        self._is_structured = is_structured
        self._output = StructuredOutput(error="The program sent no structured output.")
        self._stored: list[Message] = []
        self._since: list[Message] = []
        self._limit: LimitReached | None = None

    def add(self, event: TypedEvent) -> None:
        match event:
            case MessageEnd(message=message) if isinstance(message, Message):
                self._since.append(message)
            case LimitReached() if self._limit is None:
                self._limit = event
            case StructuredOutput():
                self._output = event
            case Resynced(snapshot=snapshot):
                entries = snapshot.entries or ()
                stored = (each.message for each in entries if isinstance(each, MessageEntry))
                self._stored += (each for each in stored if isinstance(each, Message))
                self._since.clear()

    def answer(self) -> Answer:
        """Raises:
        PromptFailed: the model could not answer, or not as the output schema says.
        """
        messages = [*self._stored, *self._since]
        if self._stored:  # also those before the prompt
            prompts = [at for at, each in enumerate(messages) if isinstance(each, UserMessage)]
            messages = messages[prompts[-1] :] if prompts else messages
        answer = checked(answer_of(messages, self._limit))
        if not self._is_structured or answer.aborted:
            return answer
        if self._output.error is not None:
            raise PromptFailed(answer.replace(error=self._output.error))
        return answer.replace(structured=self._output.value)
