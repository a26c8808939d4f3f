"""Send to the collector without a session: stored sessions, and one item of each signal."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec
from opentelemetry.context import Context

from ludolf import __version__
from ludolf.engine.features.telemetry.clock import SpanClock
from ludolf.engine.features.telemetry.content import ContentRules
from ludolf.engine.features.telemetry.genai import SCOPE
from ludolf.engine.features.telemetry.instruments import EventLog
from ludolf.engine.features.telemetry.providers import TelemetryProviders
from ludolf.engine.features.telemetry.recorder import RunRecorder, TelemetryOutput
from ludolf.engine.features.telemetry.replay import replay_session
from ludolf.engine.features.telemetry.setup import SIGNALS, TelemetryPlan, acquire, release

# The user waits for these commands, so the collector gets more time than at the end of a run.
PATIENCE_SECONDS = 15.0
CHECK = "ludolf.telemetry.check"


class SignalCheck(msgspec.Struct, frozen=True):
    """The answer to one item; `problem` is None if the collector has accepted it."""

    signal: str
    address: str
    problem: str | None


def check_signals(plan: TelemetryPlan, environ: Mapping[str, str]) -> Iterator[SignalCheck]:
    """Send one span, one metric and one log event; yield how each was answered."""
    for signal, names in plan.exporters:
        if not names:
            continue
        problems: list[str] = []
        pipeline = acquire(_only(plan, signal), environ, problems.append)
        _send_one(pipeline.providers)
        in_time = release(pipeline, problems.append, PATIENCE_SECONDS)
        if not in_time:
            problems.append("The collector did not answer in time.")
        address = dict(plan.endpoints)[signal] if "otlp" in names else ", ".join(names)
        problem = problems[0].removeprefix("Warning: ") if problems else None
        yield SignalCheck(signal, address, problem)


def send_sessions(
    paths: Iterable[Path], plan: TelemetryPlan, environ: Mapping[str, str], content: ContentRules
) -> tuple[int, list[str]]:
    """Send the spans of stored sessions; return the number of prompts, and what went wrong.

    Raises:
        CommandError: a file is not a session.
    """
    problems: list[str] = []
    pipeline = acquire(_only(plan, "traces"), environ, problems.append)
    count = 0
    try:
        for path in paths:
            recorder = RunRecorder(TelemetryOutput(pipeline.providers, content))
            count += replay_session(path, recorder, pipeline.make_room)
    finally:
        in_time = release(pipeline, problems.append, PATIENCE_SECONDS)
    if not in_time:
        problems.append("The collector did not answer in time.")
    return count, problems


def _only(plan: TelemetryPlan, wanted: str) -> TelemetryPlan:
    kept = tuple((signal, names if signal == wanted else ()) for signal, names in plan.exporters)
    return msgspec.structs.replace(plan, exporters=kept)


def _send_one(providers: TelemetryProviders) -> None:
    providers.tracer.get_tracer(SCOPE, __version__).start_span(CHECK, Context()).end()
    providers.meter.get_meter(SCOPE, __version__).create_counter(CHECK).add(1)
    EventLog(providers).emit(CHECK, SpanClock().now(), Context(), {})


def has_traces(plan: TelemetryPlan) -> bool:
    """Return whether the plan sends spans anywhere."""
    return bool(dict(plan.exporters)[SIGNALS[0]])
