"""Limits of one prompt: turns, tokens and money; reaching one ends the run cleanly."""

from typing import Literal

from ludolf.ai.messages import AssistantMessage
from ludolf.base import Value
from ludolf.protocol.results import Limits

LimitName = Literal["turns", "tokens", "cost"]


class Reached(Value):
    limit: LimitName
    used: float
    maximum: float


class Meter:
    """Counts what one prompt has used."""

    def __init__(self) -> None:
        self.limits = Limits()
        self.reached: Reached | None = None
        self.start()

    def start(self) -> None:
        """A new prompt begins."""
        self._turns, self._tokens, self._cost = 0, 0, 0.0
        self.reached = None

    def count(self, message: AssistantMessage) -> None:
        self._turns += 1
        self._tokens += message.usage.context
        self._cost += message.usage.cost.total

    def check(self) -> Reached | None:
        """The first limit that is used up, kept until the next prompt."""
        used: tuple[tuple[LimitName, float, float | None], ...] = (
            ("turns", self._turns, self.limits.max_turns),
            ("tokens", self._tokens, self.limits.max_tokens),
            ("cost", self._cost, self.limits.max_cost),
        )
        for name, value, most in used:
            if most is not None and value >= most:
                self.reached = Reached(limit=name, used=value, maximum=most)
                break
        return self.reached
