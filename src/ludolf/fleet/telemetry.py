"""Report a batch with OpenTelemetry, if the user asked for it; nothing is imported otherwise."""

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

from ludolf.base import Warn
from ludolf.config.settings.home import asks_for_telemetry, find_home
from ludolf.config.settings.options import Options
from ludolf.config.settings.settings import SettingsFiles
from ludolf.engine.features.telemetry.door import TelemetryDoor

if TYPE_CHECKING:
    from ludolf.engine.features.telemetry.batch import BatchTelemetry

T = TypeVar("T")
# How long the first item waits for the set-up.
SETUP_SECONDS = 5.0
_SETUP = "ludolf.engine.features.telemetry.setup"


class BatchReport:
    """The report of one batch; every method does nothing while telemetry is off."""

    def __init__(self, asked: bool | None, warn: Warn) -> None:
        self._asked = asked
        self._warn = warn
        self._door = TelemetryDoor(warn)
        self._telemetry: BatchTelemetry | None = None

    async def begin(self, name: str) -> None:
        """Start the span of the batch, if options, environment or settings ask for it."""
        home = find_home(None, os.environ)
        chosen = SettingsFiles(home).user.telemetry
        options = Options(cwd=home.cwd, telemetry=self._asked)
        if not asks_for_telemetry(options, enabled=chosen.enabled, endpoint=chosen.endpoint):
            return

        def make() -> "BatchTelemetry | None":
            try:
                from ludolf.engine.features.telemetry.batch import BatchTelemetry
            except ImportError:
                return None
            return BatchTelemetry(name, os.environ, chosen, self._warn)

        self._telemetry = await _in_thread(lambda: self._door.call(make), SETUP_SECONDS)

    @property
    def traceparent(self) -> str | None:
        """The span that items are linked to."""
        telemetry = self._telemetry
        return None if telemetry is None else self._door.call(lambda: telemetry.traceparent)

    def count_item(self, status: str) -> None:
        if self._telemetry is not None:
            self._door.call(self._telemetry.count_item, status)

    async def end(self, counts: Mapping[str, int]) -> None:
        """End the span and export what is left, for at most two seconds."""
        telemetry, self._telemetry = self._telemetry, None
        if telemetry is not None:
            await _in_thread(lambda: self._door.call(telemetry.end, counts), SETUP_SECONDS)


async def end_worker_telemetry() -> None:
    """Export what a worker has left, before its process ends."""
    module = sys.modules.get(_SETUP)
    if module is not None:
        await _in_thread(module.end_kept, SETUP_SECONDS)


async def _in_thread(work: Callable[[], T | None], seconds: float) -> T | None:
    """Return the result of work in a daemon thread; None if it takes longer."""
    loop, result = asyncio.get_running_loop(), asyncio.get_running_loop().create_future()

    def finish(value: T | None) -> None:
        if not result.done():
            result.set_result(value)

    def run() -> None:
        value = work()
        if not loop.is_closed():
            loop.call_soon_threadsafe(finish, value)

    threading.Thread(target=run, daemon=True).start()
    try:
        return await asyncio.wait_for(result, seconds)
    except TimeoutError:
        return None
