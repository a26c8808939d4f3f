"""Describe events in one line each: retries, compaction, limits, warnings, other clients."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from ludolf.page.formatting import tokens
from ludolf.tui.cards import spent_time

_Event = Mapping[str, Any]


class NoticeLine(msgspec.Struct, frozen=True):
    """One line, in the colour of a role. The text may hold text of others."""

    text: str
    role: str = "muted"


def event_notice(event: _Event) -> NoticeLine | None:
    """Return the line for an event of a session or of the server; None if it needs none."""
    describe = _NOTICES.get(_text(event, "type"))
    return describe(event) if describe is not None else None


def _retry(event: _Event) -> NoticeLine:
    attempt, most = _number(event, "attempt"), _number(event, "maxAttempts")
    wait = spent_time(_number(event, "delayMs") / 1000)
    why = _text(event, "errorMessage")
    return NoticeLine(f"Retry {attempt:.0f} of {most:.0f} in {wait}: {why}", "warning")


def _retry_end(event: _Event) -> NoticeLine | None:
    if event.get("success"):
        return None
    return NoticeLine(f"Retries ended: {_text(event, 'finalError') or 'no success'}", "error")


def _compaction_start(event: _Event) -> NoticeLine:
    return NoticeLine(f"Compacting the conversation ({_text(event, 'reason') or 'manual'})")


def _compaction_end(event: _Event) -> NoticeLine | None:
    if event.get("aborted"):
        return NoticeLine("Compaction stopped", "warning")
    if event.get("result") is None:
        why = _text(event, "errorMessage") or "unknown error"
        return NoticeLine(f"Compaction failed: {why}", "error")
    return None  # the stored entry follows


def _limit(event: _Event) -> NoticeLine:
    limit, most = _text(event, "limit"), _number(event, "maximum")
    shown = f"${most:.2f}" if limit == "cost" else tokens(most)
    return NoticeLine(f"Limit of {limit} reached: {shown}", "warning")


def _extension_error(event: _Event) -> NoticeLine:
    place, name = _text(event, "extensionPath"), _text(event, "event")
    return NoticeLine(f"Extension {place} failed in {name}: {_text(event, 'error')}", "error")


def _joined(event: _Event) -> NoticeLine:
    role = " as a reader" if event.get("role") == "reader" else ""
    return NoticeLine(f"{_text(event, 'name') or _text(event, 'client')} joined{role}")


def _closing(event: _Event) -> NoticeLine:
    wait = spent_time(_number(event, "seconds"))
    return NoticeLine(f"The server ends; runs have {wait} to finish", "warning")


_NOTICES: dict[str, Callable[[_Event], NoticeLine | None]] = {
    "auto_retry_start": _retry,
    "auto_retry_end": _retry_end,
    "summarization_retry_scheduled": _retry,
    "compaction_start": _compaction_start,
    "compaction_end": _compaction_end,
    "limit_reached": _limit,
    "extension_error": _extension_error,
    "warning": lambda event: NoticeLine(_text(event, "message"), "warning"),
    "client_joined": _joined,
    "client_left": lambda event: NoticeLine(f"{_text(event, 'client')} left"),
    "server_closing": _closing,
}


def _text(event: _Event, name: str) -> str:
    value = event.get(name)
    return value if isinstance(value, str) else ""


def _number(event: _Event, name: str) -> float:
    value = event.get(name)
    return value if isinstance(value, int | float) and abs(value) < 1e15 else 0
