"""Telemetry of a Python program that embeds the agent: its provider gets the spans."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from ludolf import create_session
from ludolf.ai.builtin.scripted import PlaybackBlock, Scripted, ScriptedReply
from ludolf.ai.messages import ToolCall, Usage, UserMessage
from ludolf.extensions.providers import ModelContext
from ludolf.sdk.backend import BackendOutput


class Traced:
    """A provider whose spans a test looks at."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        return self._exporter.get_finished_spans()

    def tree(self) -> list[str]:
        lines: list[str] = []

        def add(parent: int | None, depth: int) -> None:
            own = [s for s in self.spans if (s.parent.span_id if s.parent else None) == parent]
            for span in sorted(own, key=lambda each: each.start_time or 0):
                lines.append("  " * depth + span.name)
                assert span.context is not None
                add(span.context.span_id, depth + 1)

        add(None, 0)
        return lines


def call(tool: str, call_id: str, **args: Any) -> PlaybackBlock:
    return PlaybackBlock(tool=tool, id=call_id, args=args)


async def test_spans_are_children_of_the_programs_span(tmp_path: Path) -> None:
    traced = Traced()
    model = Scripted(
        [
            ScriptedReply(content=(call("bash", "c1", command="true"), call("ls", "c2"))),
            ScriptedReply(text="done"),
        ]
    )
    tools = ("bash", "ls")
    async with create_session(
        model=model, cwd=tmp_path, builtin_tools=tools, settings={}, telemetry=traced.provider
    ) as session:
        with traced.provider.get_tracer("program").start_as_current_span("request"):
            await session.prompt("go")
    assert traced.tree() == [
        "request",
        "  invoke_agent ludolf",
        "    chat scripted",
        "    execute_tool bash",
        "    execute_tool ls",
        "    chat scripted",
    ]


async def leader(context: ModelContext) -> AsyncIterator[BackendOutput]:
    """Starts one subagent, which hands over a result; each answer has ten tokens."""
    first, last = str(context.messages[0]), context.messages[-1]
    task = {"name": "Look", "agent": "task", "task": "Say hello."}
    if "Your assignment" in first:
        yield ToolCall(id="y1", name="yield", arguments={"result": {"data": "hello"}})
    elif isinstance(last, UserMessage):
        yield ToolCall(id="c1", name="task", arguments={"context": "none", "tasks": [task]})
    else:
        yield "done"
    yield Usage(output=10)


async def test_a_subagent_is_a_child_of_the_call_that_started_it(tmp_path: Path) -> None:
    traced = Traced()
    async with create_session(
        model=leader,
        cwd=tmp_path,
        agent_dir=tmp_path / "agent",
        settings={"task": {"enabled": True}},
        builtin_tools=("task",),
        telemetry=traced.provider,
    ) as session:
        await session.prompt("go")
        stats = session.stats()
    (agent,) = [span for span in traced.spans if span.name == "invoke_agent task"]
    (tool,) = [span for span in traced.spans if span.name == "execute_tool task"]
    assert agent.parent is not None
    assert tool.context is not None
    assert agent.parent.span_id == tool.context.span_id
    chats = [span.attributes or {} for span in traced.spans if span.name == "chat leader"]
    spent = [each["gen_ai.usage.output_tokens"] for each in chats]
    assert spent == [10] * len(chats)
    assert stats.tokens.output == 10 * len(chats)


@pytest.mark.parametrize("telemetry", [False, None])
async def test_without_a_provider_nothing_is_reported(
    tmp_path: Path, telemetry: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Variables configure the program `ludolf`; a program that embeds it decides itself."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    given: dict[str, Any] = {} if telemetry is None else {"telemetry": telemetry}
    async with create_session(model=Scripted(["hi"]), cwd=tmp_path, settings={}, **given) as s:
        assert (await s.prompt("go")).text == "hi"
        assert s._engine is not None
        assert not s._engine.features.hooks["start_trace"]
