"""The span of a batch, to which the traces of its items are linked, and the count of items."""

from collections.abc import Mapping

from opentelemetry.context import Context

from ludolf.base import Warn
from ludolf.base.trace_context import trace_context_of
from ludolf.config.settings.settings import TelemetryOptions
from ludolf.engine.features.telemetry.clock import SpanClock
from ludolf.engine.features.telemetry.content import ContentRules
from ludolf.engine.features.telemetry.context import fields_of, parent_of
from ludolf.engine.features.telemetry.recorder import TelemetryOutput
from ludolf.engine.features.telemetry.setup import acquire, make_plan, release


class BatchTelemetry:
    """Made and ended in a thread: the set-up imports libraries, the end waits for the collector."""

    def __init__(
        self, name: str, environ: Mapping[str, str], options: TelemetryOptions, warn: Warn
    ) -> None:
        self._warn = warn
        self._clock = SpanClock()
        plan = make_plan(environ, options.endpoint, options.headers)
        self._pipeline = acquire(plan, environ, warn)
        self._output = TelemetryOutput(self._pipeline.providers, ContentRules())
        caller = trace_context_of(environ)
        is_child = caller is not None and caller.is_valid
        parent = parent_of(caller) if caller is not None and is_child else Context()
        self._span = self._output.spans.workflow("batch", self._clock.now(), parent)
        self._span.attributes["ludolf.batch.id"] = name

    @property
    def traceparent(self) -> str | None:
        """The span of the batch, for the links of its items."""
        return fields_of(self._span.context).get("traceparent")

    def count_item(self, status: str) -> None:
        """Count an item whose result is recorded."""
        self._output.instruments.count_item(status)

    def end(self, counts: Mapping[str, int]) -> None:
        """End the span with the number of items by status; blocks for at most two seconds."""
        for status, count in counts.items():
            self._span.attributes[f"ludolf.batch.items.{status}"] = count
        self._span.end(self._clock.now())
        release(self._pipeline, self._warn)
