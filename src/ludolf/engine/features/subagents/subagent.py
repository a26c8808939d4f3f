"""One subagent: its task, its progress, the tool that hands over its result, and its run."""

import asyncio
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from ludolf.agent.events import MessageEnd, MessageUpdate, ToolEnd, ToolStart
from ludolf.agent.scope import Scope
from ludolf.agent.tool import ToolContext, ToolDefaults, ToolFailure, ToolOutput, text_output
from ludolf.ai.draft import Draft
from ludolf.ai.messages import (
    AssistantMessage,
    CustomMessage,
    Text,
    ThinkingLevel,
    UserMessage,
    text_of,
)
from ludolf.ai.models import Model
from ludolf.base import CommandError, dumps, now_ms
from ludolf.engine.conversation import Meter
from ludolf.engine.features.subagents.agents import Agent
from ludolf.engine.hub import Hub, Sink
from ludolf.protocol.events import AgentSettled, Event, ThinkingLevelChanged
from ludolf.protocol.subagent_events import (
    EventPayload,
    Level,
    LifecyclePayload,
    Progress,
    ProgressPayload,
    RecentTool,
    Snapshot,
    SubagentEvent,
    SubagentLifecycle,
    SubagentProgress,
    SubagentStatus,
)
from ludolf.session.entries import UsageBody
from ludolf.session.stats import OTHER_WORK, Tally
from ludolf.session.tree import Session

if TYPE_CHECKING:
    from ludolf.engine.engine import Engine


class SubagentTask(msgspec.Struct, frozen=True, kw_only=True):
    """`wanted` are the model patterns asked for; `is_fallback` if none of them was available.

    The subagent runs in `scope`.
    """

    id: str
    name: str
    index: int
    call_id: str
    agent: Agent
    assignment: str
    context: str
    file: Path
    model: Model
    level: ThinkingLevel
    wanted: tuple[str, ...]
    scope: Scope
    is_fallback: bool = False

    @property
    def prompt(self) -> str:
        return f"Your assignment:\n\n{self.assignment}"

    def progress(self, status: SubagentStatus) -> Progress:
        """Return the progress of a subagent that has not started yet."""
        return Progress(
            index=self.index,
            id=self.id,
            agent=self.agent.name,
            agent_source=self.agent.source,
            status=status,
            task=self.prompt,
            assignment=self.assignment,
            recent_tools=(),
            recent_output=(),
            tool_count=0,
            requests=0,
            tokens=0,
            cost=0,
            duration_ms=0,
        )


class SubagentOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """How a subagent ended: its result, or an error with the partial result."""

    status: Literal["completed", "failed", "aborted"]
    text: str = ""
    error: str | None = None


YIELD = "yield"


class YieldTool(ToolDefaults):
    """`outcome` is None until the subagent has submitted a result."""

    name = YIELD
    label = YIELD
    description = (
        "Hand over the result of your assignment and end. Call it exactly once, as the last thing "
        "you do: with `result.data` if the work is done, with `result.error` if it cannot be done. "
        "Only what is in here reaches the one who asked; nothing else that you wrote does."
    )
    parameters: Mapping[str, Any] = {
        "type": "object",
        "properties": {
            "result": {
                "type": "object",
                "description": "Either data or error.",
                "properties": {
                    "data": {"description": "The result: a text, or JSON where it was asked for."},
                    "error": {"type": "string", "description": "Why the work cannot be done."},
                },
            }
        },
        "required": ["result"],
    }
    read_only = True
    snippet = "Hand over the result of the assignment and end"
    guidelines = ("End by calling yield with the result; it is the only thing that is passed on.",)

    def __init__(self, when_given: Callable[[], None]) -> None:
        self._when_given = when_given
        self.outcome: SubagentOutcome | None = None

    async def prepare(self, args: Mapping[str, Any]) -> Mapping[str, Any]:
        if "result" not in args and ("data" in args or "error" in args):
            return {"result": dict(args)}
        result = args.get("result")
        return {"result": {"data": result}} if isinstance(result, str) else args

    async def execute(self, args: Mapping[str, Any], ctx: ToolContext) -> ToolOutput:
        result = args["result"]
        error, data = result.get("error"), result.get("data")
        if error is None and data is None:
            raise ToolFailure("The result must contain either data or error.")
        self._when_given()
        if error is not None:
            self.outcome = SubagentOutcome(
                status="failed", text=_result_text(data), error=str(error)
            )
            return _ending(f"Task aborted: {error}", {"status": "aborted", "error": str(error)})
        self.outcome = SubagentOutcome(status="completed", text=_result_text(data))
        return _ending("Result submitted.", {"data": data, "status": "success"})


def _ending(text: str, details: dict[str, Any]) -> ToolOutput:
    return text_output(text, details).replace(ends_run=True)


def _result_text(data: Any) -> str:
    if data is None:
        return ""
    return data if isinstance(data, str) else dumps(data).decode()


class SubagentSubscription:
    """`hub` is that of the host's engine."""

    def __init__(self, hub: Hub) -> None:
        self.level: Level = "off"
        self.hub = hub


# Between two frames while an answer streams. Ends of answers and calls are sent at once.
PAUSE_SECONDS = 0.15
RECENT_TOOLS, RECENT_LINES, TAIL = 5, 8, 8192
_KEY_ARGUMENTS = ("path", "file_path", "command", "pattern", "url", "query")


class SubagentProgressSink(Sink):
    """A sink at the subagent's hub. Without a subscription it only counts."""

    def __init__(self, task: SubagentTask, subscription: SubagentSubscription) -> None:
        self._task = task
        self._subscription = subscription
        self.status: SubagentStatus = "pending"
        self.last: AssistantMessage | None = None
        self.updated = now_ms()
        self._began = time.monotonic()
        self._draft: Draft | None = None
        self._tool: str | None = None
        self._open: dict[str, str] = {}
        self._tools: list[RecentTool] = []
        self._lines: tuple[str, ...] = ()
        self._tool_count = 0
        self._used = Meter()
        self._context: int | None = None
        self._yielded: list[Any] = []
        self._later: asyncio.TimerHandle | None = None

    # ------------------------------------------------------------ life

    def started(self) -> None:
        """Called when the subagent starts; subscribers of its events get its level first."""
        self.status = "running"
        self._began = time.monotonic()
        self._send_lifecycle("started")
        self.take(ThinkingLevelChanged(level=self._task.level))
        self._send()

    def ended(self, status: SubagentStatus) -> None:
        self.status = status
        self._send()
        self._send_lifecycle(status)

    @property
    def duration_ms(self) -> int:
        return int((time.monotonic() - self._began) * 1000)

    def snapshot(self) -> Snapshot:
        task = self._task
        return Snapshot(
            id=task.id,
            description=task.name,
            status=self.status,
            task=task.prompt,
            assignment=task.assignment,
            last_update=self.updated,
            progress=self.progress(),
            **self._place(),
        )

    def _place(self) -> dict[str, Any]:
        """Return the fields of every frame that say which subagent it is about."""
        task = self._task
        return {
            "index": task.index,
            "agent": task.agent.name,
            "agent_source": task.agent.source,
            "session_file": str(task.file),
            "parent_tool_call_id": task.call_id,
        }

    def progress(self) -> Progress:
        task = self._task
        level = "" if task.level == "off" else f":{task.level}"
        return task.progress(self.status).replace(
            description=task.name,
            current_tool=self._tool,
            recent_tools=tuple(self._tools),
            recent_output=self._recent_output(),
            tool_count=self._tool_count,
            requests=self._used.turns,
            tokens=self._used.tokens,
            cost=self._used.cost,
            duration_ms=self.duration_ms,
            model_override=task.wanted,
            context_window=task.model.context_window,
            resolved_model=task.model.key + level,
            resolved_model_is_fallback=task.is_fallback,
            context_tokens=self._context,
            extracted_tool_data={YIELD: self._yielded} if self._yielded else None,
        )

    # ------------------------------------------------------------ as a sink

    def take(self, event: Event) -> None:
        if self._subscription.level == "events":
            payload = EventPayload(id=self._task.id, event=event)
            self._subscription.hub.send(SubagentEvent(payload=payload))
        if type(event) is MessageUpdate:
            self._draft = event.draft
            self._send_later()
        elif isinstance(event, MessageEnd) and isinstance(event.message, AssistantMessage):
            self._answered(event.message)
        elif isinstance(event, ToolStart):
            self._tool = event.tool_name
            self._open[event.tool_call_id] = _brief(event)
            self._send_later()
        elif isinstance(event, ToolEnd):
            self._called(event)
        elif isinstance(event, AgentSettled):
            self._send()

    def has_room(self) -> bool:
        return self._subscription.level == "off" or self._subscription.hub.has_room()

    async def room(self) -> None:
        if self._subscription.level != "off":
            await self._subscription.hub.room()

    # ------------------------------------------------------------ counting

    def _answered(self, message: AssistantMessage) -> None:
        self.last, self._draft = message, None
        self._used.count(message)
        self._context = message.usage.context or self._context
        self._lines = _last_lines(text_of(message.content)) or self._lines
        self._send()

    def _called(self, event: ToolEnd) -> None:
        self._tool = None
        self._tool_count += 1
        args = self._open.pop(event.tool_call_id, "")
        done = RecentTool(tool=event.tool_name, args=args, end_ms=now_ms())
        self._tools = [done, *self._tools][:RECENT_TOOLS]
        if event.tool_name == YIELD and not event.is_error:
            self._yielded.append(event.result.details)
        self._send()

    def _recent_output(self) -> tuple[str, ...]:
        said = text_of(self._draft.snapshot().content) if self._draft is not None else ""
        return _last_lines(said) or self._lines

    # ------------------------------------------------------------ sending

    def _send_later(self) -> None:
        if self._later is None and self._subscription.level != "off":
            self._later = asyncio.get_running_loop().call_later(PAUSE_SECONDS, self._send)

    def _send(self) -> None:
        self.updated = now_ms()
        if self._later is not None:
            self._later.cancel()
            self._later = None
        if self._subscription.level != "off":
            payload = ProgressPayload(
                task=self._task.prompt,
                assignment=self._task.assignment,
                detached=True,
                progress=self.progress(),
                **self._place(),
            )
            self._subscription.hub.send(SubagentProgress(payload=payload))

    def _send_lifecycle(self, status: Any) -> None:
        if self._subscription.level != "off":
            task = self._task
            payload = LifecyclePayload(
                id=task.id, description=task.name, status=status, detached=True, **self._place()
            )
            self._subscription.hub.send(SubagentLifecycle(payload=payload))


def _brief(event: ToolStart) -> str:
    """Return the most informative argument of a call, on one line."""
    args: Mapping[str, Any] = event.args if isinstance(event.args, dict) else {}
    text = next((args[key] for key in _KEY_ARGUMENTS if isinstance(args.get(key), str)), "")
    return " ".join(text.split())[:80]


def _last_lines(text: str) -> tuple[str, ...]:
    lines = [line for line in text[-TAIL:].splitlines() if line.strip()]
    return tuple(lines[-RECENT_LINES:])


SPENT = "subagent"
REMINDERS = 3
REMINDER = (
    "You have ended without calling yield, so nothing was handed over. Call yield now with your "
    "result, or go on with the work and call it when you are done."
)
ABORTED = "The agent was aborted."
SILENT = "The agent ended without a result."
BROKEN = "The agent broke down; see the messages on stderr."
UNASKED = "(The agent did not call yield; these are its last words.)"


class Subagent:
    """`silent`: do not report completion; the parent run was aborted."""

    def __init__(self, task: SubagentTask, subscription: SubagentSubscription) -> None:
        self.task = task
        self.scope = task.scope
        self.watch = SubagentProgressSink(task, subscription)
        self.outcome = SubagentOutcome(status="failed", error=BROKEN)
        self.silent = False
        self.spent: tuple[UsageBody, ...] = ()
        self._engine: Engine | None = None
        self._yield = YieldTool(self._abort_own_subagents)

    @property
    def session_id(self) -> str | None:
        """Return the id of its own session; None if it does not run."""
        return None if self._engine is None else self._engine.session.id

    def abort(self, *, silent: bool) -> None:
        """Stop it; it ends later."""
        self.silent |= silent
        self._abort_own_subagents()
        self.scope.abort()

    def never_began(self) -> None:
        """Called when it was aborted before it started."""
        self.outcome = SubagentOutcome(status="aborted", error=ABORTED)

    def steer(self, text: str) -> None:
        """Send a message to the subagent, which gets it before its next answer.

        Raises:
            CommandError: it does not run yet.
        """
        if self._engine is None:
            raise CommandError(f"Subagent not running: {self.task.id}")
        message = UserMessage(content=(Text(text=text),), timestamp=now_ms())
        self._engine.conversation.queue.add("steering", message)

    async def run(self, parent: "Engine", prepare: "Callable[[Engine], None]") -> None:
        """Run to the end and set `outcome`. `prepare` may add features to the new engine."""
        engine = self._engine = parent.spawn(self.task)
        engine.toolset.provide(YIELD, [self._yield], inherited=False)
        prepare(engine)
        detach = engine.conversation.hub.attach(self.watch)
        self.watch.started()
        try:
            await self._work(engine)
            self.outcome = self._outcome(engine)
        finally:
            self._engine = None
            detach()
            await engine.close(owns_models=False)
            self.spent = _spent(engine.session, self.task.model)

    # ------------------------------------------------------------ private

    def _abort_own_subagents(self) -> None:
        if self._engine is not None:
            self._engine.abort_subagents()

    async def _work(self, engine: "Engine") -> None:
        prompt = UserMessage(content=(Text(text=self.task.prompt),), timestamp=now_ms())
        engine.runner.start((prompt,))
        await engine.settled()
        for _ in range(REMINDERS):
            if not self._has_no_result(engine):
                return
            reminder = CustomMessage(
                custom_type="task-reminder", content=REMINDER, display=False, timestamp=now_ms()
            )
            engine.runner.start((reminder,), woken=True)
            await engine.settled()

    def _has_no_result(self, engine: "Engine") -> bool:
        """Return whether it stopped without a result, and may be reminded."""
        last = self.watch.last
        stopped = last is not None and last.stop_reason in ("stop", "toolUse")
        limited = engine.conversation.meter.reached is not None
        return stopped and not limited and not self.scope.aborted and self._yield.outcome is None

    def _outcome(self, engine: "Engine") -> SubagentOutcome:
        last, reached = self.watch.last, engine.conversation.meter.reached
        said = text_of(last.content).strip() if last is not None else ""
        if self._yield.outcome is not None:
            return self._yield.outcome
        if self.scope.aborted:
            return SubagentOutcome(status="aborted", text=said, error=ABORTED)
        if reached is not None:
            text = f"The limit of {reached.maximum:g} for {reached.limit} is reached."
            return SubagentOutcome(status="failed", text=said, error=text)
        if last is None or last.failed:
            error = last.error_message if last is not None else None
            return SubagentOutcome(status="failed", text=said, error=error or SILENT)
        if not said:
            return SubagentOutcome(status="failed", error=SILENT)
        return SubagentOutcome(status="completed", text=f"{said}\n{UNASKED}")


def _spent(session: Session, model: Model) -> tuple[UsageBody, ...]:
    """Return its usage by model, including that of its own subagents."""
    entries = []
    for key, usage in Tally(session).by_model().items():
        provider, _, name = (model.key if key == OTHER_WORK else key).partition("/")
        entries.append(UsageBody(kind=SPENT, provider=provider, model=name, usage=usage))
    return tuple(entries)
