"""The agent of one item: in this process, or in a program that a command starts."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec
from msgspec import UNSET

from ludolf.agent.events import MessageEnd, ToolStart
from ludolf.ai.errors import is_out_of_quota, kind_of
from ludolf.ai.failure_text import failure_text
from ludolf.ai.messages import AssistantMessage, Image, Usage, text_of
from ludolf.base import CommandError, Warn
from ludolf.config.settings.options import Options
from ludolf.engine.build import build
from ludolf.engine.engine import Engine
from ludolf.engine.feature import PromptInput
from ludolf.engine.hub import Sink
from ludolf.fleet.results import CHECK_TAIL, CheckOutcome
from ludolf.functions.final_answer import AnswerTool
from ludolf.protocol.events import Event, LimitReached, StructuredOutput
from ludolf.protocol.results import BashResult, Limits
from ludolf.session.stats import SessionStats

# Called with the name of a tool, or with the usage of an answer.
OnStep = Callable[[str | Usage], None]


class AgentAnswer(msgspec.Struct, kw_only=True):
    """The end of a prompt: an answer, or the reason why there is none."""

    text: str = ""
    value: Any = UNSET
    limit: str | None = None
    error: str | None = None
    kind: str | None = None


class ItemAgent(Protocol):
    """An agent that works in the workspace of an item, and stores its session."""

    async def open(self) -> None:
        """Raises:
        LudolfError: it cannot start.
        """

    async def ask(self, text: str, images: Sequence[Image]) -> AgentAnswer:
        """Send a prompt and wait for its end. A cancelled wait aborts the run."""
        ...

    async def run_check(self, command: str) -> CheckOutcome:
        """Run a command where the agent's commands run."""
        ...

    async def set_limits(self, limits: Limits) -> None: ...

    async def stats(self) -> SessionStats: ...

    @property
    def model(self) -> str | None: ...

    def end_after_turn(self) -> None:
        """Send no further request in the running prompt."""

    async def close(self) -> None:
        """Abort the run, and store the session."""


class StepSink(Sink):
    """Event sink that reports steps and keeps the end of a prompt."""

    def __init__(self, on_step: OnStep) -> None:
        self._on_step = on_step
        self.last: AssistantMessage | None = None
        self.output: StructuredOutput | None = None
        self.limit: LimitReached | None = None

    def begin(self) -> None:
        self.last = self.output = self.limit = None

    def answered(self, message: AssistantMessage) -> None:
        self.last = message
        self._on_step(message.usage)

    def take(self, event: Event) -> None:
        match event:
            case MessageEnd(message=AssistantMessage() as message):
                self.answered(message)
            case ToolStart(tool_name=name):
                self._on_step(name)
            case StructuredOutput():
                self.output = event
            case LimitReached():
                self.limit = event


class LocalAgent:
    """An agent in this process."""

    def __init__(
        self, options: Options, tool: AnswerTool[Any] | None, on_step: OnStep, warn: Warn
    ) -> None:
        self._options = options
        self._tool = tool
        self._sink = StepSink(on_step)
        self._warn = warn
        self._engine: Engine | None = None

    async def open(self) -> None:
        """Raises:
        LudolfError: the options, the session or the sandbox cannot be used.
        """
        engine = build(self._options, self._warn)
        self._engine = engine
        engine.conversation.hub.attach(self._sink)
        await engine.start("sdk")
        # A worker has no other program around it: keys leave the memory that the kernel shows.
        engine.toolset.owns_process = True
        engine.workspace.mode = "batch"

    async def ask(self, text: str, images: Sequence[Image]) -> AgentAnswer:
        engine, sink = self.engine, self._sink
        sink.begin()
        try:
            prompt = PromptInput(text=text, extra=tuple(images), answer_tool=self._tool)
            await engine.prompting.prompt(prompt)
            await engine.settled()
        except CommandError as error:
            kind = "auth" if error.code == "no_key" else "refused"
            return AgentAnswer(error=str(error), kind=kind)
        return answer_at(sink)

    async def run_check(self, command: str) -> CheckOutcome:
        return check_outcome(await self.engine.shell.run(command, exclude=True))

    async def set_limits(self, limits: Limits) -> None:
        self.engine.conversation.meter.limits = limits

    async def stats(self) -> SessionStats:
        return self.engine.stats()

    @property
    def model(self) -> str | None:
        current = self.engine.models.current
        return current.key if current is not None else None

    def end_after_turn(self) -> None:
        meter = self.engine.conversation.meter
        meter.limits = Limits(max_turns=max(1, meter.turns))

    async def close(self) -> None:
        engine, self._engine = self._engine, None
        if engine is not None:
            await engine.close()

    @property
    def engine(self) -> Engine:
        assert self._engine is not None
        return self._engine


def answer_at(sink: StepSink) -> AgentAnswer:
    """Return the end of a prompt as its events report it."""
    last, output = sink.last, sink.output
    if output is not None and output.error is None:
        return AgentAnswer(text=text_of(last.content) if last else "", value=output.value)
    if last is not None and last.stop_reason == "error":
        kind = failure_kind(last.error_message or "")
        return AgentAnswer(error=failure_text(last, option="--model"), kind=kind)
    if last is not None and last.stop_reason == "aborted":
        return AgentAnswer(error="The run was aborted.", kind="aborted")
    text = text_of(last.content) if last else ""
    if sink.limit is not None:
        return AgentAnswer(text=text, limit=sink.limit.limit)
    if output is not None:
        return AgentAnswer(text=text, error=output.error, kind="schema")
    if not text.strip():
        return AgentAnswer(error="The model gave no answer.", kind="no_answer")
    return AgentAnswer(text=text)


def failure_kind(text: str) -> str:
    """Return the kind of a model's failure; `quota` if no later request can succeed either."""
    return "quota" if is_out_of_quota(text) else kind_of(text)


def check_outcome(result: BashResult) -> CheckOutcome:
    code = result.exit_code if result.exit_code is not None else -1
    return CheckOutcome(code=code, tail=result.output[-CHECK_TAIL:])
