"""The bench with other programs: one model for all, and reasons for missing figures."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from bench import model_requests, page, plot, speech, speech_chat, speech_responses, verdicts
from bench.budgets import COUNTS, FIELD
from bench.lines import overhead, start
from bench.model_server import APIS, answer
from bench.programs import PEERS_FILE, Program, find_peers, ours
from bench.stage import open_stage

OTHER = Program("codex", "codex", ("/bin/true",), "1.0")
BASE = Program("pi", "pi", (), "0.87.1")
SCHEMA = {
    "type": "object",
    "properties": {"command": {"type": "string"}, "description": {"type": "string"}},
    "required": ["command", "description"],
}


def _events(data: bytes) -> Iterator[Any]:
    for line in data.decode().splitlines():
        if line.startswith("data: {"):
            yield json.loads(line.removeprefix("data: "))


def _anthropic(data: bytes) -> list[str]:
    deltas = [each["delta"] for each in _events(data) if each["type"] == "content_block_delta"]
    return [delta["text"] for delta in deltas]


def _chat(data: bytes) -> list[str]:
    deltas = [each["choices"][0]["delta"] for each in _events(data) if each["choices"]]
    return [delta["content"] for delta in deltas if delta.get("content")]


def _responses(data: bytes) -> list[str]:
    return [each["delta"] for each in _events(data) if each["type"].endswith("text.delta")]


def test_the_model_says_the_same_words_in_every_api() -> None:
    said = _anthropic(speech.said(50))
    assert len(said) == 50
    assert _chat(speech_chat.said(50)) == said
    assert _responses(speech_responses.said(50)) == said


def _asked_by_anthropic(text: str) -> dict[str, Any]:
    tools = [{"name": "Bash", "input_schema": SCHEMA}]
    content = [{"type": "text", "text": "Notes"}, {"type": "text", "text": text}]
    messages = [{"role": "user", "content": content}]
    return {"system": [{"type": "text", "text": "Rules"}], "tools": tools, "messages": messages}


def _asked_by_chat(text: str) -> dict[str, Any]:
    tools = [{"type": "function", "function": {"name": "developer__shell", "parameters": SCHEMA}}]
    messages = [{"role": "system", "content": "RulesNotes"}, {"role": "user", "content": text}]
    return {"tools": tools, "messages": messages}


def _asked_by_responses(text: str) -> dict[str, Any]:
    tools = [{"type": "function", "name": "exec_command", "parameters": SCHEMA}]
    content = [{"type": "input_text", "text": text}]
    first = {"type": "message", "role": "developer", "content": "Notes"}
    asked = {"type": "message", "role": "user", "content": content}
    return {"instructions": "Rules", "tools": tools, "input": [first, asked]}


@pytest.mark.parametrize(
    ("path", "body", "shell"),
    [
        (b"/messages", _asked_by_anthropic, "Bash"),
        (b"/chat/completions", _asked_by_chat, "developer__shell"),
        (b"/responses", _asked_by_responses, "exec_command"),
    ],
)
def test_a_loop_calls_the_shell_that_the_program_offers(
    path: bytes, body: Callable[[str], dict[str, Any]], shell: str
) -> None:
    api, sent = APIS[path], body("Bench loop 3 echo hello\n")
    request = api.read(sent)
    assert (request.prompt, request.results) == ("Bench loop 3 echo hello", 0)
    assert request.shell is not None
    arguments = request.shell.arguments("echo hello")
    assert json.loads(arguments) == {"command": "echo hello", "description": "run"}
    assert shell.encode() in answer(api, request.prompt, 0, (request.shell.name, arguments))
    tools = json.dumps(sent["tools"], separators=(",", ":"))
    assert request.overhead == len("RulesNotes") + len(tools)


def test_results_are_counted_since_the_last_prompt() -> None:
    asked = _asked_by_chat("Bench loop 3 true")
    asked["messages"] += [{"role": "assistant", "content": None}, {"role": "tool", "content": "ok"}]
    assert model_requests.read_chat(asked).results == 1


def test_a_program_that_ends_at_once_has_a_reason_instead_of_figures() -> None:
    with open_stage([ours(), OTHER], quick=True) as stage:
        start.measure(stage)
        overhead.measure(stage)
    assert set(stage.figures["ludolf"]) == {line.key for line in FIELD[:5]} | {"overhead"}
    assert stage.figures["codex"] == {}
    assert set(stage.notes["codex"]) == {"start", "overhead"}
    assert "ended" in stage.notes["codex"]["start"]


def _figures(*names: str) -> dict[str, dict[str, float]]:
    return {
        name: {line.figure: 2.0 + number for line in FIELD} for number, name in enumerate(names)
    }


def test_the_plot_has_a_bar_for_each_other_program_in_each_panel() -> None:
    programs = [ours(), OTHER, BASE]
    judged = verdicts.judge(_figures("ludolf", "codex", "pi"), verdicts.bases(programs))
    drawn = ElementTree.fromstring(plot.drawing(judged, programs, "today"))
    bars = [each for each in drawn.iter() if each.get("class") in ("more", "less")]
    assert len(bars) == 2 * len(plot.PLOTTED)
    assert all(float(each.get("width", "0")) > 0 for each in bars)


def test_only_tables_that_were_measured_whole_are_renewed() -> None:
    programs = [ours(), OTHER, BASE]
    figures = _figures("ludolf", "codex", "pi")
    figures["ludolf"][COUNTS[0].key] = 1.0
    judged = verdicts.judge(figures, verdicts.bases(programs))
    tables = page.markdown_tables(judged, programs, "One round.")
    assert set(tables) == {"field"}
    old = "a\n<!-- bench: field -->\nx\n<!-- end -->\nb\n<!-- bench: counts -->\ny\n<!-- end -->\n"
    new = page.rewrite(old, tables)
    assert re.search(r"field -->\n\| line \| unit \| Ludolf \| codex 1.0 \| pi 0.87.1 \|", new)
    assert "\n\nOne round.\n<!-- end -->\nb\n" in new
    assert new.endswith("b\n<!-- bench: counts -->\ny\n<!-- end -->\n")


def test_a_line_can_be_judged_by_two_programs() -> None:
    judged = verdicts.judge(_figures("ludolf", "pi", "codex"), verdicts.bases([BASE, OTHER]))
    by_key = {each.key: each for each in judged}
    assert by_key["delta"].ratio == pytest.approx(2 / 3)
    assert by_key["delta.codex"].ratio == pytest.approx(2 / 4)


def test_programs_of_a_folder_are_measured(tmp_path: Path) -> None:
    assert OTHER not in find_peers("", tmp_path)
    entry = {"name": "codex", "kind": "codex", "command": ["/bin/true"], "version": "1.0"}
    (tmp_path / PEERS_FILE).write_text(json.dumps([entry]))
    assert OTHER in find_peers("", tmp_path)
