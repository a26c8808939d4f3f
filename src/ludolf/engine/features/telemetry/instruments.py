"""Metrics and log events with names of our own; those of the conventions are in `genai.py`."""

from collections.abc import Mapping
from typing import Any

from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.context import Context

from ludolf import __version__
from ludolf.engine.features.telemetry.genai import SCOPE, model_labels
from ludolf.engine.features.telemetry.providers import TelemetryProviders

# From a second to an hour: rate limits of providers are per minute, and a gate may stay shut.
_WAIT_BUCKETS = [0.01, 0.1, 1, 5, 10, 30, 60, 120, 300, 600, 1800, 3600]


class Instruments:
    """No label has an id, a path or a user: their number is that of providers, models, kinds."""

    def __init__(self, providers: TelemetryProviders) -> None:
        meter = providers.meter.get_meter(SCOPE, __version__)
        self._cost = meter.create_counter("ludolf.cost", "USD", "Cost of answers")
        self._retries = meter.create_counter("ludolf.retries", "{retry}", "Repeated requests")
        self._limits = meter.create_counter("ludolf.limits", "{limit}", "Limits that ended a run")
        self._sessions = meter.create_up_down_counter(
            "ludolf.sessions", "{session}", "Open sessions"
        )
        self._runs = meter.create_up_down_counter("ludolf.runs", "{run}", "Prompts under way")
        self._gate_wait = meter.create_histogram(
            "ludolf.gate.wait",
            "s",
            "Time that requests waited at the gate",
            explicit_bucket_boundaries_advisory=_WAIT_BUCKETS,
        )
        self._items = meter.create_counter("ludolf.batch.items", "{item}", "Items of batches")

    def add_cost(self, provider: str, model: str, dollars: float) -> None:
        if dollars > 0:
            self._cost.add(dollars, model_labels(provider, model))

    def count_retry(self, kind: str) -> None:
        self._retries.add(1, {"error.type": kind})

    def count_limit(self, limit: str) -> None:
        self._limits.add(1, {"ludolf.limit": limit})

    def count_session(self, mode: str, change: int) -> None:
        self._sessions.add(change, {"ludolf.mode": mode})

    def count_run(self, mode: str, change: int) -> None:
        self._runs.add(change, {"ludolf.mode": mode})

    def wait_at_gate(self, provider: str, seconds: float) -> None:
        self._gate_wait.record(seconds, {"ludolf.provider": provider})

    def count_item(self, status: str) -> None:
        self._items.add(1, {"ludolf.status": status})


class EventLog:
    """Log events with the span during which they happened."""

    def __init__(self, providers: TelemetryProviders) -> None:
        self._logger = providers.logger.get_logger(SCOPE, __version__)

    def emit(
        self,
        name: str,
        at: int,
        context: Context,
        attributes: Mapping[str, Any],
        *,
        warns: bool = False,
    ) -> None:
        severity = SeverityNumber.WARN if warns else SeverityNumber.INFO
        self._logger.emit(
            LogRecord(
                event_name=name,
                timestamp=at,
                observed_timestamp=at,
                context=context,
                severity_number=severity,
                severity_text=severity.name,
                attributes=dict(attributes),
            )
        )
