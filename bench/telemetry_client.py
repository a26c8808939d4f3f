"""Measure what telemetry costs inside one Python program; run as a separate program."""

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from ludolf import create_session
from ludolf.agent.events import MessageUpdate
from ludolf.ai.builtin.models import scripted_model
from ludolf.ai.draft import Draft
from ludolf.ai.messages import ToolCall, UserMessage, text_of
from ludolf.config.settings.home import asks_for_telemetry
from ludolf.config.settings.options import Options
from ludolf.engine.feature import Features
from ludolf.engine.features.telemetry.feature import EventTap
from ludolf.engine.hub import Hub
from ludolf.sdk import ModelContext
from ludolf.sdk.backend import BackendOutput

_ROUNDS = 9
_DELTAS = 20_000


async def _model(context: ModelContext) -> AsyncIterator[BackendOutput]:
    """Calls a tool as often as the prompt says."""
    asked = [each for each in context.messages if isinstance(each, UserMessage)][-1]
    count = int(text_of(asked.content))
    done = len(context.messages) - context.messages.index(asked)
    if done < 2 * count:
        yield ToolCall(id=f"c{done}", name="note", arguments={"text": "x"})
    else:
        yield "done"


async def note(text: str) -> str:
    """Do nothing."""
    return text


async def _seconds(folder: Path, prompt: str, telemetry: Any) -> float:
    """Return the CPU seconds of a prompt in a session that has answered one."""
    async with create_session(
        model=_model, cwd=folder, tools=[note], builtin_tools=(), settings={}, telemetry=telemetry
    ) as session:
        await session.prompt("2")
        since = time.process_time()
        await session.prompt(prompt)
        return time.process_time() - since


async def _extra(folder: Path, prompt: str, provider: TracerProvider) -> float:
    """Return the CPU seconds by which telemetry makes a prompt more expensive.

    The smallest of several: other work on the machine only adds to a figure.
    """
    off, on = [], []
    for _ in range(_ROUNDS):
        off.append(await _seconds(folder, prompt, False))
        on.append(await _seconds(folder, prompt, provider))
    return max(0.0, min(on) - min(off))


def _export_seconds(spans: tuple[ReadableSpan, ...]) -> float:
    since = time.process_time()
    for first in range(0, len(spans), 512):
        encode_spans(spans[first : first + 512]).SerializeToString()
    return (time.process_time() - since) / len(spans)


def _check_seconds(folder: Path) -> float:
    options = Options(cwd=folder, environ=os.environ)
    since = time.perf_counter()
    for _ in range(1000):
        asks_for_telemetry(options, enabled=None, endpoint=None)
    return (time.perf_counter() - since) / 1000


def _delta_seconds() -> float:
    """Return what a piece of an answer costs after the first one."""
    draft = Draft(scripted_model())
    draft.start_text()
    update = MessageUpdate(draft.text(0, "word"), draft)
    hub = Hub(lambda *events: None, lambda text: None, Features())

    def seconds() -> float:
        since = time.process_time()
        for _ in range(_DELTAS):
            hub.send(update)
        return time.process_time() - since

    off = min(seconds() for _ in range(_ROUNDS))
    hub.attach(EventTap(lambda event: None))
    return (min(seconds() for _ in range(_ROUNDS)) - off) / _DELTAS


async def measure(turns: int, folder: Path) -> dict[str, float]:
    plain, kept = TracerProvider(shutdown_on_exit=False), InMemorySpanExporter()
    turn = await _extra(folder, str(turns), plain) / turns
    plain.add_span_processor(SimpleSpanProcessor(kept))
    await _seconds(folder, str(turns), plain)
    return {
        "telemetry.none": 1e3 * _check_seconds(folder),
        "telemetry.turn": 1e3 * turn,
        "telemetry.delta": 1e6 * _delta_seconds(),
        "telemetry.export": 1e3 * _export_seconds(kept.get_finished_spans()),
    }


if __name__ == "__main__":
    figures = asyncio.run(measure(int(sys.argv[1]), Path(sys.argv[2])))
    sys.stdout.write(json.dumps(figures))
