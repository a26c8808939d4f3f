"""The answer to a prompt, the same for the SDK and for the client."""

from collections.abc import Iterable
from typing import Any

from ludolf.ai.messages import NO_USAGE, AssistantMessage, Message, StopReason, Usage, text_of
from ludolf.ai.usage import add_usage
from ludolf.base import LudolfError, Value
from ludolf.protocol.events import LimitReached


class Answer(Value, kw_only=True):
    """The answer to a prompt: all new messages, and the sum of their usage.

    `limit` is the limit that ended the run before the model was done; None if it was done.
    `structured` is the value of a prompt with an output schema.
    """

    text: str
    messages: tuple[Message, ...]
    usage: Usage
    stop_reason: StopReason | None
    error: str | None = None
    limit: LimitReached | None = None
    structured: Any = None

    @property
    def aborted(self) -> bool:
        return self.stop_reason == "aborted"


class PromptFailed(LudolfError):
    """The model failed, also after retries; `answer` holds the messages up to the error."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.error or "The model gave no answer")
        self.answer = answer


def answer_of(messages: Iterable[Message], limit: LimitReached | None = None) -> Answer:
    """Return the answer in the messages of a prompt: the last text, and the usage of all."""
    every = tuple(messages)
    answers = [each for each in every if isinstance(each, AssistantMessage)]
    last = answers[-1] if answers else None
    usage = NO_USAGE
    for each in answers:
        usage = add_usage(usage, each.usage)
    return Answer(
        text=text_of(last.content) if last else "",
        messages=every,
        usage=usage,
        stop_reason=last.stop_reason if last else None,
        error=last.error_message if last and last.stop_reason == "error" else None,
        limit=limit,
    )


def checked(answer: Answer) -> Answer:
    """Raises:
    PromptFailed: it ended with an error.
    """
    if answer.stop_reason == "error":
        raise PromptFailed(answer)
    return answer
