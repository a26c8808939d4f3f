"""Tests wait for events and conditions, not for time to pass."""

import ast
from collections.abc import Iterator
from functools import cache

from tests.house.source import ROOT, Function

TESTS = ROOT / "tests"
# Functions that may sleep, by file and reason.
ALLOWED = {
    "batch_stage.py": {"wait_until": "polls files of the batch and the model"},
    "browser/chrome.py": {
        "_address": "polls a file that the browser writes",
        "until": "polls the page for a condition",
    },
    "loop/mcp_stage.py": {"until": "polls files of other programs"},
    "loop/test_random.py": {"come_to_rest": "polls the engine, whose children die in their time"},
    "process/test_faults_interleaving.py": {
        "test_an_abort_right_behind_a_prompt_settles_soon": "hits different moments",
    },
    "process/test_faults_models.py": {
        "test_pings_do_not_pass_for_an_answer": "sends pings at a pace",
        "test_events_of_the_server_that_only_say_it_lives_do_not_pass_for_an_answer": (
            "sends pings at a pace"
        ),
    },
    "process/test_faults_states.py": {
        "test_a_signal_during_the_start_ends_it_without_a_word": "hits different moments",
    },
    "process/test_progress.py": {"wait_for": "polls a terminal"},
    "process/tmux_stage.py": {
        "_wait": "polls a terminal",
        "until_gone": "polls for the end of processes",
    },
    "process/test_view.py": {
        "test_the_browser_is_opened_by_a_private_file": "polls for a file of another program",
    },
    "serve/service.py": {"holds": "polls the server for a condition"},
    "soak/host.py": {"stop_reading": "is a host that does not read for a time"},
    "soak/soak.py": {
        "_hold_still": "stops the program for a time",
        "_end": "ends the program at a random moment",
        "_step": "waits between random steps",
        "_resources_at_rest": "polls until commands in the background have ended",
    },
    "unit/test_ai_http_client.py": {
        "serve": "is a server that drips at a pace",
        "_idle": "is a reader that does not read for a time",
    },
    "unit/test_ai_transport.py": {"serve": "is a server that drips at a pace"},
    "unit/test_tools_bash.py": {
        "test_a_limited_number_of_commands_runs_at_the_same_time": "polls for files of commands",
    },
}


def _sleeps(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """The innermost function and the line of each sleep that is not `sleep(0)`."""
    inside: dict[ast.AST, str] = {}
    for node in ast.walk(tree):  # outer functions come first, so the innermost name stays
        if isinstance(node, Function):
            inside |= dict.fromkeys(ast.walk(node), node.name)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        given = node.args[0]
        if name == "sleep" and not (isinstance(given, ast.Constant) and given.value == 0):
            yield inside.get(node, ""), node.lineno


@cache
def _found() -> tuple[tuple[str, str, int], ...]:
    return tuple(
        (str(path.relative_to(TESTS)), function, line)
        for path in sorted(TESTS.rglob("*.py"))
        if "sleep(" in (text := path.read_text())
        for function, line in _sleeps(ast.parse(text))
    )


def test_no_test_waits_for_time_to_pass() -> None:
    wrong = [
        f"{place}:{line}: {function} must wait for an event or a condition"
        for place, function, line in _found()
        if function not in ALLOWED.get(place, {})
    ]
    assert wrong == []


def test_every_exception_is_needed() -> None:
    used = {(place, function) for place, function, _ in _found()}
    assert {(place, one) for place, names in ALLOWED.items() for one in names} - used == set()
