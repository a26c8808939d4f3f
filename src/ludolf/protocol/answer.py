"""What a prompt led to, told the same way in process and out of it."""

from collections.abc import Iterable

from ludolf.ai.messages import NO_USAGE, AssistantMessage, Message, StopReason, Usage, text_of
from ludolf.ai.usage import add_usage
from ludolf.base import LudolfError, Value


class Answer(Value, kw_only=True):
    """What a prompt led to. `messages` are all new ones, `usage` is what they cost together."""

    text: str
    messages: tuple[Message, ...]
    usage: Usage
    stop_reason: StopReason | None
    error: str | None = None

    @property
    def aborted(self) -> bool:
        return self.stop_reason == "aborted"


class PromptFailed(LudolfError):
    """The model could not answer, also after retries; `answer` holds what there is."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.error or "The model gave no answer")
        self.answer = answer


def answer_of(messages: Iterable[Message]) -> Answer:
    """The answer in the messages of a prompt: the last one counts, all of them cost."""
    every = tuple(messages)
    said = [each for each in every if isinstance(each, AssistantMessage)]
    last = said[-1] if said else None
    usage = NO_USAGE
    for each in said:
        usage = add_usage(usage, each.usage)
    return Answer(
        text=text_of(last.content) if last else "",
        messages=every,
        usage=usage,
        stop_reason=last.stop_reason if last else None,
        error=last.error_message if last and last.stop_reason == "error" else None,
    )


def checked(answer: Answer) -> Answer:
    """Raises:
    PromptFailed: it ended with an error.
    """
    if answer.stop_reason == "error":
        raise PromptFailed(answer)
    return answer
