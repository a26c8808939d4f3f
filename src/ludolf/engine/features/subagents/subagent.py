"""One subagent, from its start to its outcome."""

from typing import TYPE_CHECKING

from ludolf.ai.messages import CustomMessage, Text, UserMessage, text_of
from ludolf.base import CommandError, now_ms
from ludolf.engine.features.subagents.progress import SubagentProgressSink
from ludolf.engine.features.subagents.subscription import SubagentSubscription
from ludolf.engine.features.subagents.task import SubagentOutcome, SubagentTask
from ludolf.engine.features.subagents.yield_tool import NAME, YieldTool

if TYPE_CHECKING:
    from collections.abc import Callable

    from ludolf.ai.models import Model
    from ludolf.engine.engine import Engine
    from ludolf.session.entries import UsageBody
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
        engine.toolset.provide(NAME, [self._yield])
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
            engine.runner.start((_reminder(),), woken=True)
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


def _spent(session: "Session", model: "Model") -> "tuple[UsageBody, ...]":
    """Return its usage by model, including that of its own subagents."""
    from ludolf.session.entries import UsageBody
    from ludolf.session.stats import OTHER_WORK, usage_by_model

    entries = []
    for key, usage in usage_by_model(session).items():
        provider, _, name = (model.key if key == OTHER_WORK else key).partition("/")
        entries.append(UsageBody(kind=SPENT, provider=provider, model=name, usage=usage))
    return tuple(entries)


def _reminder() -> CustomMessage:
    return CustomMessage(
        custom_type="task-reminder", content=REMINDER, display=False, timestamp=now_ms()
    )
