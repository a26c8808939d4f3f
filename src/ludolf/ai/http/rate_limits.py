"""Read the rate limits that the head of an answer states, in the forms of several vendors."""

import re
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from ludolf.ai.errors import retry_after
from ludolf.ai.gate import GateReport

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
# A larger number is a point in time: seconds since 1970, or milliseconds.
_EPOCH, _EPOCH_MS = 1e9, 1e12


def gate_report(status: int, headers: Mapping[str, str], now: float | None = None) -> GateReport:
    """Return what a gate needs of a head. `now` is the time in seconds since 1970.

    Of several limits, the one that is used up for the longest time counts.
    """
    at = time.time() if now is None else now
    limits = sorted(_limits(headers, at), key=lambda limit: (limit[0], -limit[1]))
    remaining, reset = limits[0] if limits else (None, None)
    return GateReport(
        status=status, retry_after=retry_after(headers), remaining=remaining, reset=reset
    )


def _limits(headers: Mapping[str, str], now: float) -> Iterator[tuple[int, float]]:
    """Yield pairs of headers: what remains, and the seconds until it is renewed."""
    lower = {name.lower(): value.strip() for name, value in headers.items()}
    for name, value in lower.items():
        if "ratelimit" not in name or "remaining" not in name or not value.isdecimal():
            continue
        reset = _seconds(lower.get(name.replace("remaining", "reset"), ""), now)
        if reset is not None and len(value) < 19:
            yield int(value), reset


def _seconds(text: str, now: float) -> float | None:
    """Return the seconds until a reset: a number, a duration like `6m0s`, or a time."""
    if len(text) > 64:
        return None
    if text.replace(".", "", 1).isdecimal():
        number = float(text)
        if number >= _EPOCH:
            number = number / 1000 - now if number >= _EPOCH_MS else number - now
        return max(0.0, number)
    if text and not _DURATION.sub("", text):
        return sum(float(count) * _UNITS[unit] for count, unit in _DURATION.findall(text))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, moment.timestamp() - now)
