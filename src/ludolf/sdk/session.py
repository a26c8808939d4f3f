"""Agent session that runs inside the calling program."""

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar, Unpack

from msgspec import structs

from ludolf.ai.access import Access
from ludolf.ai.builtin.models import scripted_model
from ludolf.ai.builtin.scripted import Scripted
from ludolf.ai.messages import Image, Message, ThinkingLevel
from ludolf.ai.models import Model
from ludolf.base import CommandError, LudolfError
from ludolf.config.settings.options import Options
from ludolf.engine.build import build
from ludolf.engine.bundles import Bundles
from ludolf.engine.engine import Engine
from ludolf.engine.feature import PromptInput
from ludolf.engine.models import Models, ensure_builtin
from ludolf.functions.final_answer import ASK, REMIND
from ludolf.functions.isolation import Failed, call
from ludolf.protocol.commands import UiAnswer
from ludolf.protocol.events import CompactionResult
from ludolf.protocol.results import BashResult, Limits
from ludolf.protocol.ui import DIALOGS, UiRequest
from ludolf.sdk.backend import SpeakerBackend, check_speaker, make_known
from ludolf.sdk.history import SessionHistory
from ludolf.sdk.options import SessionOptions, check_level, start_options, wrong_limit
from ludolf.sdk.run import Run
from ludolf.sdk.structured import SOURCE, NotAnswered, tool_for
from ludolf.sdk.tools import read_tools
from ludolf.session.stats import SessionStats
from ludolf.session.store import is_shared


async def _answer_dialog(engine: Engine, answer: Callable[..., Any], request: UiRequest) -> None:
    """Call `on_dialog` and pass its result to the engine.

    The function takes the request and returns the chosen option, the text, or a bool; None
    dismisses the dialog, and so does an exception. It may be async.
    """
    try:
        value = await call(answer, request)
    except Failed as error:
        engine.workspace.warn(f"on_dialog failed: {error}")
        value = None
    if value is None:
        engine.answer_dialog(UiAnswer(id=request.id, cancelled=True))
    elif request.method == "confirm":
        engine.answer_dialog(UiAnswer(id=request.id, confirmed=bool(value)))
    else:
        engine.answer_dialog(UiAnswer(id=request.id, value=value))


T = TypeVar("T")


def create_session(**options: Unpack[SessionOptions]) -> "AgentSession":
    """Create a session for `async with`; `SessionOptions` lists the options.

    >>> import asyncio
    >>> async def main() -> list[str]:
    ...     async with create_session(model="ludolf/offline", builtin_tools=()) as session:
    ...         await session.prompt("hello")
    ...         return [message.role for message in session.messages]
    >>> asyncio.run(main())
    ['user', 'assistant']
    """
    return AgentSession(**options)


class AgentSession(SessionHistory):
    """A conversation with an agent, opened by `async with` or `open`.

    Sessions are independent: one program may open several, each with its own model, tools and
    settings.
    """

    _opening = "Use `async with`, or await open()."

    def __init__(self, **options: Unpack[SessionOptions]) -> None:
        self._given = options
        self._engine: Engine | None = None

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def open(self) -> None:
        """Start the session. No file is read or written before this call.

        Raises:
            ConfigError: an option or a file is invalid.
            CommandError: the session to continue cannot be opened.
        """
        if self._engine is not None:
            raise LudolfError("The session is already open.")
        options = start_options(self._given)
        engine = build(options, self._given.get("on_warning") or _warn, self._prepare)
        answer = self._given.get("on_dialog")

        def send(request: UiRequest) -> None:
            if answer is not None and request.method in DIALOGS:
                engine.tasks.start(_answer_dialog(engine, answer, request))

        _commands_are_guests(1)
        try:
            _check_alone(engine)
            await engine.start("sdk", send if answer is not None else None)
            if "mcp_servers" in self._given:
                engine.mcp.administration.provide("host", self._given["mcp_servers"])
        except BaseException:
            await _close(engine)
            raise
        self._engine = engine

    async def close(self) -> None:
        """Abort the run, save the session and release all resources. A second call does nothing."""
        engine, self._engine = self._engine, None
        if engine is not None:
            await _close(engine)

    # ------------------------------------------------------------ prompts

    def prompt(self, text: str, *, images: Sequence[Image] = ()) -> Run:
        """Send a prompt. Await the run for the `Answer`, or iterate over it for the events.

        >>> import asyncio
        >>> async def main() -> str:
        ...     async with create_session(model="ludolf/offline") as session:
        ...         first = await session.prompt("write b.txt with pear")
        ...         second = await session.prompt("read b.txt")
        ...         return second.text
        >>> print(asyncio.run(main()))
        Here is b.txt:
        ```
        pear
        ```

        Raises:
            PromptFailed: when awaited, if the model could not answer.
            CommandError: when awaited or iterated over, if the prompt was refused, for example
                because another run is active.
        """
        return Run(self.engine, text, tuple(images))

    async def ask(self, text: str, returns: type[T], *, images: Sequence[Image] = ()) -> T:
        """Send a prompt and return the answer as a value of a type.

        The type is a dataclass, a TypedDict, a msgspec or pydantic model, a list, an enum or a
        plain type.

        >>> import asyncio
        >>> async def oracle(context):  # takes the place of a model
        ...     yield '{"value": 42}'
        >>> async def main() -> dict[str, int]:
        ...     async with create_session(model=oracle) as session:
        ...         return await session.ask("What is the answer?", dict[str, int])
        >>> asyncio.run(main())
        {'value': 42}

        Raises:
            NotAnswered: the model returned no such value, even after a reminder.
            PromptFailed: the model could not answer.
            NoSchema: the type has no JSON Schema.
        """
        toolset, tool = self.engine.toolset, tool_for(returns)
        toolset.provide(SOURCE, [tool])
        try:
            answer = await self.prompt(f"{text}\n\n{ASK}", images=images)
            if not tool.given:
                tool.take_text(answer.text)
            if not tool.given and not answer.aborted:
                answer = await self.prompt(REMIND)
            if not tool.given:
                name = returns.__name__
                raise NotAnswered(f"The model returned no {name}. It answered: {answer.text}")
            return tool.value
        finally:
            toolset.provide(SOURCE, [])

    async def steer(self, text: str, *, images: Sequence[Image] = ()) -> None:
        """Queue a message for the running agent; the model receives it with its next request.

        >>> import asyncio
        >>> async def listener(context):
        ...     texts = [each.content[0].text for each in context.messages if each.role == "user"]
        ...     yield f"received {' and '.join(texts)}"
        >>> async def main() -> str:
        ...     async with create_session(model=listener) as session:
        ...         run = session.prompt("one")
        ...         async for event in run:
        ...             if type(event).__name__ == "AgentStart":
        ...                 await session.steer("two")
        ...         return run.answer.text
        >>> asyncio.run(main())
        'received one and two'
        """
        await self._queue("steering", text, images)

    async def follow_up(self, text: str, *, images: Sequence[Image] = ()) -> None:
        """Queue a message that the agent handles when its current work is done."""
        await self._queue("follow_up", text, images)

    async def abort(self) -> None:
        """Abort the run and wait until the agent is idle.

        >>> import asyncio
        >>> async def endless(context):
        ...     yield "Let me think"
        ...     await asyncio.Event().wait()
        >>> async def main() -> tuple[bool, str]:
        ...     async with create_session(model=endless) as session:
        ...         run = session.prompt("Go")
        ...         async for piece in run.text():
        ...             await session.abort()
        ...         return run.answer.aborted, run.answer.text
        >>> asyncio.run(main())
        (True, 'Let me think')
        """
        await self.engine.abort()

    async def compact(self, instructions: str | None = None) -> CompactionResult:
        """Replace the older part of the conversation with a summary.

        Raises:
            CommandError: there is nothing to compact, or the summary failed.
        """
        return await self.engine.compact(instructions)

    # ------------------------------------------------------------ changes

    async def bash(self, command: str, *, exclude_from_context: bool = False) -> BashResult:
        """Run a shell command in the working folder and wait for it, also during a run.

        The model reads the command and its output with the next prompt, unless they are excluded.

        >>> import asyncio
        >>> async def main() -> tuple[str, int | None]:
        ...     async with create_session(model="ludolf/offline") as session:
        ...         result = await session.bash("cat a.txt")
        ...         return result.output, result.exit_code
        >>> asyncio.run(main())
        ('hi\\n', 0)

        Raises:
            CommandError: the command could not be started, or an extension refused it.
        """
        return await self.engine.shell.run(command, exclude=exclude_from_context)

    def abort_bash(self) -> None:
        """End the commands of `bash`; each returns as cancelled."""
        self.engine.shell.abort()

    def set_limits(
        self,
        *,
        max_turns: int | None = None,
        max_tokens: int | None = None,
        max_cost: float | None = None,
    ) -> Limits:
        """Replace the limits of each prompt; a limit that is left out does not apply.

        Raises:
            CommandError: a limit is not a positive number.
        """
        limits = Limits(max_turns=max_turns, max_tokens=max_tokens, max_cost=max_cost)
        if wrong := wrong_limit(structs.asdict(limits)):
            raise CommandError(wrong)
        self.engine.conversation.meter.limits = limits
        return limits

    async def set_model(self, model: str) -> Model:
        """Select another model by `provider/id` or part of an id, and return it.

        Raises:
            ConfigError: no model matches.
            CommandError: the model has no credentials.
        """
        from ludolf.config.models.selection import choose_model

        registry = self.engine.models.registry
        ensure_builtin(registry, model)
        choice = choose_model(registry, model, None)
        return self.engine.models.set_model(choice.model.provider, choice.model.id)

    def set_thinking(self, level: ThinkingLevel) -> None:
        """Select a thinking level; the model may support fewer and use the nearest one.

        Raises:
            ConfigError: the level is unknown.
        """
        self.engine.models.set_level(check_level(level))

    # ------------------------------------------------------------ state

    @property
    def messages(self) -> tuple[Message, ...]:
        """Return the conversation as the model receives it."""
        messages = self.engine.session.context.messages()
        return tuple(message for message in messages if isinstance(message, Message))

    @property
    def model(self) -> Model | None:
        return self.engine.models.current

    @property
    def id(self) -> str:
        return self.engine.session.id

    @property
    def path(self) -> Path | None:
        """Return the session file; None if the session is in memory or still empty."""
        return self.engine.session.path

    @property
    def running(self) -> bool:
        return self.engine.runner.running

    def stats(self) -> SessionStats:
        """Return counts, tokens and cost of the session."""
        return self.engine.stats()

    @property
    def engine(self) -> Engine:
        """Return the engine, for features that this class does not offer.

        Raises:
            LudolfError: the session is not open.
        """
        if self._engine is None:
            raise LudolfError(f"The session is not open. {self._opening}")
        return self._engine

    # ------------------------------------------------------------ private

    async def _queue(self, kind: Any, text: str, images: Sequence[Image]) -> None:
        await self.engine.prompting.queue(kind, PromptInput(text=text, extra=tuple(images)))

    def _prepare(self, bundles: Bundles) -> None:
        self._choose(bundles.models, bundles.workspace.options)
        bundles.toolset.workplace = self._given.get("workplace")
        bundles.toolset.provide("sdk", read_tools(self._given.get("tools", ())))

    def _choose(self, models: Models, options: Options) -> None:
        model = self._given.get("model")
        if model is None or isinstance(model, str):
            options.model = model
            return
        if isinstance(model, Model):
            key, keyring = options.api_key, models.registry.keyring
            access = Access(key=key) if key else None
            models.registry.register([model], lambda one: access or keyring.access(one.provider))
            options.model = model.key
        elif isinstance(model, Scripted):
            models.providers.register(model)
            options.model = scripted_model().key
        else:
            author = SpeakerBackend(check_speaker(model)) if callable(model) else model
            options.model = make_known(models, author)
        options.api_key = None


async def _close(engine: Engine) -> None:
    try:
        await engine.close()
    finally:
        _commands_are_guests(-1)


def _commands_are_guests(more: int) -> None:
    """Keep processes that commands leave running from being adopted by this program."""
    from ludolf.tools.process_tree import WARDEN

    WARDEN.guests += more


def _check_alone(engine: Engine) -> None:
    """Refuse a file that this program already has open; file locks exclude only other programs."""
    path = engine.session.path
    if path is not None and is_shared(path):
        raise CommandError(f"The session {path} is already open in this program. Close it first.")


def _warn(text: str) -> None:
    warnings.warn(text, stacklevel=2)
