"""Groups of benchmark lines, in the order of measurement."""

from collections.abc import Callable

from bench.lines import (
    acp,
    arguments,
    batch,
    counts,
    eight,
    fifty,
    growth,
    mcp,
    memory,
    odd,
    output,
    overhead,
    round_trip,
    scripts,
    serve,
    sessions,
    start,
    streaming,
    telemetry,
    terminal,
    tool_loop,
    web,
)
from bench.stage import Stage

GROUPS: dict[str, Callable[[Stage], None]] = {
    "start": start.measure,
    "counts": counts.measure,
    "round-trip": round_trip.measure,
    "streaming": streaming.measure,
    "arguments": arguments.measure,
    "loop": tool_loop.measure,
    "output": output.measure,
    "sessions": sessions.measure,
    "memory": memory.measure,
    "overhead": overhead.measure,
    "eight": eight.measure,
    "fifty": fifty.measure,
    "mcp": mcp.measure,
    "scripts": scripts.measure,
    "acp": acp.measure,
    "serve": serve.measure,
    "terminal": terminal.measure,
    "web": web.measure,
    "batch": batch.measure,
    "telemetry": telemetry.measure,
    "odd": odd.measure,
    "growth": growth.measure,
}
