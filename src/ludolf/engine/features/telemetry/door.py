"""The one place where failures of telemetry are caught: a run never fails because of them."""

import time
import traceback
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from ludolf.base import Warn

P = ParamSpec("P")
T = TypeVar("T")
MOST_FAILURES = 10
_FAILED = "Warning: Telemetry failed: {error}. The run is not affected."
_OFF = (
    "Warning: Telemetry is off until the program is started again, because it failed {count} "
    "times. Please report this with the traceback on stderr."
)


class TelemetryDoor:
    """Counts the failures of a process; after `MOST_FAILURES` nothing is called any more."""

    def __init__(self, warn: Warn) -> None:
        self._warn = warn
        self._failures = 0

    @property
    def is_shut(self) -> bool:
        return self._failures >= MOST_FAILURES

    def call(self, work: Callable[P, T], *args: P.args, **named: P.kwargs) -> T | None:
        """Return the result of the work; None if it failed or telemetry is off."""
        if self.is_shut:
            return None
        try:
            return work(*args, **named)
        except Exception as error:  # whatever a library does, the run continues
            self._note(error)
            return None

    def _note(self, error: Exception) -> None:
        self._failures += 1
        if self._failures == 1:
            traceback.print_exception(error)
            self._warn(_FAILED.format(error=f"{type(error).__name__}: {error}"))
        elif self.is_shut:
            self._warn(_OFF.format(count=self._failures))


class WarningPace:
    """Lets one warning of each kind pass in a minute."""

    def __init__(self, seconds: float = 60.0) -> None:
        self._seconds = seconds
        self._passed: dict[str, float] = {}

    def admits(self, kind: str) -> bool:
        now = time.monotonic()
        last = self._passed.get(kind)
        if last is not None and now - last < self._seconds:
            return False
        self._passed[kind] = now
        return True
