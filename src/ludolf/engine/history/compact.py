"""Compact history into a summary: on demand, near the limit, or after an overflow."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ludolf.agent.io import RunEnd
from ludolf.agent.scope import Aborted, Scope
from ludolf.ai.messages import AssistantMessage
from ludolf.base import CommandError, LudolfError
from ludolf.engine.bundles import Bundles, Component
from ludolf.engine.feature import Vetoed
from ludolf.engine.history.summaries import Summaries, SummaryFailed
from ludolf.protocol.events import (
    CompactionEnd,
    CompactionReason,
    CompactionResult,
    CompactionStart,
)
from ludolf.session.context import CompactionSettings, estimate_all, should_compact, view_tokens
from ludolf.session.entries import CompactionBody

if TYPE_CHECKING:
    from ludolf.session.compaction import Preparation

CANCELLED = "Compaction cancelled"
BUSY = "Compaction is already in progress"
GIVEN_UP = {
    "overflow": (
        "Context overflow recovery failed after one compact-and-retry attempt. "
        "Try reducing context or switching to a larger-context model."
    ),
    "length": "Truncated response recovery failed after one compact-and-retry attempt.",
}
_PREFIX: dict[CompactionReason, str] = {
    "manual": "Compaction failed: ",
    "threshold": "Auto-compaction failed: ",
    "overflow": "Context overflow recovery failed: ",
}


class Compactor(Component):
    """One compaction at a time."""

    def __init__(self, bundles: Bundles, summaries: Summaries, work: Scope) -> None:
        super().__init__(bundles)
        self.summaries = summaries
        self._work = work
        self._recovered = False
        self._dropped: frozenset[str] = frozenset()
        self._manual: Scope | None = None

    def on_prompt(self) -> None:
        """Allow one more recovery from an overflow."""
        self._recovered = False

    @property
    def running(self) -> bool:
        return "compaction" in self.conversation.summarising

    @property
    def manual_running(self) -> bool:
        return self._manual is not None

    async def idle(self) -> None:
        """Return when no compaction outside a run is in progress."""
        while self._manual is not None:
            await self._manual.closed()

    @contextmanager
    def _on_demand(self) -> Iterator[Scope]:
        """Allow one compaction at a time outside a run.

        Raises:
            CommandError: one is in progress.
        """
        if self._manual is not None:
            raise CommandError(BUSY)
        with self._work.open() as scope:
            self._manual = scope
            try:
                yield scope
            finally:
                self._manual = None

    # ------------------------------------------------------------ triggers

    def refusal(self) -> str | None:
        """Why a compaction now would be refused, or None."""
        refusal = self.conversation.session.refusal()
        if refusal is not None:
            return refusal
        prepared = self._prepare()
        return prepared if isinstance(prepared, str) else None

    async def manual(
        self, instructions: str | None, stop: Callable[[], Awaitable[None]]
    ) -> CompactionResult:
        """Compact now; what runs is stopped for it, unless it would be refused.

        Raises:
            CommandError: refused, failed or cancelled.
        """
        if self._manual is not None:
            raise CommandError(BUSY)
        refused = self.refusal()
        if refused is not None:
            # Decided before the first wait: a run in progress must not change the verdict.
            self.conversation.hub.post(CompactionStart(reason="manual"))
            await self._end("manual", error=_PREFIX["manual"] + refused)
            raise CommandError(refused, code=self.conversation.session.refusal_code)
        with self._on_demand() as scope:
            await stop()
            try:
                result = await self._compact("manual", scope, instructions=instructions)
            except SummaryFailed as error:
                raise CommandError(str(error)) from error
        if result is None:
            raise CommandError(CANCELLED)
        return result

    def is_due(self) -> bool:
        """Whether the context nears the model's limit and can be compacted."""
        return self._is_near_limit() and self.refusal() is None

    async def before_prompt(self) -> None:
        """Compact if it is due; an abort of it refuses the prompt.

        Raises:
            CommandError: the compaction was aborted.
        """
        with self._on_demand() as scope:
            await self.if_near_limit(scope)
            if scope.aborted:
                raise CommandError(CANCELLED)

    async def if_near_limit(self, scope: Scope) -> bool:
        """Compact when the context nears the model's limit; True if that was done."""
        if not self.is_due():
            return False
        try:
            return await self._compact("threshold", scope) is not None
        except SummaryFailed:
            return False

    async def after_run(self, end: RunEnd, scope: Scope) -> bool:
        """What a finished run calls for; True if the run is to be tried again."""
        answer = end.answer
        if answer is None or not self.workspace.settings.compaction.enabled:
            return False
        problem = self._overflowed(answer.message, answer.kind == "overflow")
        if problem is None:
            if not answer.message.failed:
                self._recovered = False
                await self.if_near_limit(scope)
            return False
        return await self._recover(problem, scope)

    # ------------------------------------------------------------ private

    def _overflowed(self, message: AssistantMessage, said: bool) -> str | None:
        model = self.models.current
        if model is None or (message.provider, message.model) != (model.provider, model.id):
            return None
        sent = message.usage.input + message.usage.cache_read
        if said or (message.stop_reason == "stop" and sent > model.context_window):
            return "overflow"
        if message.stop_reason == "length" and message.usage.output < model.max_tokens:
            return "length"
        return None

    async def _recover(self, problem: str, scope: Scope) -> bool:
        session = self.conversation.session
        if self._recovered:
            await self._end("overflow", error=GIVEN_UP[problem])
            return False
        self._recovered = True
        messages = session.context.messages()
        finished = isinstance(messages[-1], AssistantMessage) and (
            messages[-1].stop_reason == "stop"
        )
        self._dropped = frozenset() if finished else self._last_answer()
        try:
            if problem == "length" and self.refusal() is not None:
                return False
            result = await self._compact("overflow", scope, will_retry=not finished)
        except SummaryFailed:
            return False
        finally:
            self._dropped = frozenset()
        return result is not None and not finished

    def _last_answer(self) -> frozenset[str]:
        """Return the failed answer and the results of its calls, which a retry leaves out."""
        view, found = self.conversation.session.context, set()
        for entry in reversed(view.entries):
            found.add(entry.id)
            if isinstance(view.message_at(entry), AssistantMessage):
                break
        return frozenset(found)

    def _is_near_limit(self) -> bool:
        model = self.models.current
        if model is None or not model.context_window:
            return False
        tokens = view_tokens(self.conversation.session.context)
        return should_compact(tokens, model.context_window, self._settings())

    def _settings(self) -> CompactionSettings:
        model, settings = self.models.current, self.workspace.settings.compaction
        reserve, keep = settings.limits(model.key if model else "")
        if model is not None and keep >= model.context_window - reserve:
            # Made for large windows: in this one the kept part would have to be compacted again.
            reserve, keep = (min(each, model.context_window // 4) for each in (reserve, keep))
        return CompactionSettings(
            enabled=settings.enabled, reserve_tokens=reserve, keep_recent_tokens=keep
        )

    def _prepare(self) -> "Preparation | str":
        from ludolf.session.compaction import prepare

        session = self.conversation.session
        left_out = session.omitted | self._dropped
        return prepare(session.path_to_leaf(), self._settings(), left_out)

    async def _compact(
        self,
        reason: CompactionReason,
        scope: Scope,
        *,
        instructions: str | None = None,
        will_retry: bool = False,
    ) -> CompactionResult | None:
        """Compact and emit the events; returns None if it was aborted."""
        self.conversation.summarising.add("compaction")
        try:
            await self.conversation.hub.emit(CompactionStart(reason=reason))
            result = await scope.run(self._summarise(reason, instructions, will_retry))
        except (Aborted, Vetoed):
            await self._end(reason, aborted=True)
            return None
        except LudolfError as error:
            await self._end(reason, error=_PREFIX[reason] + str(error))
            raise SummaryFailed(str(error)) from error
        finally:
            self.conversation.summarising.discard("compaction")
        await self._end(reason, result=result, will_retry=will_retry)
        return result

    async def _end(
        self,
        reason: CompactionReason,
        *,
        result: CompactionResult | None = None,
        aborted: bool = False,
        will_retry: bool = False,
        error: str | None = None,
    ) -> None:
        self.conversation.summarising.discard("compaction")
        end = CompactionEnd(
            reason=reason,
            result=result,
            aborted=aborted,
            will_retry=will_retry,
            error_message=error,
        )
        for feature in self.features.hooks["after_compact"]:
            await feature.after_compact(end)
        await self.conversation.hub.emit(end)

    async def _summarise(
        self, reason: CompactionReason, instructions: str | None, will_retry: bool
    ) -> CompactionResult:
        from ludolf.session.summary_text import compaction_summary

        prepared = self._prepare()
        if isinstance(prepared, str):
            raise SummaryFailed(prepared)
        for feature in self.features.hooks["before_compact"]:
            entry = await feature.before_compact(
                prepared, reason, instructions, will_retry=will_retry
            )
            if entry is not None:
                return self._store(entry)
        history, prefix, usage = await self.summaries.for_compaction(
            prepared, self._settings(), reason, instructions
        )
        entry = CompactionBody(
            summary=compaction_summary(history, prefix, prepared.previous_summary, prepared.files),
            first_kept_entry_id=prepared.first_kept_id,
            tokens_before=prepared.tokens_before,
            details=prepared.files,
            usage=usage,
            from_hook=False,
        )
        return self._store(entry)

    def _store(self, entry: CompactionBody) -> CompactionResult:
        self.conversation.session.append(entry)
        for dropped in self._dropped:
            self.conversation.session.omit(dropped)
        return CompactionResult(
            summary=entry.summary,
            first_kept_entry_id=entry.first_kept_entry_id,
            tokens_before=entry.tokens_before,
            estimated_tokens_after=estimate_all(self.conversation.session.context.messages()),
            usage=entry.usage,
            details=entry.details,
        )
