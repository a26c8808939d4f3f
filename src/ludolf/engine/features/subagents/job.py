"""One agent in the background, from its start to its outcome."""

from typing import TYPE_CHECKING

from ludolf.agent.scope import Scope
from ludolf.ai.messages import CustomMessage, Text, UserMessage, text_of
from ludolf.base import CommandError, now_ms
from ludolf.engine.features.subagents.progress import Watch
from ludolf.engine.features.subagents.task import Outcome, Plan
from ludolf.engine.features.subagents.yield_tool import YieldTool

if TYPE_CHECKING:
    from collections.abc import Callable

    from ludolf.ai.models import Model
    from ludolf.engine.engine import Engine
    from ludolf.engine.features.subagents.registry import Board
    from ludolf.session.entries import UsageEntry
    from ludolf.session.tree import Session

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


class Job:
    """`silent`: nobody is to be told of its end, for whoever asked for the work was stopped too."""

    def __init__(self, plan: Plan, board: "Board") -> None:
        self.plan = plan
        self.watch = Watch(plan, board)
        self.outcome = Outcome(status="failed", error=BROKEN)
        self.silent = False
        self.spent: tuple[UsageEntry, ...] = ()
        # What happens before the engine is there can only be waiting.
        self.scope = Scope()
        self._engine: Engine | None = None
        self._finish = YieldTool(self._end_helpers)

    def abort(self, *, silent: bool) -> None:
        """Ask it to end; it does so in its own time."""
        self.silent |= silent
        self.scope.abort()
        if self._engine is not None:
            self._end_helpers()
            self._engine.runner.abort()

    def never_began(self) -> None:
        """It was aborted while it still waited."""
        self.outcome = Outcome(status="aborted", error=ABORTED)

    def say(self, text: str) -> None:
        """Say something to the agent as its user; it hears it before its next answer.

        Raises:
            CommandError: it does not run yet.
        """
        if self._engine is None:
            raise CommandError(f"Subagent not running: {self.plan.id}")
        message = UserMessage(content=(Text(text=text),), timestamp=now_ms())
        self._engine.parts.queue.add("steering", message)

    async def run(self, parent: "Engine", prepare: "Callable[[Engine], None]") -> None:
        """Do the work; `outcome` tells how it went. `prepare` may give the new engine more."""
        from ludolf.engine.features.subagents.child import close_child, make_child

        engine = self._engine = make_child(parent, self.plan, self._finish)
        prepare(engine)
        detach = engine.parts.hub.attach(self.watch)
        self.watch.started()
        try:
            await self._work(engine)
            self.outcome = self._judge(engine)
        finally:
            self._engine = None
            detach()
            await close_child(engine)
            self.spent = _spent(engine.parts.session, self.plan.model)

    # ------------------------------------------------------------ private

    def _end_helpers(self) -> None:
        """Its own agents have nobody left to report to."""
        if self._engine is not None and self._engine.parts.jobs is not None:
            self._engine.parts.jobs.abort()

    async def _work(self, engine: "Engine") -> None:
        prompt = UserMessage(content=(Text(text=self.plan.prompt),), timestamp=now_ms())
        engine.runner.start((prompt,))
        await engine.settled()
        for _ in range(REMINDERS):
            if not self._owes(engine):
                return
            engine.runner.start((_reminder(),), woken=True)
            await engine.settled()

    def _owes(self, engine: "Engine") -> bool:
        """Whether it just stopped, with nothing handed over."""
        last = self.watch.last
        stopped = last is not None and last.stop_reason in ("stop", "toolUse")
        limited = engine.parts.meter.reached is not None
        return stopped and not limited and not self.scope.aborted and self._finish.outcome is None

    def _judge(self, engine: "Engine") -> Outcome:
        last, reached = self.watch.last, engine.parts.meter.reached
        said = text_of(last.content).strip() if last is not None else ""
        if self._finish.outcome is not None:
            return self._finish.outcome
        if self.scope.aborted:
            return Outcome(status="aborted", text=said, error=ABORTED)
        if reached is not None:
            text = f"The limit of {reached.maximum:g} for {reached.limit} is reached."
            return Outcome(status="failed", text=said, error=text)
        if last is None or last.failed:
            error = last.error_message if last is not None else None
            return Outcome(status="failed", text=said, error=error or SILENT)
        if not said:
            return Outcome(status="failed", error=SILENT)
        return Outcome(status="completed", text=f"{said}\n{UNASKED}")


def _spent(session: "Session", model: "Model") -> "tuple[UsageEntry, ...]":
    """What its models took; also those of its own agents, whose entries are in its session."""
    from ludolf.session.entries import UsageEntry
    from ludolf.session.stats import OTHER_WORK, usage_by_model

    entries = []
    for key, usage in usage_by_model(session).items():
        provider, _, name = (model.key if key == OTHER_WORK else key).partition("/")
        entries.append(UsageEntry(kind=SPENT, provider=provider, model=name, usage=usage))
    return tuple(entries)


def _reminder() -> CustomMessage:
    return CustomMessage(
        custom_type="task-reminder", content=REMINDER, display=False, timestamp=now_ms()
    )
