"""Providers of a process from `OTEL_*` and the settings, and their end within a deadline."""

import logging
import math
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from opentelemetry._logs import NoOpLoggerProvider
from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor, ConsoleLogRecordExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import ConsoleMetricExporter, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import (
    BatchSpanProcessor,
    ConsoleSpanExporter,
    SpanExporter,
    SpanExportResult,
)
from opentelemetry.trace import NoOpTracerProvider
from opentelemetry.util.re import parse_env_headers

from ludolf import __version__
from ludolf.base import Warn
from ludolf.engine.features.telemetry.door import WarningPace
from ludolf.engine.features.telemetry.providers import TelemetryProviders

SIGNALS = ("traces", "metrics", "logs")
END_SECONDS = 2.0
SPAN_DELAY_MS = 1_000
METRIC_INTERVAL_MS = 10_000
_ROOM = 512
_OTLP = "opentelemetry.exporter.otlp.proto"
_GRPC = "opentelemetry-exporter-otlp-proto-grpc"
_PROTOCOL = 'Telemetry: the OTLP protocol "{name}" is not known; use http/protobuf or grpc.'
_NO_GRPC = f"Telemetry: OTLP over gRPC needs another package: pip install {_GRPC}"
_EXPORTER = 'Telemetry: the {signal} exporter "{name}" is not known; use otlp, console or none.'
NO_ENDPOINT = (
    "Telemetry is on but has no destination: set OTEL_EXPORTER_OTLP_ENDPOINT or the setting "
    "telemetry.endpoint, or OTEL_TRACES_EXPORTER=console."
)


class TelemetryPlan(msgspec.Struct, frozen=True):
    """Where each signal goes: exporters by signal, the base address, its headers, its protocol."""

    exporters: tuple[tuple[str, tuple[str, ...]], ...]
    endpoints: tuple[tuple[str, str], ...]
    headers: tuple[tuple[str, str], ...] = ()
    protocol: str = "http/protobuf"
    # At the end only, for a program that answers one prompt.
    metrics_at_end: bool = False

    @property
    def is_empty(self) -> bool:
        return not any(names for _, names in self.exporters)


def make_plan(
    environ: Mapping[str, str],
    endpoint: str | None,
    headers: Mapping[str, str],
    *,
    metrics_at_end: bool = False,
) -> TelemetryPlan:
    """Read the variables; `endpoint` and `headers` are those of the settings, which are weaker."""
    base = environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or endpoint or ""
    exporters, endpoints = [], []
    named = {signal: environ.get(f"OTEL_{signal.upper()}_EXPORTER") for signal in SIGNALS}
    for signal in SIGNALS:
        own = environ.get(f"OTEL_EXPORTER_OTLP_{signal.upper()}_ENDPOINT")
        address = own or (f"{base.removesuffix('/')}/v1/{signal}" if base else "")
        chosen = named[signal]
        if chosen is None and address and (own or not any(named.values())):
            chosen = "otlp"
        names = tuple(name.strip().lower() for name in (chosen or "").split(","))
        kept = tuple(name for name in names if name and name != "none")
        # Without an address there is nowhere to send to: no default endpoint.
        exporters.append((signal, tuple(n for n in kept if n != "otlp" or address)))
        endpoints.append((signal, address))
    return TelemetryPlan(
        tuple(exporters),
        tuple(endpoints),
        tuple(sorted(headers.items())),
        environ.get("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf").strip().lower(),
        metrics_at_end,
    )


class Pipeline:
    """The providers of one plan, shared by the sessions of a process.

    `release` ends them when the last user is gone. Warnings go to the newest user.
    """

    def __init__(self, plan: TelemetryPlan, environ: Mapping[str, str], warn: Warn) -> None:
        self._plan = plan
        self._environ = environ
        self.users: list[Warn] = [warn]
        self._pace = WarningPace()
        self._count = _SpanCount()
        self._owned: list[Any] = []
        self.providers = self._make()

    def warn(self, kind: str, text: str) -> None:
        """Warn of one kind of failure, at most once in a minute."""
        if self.users and self._pace.admits(kind):
            self.users[-1](f"Warning: {text}")

    def make_room(self) -> None:
        """Export the spans that have ended, if the queue could overflow; this blocks."""
        if self._count.lost > _ROOM and isinstance(self.providers.tracer, TracerProvider):
            self.providers.tracer.force_flush()

    def shut_down(self, seconds: float = END_SECONDS) -> bool:
        """Flush and end all providers; False if the time was not enough. Never takes longer.

        `force_flush` of the SDK ignores its time limit, so each provider is ended by a daemon
        thread, and the program leaves those that a dead collector holds up.
        """
        threads = [
            threading.Thread(target=self._end, args=(provider,), daemon=True)
            for provider in self._owned
        ]
        deadline = time.monotonic() + seconds
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        if self._count.lost:
            text = f"Telemetry: {self._count.lost} of {self._count.ended} spans were not exported."
            self.warn("lost", text)
        return not any(thread.is_alive() for thread in threads)

    def _end(self, provider: Any) -> None:
        if isinstance(provider, MeterProvider) and self._plan.metrics_at_end:
            provider.force_flush()  # a reader without an interval collects at no other time
        provider.shutdown()

    # ------------------------------------------------------------ making

    def _make(self) -> TelemetryProviders:
        resource, exporters = self._resource(), dict(self._plan.exporters)
        tracer = meter = logger = None
        if spans := self._exporters("traces", exporters["traces"]):
            tracer = TracerProvider(resource=resource, shutdown_on_exit=False)
            tracer.add_span_processor(self._count)
            for exporter in spans:
                counted = _CountedExporter(exporter, self._count)
                tracer.add_span_processor(
                    BatchSpanProcessor(counted, schedule_delay_millis=self._delay("BSP"))
                )
        if records := self._exporters("logs", exporters["logs"]):
            logger = LoggerProvider(resource=resource, shutdown_on_exit=False)
            for exporter in records:
                logger.add_log_record_processor(
                    BatchLogRecordProcessor(exporter, schedule_delay_millis=self._delay("BLRP"))
                )
        if metrics := self._exporters("metrics", exporters["metrics"]):
            interval = self._interval()
            readers = [PeriodicExportingMetricReader(each, interval) for each in metrics]
            meter = MeterProvider(readers, resource=resource, shutdown_on_exit=False)
        self._owned = [each for each in (tracer, logger, meter) if each is not None]
        return TelemetryProviders(
            tracer or NoOpTracerProvider(),
            meter or NoOpMeterProvider(),
            logger or NoOpLoggerProvider(),
        )

    def _resource(self) -> Resource:
        attributes = {SERVICE_VERSION: __version__}
        given = self._environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
        if not self._environ.get("OTEL_SERVICE_NAME") and f"{SERVICE_NAME}=" not in given:
            attributes[SERVICE_NAME] = "ludolf"
        return Resource.create(attributes)

    def _delay(self, processor: str) -> float | None:
        is_given = self._environ.get(f"OTEL_{processor}_SCHEDULE_DELAY")
        return None if is_given else SPAN_DELAY_MS

    def _interval(self) -> float | None:
        if self._environ.get("OTEL_METRIC_EXPORT_INTERVAL"):
            return None
        return math.inf if self._plan.metrics_at_end else METRIC_INTERVAL_MS

    def _exporters(self, signal: str, names: tuple[str, ...]) -> list[Any]:
        made = [self._exporter(signal, name) for name in names]
        return [each for each in made if each is not None]

    def _exporter(self, signal: str, name: str) -> Any:
        if name == "console":
            consoles: dict[str, Callable[..., Any]] = {
                "traces": ConsoleSpanExporter,
                "metrics": ConsoleMetricExporter,
                "logs": ConsoleLogRecordExporter,
            }
            return consoles[signal](out=sys.stderr)
        if name != "otlp":
            self.warn(f"exporter {name}", _EXPORTER.format(signal=signal, name=name))
            return None
        return self._otlp(signal)

    def _otlp(self, signal: str) -> Any:
        kind = otlp_exporter(signal, self._plan.protocol)
        if kind is None:
            is_grpc = self._plan.protocol == "grpc"
            text = _NO_GRPC if is_grpc else _PROTOCOL.format(name=self._plan.protocol)
            self.warn("protocol", text)
            return None
        headers = dict(self._plan.headers)
        own = self._environ.get(f"OTEL_EXPORTER_OTLP_{signal.upper()}_HEADERS")
        given = own or self._environ.get("OTEL_EXPORTER_OTLP_HEADERS", "")
        headers |= parse_env_headers(given, liberal=True)
        return kind(endpoint=dict(self._plan.endpoints)[signal], headers=headers or None)


def otlp_exporter(signal: str, protocol: str) -> Any:
    """Return the class of the exporter of a signal; None if the protocol is not available."""
    from importlib import import_module

    packages = {"http/protobuf": f"{_OTLP}.http", "grpc": f"{_OTLP}.grpc"}
    places = {
        "traces": ("trace_exporter", "OTLPSpanExporter"),
        "metrics": ("metric_exporter", "OTLPMetricExporter"),
        "logs": ("_log_exporter", "OTLPLogExporter"),
    }
    if protocol not in packages:
        return None
    module, name = places[signal]
    try:
        return getattr(import_module(f"{packages[protocol]}.{module}"), name)
    except ImportError:
        return None


class _SpanCount(SpanProcessor):
    """Counts spans that ended and spans that were exported; each exporter counts alike."""

    def __init__(self) -> None:
        self.ended = 0
        self.exported = 0

    def on_end(self, span: ReadableSpan) -> None:
        if span.context is not None and span.context.trace_flags.sampled:
            self.ended += 1

    @property
    def lost(self) -> int:
        return max(0, self.ended - self.exported)


class _CountedExporter(SpanExporter):
    def __init__(self, inner: SpanExporter, count: _SpanCount) -> None:
        self._inner = inner
        self._count = count

    def export(self, spans: Any) -> SpanExportResult:
        result = self._inner.export(spans)
        if result is SpanExportResult.SUCCESS:
            self._count.exported += len(spans)
        return result

    def shutdown(self) -> None:
        self._inner.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._inner.force_flush(timeout_millis)


# ---------------------------------------------------------------- the process

_lock = threading.Lock()
# By process, since a child of a fork has its own exporter, and by plan.
_pipelines: dict[tuple[int, TelemetryPlan], Pipeline] = {}
_kept: list[Pipeline] = []
# Without users, but still exporting.
_ending: list[Pipeline] = []


def acquire(plan: TelemetryPlan, environ: Mapping[str, str], warn: Warn) -> Pipeline:
    """Return the pipeline of a plan, made by its first user; each user releases it."""
    key = (os.getpid(), plan)
    with _lock:
        found = _pipelines.get(key)
        if found is not None:
            found.users.append(warn)
            return found
        pipeline = _pipelines[key] = Pipeline(plan, environ, warn)
        _watch_exports()
        return pipeline


def release(pipeline: Pipeline, warn: Warn, seconds: float = END_SECONDS) -> bool:
    """Give a pipeline up; the last user ends it and returns whether all was exported in time."""
    with _lock:
        if len(pipeline.users) > 1:
            pipeline.users.remove(warn)
            return True
        for key, found in list(_pipelines.items()):
            if found is pipeline:
                del _pipelines[key]
        _ending.append(pipeline)
    in_time = pipeline.shut_down(seconds)
    with _lock:
        _ending.remove(pipeline)
    return in_time


def keep(pipeline: Pipeline) -> None:
    """Keep a pipeline for the next sessions of the process, until `end_kept`."""
    with _lock:
        if pipeline not in _kept:
            _kept.append(pipeline)
            pipeline.users.insert(0, pipeline.users[0])


def end_kept() -> None:
    """End the pipelines that are kept; blocks for at most two seconds each."""
    while _kept:
        pipeline = _kept.pop()
        release(pipeline, pipeline.users[0])


# ---------------------------------------------------------------- failures of exports

_ADDRESS_QUERY = re.compile(r"\?[^\s'\"]*")
_KINDS: tuple[tuple[str, re.Pattern[str], str], ...] = (
    ("queue", re.compile("Queue full"), "more spans or events ended than could be sent"),
    ("auth", re.compile(r"\b40[13]\b"), "the collector refused the credentials"),
    ("size", re.compile(r"\b413\b|max_request_size"), "the data is too large for the collector"),
    ("busy", re.compile(r"\b429\b|Too Many Requests"), "the collector has too many requests"),
    ("server", re.compile(r"\b5\d\d\b|Service Unavailable"), "the collector failed"),
    ("silent", re.compile(r"time(d)?.?out", re.I), "the collector did not answer in time"),
    ("network", re.compile(r"connect|resolve|refused", re.I), "the collector cannot be reached"),
)


class ExportWatch(logging.Handler):
    """Turns log records of the SDK into warnings of the sessions; runs in its threads."""

    def emit(self, record: logging.LogRecord) -> None:
        text = _ADDRESS_QUERY.sub("?…", record.getMessage())[:300]
        kind, reason = classify_failure(text)
        for pipeline in (*_pipelines.values(), *_ending):
            pipeline.warn(kind, f"Telemetry: {reason}. The run is not affected. ({text})")


def classify_failure(text: str) -> tuple[str, str]:
    """Return the kind of a failed export, and a sentence about it."""
    for kind, pattern, reason in _KINDS:
        if pattern.search(text):
            return kind, reason
    return "other", "an export failed"


def _watch_exports() -> None:
    logger = logging.getLogger("opentelemetry")
    if not any(isinstance(each, ExportWatch) for each in logger.handlers):
        logger.addHandler(ExportWatch(logging.WARNING))
