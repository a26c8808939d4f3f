"""Renews logins while requests wait for it: one attempt for all that wait."""

import asyncio
import time

from ludolf.agent.scope import Tasks
from ludolf.ai.errors import ProviderError
from ludolf.config.auth.credentials import gateway_of
from ludolf.config.auth.renewal import renew
from ludolf.engine.parts import Parts
from ludolf.protocol.events import Warned

# A login that could not be renewed but still holds is not tried again with every request.
PAUSE_SECONDS = 30.0


class Renewals:
    """An aborted request leaves the renewal running: a new token that nobody stores is lost."""

    def __init__(self, parts: Parts, tasks: Tasks) -> None:
        self._parts = parts
        self._tasks = tasks
        self._running: dict[str, asyncio.Task[None]] = {}
        self._tried: dict[str, float] = {}

    async def renew(self, provider: str) -> None:
        """Return when the provider's stored login can be used.

        Raises:
            ProviderError: it could not be renewed and has ended.
        """
        keyring = self._parts.registry.keyring
        tried = self._tried.get(provider)
        if tried is not None and time.monotonic() < tried and not keyring.ends_soon(provider, 0):
            return
        task = self._running.get(provider) or self._start(provider)
        await asyncio.wait((task,))
        try:
            task.result()
        except ProviderError as error:
            if keyring.ends_soon(provider, 0):
                raise
            self._tried[provider] = time.monotonic() + PAUSE_SECONDS
            self._parts.hub.post(Warned(message=str(error)))

    def _start(self, provider: str) -> "asyncio.Task[None]":
        registry = self._parts.registry
        gateway = gateway_of(registry, provider)
        task = self._tasks.start(renew(registry.keyring, provider, gateway))
        self._running[provider] = task
        task.add_done_callback(lambda done: self._over(provider, done))
        return task

    def _over(self, provider: str, task: "asyncio.Task[None]") -> None:
        self._running.pop(provider, None)
        if not task.cancelled():
            task.exception()  # all that waited may have been aborted: it counts as noticed
