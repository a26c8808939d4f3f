"""From what a host says to a message: expansion, images, and the rules for a busy agent."""

from collections.abc import Coroutine, Sequence
from typing import Any, Literal

from ludolf.agent.queue import QueueKind
from ludolf.ai.messages import Image, Part, Text, UserMessage
from ludolf.base import CommandError, now_ms
from ludolf.engine.compact import Compactor
from ludolf.engine.parts import Parts
from ludolf.engine.runner import Runner

Busy = Literal["steer", "followUp"]
BUSY = (
    "Agent is already processing. Specify streamingBehavior ('steer' or 'followUp') "
    "to queue the message."
)
COMPACTING = (
    "Cannot submit a prompt while compaction is in progress. "
    "Wait for compaction to finish and retry."
)
NO_KEY = (
    "No API key found for {provider}. Set its key in the environment or in auth.json, "
    "or choose another model; --list-models shows those that are ready."
)
# What became of a prompt.
Disposition = Literal["started", "queued"]
# Work that needs no waiting is done at once, so that pipelined commands act in order.
Work = Disposition | Coroutine[Any, Any, Disposition]


class Prompting:
    """The door for everything that a user says."""

    def __init__(self, parts: Parts, runner: Runner, compactor: Compactor) -> None:
        self._parts = parts
        self._runner = runner
        self._compactor = compactor

    def prompt(self, text: str, extra: Sequence[Part] = (), when_busy: Busy | None = None) -> Work:
        """Accept or queue a prompt, at once if nothing has to be waited for.

        Raises:
            CommandError: the prompt was refused.
        """
        text = self._parts.resources.expand(text)
        self._check(when_busy)
        busy = self._runner.running
        if not extra and (busy or not self._compactor.is_due()):
            return self._accept(_message(text), when_busy)
        return self._prompt_with(text, extra, when_busy)

    def queue(self, kind: QueueKind, text: str, extra: Sequence[Part] = ()) -> Work:
        """Put a message into a waiting line, whether or not anything runs."""
        text = self._parts.resources.expand(text)
        if not extra:
            return self._enqueue(kind, _message(text))
        return self._queue_with(kind, text, extra)

    # ------------------------------------------------------------ private

    async def _prompt_with(
        self, text: str, extra: Sequence[Part], when_busy: Busy | None
    ) -> Disposition:
        message = await self._message_with(text, extra)
        if not self._runner.running:
            await self._compactor.before_prompt()
        self._check(when_busy)
        return self._accept(message, when_busy)

    async def _queue_with(self, kind: QueueKind, text: str, extra: Sequence[Part]) -> Disposition:
        return self._enqueue(kind, await self._message_with(text, extra))

    def _check(self, when_busy: Busy | None) -> None:
        if self._runner.running:
            if when_busy is None:
                raise CommandError(BUSY)
            return
        if self._compactor.manual_running:
            raise CommandError(COMPACTING)
        model = self._parts.models.require()
        if self._parts.session.read_only is not None:
            raise CommandError(self._parts.session.read_only)
        if not self._parts.registry.admits(model):
            raise CommandError(NO_KEY.format(provider=model.provider))

    def _accept(self, message: UserMessage, when_busy: Busy | None) -> Disposition:
        if self._runner.running:
            return self._enqueue("steering" if when_busy == "steer" else "follow_up", message)
        self._runner.start((message,))
        return "started"

    def _enqueue(self, kind: QueueKind, message: UserMessage) -> Disposition:
        self._parts.queue.add(kind, message)
        return "queued"

    async def _message_with(self, text: str, extra: Sequence[Part]) -> UserMessage:
        """Images are made fit for the model; what was changed is said after the text."""
        from ludolf.tools.images import fit_block
        from ludolf.tools.options import image_limits

        model = self._parts.models.current
        resize = self._parts.settings.images.auto_resize
        limits = image_limits(model.input_limits if model else None) if resize else None
        notes: list[str] = []
        parts: list[Part] = []
        for part in extra:
            if not isinstance(part, Image):
                parts.append(part)
                continue
            fitted = await fit_block(part, limits)
            notes += fitted.hints
            if fitted.image is not None:
                parts.append(fitted.image)
        text = "\n\n".join((text, *notes)) if notes else text
        return UserMessage(content=(Text(text=text), *parts), timestamp=now_ms())


def _message(text: str) -> UserMessage:
    return UserMessage(content=(Text(text=text),), timestamp=now_ms())
