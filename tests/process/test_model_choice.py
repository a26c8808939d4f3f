"""The model that answers is the expected one, or a warning on stderr names it."""

import json
from pathlib import Path

import pytest

from ludolf.base import dumps, loads
from tests.process.harness import Lab
from tests.process.script import answer


def _model(lab: Lab) -> tuple[str, str]:
    changes = [entry for entry in lab.entries if entry["type"] == "model_change"]
    return changes[-1]["provider"], changes[-1]["modelId"]


@pytest.mark.parametrize(
    ("provider", "model", "reason"),
    [
        ("claude", "nosuch", "is unknown."),
        ("anthropic", "claude-sonnet-5", "has no credentials: Set ANTHROPIC_API_KEY in the"),
    ],
)
def test_a_default_model_that_cannot_be_used_is_named_with_its_substitute(
    lab: Lab, provider: str, model: str, reason: str
) -> None:
    lab.settings(defaultProvider=provider, defaultModel=model)
    lab.server.add(answer("Fine."))
    done = lab.run("-p", "Hi")
    assert done.code == 0
    default = f"The default model {provider}/{model} of settings.json"
    assert f"Warning: {default} {reason}" in done.stderr
    assert done.stderr.rstrip().endswith("{}/{} is used instead.".format(*_model(lab)))


@pytest.mark.parametrize("mode", [("-p",), ("--mode", "json")])
def test_the_offline_model_does_not_answer_in_place_of_a_default(
    lab: Lab, mode: tuple[str, ...]
) -> None:
    (lab.agent / "models.json").write_text("{")
    done = lab.run(*mode, "list the files here")
    assert done.code == 1
    assert "Error: The default model claude/large of settings.json is unknown." in done.stderr
    assert f"{lab.agent / 'models.json'} has errors: correct them first." in done.stderr
    assert "ludolf models default" in done.stderr
    assert "is used instead" not in done.stderr
    assert b"agent_start" not in done.stdout


def test_the_offline_model_answers_if_it_is_asked_for_and_the_default_is_missing(lab: Lab) -> None:
    (lab.agent / "models.json").unlink()
    assert lab.run("--model", "ludolf/offline", "-p", "hello").code == 0
    assert lab.run("-c", "-p", "hello").code == 0


def test_a_host_starts_with_the_offline_model_and_a_warning(lab: Lab) -> None:
    (lab.agent / "models.json").unlink()
    done = lab.run("--mode", "rpc", stdin=b'{"type":"get_state"}\n')
    assert done.code == 0
    assert done.records[0]["data"]["model"]["id"] == "offline"
    assert "The default model claude/large of settings.json is unknown." in done.stderr
    assert "ludolf/offline is used instead." in done.stderr


def test_a_provider_alone_selects_its_default_model(lab: Lab) -> None:
    lab.server.add(answer("Fine."))
    done = lab.run("--provider", "gemini", "-p", "Hi")
    assert (done.code, done.stderr) == (0, "")
    assert _model(lab)[0] == "gemini"


def test_an_unknown_provider_alone_is_refused(lab: Lab) -> None:
    done = lab.run("--provider", "gemni", "-p", "Hi")
    assert done.code == 1
    assert 'Unknown provider "gemni". Did you mean "gemini"?' in done.stderr
    assert lab.server.requests == []


def test_a_continued_session_keeps_its_model_of_the_given_provider(lab: Lab) -> None:
    lab.server.add(answer("One."), answer("Two."))
    assert lab.run("--model", "claude/other", "-p", "Hi").code == 0
    models = json.loads((lab.agent / "models.json").read_bytes())
    models["providers"]["claude"]["models"].append({"id": "other"})
    (lab.agent / "models.json").write_text(json.dumps(models))
    assert lab.run("-c", "--provider", "claude", "-p", "Hi").code == 0
    assert lab.server.requests[-1].body["model"] == "other"


def test_a_session_of_the_offline_model_continues_with_it(lab: Lab) -> None:
    assert lab.run("--model", "ludolf/offline", "-p", "list the files here").code == 0
    done = lab.run("-c", "-p", "list the files here")
    assert (done.code, done.stderr) == (0, "")
    assert lab.server.requests == []
    lab.server.add(answer("Fine."))
    off = lab.run("-c", "-p", "Hi", LUDOLF_OFFLINE_MODEL="0")
    assert "Could not restore model ludolf/offline. Using claude/large" in off.stderr


def test_mistakes_in_models_json_come_before_a_model_that_was_not_found(lab: Lab) -> None:
    broken = {"providers": {"lab": {"models": [{"id": "qwen", "contextWindow": "big"}]}}}
    (lab.agent / "models.json").write_text(json.dumps(broken))
    done = lab.run("-p", "--model", "lab/qwen", "Hi")
    assert done.code == 1
    mistake = done.stderr.index("providers.lab.models.0.contextWindow: Expected `int")
    assert mistake < done.stderr.index('Error: Model "lab/qwen" not found.')


def test_a_script_that_is_not_played_is_reported(lab: Lab) -> None:
    (lab.work / "script.json").write_text('["From the script."]')
    lab.server.add(answer("Fine."))
    done = lab.run("-p", "Hi", LUDOLF_SCRIPT="script.json")
    assert "Warning: LUDOLF_SCRIPT is set, but claude/large answers" in done.stderr
    assert "--model ludolf/scripted" in done.stderr
    lab.server.add(answer("Fine."))
    assert lab.run("-p", "Hi", "--model", "claude/large", LUDOLF_SCRIPT="script.json").stderr == ""


def test_a_recording_of_a_builtin_model_is_reported_as_empty(lab: Lab, tmp_path: Path) -> None:
    file = str(tmp_path / "traffic.jsonl")
    done = lab.run("-p", "hello", "--model", "ludolf/offline", "--record", file)
    assert done.code == 0
    assert "Warning: ludolf/offline sends no requests, so --record stores none." in done.stderr


def test_the_error_without_a_key_names_model_and_variable(lab: Lab) -> None:
    done = lab.run("-p", "Hi", "--model", "sonnet")
    assert done.code == 1
    assert "No API key found for anthropic. Set ANTHROPIC_API_KEY in the" in done.stderr
    assert "anthropic/claude-sonnet-" in done.stderr


def test_the_error_without_a_key_of_ones_own_server_names_models_json(lab: Lab) -> None:
    models = json.loads((lab.agent / "models.json").read_bytes())
    models["providers"]["claude"].pop("apiKey")
    (lab.agent / "models.json").write_text(json.dumps(models))
    done = lab.run("-p", "Hi", "--model", "claude/large")
    assert done.code == 1
    assert 'Set "apiKey" of the provider "claude" in ' in done.stderr
    assert str(lab.agent / "models.json") in done.stderr
    assert "auth login" not in done.stderr


def _misspell(lab: Lab) -> None:
    path = lab.agent / "models.json"
    known = loads(path.read_bytes())
    known["providers"]["chat"]["modells"] = known["providers"]["chat"].pop("models")
    path.write_bytes(dumps(known))


def test_a_misspelt_key_of_models_json_is_named_even_if_the_model_is_not_found(lab: Lab) -> None:
    _misspell(lab)

    done = lab.run("--mode", "rpc", "--model", "chat/large")

    assert done.code == 1
    assert done.stderr.count('"providers.chat.modells". Did you mean "providers.chat.models"?') == 1


async def test_a_reload_warns_of_a_misspelt_key_of_models_json(lab: Lab) -> None:
    async with lab.client() as client:
        await client.ask("get_state")
        _misspell(lab)
        await client.ask("reload")
    frames = [loads(line) for line in lab.lines]
    warned = [frame["message"] for frame in frames if frame["type"] == "warning"]
    assert len(warned) == 1
    assert '"providers.chat.modells". Did you mean "providers.chat.models"?' in warned[0]
