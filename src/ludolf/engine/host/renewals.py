"""Renew logins while requests wait: one attempt for all waiting requests."""

import asyncio
import time

from ludolf.agent.scope import Tasks
from ludolf.ai.errors import ProviderError
from ludolf.config.auth.credentials import gateway_of
from ludolf.config.auth.renewal import renew, renew_by_extension
from ludolf.config.models.registry import ModelRegistry
from ludolf.engine.hub import Hub
from ludolf.protocol.events import Warned

# A login that could not be renewed but is still valid is not tried again with every request.
PAUSE_SECONDS = 30.0


class Renewals:
    """An aborted request leaves the renewal running: a token that is not stored would be lost."""

    def __init__(self, registry: ModelRegistry, hub: Hub, tasks: Tasks) -> None:
        self._registry = registry
        self._hub = hub
        self._tasks = tasks
        self._running: dict[str, asyncio.Task[None]] = {}
        self._tried: dict[str, float] = {}

    async def renew(self, provider: str) -> None:
        """Return when the provider's stored login can be used.

        Raises:
            ProviderError: it could not be renewed and has ended.
        """
        keyring = self._registry.keyring
        tried = self._tried.get(provider)
        if tried is not None and time.monotonic() < tried and not keyring.ends_soon(provider, 0):
            return
        task = self._running.get(provider) or self._start(provider)
        await asyncio.wait((task,))
        try:
            task.result()
        except ProviderError as error:
            if keyring.ends_soon(provider, 0) or provider in self._registry.logins:
                raise
            self._tried[provider] = time.monotonic() + PAUSE_SECONDS
            self._hub.post(Warned(message=str(error)))

    def _start(self, provider: str) -> "asyncio.Task[None]":
        registry = self._registry
        if provider in registry.logins:
            task = self._tasks.start(renew_by_extension(registry, provider))
        else:
            gateway = gateway_of(registry, provider)
            task = self._tasks.start(renew(registry.keyring, provider, gateway))
        self._running[provider] = task
        task.add_done_callback(lambda done: self._over(provider, done))
        return task

    def _over(self, provider: str, task: "asyncio.Task[None]") -> None:
        self._running.pop(provider, None)
        if not task.cancelled():
            task.exception()  # all that waited may have been aborted: it counts as noticed
