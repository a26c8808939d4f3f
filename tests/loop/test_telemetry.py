"""Telemetry of a session as a collector sees it: spans, numbers, events, context."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ludolf.ai.builtin.scripted import ScriptedFailure, ScriptedUsage
from tests.loop.stage import call, calls, fails, say, stage, used, words
from tests.otlp_collector import Collector, SeenSpan, collector

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    """A collector that the environment names."""
    with collector() as made:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", made.address)
        yield made


def ended_within(child: SeenSpan, parent: SeenSpan) -> bool:
    return parent.start <= child.start <= child.end <= parent.end


async def test_a_prompt_with_two_tools_is_one_trace(tmp_path: Path, seen: Collector) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.txt").write_text("apple")
    both = calls(
        call("read", "c1", path="a.txt"),
        call("bash", "c2", command="exit 3"),
        usage=ScriptedUsage(input=100, output=20, cache_read=30, cache_write=5, reasoning=7),
    )
    done = say("done", usage=ScriptedUsage(input=150, output=10))
    async with stage(tmp_path, both, done) as s:
        await s.run("go")
        stats = await s.data("get_session_stats")
        session = s.engine.session.id
    assert seen.tree() == [
        "invoke_agent ludolf",
        "  chat scripted",
        "  execute_tool read",
        "  execute_tool bash",
        "  chat scripted",
    ]
    run = seen.one("invoke_agent ludolf")
    assert {span.trace for span in seen.spans} == {run.trace}
    assert all(ended_within(span, run) for span in seen.spans)
    assert {span.scope for span in seen.spans} == {"ludolf"}
    assert run.resource["service.name"] == "ludolf"
    first, last = sorted(seen.named("chat scripted"), key=lambda span: span.start)
    assert first.attributes["gen_ai.usage.input_tokens"] == 135
    assert first.attributes["gen_ai.usage.cache_read.input_tokens"] == 30
    assert first.attributes["gen_ai.usage.cache_write.input_tokens"] == 5
    assert first.attributes["gen_ai.usage.reasoning.output_tokens"] == 7
    assert first.attributes["gen_ai.response.finish_reasons"] == ["tool_call"]
    assert first.attributes["gen_ai.request.stream"] is True
    assert first.attributes["gen_ai.response.time_to_first_chunk"] >= 0
    assert "ludolf.system_prompt.sha256" in first.attributes
    assert "ludolf.system_prompt.sha256" not in last.attributes
    tokens = stats["tokens"]
    sent = tokens["input"] + tokens["cacheRead"] + tokens["cacheWrite"]
    assert run.attributes["gen_ai.usage.input_tokens"] == sent
    assert run.attributes["gen_ai.usage.output_tokens"] == tokens["output"]
    assert run.attributes["ludolf.cost.usd"] == stats["cost"]
    assert run.attributes["gen_ai.conversation.id"] == session
    assert (run.attributes["ludolf.turns"], run.attributes["ludolf.stop_reason"]) == (2, "stop")
    bash = seen.one("execute_tool bash")
    assert bash.attributes["ludolf.tool.exit_code"] == 3
    assert (bash.status, bash.attributes["error.type"]) == (2, "tool_error")
    read = seen.one("execute_tool read")
    assert read.attributes["gen_ai.tool.call.id"] == "c1"
    assert read.attributes["ludolf.tool.output_bytes"] > 0


async def test_each_retry_is_a_chat_of_its_own(tmp_path: Path, seen: Collector) -> None:
    busy = fails(ScriptedFailure(text="overloaded", status=529, kind="overloaded"))
    async with stage(tmp_path, busy, say("fine")) as s:
        await s.run("go")
    assert seen.tree() == ["invoke_agent ludolf", "  chat scripted", "  chat scripted"]
    first, second = sorted(seen.named("chat scripted"), key=lambda span: span.start)
    assert (first.status, first.attributes["error.type"]) == (2, "overloaded")
    assert first.attributes["http.response.status_code"] == 529
    assert (first.attributes["ludolf.attempt"], second.attributes["ludolf.attempt"]) == (1, 2)
    assert second.attributes["ludolf.wait.retry"] > 0
    assert second.status == seen.one("invoke_agent ludolf").status == 0
    (retries,) = seen.metric("ludolf.retries")
    assert (retries.value, retries.attributes) == (1, {"error.type": "overloaded"})
    (event,) = [log for log in seen.logs if log.name == "ludolf.retry"]
    assert event.severity == 13
    assert event.span == seen.one("invoke_agent ludolf").id


async def test_an_abort_ends_every_span_once_without_an_error(
    tmp_path: Path, seen: Collector
) -> None:
    held = calls(call("hold", "c1", name="x"))
    async with stage(tmp_path, held) as s:
        await s.data("prompt", message="go")
        await s.gates.reached("x")
        await s.data("abort")
        await s.settled()
    assert seen.tree() == ["invoke_agent ludolf", "  chat scripted", "  execute_tool hold"]
    for name in ("invoke_agent ludolf", "execute_tool hold"):
        assert seen.one(name).attributes["ludolf.aborted"] is True
        assert seen.one(name).status == 0


async def test_a_failure_is_an_error_of_the_run(tmp_path: Path, seen: Collector) -> None:
    async with stage(tmp_path, fails("invalid x-api-key")) as s:
        await s.run("go")
    run = seen.one("invoke_agent ludolf")
    assert (run.status, run.message, run.attributes["error.type"]) == (2, "auth", "auth")


async def test_a_compaction_has_a_span_and_marks_the_next_request(
    tmp_path: Path, seen: Collector
) -> None:
    replies = (say("one"), say("two"), say("the summary", usage=used(7)), say("three"))
    settings = {"compaction": {"keepRecentTokens": 100}}
    async with stage(tmp_path, *replies, settings=settings) as s:
        await s.run(words(300))
        await s.run(words(300))
        await s.data("compact")
        await s.run("third")
        stats = await s.data("get_session_stats")
    assert seen.tree() == [
        "invoke_agent ludolf",
        "  chat scripted",
        "invoke_agent ludolf",
        "  chat scripted",
        "compact",
        "  chat scripted",
        "invoke_agent ludolf",
        "  chat scripted",
    ]
    compact = seen.one("compact")
    assert compact.attributes["ludolf.compaction.reason"] == "manual"
    assert compact.attributes["ludolf.compaction.tokens_before"] > 0
    last = max(seen.named("chat scripted"), key=lambda span: span.start)
    assert last.attributes["gen_ai.conversation.compacted"] is True
    total = sum(s.attributes["gen_ai.usage.input_tokens"] for s in seen.named("chat scripted"))
    assert total == stats["tokens"]["input"]
    assert [log.attributes for log in seen.logs if log.name == "ludolf.session"] == [
        {"ludolf.session.action": "compacted"}
    ]


async def test_the_host_is_the_parent_and_learns_the_span(tmp_path: Path, seen: Collector) -> None:
    show = calls(call("bash", "c1", command="echo $TRACEPARENT"))
    async with stage(tmp_path, show, say("done")) as s:
        told = await s.run("go", traceparent=PARENT, tracestate="a=b")
        (start,) = [record for record in told if record["type"] == "agent_start"]
        (end,) = [record for record in told if record["type"] == "tool_execution_end"]
    run, bash = seen.one("invoke_agent ludolf"), seen.one("execute_tool bash")
    assert (run.trace, run.parent) == (PARENT.split("-")[1], PARENT.split("-")[2])
    assert start["traceparent"] == f"00-{run.trace}-{run.id}-01"
    assert end["result"]["content"][0]["text"].strip() == f"00-{run.trace}-{bash.id}-01"


async def test_a_malformed_context_is_ignored_with_a_warning(
    tmp_path: Path, seen: Collector
) -> None:
    async with stage(tmp_path, say("fine")) as s:
        await s.run("go", traceparent="00-zz-11-01")
        (warning,) = s.of_type("warning")
    assert "malformed traceparent" in warning["message"]
    assert seen.one("invoke_agent ludolf").parent == ""


async def test_a_steering_message_is_linked_to_the_run(tmp_path: Path, seen: Collector) -> None:
    held = calls(call("hold", "c1", name="x"))
    async with stage(tmp_path, held, say("done")) as s:
        await s.data("prompt", message="go")
        await s.until("tool_execution_start")
        await s.data("steer", message="left", traceparent=PARENT)
        s.gates.open_all()
        await s.settled()
    assert seen.one("invoke_agent ludolf").links == (PARENT.split("-")[2],)


async def test_the_exact_dialect_has_no_further_field(tmp_path: Path, seen: Collector) -> None:
    async with stage(tmp_path, say("fine"), dialect="pi-0.79", lawful=False) as s:
        await s.run("go")
        assert s.of_type("agent_start") == [{"type": "agent_start"}]
    assert seen.named("invoke_agent ludolf")


async def test_nothing_changes_on_the_wire_without_telemetry(tmp_path: Path) -> None:
    async with stage(tmp_path, say("fine")) as s:
        told = await s.run("go", traceparent=PARENT)
    assert {"type": "agent_start"} in told
