"""Asking again after a transient failure: counted, announced, and stoppable."""

import asyncio

from ludolf.agent.scope import Aborted, Scope
from ludolf.ai.errors import RETRYABLE
from ludolf.ai.messages import AssistantMessage
from ludolf.ai.provider import Answer
from ludolf.engine.parts import Parts
from ludolf.protocol.events import AutoRetryEnd, AutoRetryStart, LimitReached

CANCELLED = "Retry cancelled"


class Retries:
    """One layer of retries for a whole run; the count starts anew with any answer that is none."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._attempt = 0
        self._garbled = False
        self._wait: Scope | None = None
        self._over = asyncio.Event()

    def wants(self, answer: Answer) -> bool:
        """Whether this failure is worth another attempt."""
        retry = self._parts.retry
        if not retry.enabled or answer.kind not in RETRYABLE:
            return False
        if self._attempt >= retry.max_retries or retry.is_too_long(answer.retry_after):
            return False
        if answer.kind == "garbled" and self._garbled:
            return False
        return not self._is_limited()

    def _is_limited(self) -> bool:
        """Whether the prompt has used up a limit; tells of it once, before the run ends."""
        meter = self._parts.meter
        told = meter.reached is not None
        reached = meter.check()
        if reached is not None and not told:
            self._parts.hub.post(
                LimitReached(limit=reached.limit, used=reached.used, maximum=reached.maximum)
            )
        return reached is not None

    async def before_next(self, answer: Answer, scope: Scope) -> bool:
        """Announce the next attempt and wait for its time; False if the wait was stopped."""
        retry = self._parts.retry
        self._attempt += 1
        self._garbled = self._garbled or answer.kind == "garbled"
        error = answer.message.error_message or ""
        delay = retry.delay_ms(self._attempt, answer.retry_after)
        await self._parts.hub.emit(
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
            await asyncio.sleep(0)  # who asked for it is answered before the run settles
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
        """Called when a run was aborted: attempts that were announced come to nothing."""
        if self._attempt:
            await self._end(False, CANCELLED)

    async def gave_up(self, answer: Answer) -> None:
        """Called when a run ended in failure and no attempt follows."""
        if self._attempt:
            await self._end(False, self._final_error(answer))

    async def abort_wait(self) -> None:
        """Stop a wait, if there is one, and return when its end has been told."""
        if self._wait is not None:
            self._wait.abort()
            await self._over.wait()

    async def _end(self, success: bool, error: str | None) -> None:
        attempt, self._attempt, self._garbled = self._attempt, 0, False
        await self._parts.hub.emit(
            AutoRetryEnd(success=success, attempt=attempt, final_error=error)
        )

    def _final_error(self, answer: Answer) -> str:
        return answer.message.error_message or "Unknown error"
