"""W3C trace context: the fields by which spans of several programs form one trace."""

from collections.abc import Mapping

from ludolf.base import Value
from ludolf.base.patterns import lazy_pattern

# Version, trace id, span id and flags. Later versions may add fields at the end.
_TRACEPARENT = lazy_pattern(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_LONGEST_PARENT = 256
_LONGEST_STATE = 8192


class TraceContext(Value):
    """The fields as they came from the caller; they may be malformed.

    `linked`: the span starts a trace of its own that has a link to this context. `item` is the id
    of the work item that the run belongs to.
    """

    traceparent: str
    tracestate: str = ""
    baggage: str = ""
    linked: bool = False
    item: str = ""

    @property
    def is_valid(self) -> bool:
        """Return whether a span can have this context as its parent."""
        if len(self.traceparent) > _LONGEST_PARENT:
            return False
        if max(len(self.tracestate), len(self.baggage)) > _LONGEST_STATE:
            return False
        found = _TRACEPARENT.fullmatch(self.traceparent)
        if found is None or found[1] == "ff" or (found[1] == "00" and found[5]):
            return False
        return bool(found[2].strip("0") and found[3].strip("0"))


def trace_context(
    traceparent: str | None, tracestate: str | None = None, baggage: str | None = None
) -> TraceContext | None:
    """Return the context that a command carries; None without a traceparent."""
    if not traceparent:
        return None
    return TraceContext(traceparent=traceparent, tracestate=tracestate or "", baggage=baggage or "")


def trace_context_in(fields: Mapping[str, object]) -> TraceContext | None:
    """Return the context in an object with fields of others, such as `_meta`."""
    found = (fields.get(name) for name in ("traceparent", "tracestate", "baggage"))
    return trace_context(*(value if isinstance(value, str) else None for value in found))


def trace_context_of(environ: Mapping[str, str]) -> TraceContext | None:
    """Return the context that the caller of the program passed in its environment."""
    return trace_context(environ.get("TRACEPARENT"), environ.get("TRACESTATE"))
