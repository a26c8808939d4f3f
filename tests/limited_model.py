"""A model on loopback that really refuses: a token bucket, with the status 429 when it is empty."""

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ludolf.ai.models import Model, ModelCost
from tests.loopback import EVENT_STREAM, JSON_BODY, Asked, Canned, Loopback


class LimitedModel(Loopback):
    """Speaks OpenAI's chat completions: `turns` - 1 calls of the tool `note`, then a text.

    `per_second` requests are allowed, `burst` at once. `refusal` are the headers of a refusal.
    """

    def __init__(
        self, *, per_second: float, burst: int, refusal: Mapping[str, str], turns: int = 3
    ) -> None:
        super().__init__(Canned())
        self.refused = 0
        self._per_second, self._burst = per_second, burst
        self._refusal = {**JSON_BODY, **refusal}
        self._turns = turns
        self._tokens, self._since = float(burst), time.monotonic()
        self._lock = threading.Lock()

    @property
    def model(self) -> Model:
        return Model(
            id="limited",
            name="Limited",
            api="openai-completions",
            provider="limited",
            base_url=f"{self.url}/v1",
            reasoning=False,
            input=("text",),
            cost=ModelCost(),
            context_window=100_000,
            max_tokens=1_000,
        )

    def next_reply(self, asked: Asked) -> Canned:
        with self._lock:
            if not self._takes():
                self.refused += 1
                body = b'{"error": {"message": "Rate limit reached", "type": "requests"}}'
                return Canned(status=429, headers=self._refusal, chunks=(body,))
            self.requests.append(asked)
        results = sum(message["role"] == "tool" for message in asked.json["messages"])
        return _answer(_text() if results + 1 >= self._turns else _call(results))

    def _takes(self) -> bool:
        now = time.monotonic()
        gained = (now - self._since) * self._per_second
        self._tokens, self._since = min(self._burst, self._tokens + gained), now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


def note(text: str) -> str:
    """Write a note."""
    return text


def _text() -> Sequence[Mapping[str, Any]]:
    return ({"delta": {"content": "done"}}, {"delta": {}, "finish_reason": "stop"})


def _call(number: int) -> Sequence[Mapping[str, Any]]:
    function = {"name": "note", "arguments": '{"text": "x"}'}
    call = {"index": 0, "id": f"c{number}", "type": "function", "function": function}
    return ({"delta": {"tool_calls": [call]}}, {"delta": {}, "finish_reason": "tool_calls"})


def _answer(choices: Sequence[Mapping[str, Any]]) -> Canned:
    chunks = [b"data: %b\n\n" % msgspec.json.encode({"choices": [c]}) for c in choices]
    return Canned(headers=EVENT_STREAM, chunks=(*chunks, b"data: [DONE]\n\n"))
