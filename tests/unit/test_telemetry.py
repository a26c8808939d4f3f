"""Pieces of telemetry: names of the conventions, plans, trace context, content, the door."""

import inspect
from collections.abc import Mapping
from typing import Any

import pytest
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes, mcp_attributes
from opentelemetry.semconv._incubating.metrics import gen_ai_metrics
from opentelemetry.util.genai import _inference_invocation, _instruments, version

from ludolf.ai.messages import NO_USAGE, AssistantMessage, Image, Text, UserMessage
from ludolf.base.trace_context import TraceContext, trace_context_in
from ludolf.config.settings.home import asks_for_telemetry
from ludolf.config.settings.options import Options
from ludolf.config.settings.settings import TelemetryContent, TelemetryOptions
from ludolf.engine.features.telemetry.content import ContentRules, content_rules, cut
from ludolf.engine.features.telemetry.door import MOST_FAILURES, TelemetryDoor, WarningPace
from ludolf.engine.features.telemetry.setup import classify_failure, make_plan

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


def _same(value: Any) -> Any:
    return value


# ---------------------------------------------------------------- the conventions


def test_the_names_are_those_of_the_version_that_is_pinned() -> None:
    """A new version of the library fails here first: compare its names with docs/telemetry.md."""
    assert version.__version__.startswith("1.3")
    published = _texts(gen_ai_attributes) | _texts(mcp_attributes) | _texts(gen_ai_metrics)
    published |= _texts(_inference_invocation) | _texts(_instruments)
    assert published >= {
        *("gen_ai.agent.id", "gen_ai.agent.name", "gen_ai.agent.version"),
        *("gen_ai.conversation.id", "gen_ai.conversation.compacted", "gen_ai.operation.name"),
        *("gen_ai.provider.name", "gen_ai.request.model", "gen_ai.request.stream"),
        *("gen_ai.request.reasoning.level", "gen_ai.response.finish_reasons"),
        *("gen_ai.response.id", "gen_ai.response.model", "gen_ai.response.time_to_first_chunk"),
        *("gen_ai.tool.call.id", "gen_ai.tool.name", "gen_ai.tool.type"),
        *("gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"),
        *("gen_ai.usage.cache_read.input_tokens", "gen_ai.usage.cache_write.input_tokens"),
        *("gen_ai.usage.reasoning.output_tokens", "mcp.method.name"),
        *("gen_ai.client.operation.duration", "gen_ai.client.token.usage"),
        *("gen_ai.invoke_agent.duration", "gen_ai.execute_tool.duration"),
    }


def _texts(module: Any) -> set[str]:
    return {value for _, value in inspect.getmembers(module) if isinstance(value, str)}


# ---------------------------------------------------------------- turning it on


@pytest.mark.parametrize(
    ("environ", "chosen", "expected"),
    [
        ({}, {}, False),
        ({ENDPOINT: "http://c:4318"}, {}, True),
        ({"OTEL_TRACES_EXPORTER": "console"}, {}, True),
        ({"OTEL_TRACES_EXPORTER": "none"}, {}, False),
        ({ENDPOINT: "http://c:4318", "OTEL_SDK_DISABLED": "true"}, {}, False),
        ({ENDPOINT: "http://c:4318"}, {"enabled": False}, False),
        ({}, {"enabled": True}, True),
        ({}, {"endpoint": "http://c:4318"}, True),
    ],
)
def test_telemetry_is_on_only_if_it_is_asked_for(
    environ: Mapping[str, str], chosen: Mapping[str, Any], expected: bool
) -> None:
    from pathlib import Path

    given = {"enabled": None, "endpoint": None, **chosen}
    assert asks_for_telemetry(Options(cwd=Path("/"), environ=environ), **given) is expected


def test_an_endpoint_alone_exports_all_signals_and_a_named_one_only_itself() -> None:
    plan = make_plan({ENDPOINT: "http://c:4318/"}, None, {})
    assert dict(plan.exporters) == dict.fromkeys(("traces", "metrics", "logs"), ("otlp",))
    assert dict(plan.endpoints)["logs"] == "http://c:4318/v1/logs"
    named = make_plan({ENDPOINT: "http://c:4318", "OTEL_TRACES_EXPORTER": "otlp,console"}, None, {})
    assert dict(named.exporters) == {"traces": ("otlp", "console"), "metrics": (), "logs": ()}


def test_nothing_is_sent_to_a_default_endpoint() -> None:
    assert make_plan({"OTEL_TRACES_EXPORTER": "otlp"}, None, {}).is_empty


def test_the_environment_is_stronger_than_the_settings() -> None:
    plan = make_plan({ENDPOINT: "http://env:1"}, "http://settings:1", {})
    assert dict(plan.endpoints)["traces"] == "http://env:1/v1/traces"


# ---------------------------------------------------------------- trace context


@pytest.mark.parametrize(
    "text",
    [
        "",
        "00",
        PARENT.upper(),
        PARENT + "-more",
        PARENT.replace("00-", "ff-", 1),
        "00-" + "0" * 32 + "-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-" + "0" * 16 + "-01",
        PARENT + "0" * 1000,
    ],
)
def test_a_malformed_traceparent_is_not_a_parent(text: str) -> None:
    assert not TraceContext(traceparent=text).is_valid


def test_a_later_version_of_the_format_is_a_parent() -> None:
    assert TraceContext(traceparent=PARENT).is_valid
    assert TraceContext(traceparent=PARENT.replace("00-", "01-", 1) + "-more").is_valid


def test_fields_of_others_that_are_not_texts_are_ignored() -> None:
    assert trace_context_in({"traceparent": 5}) is None
    found = trace_context_in({"traceparent": PARENT, "tracestate": ["a"], "baggage": "k=v"})
    assert found == TraceContext(traceparent=PARENT, baggage="k=v")


# ---------------------------------------------------------------- content


@pytest.mark.parametrize(
    ("environ", "content", "place", "parts"),
    [
        ({}, None, "no_content", (False, False, False)),
        ({CAPTURE: "span_only"}, None, "span_only", (True, True, True)),
        ({}, TelemetryContent(prompts=True), "span_only", (True, False, False)),
        ({CAPTURE: "no_content"}, TelemetryContent(prompts=True), "no_content", (False,) * 3),
        ({CAPTURE: "EVENT_ONLY"}, TelemetryContent(tools=True), "event_only", (0, 0, 1)),
        ({CAPTURE: "nonsense"}, None, "no_content", (False, False, False)),
    ],
)
def test_the_settings_narrow_what_the_variable_allows(
    environ: Mapping[str, str], content: TelemetryContent | None, place: str, parts: tuple[Any, ...]
) -> None:
    rules = content_rules(environ, TelemetryOptions(content=content), _same)
    assert rules.place == place
    assert (rules.prompts, rules.answers, rules.tools) == parts


def test_an_attribute_is_cut_at_a_character() -> None:
    assert cut("äöü", 6) == "äöü"
    assert cut("äöüß", 7) == "äö…"
    rules = ContentRules(prompts=True, limit=1000)
    message = UserMessage(content=(Text(text="ü" * 5000), Text(text="more")), timestamp=0)
    (part,) = rules.prompt(message)
    assert part.text.endswith("…")
    assert len(part.text) * 6 <= 1000


def test_of_images_only_type_and_size_are_exported() -> None:
    picture = Image(data="QUJD" * 100, mime_type="image/png")
    message = UserMessage(content=(picture,), timestamp=0)
    (part,) = ContentRules(prompts=True).prompt(message)
    assert part.text == "[image/png, 300 bytes]"


def test_queries_of_addresses_are_cut() -> None:
    rules = ContentRules(answers=True)
    answer = AssistantMessage(
        content=(Text(text="see https://a.example/b?token=xyz and c"),),
        api="", provider="", model="", usage=NO_USAGE, stop_reason="stop", timestamp=0,
    )  # fmt: skip
    (part,) = rules.answer(answer)
    assert part.text == "see https://a.example/b?… and c"


# ---------------------------------------------------------------- failures


def test_the_door_contains_failures_and_shuts_after_ten(
    capsys: pytest.CaptureFixture[str],
) -> None:
    said: list[str] = []
    door = TelemetryDoor(said.append)
    calls = 0

    def fail() -> None:
        nonlocal calls
        calls += 1
        raise ValueError("broken")

    for _ in range(MOST_FAILURES + 5):
        assert door.call(fail) is None
    assert calls == MOST_FAILURES
    assert len(said) == 2
    assert "ValueError: broken" in said[0]
    assert "Telemetry is off" in said[1]
    assert "ValueError" in capsys.readouterr().err


def test_warnings_of_one_kind_keep_a_pace() -> None:
    pace = WarningPace()
    assert [pace.admits(kind) for kind in ("a", "a", "b", "a")] == [True, False, True, False]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Failed to export spans batch code: 401, reason: Unauthorized", "auth"),
        ("Failed to export spans batch code: 413, reason: Too Large", "size"),
        ("Transient error Too Many Requests encountered while exporting", "busy"),
        ("Transient error Service Unavailable encountered while exporting", "server"),
        ("Transient error HTTPConnectionPool: Read timed out.", "silent"),
        ("Transient error [Errno 111] Connection refused encountered", "network"),
        ("Queue full, dropping Span.", "queue"),
        ("Failed to encode span batch: 1", "other"),
    ],
)
def test_failures_of_exports_are_told_apart(text: str, kind: str) -> None:
    assert classify_failure(text)[0] == kind
