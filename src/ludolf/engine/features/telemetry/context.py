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
    span = get_current_span(context).get_span_context()
    if not span.is_valid:
        return {}
    parent = f"00-{span.trace_id:032x}-{span.span_id:016x}-{span.trace_flags:02x}"
    fields = {"traceparent": parent}
    if span.trace_state:
        fields["tracestate"] = span.trace_state.to_header()
    return fields
