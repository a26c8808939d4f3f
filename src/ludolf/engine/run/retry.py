"""Retry transient model failures."""

import asyncio

from ludolf.agent.scope import Aborted, Scope
from ludolf.ai.errors import RETRYABLE
from ludolf.ai.messages import AssistantMessage
from ludolf.ai.provider import ModelAnswer
from ludolf.engine.conversation import Conversation
from ludolf.engine.workspace import Workspace
from ludolf.protocol.events import AutoRetryEnd, AutoRetryStart, LimitReached

CANCELLED = "Retry cancelled"


class Retries:
    """The retries of one run; any answer that did not fail resets the count."""

    def __init__(self, workspace: Workspace, conversation: Conversation) -> None:
        self._workspace = workspace
        self._hub = conversation.hub
        self._meter = conversation.meter
        self._attempt = 0
        self._garbled = False
        self._wait: Scope | None = None
        self._over = asyncio.Event()

    def wants(self, answer: ModelAnswer) -> bool:
        """Whether this failure is worth another attempt."""
        retry = self._workspace.retry
        if not retry.enabled or answer.kind not in RETRYABLE:
            return False
        if self._attempt >= retry.max_retries or retry.is_too_long(answer.retry_after):
            return False
        if answer.kind == "garbled" and self._garbled:
            return False
        return not self._is_limited()

    def _is_limited(self) -> bool:
        """Return whether the prompt has used up a limit; the host is notified once."""
        was_reached = self._meter.reached is not None
        reached = self._meter.check()
        if reached is not None and not was_reached:
            self._hub.post(
                LimitReached(limit=reached.limit, used=reached.used, maximum=reached.maximum)
            )
        return reached is not None

    async def before_next(self, answer: ModelAnswer, scope: Scope) -> bool:
        """Announce the next attempt and wait for its time; False if the wait was stopped."""
        retry = self._workspace.retry
        self._attempt += 1
        self._garbled = self._garbled or answer.kind == "garbled"
        error = answer.message.error_message or ""
        delay = retry.delay_ms(self._attempt, answer.retry_after)
        await self._hub.emit(
            AutoRetryStart(
                attempt=self._attempt,
                max_attempts=retry.max_retries,
                delay_ms=delay,
                error_message=error,
            )
        )
        self._wait = Scope()
        self._over.clear()
        try:
            await scope.run(self._sleep(delay / 1000, self._wait))
        except Aborted:
            await self._end(False, CANCELLED)
            self._over.set()
            await asyncio.sleep(0)  # the command that stopped it is answered before the run ends
            return False
        finally:
            self._wait = None
            self._over.set()
        return True

    async def _sleep(self, seconds: float, wait: Scope) -> None:
        await wait.run(asyncio.sleep(seconds))

    async def answered(self, message: AssistantMessage) -> None:
        """Called with every finished answer: one that did not fail ends the retrying."""
        if self._attempt and not message.failed:
            await self._end(True, None)

    async def stopped(self) -> None:
        """Called when a run was aborted: ends the attempts that were announced."""
        if self._attempt:
            await self._end(False, CANCELLED)

    async def gave_up(self, answer: ModelAnswer) -> None:
        """Called when a run ended in failure and no attempt follows."""
        if self._attempt:
            await self._end(False, self._final_error(answer))

    async def abort_wait(self) -> None:
        """Stop a wait, if there is one, and return when its end has been sent."""
        if self._wait is not None:
            self._wait.abort()
            await self._over.wait()

    async def _end(self, success: bool, error: str | None) -> None:
        attempt, self._attempt, self._garbled = self._attempt, 0, False
        await self._hub.emit(AutoRetryEnd(success=success, attempt=attempt, final_error=error))

    def _final_error(self, answer: ModelAnswer) -> str:
        return answer.message.error_message or "Unknown error"
