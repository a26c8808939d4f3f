"""From what a host says to a message: expansion, images, and the rules for a busy agent."""

from collections.abc import Coroutine, Sequence
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, structs

from ludolf.agent.queue import QueueKind
from ludolf.agent.scope import Aborted, Scope
from ludolf.ai.messages import CustomMessage, Image, Part, Text, UserMessage, text_of
from ludolf.base import CommandError, now_ms
from ludolf.engine.history.compact import Compactor
from ludolf.engine.parts import Parts
from ludolf.engine.run.runner import Runner

T = TypeVar("T")
Busy = Literal["steer", "followUp"]
BUSY = (
    "Agent is already processing. Specify streamingBehavior ('steer' or 'followUp') "
    "to queue the message."
)
COMPACTING = (
    "Cannot submit a prompt while compaction is in progress. "
    "Wait for compaction to finish and retry."
)
ABORTED = "The prompt was aborted before it was accepted"
NOT_QUEUED = (
    'Extension command "{name}" cannot be queued. '
    "Use prompt() or execute the command when not streaming."
)
NO_KEY = (
    "No API key found for {provider}. Store one with `ludolf auth login {provider}`, set its "
    "variable in the environment, or choose another model; `ludolf models` shows those that are "
    "ready."
)
# What became of a prompt.
Disposition = Literal["started", "queued", "handled"]
Source = Literal["rpc", "extension"]
# Work that needs no waiting is done at once, so that pipelined commands act in order.
Work = Disposition | Coroutine[Any, Any, Disposition]


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody said, on its way to become a message; `attachments` are kept as they came."""

    text: str
    extra: tuple[Part, ...] = ()
    attachments: Any = UNSET
    when_busy: Busy | None = None
    source: Source = "rpc"
    expand: bool = True


class Prompting:
    """The door for everything that a user says."""

    def __init__(self, parts: Parts, runner: Runner, compactor: Compactor) -> None:
        self._parts = parts
        self._runner = runner
        self._compactor = compactor
        self.next_turn: list[CustomMessage] = []
        self._preparing: Scope | None = None

    def abort(self) -> None:
        """Stop the preparing of a prompt; it is refused then."""
        if self._preparing is not None:
            self._preparing.abort()

    def is_command(self, text: str) -> bool:
        """Whether a text calls a command of an extension."""
        current = self._parts.extending.current
        return current is not None and current.find_command(text) is not None

    def prompt(
        self,
        text: str,
        extra: Sequence[Part] = (),
        when_busy: Busy | None = None,
        *,
        attachments: Any = UNSET,
    ) -> Work:
        """Accept or queue a prompt, or run the command that it calls.

        Raises:
            CommandError: the prompt was refused.
        """
        current = self._parts.extending.current
        called = current.find_command(text) if current is not None else None
        if current is not None and called is not None:
            return _run_command(current.run_command(called))
        return self._say(
            Said(text=text, extra=tuple(extra), when_busy=when_busy, attachments=attachments)
        )

    def say(
        self,
        text: str,
        extra: Sequence[Part] = (),
        when_busy: Busy | None = None,
        *,
        source: Source = "rpc",
        expand: bool = True,
    ) -> Work:
        """Accept or queue what is said, at once if nothing has to be waited for.

        Raises:
            CommandError: it was refused.
        """
        return self._say(
            Said(text=text, extra=tuple(extra), when_busy=when_busy, source=source, expand=expand)
        )

    def _say(self, said: Said) -> Work:
        if self._parts.extending.wants("input"):
            return self._prompt_heard(said)
        self._check(said.when_busy)
        carries = said.extra or said.attachments is not UNSET
        waits = carries or self._parts.extending.wants("before_agent_start")
        if not waits and (self._runner.running or not self._compactor.is_due()):
            return self._accept(_message(self._expanded(said)), (), said.when_busy)
        return self._prompt_slowly(said)

    def queue(self, kind: QueueKind, text: str, extra: Sequence[Part] = ()) -> Work:
        """Put a message into a waiting line, whether or not anything runs.

        Raises:
            CommandError: the text is a command, which cannot wait.
        """
        if self.is_command(text):
            name = text.split(" ", 1)[0]
            raise CommandError(NOT_QUEUED.format(name=name))
        said = Said(text=text, extra=tuple(extra))
        if extra or self._parts.extending.wants("input"):
            return self._queue_slowly(kind, said)
        return self._enqueue(kind, _message(self._expanded(said)))

    # ------------------------------------------------------------ private

    async def _stoppable(self, work: Coroutine[Any, Any, T]) -> T:
        """Handlers and images may take their time; an abort ends the waiting for them."""
        scope = self._preparing = Scope()
        try:
            return await scope.run(work)
        except Aborted:
            raise CommandError(ABORTED) from None
        finally:
            if self._preparing is scope:
                self._preparing = None

    def _expanded(self, said: Said) -> str:
        return self._parts.resources.expand(said.text) if said.expand else said.text

    async def _prompt_heard(self, said: Said) -> Disposition:
        heard = await self._stoppable(self._heard(said))
        return "handled" if heard is None else await self._prompt_slowly(heard)

    async def _prompt_slowly(self, said: Said) -> Disposition:
        self._check(said.when_busy)
        message = await self._stoppable(self._message_with(self._expanded(said), said.extra))
        message = structs.replace(message, attachments=said.attachments)
        self._check(said.when_busy)
        added: tuple[CustomMessage, ...] = ()
        if not self._runner.running:
            await self._compactor.before_prompt()
        if not self._runner.running and self._parts.extending.wants("before_agent_start"):
            added = await self._stoppable(self._before_start(message))
        self._check(said.when_busy)
        return self._accept(message, added, said.when_busy)

    async def _queue_slowly(self, kind: QueueKind, said: Said) -> Disposition:
        heard = await self._heard(said) if self._parts.extending.wants("input") else said
        if heard is None:
            return "handled"
        return self._enqueue(kind, await self._message_with(self._expanded(heard), heard.extra))

    async def _heard(self, said: Said) -> Said | None:
        """What extensions make of it; None if one of them has dealt with it."""
        from ludolf.extensions import points
        from ludolf.extensions.payloads import Input

        images = tuple(part for part in said.extra if isinstance(part, Image))
        others = tuple(part for part in said.extra if not isinstance(part, Image))
        payload = Input(
            text=said.text,
            images=images,
            source=said.source,
            streaming_behavior=said.when_busy,
        )
        heard = await points.user_input(self._parts.extending.runner, payload)
        if heard is None:
            return None
        return structs.replace(said, text=heard.text, extra=(*others, *heard.images))

    async def _before_start(self, message: UserMessage) -> tuple[CustomMessage, ...]:
        from ludolf.extensions.payloads import BeforeAgentStart

        resources = self._parts.resources
        payload = BeforeAgentStart(
            prompt=text_of(message.content),
            system_prompt=resources.system_prompt(),
            system_prompt_options=resources.prompt_options(),
            images=tuple(part for part in message.content if isinstance(part, Image)),
        )
        final = await self._parts.extending.runner.transform(payload)
        if final.forced:
            self._parts.forced_system = final.system_prompt
        elif final.system_prompt_options != payload.system_prompt_options:
            self._parts.forced_system = resources.render(final.system_prompt_options)
        return final.messages

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

    def _accept(
        self, message: UserMessage, added: Sequence[CustomMessage], when_busy: Busy | None
    ) -> Disposition:
        if self._runner.running:
            return self._enqueue("steering" if when_busy == "steer" else "follow_up", message)
        kept, self.next_turn = self.next_turn, []
        self._runner.start((message, *kept, *added))
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


async def _run_command(work: Coroutine[Any, Any, None]) -> Disposition:
    await work
    return "handled"
