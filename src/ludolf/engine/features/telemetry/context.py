"""Trace context in and out: what hosts pass becomes a parent, what tools get names a span."""

from opentelemetry.baggage.propagation import W3CBaggagePropagator
from opentelemetry.context import Context
from opentelemetry.trace import SpanContext, get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from ludolf.base.trace_context import TraceContext

_propagator = TraceContextTextMapPropagator()


def parent_of(trace: TraceContext) -> Context:
    """Return the context in which a span has this parent."""
    carrier = {"traceparent": trace.traceparent}
    if trace.tracestate:
        carrier["tracestate"] = trace.tracestate
    context = _propagator.extract(carrier, Context())
    if trace.baggage:
        context = W3CBaggagePropagator().extract({"baggage": trace.baggage}, context)
    return context


def span_context_of(trace: TraceContext) -> SpanContext:
    """Return the span that a context names, as the target of a link."""
    return get_current_span(parent_of(trace)).get_span_context()


def fields_of(context: Context) -> dict[str, str]:
    """Return `traceparent`, and `tracestate` if there is one, for children of a span."""
    carrier: dict[str, str] = {}
    _propagator.inject(carrier, context)
    return carrier
