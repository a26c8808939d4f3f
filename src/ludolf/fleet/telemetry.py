"""Report a batch with OpenTelemetry, if the user asked for it; nothing is imported otherwise."""

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ludolf.base import Warn
from ludolf.config.settings.home import asks_for_telemetry, find_home
from ludolf.config.settings.options import Options
from ludolf.config.settings.settings import SettingsFiles
from ludolf.engine.features.telemetry.daemon import run_in_daemon
from ludolf.engine.features.telemetry.door import TelemetryDoor

if TYPE_CHECKING:
    from ludolf.engine.features.telemetry.batch import BatchTelemetry

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

        self._telemetry = await run_in_daemon(lambda: self._door.call(make), SETUP_SECONDS)

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
            await run_in_daemon(lambda: self._door.call(telemetry.end, counts), SETUP_SECONDS)


async def end_worker_telemetry() -> None:
    """Export what a worker has left, before its process ends."""
    module = sys.modules.get(_SETUP)
    if module is not None:
        await run_in_daemon(module.end_kept, SETUP_SECONDS)
