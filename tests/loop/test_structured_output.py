"""Prompts with an output schema: one value that fits, or one error."""

from pathlib import Path
from typing import Any

import pytest

from ludolf.ai.builtin.scripted import ScriptedReply
from tests.loop.stage import Stage, call, calls, fails, say, stage, texts

CITY = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "people": {"type": "integer", "minimum": 0}},
    "required": ["name", "people"],
    "additionalProperties": False,
}
BONN: dict[str, Any] = {"name": "Bonn", "people": 330_000}


def gives(number: int = 1, **args: Any) -> ScriptedReply:
    return calls(call("final_answer", f"call-{number}", **args))


def reported(s: Stage) -> dict[str, Any]:
    """The one event of the prompt."""
    (event,) = s.of_type("structured_output")
    return event


async def test_the_value_arrives_once_between_the_end_of_the_run_and_rest(tmp_path: Path) -> None:
    async with stage(tmp_path, calls(call("ok", "one")), gives(**BONN)) as s:
        records = await s.run("Which city?", outputSchema=CITY)
        assert reported(s) == {"type": "structured_output", "value": BONN}
        kinds = [record["type"] for record in records]
        assert kinds[-3:] == ["agent_end", "structured_output", "agent_settled"]
        assert texts(records) == ["Which city?"]
        offered = s.script.requests[0].tools
        assert next(tool for tool in offered if tool.name == "final_answer").parameters == CITY


async def test_a_prompt_without_a_schema_gets_no_tool_and_no_event(tmp_path: Path) -> None:
    async with stage(tmp_path, gives(**BONN), say("Hi")) as s:
        await s.run("Which city?", outputSchema=CITY)
        await s.run("Hello")
        assert len(s.of_type("structured_output")) == 1
        assert "final_answer" not in [tool.name for tool in s.script.requests[-1].tools]


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "array", "items": {"type": "string"}}, ["a", "b"]),
        ({"enum": ["yes", None]}, None),
        ({"$ref": "#/$defs/size", "$defs": {"size": {"type": "number"}}}, 1.5),
        ({"type": "array", "items": {"$ref": "#"}}, [[], [[]]]),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, {"a": 1}),
    ],
)
async def test_a_value_of_any_type_can_be_asked_for(
    tmp_path: Path, schema: dict[str, Any], value: Any
) -> None:
    async with stage(tmp_path, gives(value=value)) as s:
        await s.run("Which?", outputSchema=schema)
        assert reported(s) == {"type": "structured_output", "value": value}


async def test_an_answer_that_does_not_fit_goes_back_to_the_model(tmp_path: Path) -> None:
    async with stage(tmp_path, gives(name="Bonn", people=-1), gives(2, **BONN)) as s:
        await s.run("Which city?", outputSchema=CITY)
        assert reported(s)["value"] == BONN
        assert "people: must be >= 0" in texts(s.frames, "toolResult")[0]


async def test_plain_json_counts_and_a_silent_model_is_reminded_in_the_same_run(
    tmp_path: Path,
) -> None:
    fenced = '```json\n{"name": "Bonn", "people": 330000}\n```'
    async with stage(tmp_path, say("It is Bonn."), say(fenced)) as s:
        await s.run("Which city?", outputSchema=CITY)
        assert reported(s)["value"] == BONN
        assert len(s.of_type("agent_start")) == 1


async def test_an_answer_that_never_fits_is_an_error_that_quotes_it(tmp_path: Path) -> None:
    async with stage(tmp_path, *(say(f"Bonn {number}") for number in range(3))) as s:
        await s.run("Which city?", outputSchema=CITY)
        assert reported(s) == {
            "type": "structured_output",
            "error": "The model did not call final_answer. It answered: Bonn 2",
        }


async def test_a_model_that_repeats_wrong_answers_loses_the_tool(tmp_path: Path) -> None:
    wrong = [gives(number, name="Bonn") for number in range(5)]
    async with stage(tmp_path, *wrong, say("I give up.")) as s:
        await s.run("Which city?", outputSchema=CITY)
        assert "people: must have required properties people" in reported(s)["error"]
        last = s.script.requests[-1].tools
        assert "final_answer" not in [tool.name for tool in last]


async def test_a_failed_request_and_an_abort_are_errors_too(tmp_path: Path) -> None:
    script = (fails("400 no such thing"), calls(call("gate", "one", name="door")))
    async with stage(tmp_path, *script) as s:
        await s.run("Which city?", outputSchema=CITY)
        assert "no such thing" in reported(s)["error"]
        await s.data("prompt", message="Which city?", outputSchema=CITY)
        await s.until("tool_execution_start")
        await s.data("abort")
        assert "abort" in s.of_type("structured_output")[-1]["error"].lower()


async def test_a_queued_message_may_change_the_value(tmp_path: Path) -> None:
    async with stage(tmp_path, gives(name="Bonn", people=1), gives(2, **BONN)) as s:
        s.when("agent_start", lambda: s.send("follow_up", message="Count again."))
        await s.run("Which city?", outputSchema=CITY)
        assert reported(s)["value"] == BONN


async def test_a_prompt_with_a_schema_is_refused_during_a_run(tmp_path: Path) -> None:
    async with stage(tmp_path, calls(call("gate", "one", name="door")), say("Done")) as s:
        await s.data("prompt", message="Go")
        await s.until("tool_execution_start")
        error = await s.refusal(
            "prompt", message="Which?", outputSchema=CITY, streamingBehavior="steer"
        )
        assert "cannot be queued" in error
        s.gates.open_all()
        await s.settled()
        assert s.of_type("structured_output") == []


def _nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(levels):
        schema = {"items": schema}
    return schema


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ("city", "it is not a JSON object"),
        ([], "it is not a JSON object"),
        ({"type": "city"}, "city"),
        ({"$ref": "https://example.com/city.json"}, "example.com"),
        ({"$ref": "#/$defs/none"}, "none"),
        ({"pattern": "("}, "("),
        (_nested(100), "deeper than 64 levels"),
        ({"description": "x" * 70_000}, "larger than 64 KiB"),
        (
            {
                "$defs": {
                    f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 4} for n in range(20)
                }
                | {"d20": {}},
                "$ref": "#/$defs/d0",
            },
            "too many schemas",
        ),
    ],
)
async def test_an_unusable_schema_is_refused_before_anything_runs(
    tmp_path: Path, schema: Any, reason: str
) -> None:
    async with stage(tmp_path) as s:
        error = await s.refusal("prompt", message="Which?", outputSchema=schema)
        assert error.startswith("The output schema cannot be used: ")
        assert reason in error
        assert s.script.requests == []


@pytest.mark.parametrize("dialect", ["pi", "pi-0.79", "pi-early", "omp"])
async def test_every_dialect_accepts_a_schema_and_pi_reports_the_value(
    tmp_path: Path, dialect: str
) -> None:
    async with stage(tmp_path, gives(**BONN), dialect=dialect, lawful=False) as s:
        s.send("prompt", message="Which city?", outputSchema=CITY)
        await s.until("agent_end")
        await s.settled()
        assert len(s.of_type("structured_output")) == (dialect == "pi")
