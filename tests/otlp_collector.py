"""A collector on the loopback interface: decodes what is sent to it, or misbehaves as told."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class SeenSpan(msgspec.Struct, frozen=True, kw_only=True):
    """One exported span; ids are in hexadecimal, times in nanoseconds."""

    name: str
    trace: str
    id: str
    parent: str
    start: int
    end: int
    kind: int
    status: int
    message: str
    links: tuple[str, ...]
    attributes: dict[str, Any]
    scope: str
    resource: dict[str, Any]


class SeenPoint(msgspec.Struct, frozen=True, kw_only=True):
    """One point of a metric: a sum, or the sum and count of a histogram."""

    name: str
    unit: str
    value: float
    count: int
    attributes: dict[str, Any]


class SeenLog(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    severity: int
    span: str
    attributes: dict[str, Any]


class Collector:
    """`status` is the answer to each request; `hangs` keeps requests without one."""

    def __init__(self) -> None:
        self.spans: list[SeenSpan] = []
        self.points: list[SeenPoint] = []
        self.logs: list[SeenLog] = []
        self.bodies: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        self.status = 200
        self.hangs = False
        self.over = threading.Event()
        self.address = ""

    def named(self, name: str) -> list[SeenSpan]:
        return [span for span in self.spans if span.name == name]

    def one(self, name: str) -> SeenSpan:
        (span,) = self.named(name)
        return span

    def tree(self) -> list[str]:
        """Return the names in the order of their starts, indented below their parents."""
        known = {span.id for span in self.spans}
        lines: list[str] = []

        def add(parent: str | None, depth: int) -> None:
            own = [s for s in self.spans if s.parent == parent or not (parent or s.parent in known)]
            for span in sorted(own, key=lambda each: each.start):
                lines.append("  " * depth + span.name)
                add(span.id, depth + 1)

        add(None, 0)
        return lines

    def metric(self, name: str) -> list[SeenPoint]:
        """Return the newest point of a metric for each set of attributes."""
        newest = {str(p.attributes): p for p in self.points if p.name == name}
        return list(newest.values())

    # ------------------------------------------------------------ taking

    def take(self, path: str, body: bytes, headers: dict[str, str]) -> None:
        self.bodies.append(body)
        self.headers.append(headers)
        if path.endswith("/traces"):
            self._take_spans(ExportTraceServiceRequest.FromString(body))
        elif path.endswith("/metrics"):
            self._take_metrics(ExportMetricsServiceRequest.FromString(body))
        else:
            self._take_logs(ExportLogsServiceRequest.FromString(body))

    def _take_spans(self, request: Any) -> None:
        for group in request.resource_spans:
            for scoped in group.scope_spans:
                for span in scoped.spans:
                    self.spans.append(
                        SeenSpan(
                            name=span.name,
                            trace=span.trace_id.hex(),
                            id=span.span_id.hex(),
                            parent=span.parent_span_id.hex(),
                            start=span.start_time_unix_nano,
                            end=span.end_time_unix_nano,
                            kind=span.kind,
                            status=span.status.code,
                            message=span.status.message,
                            links=tuple(link.span_id.hex() for link in span.links),
                            attributes=_attributes(span.attributes),
                            scope=scoped.scope.name,
                            resource=_attributes(group.resource.attributes),
                        )
                    )

    def _take_metrics(self, request: Any) -> None:
        for group in request.resource_metrics:
            for scoped in group.scope_metrics:
                for metric in scoped.metrics:
                    for point in (*metric.sum.data_points, *metric.histogram.data_points):
                        is_sum = metric.HasField("sum")
                        value = (point.as_double or point.as_int) if is_sum else point.sum
                        self.points.append(
                            SeenPoint(
                                name=metric.name,
                                unit=metric.unit,
                                value=value,
                                count=0 if is_sum else point.count,
                                attributes=_attributes(point.attributes),
                            )
                        )

    def _take_logs(self, request: Any) -> None:
        for group in request.resource_logs:
            for scoped in group.scope_logs:
                for record in scoped.log_records:
                    self.logs.append(
                        SeenLog(
                            name=record.event_name,
                            severity=record.severity_number,
                            span=record.span_id.hex(),
                            attributes=_attributes(record.attributes),
                        )
                    )


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(item) for item in value.array_value.values]
    if kind == "kvlist_value":
        return _attributes(value.kvlist_value.values)
    return getattr(value, kind) if kind else None


@contextmanager
def collector() -> Iterator[Collector]:
    """Serve a collector until the end of the block."""
    seen = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if seen.hangs:
                seen.over.wait()
                return
            if seen.status == 200:
                seen.take(self.path, body, dict(self.headers.items()))
            self.send_response(seen.status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    seen.address = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield seen
    finally:
        seen.over.set()
        server.shutdown()
        thread.join()
        server.server_close()
