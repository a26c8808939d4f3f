"""Trace context through every way in and out, and events from before the set-up."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ludolf.engine.features.telemetry.backend import TelemetryBackend
from tests.loop.acp_client import acp
from tests.loop.mcp_stage import entry, results, served, uses
from tests.loop.stage import call, calls, say, stage
from tests.otlp_collector import Collector, collector
from tests.serve.service import environment, service

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
TRACE, SPAN = PARENT.split("-")[1:3]


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with collector() as made:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", made.address)
        yield made


async def test_a_prompt_over_acp_has_its_parent_in_meta(tmp_path: Path, seen: Collector) -> None:
    async with acp(tmp_path, say("fine")) as client:
        await client.initialize()
        await client.prompt(await client.new(), "Go", _meta={"traceparent": PARENT})
    run = seen.one("invoke_agent ludolf")
    assert (run.trace, run.parent, run.attributes["ludolf.mode"]) == (TRACE, SPAN, "acp")


async def test_prompts_of_a_served_session_have_the_parent_of_open(
    tmp_path: Path, seen: Collector
) -> None:
    other = PARENT.replace(SPAN, "00f067aa0ba902b7")
    async with service(tmp_path, say("one"), say("two")) as s:
        client = await s.join("a")
        env = environment(tmp_path) | {"OTEL_EXPORTER_OTLP_ENDPOINT": seen.address}
        session = (await client.open(traceparent=PARENT, env=env))["session"]
        await client.run("first", session=session)
        await client.run("second", session=session, traceparent=other)
    parents = [span.parent for span in sorted(seen.spans, key=lambda span: span.start)]
    assert [each for each in parents if each in (SPAN, other.split("-")[2])] == [
        SPAN,
        other.split("-")[2],
    ]
    assert {span.attributes.get("ludolf.mode") for span in seen.named("invoke_agent ludolf")} == {
        "serve"
    }


async def test_a_call_of_an_mcp_server_carries_the_context(tmp_path: Path, seen: Collector) -> None:
    lab = {"lab": entry("plain")}
    async with served(tmp_path, lab, uses("mcp__lab__seen"), say("done")) as s:
        await s.run("Go")
        ((text, _),) = results(s)
    (sent,) = [each for each in json.loads(text) if each.get("method") == "tools/call"]
    span = seen.one("execute_tool mcp__lab__seen")
    assert sent["params"]["_meta"]["traceparent"].startswith(f"00-{span.trace}-{span.id}-")
    assert span.attributes["mcp.method.name"] == "tools/call"
    assert span.attributes["gen_ai.tool.type"] == "extension"


async def test_events_before_the_set_up_keep_their_times(
    tmp_path: Path, seen: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The set-up is held until the prompt has ended, and no prompt waits for it."""
    held: list[Any] = []
    begin = TelemetryBackend.begin

    def hold(backend: TelemetryBackend, on_ready: Any) -> None:
        if not held:
            held.append(lambda: begin(backend, on_ready))
            backend._done.set()

    monkeypatch.setattr(TelemetryBackend, "begin", hold)
    both = calls(call("echo", "c1", name="x"))
    async with stage(tmp_path, both, say("done")) as s:
        told = await s.run("go")
        assert {"type": "agent_start"} in told
        backend = s.engine.features.hooks["start_trace"][0]._backend  # type: ignore[attr-defined]
        backend._done.clear()
        held[0]()
        await backend.ready(30)
    assert seen.tree() == [
        "invoke_agent ludolf",
        "  chat scripted",
        "  execute_tool echo",
        "  chat scripted",
    ]
    first, last = sorted(seen.named("chat scripted"), key=lambda span: span.start)
    tool, run = seen.one("execute_tool echo"), seen.one("invoke_agent ludolf")
    assert run.start <= first.start < first.end <= tool.start < tool.end <= last.start < last.end
    assert last.end <= run.end
