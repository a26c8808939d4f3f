"""Turn input into messages: expansion, images, and the rules for a busy agent."""

from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from msgspec import UNSET, structs

from ludolf.agent.io import QueueKind
from ludolf.agent.scope import Aborted, Scope
from ludolf.ai.messages import CustomMessage, Image, Part, Text, UserMessage
from ludolf.base import CommandError, now_ms
from ludolf.config.models.selection import missing_key
from ludolf.engine.bundles import Component
from ludolf.engine.feature import PromptInput
from ludolf.engine.run.runner import PromptRunner
from ludolf.protocol.commands import Disposition

T = TypeVar("T")
BUSY = (
    "Agent is already processing. Specify streamingBehavior ('steer' or 'followUp') "
    "to queue the message."
)
BUSY_SCHEMA = (
    "Agent is already processing. A prompt with an output schema cannot be queued: send it again "
    "when the agent is idle."
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
    "No API key found for {provider}. {key} Without one, {model} cannot be used; `ludolf models` "
    "lists the models that are ready."
)


class Prompting(Component):
    """Accepts all input of users. Input that needs no waiting is accepted without one."""

    def __init__(self, runner: PromptRunner, work: Scope) -> None:
        super().__init__(runner.bundles)
        self._runner = runner
        self._compactor = runner.compactor
        self._work = work

    def is_command(self, text: str) -> bool:
        """Return whether a text calls a command of an extension."""
        return self.features.command_owner(text) is not None

    async def prompt(self, prompt: PromptInput) -> Disposition:
        """Run the command that a prompt calls, or accept it like any other input.

        Raises:
            CommandError: the prompt was refused.
        """
        owner = self.features.command_owner(prompt.text)
        if owner is not None:
            await owner.run_command(prompt.text)
            return "handled"
        return await self.submit(prompt)

    async def submit(self, prompt: PromptInput) -> Disposition:
        """Start a run with the input, or queue it if one is running.

        Raises:
            CommandError: the input was refused.
        """
        changed = await self._changed(prompt)
        if changed is None:
            return "handled"
        self._check(changed)
        message = await self._message(changed)
        self._check(changed)
        if not self._runner.running and self._compactor.is_due():
            await self._compactor.before_prompt()
        added: tuple[CustomMessage, ...] = ()
        preparing = self.features.hooks["prepares_runs"]
        if not self._runner.running and any(feature.prepares_runs() for feature in preparing):
            added = await self._stoppable(self.features.before_run(message))
        self._check(changed)
        return self._accept(message, added, changed)

    async def queue(self, kind: QueueKind, prompt: PromptInput) -> Disposition:
        """Queue a message, whether or not the agent is running.

        Raises:
            CommandError: the text is a command, which cannot wait.
        """
        if self.is_command(prompt.text):
            name = prompt.text.split(" ", 1)[0]
            raise CommandError(NOT_QUEUED.format(name=name))
        changed = await self._changed(prompt)
        if changed is None:
            return "handled"
        return self._enqueue(kind, await self._message(changed), changed)

    # ------------------------------------------------------------ private

    async def _stoppable(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for handlers and images; an abort ends the wait and refuses the prompt."""
        with self._work.open() as scope:
            try:
                return await scope.run(work)
            except Aborted:
                raise CommandError(ABORTED) from None

    async def _changed(self, prompt: PromptInput) -> PromptInput | None:
        """Return the input as extensions change it; None if one of them handled it."""
        features, text = self.features.hooks["handles_input"], prompt.text
        if not any(feature.handles_input(text) for feature in features):
            return prompt
        return await self._stoppable(self.features.before_input(prompt))

    def _check(self, prompt: PromptInput) -> None:
        if self._runner.running:
            if prompt.answer_tool is not None:
                raise CommandError(BUSY_SCHEMA, code="busy")
            if prompt.when_busy is None:
                raise CommandError(BUSY, code="busy")
            return
        if self._compactor.manual_running:
            raise CommandError(COMPACTING)
        model, session = self.models.require(), self.conversation.session
        refusal = session.refusal()
        if refusal is not None:
            raise CommandError(refusal, code=session.refusal_code)
        if not self.models.registry.admits(model):
            key = missing_key(self.models.registry, model.provider)
            text = NO_KEY.format(provider=model.provider, key=key, model=model.key)
            raise CommandError(text, code="no_key")

    def _accept(
        self, message: UserMessage, added: Sequence[CustomMessage], prompt: PromptInput
    ) -> Disposition:
        if self._runner.running:
            kind: QueueKind = "steering" if prompt.when_busy == "steer" else "follow_up"
            return self._enqueue(kind, message, prompt)
        if prompt.answer_tool is not None:
            from ludolf.engine.features.structured_answers import structured_answers

            answers = structured_answers(self.bundles)
            answers.check_name()
            added = (*added, answers.begin(prompt.answer_tool))
        self.features.join_trace(prompt.trace, starts=True)
        queue = self.conversation.queue
        held, queue.next_prompt = queue.next_prompt, []
        self._runner.start((message, *held, *added))
        return "started"

    def _enqueue(self, kind: QueueKind, message: UserMessage, prompt: PromptInput) -> Disposition:
        if prompt.trace is not None:
            self.features.join_trace(prompt.trace, starts=False)
        self.conversation.queue.add(kind, message)
        return "queued"

    async def _message(self, prompt: PromptInput) -> UserMessage:
        text = self.resources.expand(prompt.text) if prompt.expand else prompt.text
        if not prompt.extra:
            message = UserMessage(content=(Text(text=text),), timestamp=now_ms())
        else:
            message = await self._stoppable(self._with_images(text, prompt.extra))
        if prompt.attachments is UNSET:
            return message
        return structs.replace(message, attachments=prompt.attachments)

    async def _with_images(self, text: str, extra: Sequence[Part]) -> UserMessage:
        """Resize images for the model; notes about changes follow the text."""
        from ludolf.tools.images import fit_block
        from ludolf.tools.options import image_limits

        model = self.models.current
        resize = self.workspace.settings.images.auto_resize
        limits = image_limits(model.input_limits if model else None) if resize else None
        notes: list[str] = []
        content: list[Part] = []
        for part in extra:
            if not isinstance(part, Image):
                content.append(part)
                continue
            fitted = await fit_block(part, limits)
            notes += fitted.hints
            if fitted.image is not None:
                content.append(fitted.image)
        text = "\n\n".join((text, *notes)) if notes else text
        return UserMessage(content=(Text(text=text), *content), timestamp=now_ms())
