"""The three providers of OpenTelemetry that one session reports to."""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from opentelemetry._logs import LoggerProvider
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider


class TelemetryProviders(NamedTuple):
    tracer: "TracerProvider"
    meter: "MeterProvider"
    logger: "LoggerProvider"
