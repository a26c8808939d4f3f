"""What leaves the machine: nothing of a conversation by default, masked parts of it on request."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ludolf.ai.builtin.scripted import PlaybackBlock
from ludolf.engine.features.telemetry.feature import Telemetry
from tests.loop.stage import Stage, call, calls, say, stage
from tests.otlp_collector import Collector, collector

MARKER = "zebrafish"
SECRET = "sk-ant-REDACTED"
TOKEN = "collector-token-0a1b2c3d4e5f"


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with collector() as made:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", made.address)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", f"authorization=Bearer%20{TOKEN}")
        yield made


async def talk(s: Stage) -> None:
    """A conversation that has the marker and a secret in each of its parts."""
    command = f"echo {MARKER} {SECRET}; echo $OTEL_EXPORTER_OTLP_HEADERS; exit 3"
    s.script.add(
        calls(call("bash", "c1", command=command)),
        calls(
            PlaybackBlock(thinking=f"{MARKER}?"),
            PlaybackBlock(text=f"the {MARKER} of https://a.example/{MARKER}?key={SECRET}"),
        ),
    )
    await s.run(f"{MARKER} {SECRET} {TOKEN}")


async def test_without_content_nothing_of_the_conversation_is_exported(
    tmp_path: Path, seen: Collector
) -> None:
    async with stage(tmp_path / MARKER) as s:
        await talk(s)
        await s.data("set_session_name", name=MARKER)
        s.engine.conversation.hub.notify(f"{MARKER} failed")
        (end,) = s.of_type("tool_execution_end")
        assert TOKEN not in str(end)  # commands do not see the headers
    assert seen.named("execute_tool bash")
    assert [log.attributes for log in seen.logs if log.name == "ludolf.warning"] == [
        {"ludolf.message.length": len(MARKER) + 7}
    ]
    for body in seen.bodies:
        assert MARKER.encode() not in body
        assert TOKEN.encode() not in body
    assert {headers["authorization"] for headers in seen.headers} == {f"Bearer {TOKEN}"}


async def test_with_content_each_part_is_on_its_span_without_secrets(
    tmp_path: Path, seen: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "span_and_event")
    async with stage(tmp_path) as s:
        await talk(s)
    run, tool = seen.one("invoke_agent ludolf"), seen.one("execute_tool bash")
    last = max(seen.named("chat scripted"), key=lambda span: span.start)
    assert MARKER in run.attributes["gen_ai.input.messages"]
    assert MARKER in tool.attributes["gen_ai.tool.call.arguments"]
    assert MARKER in tool.attributes["gen_ai.tool.call.result"]
    (answer,) = json.loads(last.attributes["gen_ai.output.messages"])
    kinds = {part["type"]: part["content"] for part in answer["parts"]}
    assert kinds["reasoning"] == f"{MARKER}?"
    assert kinds["text"].endswith(f"{MARKER}?…")
    assert "gen_ai.input.messages" not in last.attributes
    details = "gen_ai.client.inference.operation.details"
    assert [log.name for log in seen.logs].count(details) == 2
    for secret in (SECRET, TOKEN):
        assert not any(secret.encode() in body for body in seen.bodies)


async def test_the_settings_choose_single_parts(tmp_path: Path, seen: Collector) -> None:
    chosen = {"telemetry": {"content": {"tools": True}}}
    async with stage(tmp_path, settings=chosen) as s:
        await talk(s)
    assert MARKER in seen.one("execute_tool bash").attributes["gen_ai.tool.call.result"]
    assert "gen_ai.input.messages" not in seen.one("invoke_agent ludolf").attributes
    assert all("gen_ai.output.messages" not in s.attributes for s in seen.named("chat scripted"))


async def test_models_get_the_context_only_if_the_user_asked_for_it(
    tmp_path: Path, seen: Collector
) -> None:
    async with stage(tmp_path, say("one")) as s:
        await s.run("go")
        assert "traceparent" not in s.script.requests[0].access.headers
    chosen = {"telemetry": {"propagate": ["models"]}}
    async with stage(tmp_path / "again", say("one"), settings=chosen) as s:
        await s.run("go")
        sent = s.script.requests[0].access.headers["traceparent"]
    newest = max(seen.named("chat scripted"), key=lambda span: span.start)
    assert sent.startswith(f"00-{newest.trace}-{newest.id}-")


async def test_a_project_cannot_choose_the_collector(tmp_path: Path) -> None:
    folder = tmp_path / "work" / ".pi"
    folder.mkdir(parents=True)
    asked = {"telemetry": {"enabled": True, "endpoint": "http://127.0.0.1:9"}}
    (folder / "settings.json").write_text(json.dumps(asked))
    async with stage(tmp_path, say("fine"), options={"approve": True}) as s:
        await s.run("go")
        assert s.engine.features.find(Telemetry) is None
        assert any("telemetry" in text for text in s.engine.workspace.files.warnings)


async def test_an_approval_is_an_attribute_of_its_call(tmp_path: Path, seen: Collector) -> None:
    asking = {"approval": "always"}
    replies = (calls(call("echo", "c1", name="x")), say("done"))
    async with stage(tmp_path, *replies, options=asking, lawful=False) as s:
        await s.run("go")  # no host is connected that could approve it
    tool = seen.one("execute_tool echo")
    assert tool.attributes["ludolf.approval"] == "denied"
    assert tool.attributes["ludolf.wait.approval"] >= 0
    (event,) = [log for log in seen.logs if log.name == "ludolf.approval"]
    assert event.attributes["ludolf.approval"] == "denied"
    (duration,) = seen.metric("gen_ai.execute_tool.duration")
    assert duration.attributes["gen_ai.tool.name"] == "custom"


async def test_a_host_tool_gets_the_context_of_its_call(tmp_path: Path, seen: Collector) -> None:
    tool = {"name": "look", "label": "Look", "description": "Looks.", "parameters": {}}
    async with stage(tmp_path, calls(call("look", "c1")), say("done"), lawful=False) as s:
        await s.data("set_host_tools", tools=[tool])
        await s.data("prompt", message="go")
        asked = await s.until("host_tool_call")
        s.send("host_tool_result", id=asked["id"], result={"content": []})
        await s.settled()
    span = seen.one("execute_tool look")
    assert asked["traceparent"].startswith(f"00-{span.trace}-{span.id}-")


async def test_an_exception_in_telemetry_does_not_reach_the_run(
    tmp_path: Path, seen: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("a library is broken")

    library = "opentelemetry.util.genai.handler.TelemetryHandler.inference"
    monkeypatch.setattr(library, fail)
    async with stage(tmp_path, *(say("fine") for _ in range(12))) as s:
        for _ in range(12):
            await s.run("go")
        warnings = [record["message"] for record in s.of_type("warning")]
    assert len(warnings) == 2
    assert "a library is broken" in warnings[0]
    assert len(seen.named("invoke_agent ludolf")) == 9
