"""The todo tool on its own: each way to change the list, and what a bad one leaves untouched."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from ludolf.agent.tool import ToolContext, ToolFailure, ToolOutput
from ludolf.base import CommandError
from ludolf.engine.features.todos import Phases, TodoPlan, TodoTool, read_phases

PLAN = {
    "op": "init",
    "list": [{"phase": "A", "items": ["one", "two"]}, {"phase": "B", "items": ["three"]}],
}


class _List:
    """A list without a session behind it."""

    storage = "memory"

    def __init__(self) -> None:
        self.phases: Phases = ()

    def put(self, phases: Phases) -> None:
        self.phases = phases


async def _nothing(partial: ToolOutput) -> None:
    """Nobody listens."""


async def _run(kept: _List, *steps: Mapping[str, Any]) -> ToolOutput:
    tool = TodoTool(cast(TodoPlan, kept))
    output = ToolOutput(content=())
    for step in steps:
        context = ToolContext(call_id="c", cwd=Path(), report=_nothing)
        output = await tool.execute(step, context)
    return output


def _statuses(kept: _List) -> dict[str, str]:
    return {task.content: task.status for phase in kept.phases for task in phase.tasks}


async def test_the_first_open_task_is_in_progress_by_itself() -> None:
    kept = _List()
    await _run(kept, PLAN)
    assert _statuses(kept) == {"one": "in_progress", "two": "pending", "three": "pending"}
    await _run(kept, {"op": "done", "task": "one"})
    assert _statuses(kept)["two"] == "in_progress"


async def test_starting_another_task_rests_the_one_before() -> None:
    kept = _List()
    await _run(kept, PLAN, {"op": "start", "task": "three"})
    assert _statuses(kept) == {"one": "pending", "two": "pending", "three": "in_progress"}


async def test_blocked_tasks_name_their_reason_and_do_not_start() -> None:
    kept = _List()
    steps = ({"op": "done", "phase": "A"}, {"op": "block", "task": "three", "reason": "waiting"})
    output = await _run(kept, PLAN, *steps)
    assert _statuses(kept)["three"] == "blocked"
    assert kept.phases[1].tasks[0].blocker == "waiting"
    assert "blocked: waiting" in str(output.content)
    await _run(kept, {"op": "unblock", "task": "three"})
    assert _statuses(kept)["three"] == "in_progress"


async def test_tasks_are_appended_dropped_and_removed() -> None:
    kept = _List()
    steps = (
        {"op": "append", "phase": "C", "items": ["four"]},
        {"op": "drop", "task": "three"},
        {"op": "rm", "task": "two"},
    )
    await _run(kept, PLAN, *steps)
    assert _statuses(kept) == {"one": "in_progress", "three": "abandoned", "four": "pending"}
    ids = [task.id for phase in kept.phases for task in phase.tasks]
    assert len(set(ids)) == len(ids)


async def test_steps_by_id_do_the_same() -> None:
    kept = _List()
    tasks = [{"content": "one"}, {"content": "two"}]
    ops = [
        {"op": "replace", "phases": [{"name": "A", "tasks": tasks}]},
        {"op": "add_phase", "name": "B", "tasks": [{"content": "three"}]},
        {"op": "add_task", "phase": "phase-1", "content": "four"},
        {"op": "update", "id": "task-1", "status": "completed", "notes": "fine"},
        {"op": "remove_task", "id": "task-2"},
    ]
    output = await _run(kept, {"ops": ops})
    assert _statuses(kept) == {"one": "completed", "four": "in_progress", "three": "pending"}
    assert kept.phases[0].tasks[0].notes == "fine"
    assert output.details["completedTasks"] == [{"phase": "A", "content": "one"}]


@pytest.mark.parametrize(
    "step",
    [
        {"op": "done", "task": "nothing"},
        {"op": "done", "phase": "nowhere"},
        {"op": "init"},
        {"op": "append", "phase": "A"},
        {"op": "fly"},
        {"ops": [{"op": "update", "id": "task-1", "status": "odd"}]},
        {"ops": [{"op": "update", "id": "task-1", "status": "completed"}, {"op": "fly"}]},
    ],
)
async def test_a_step_that_fails_changes_nothing(step: dict[str, Any]) -> None:
    kept = _List()
    await _run(kept, PLAN)
    before = kept.phases
    with pytest.raises(ToolFailure):
        await _run(kept, step)
    assert kept.phases == before


def test_missing_ids_are_filled_in_and_unknown_fields_left_out() -> None:
    raw = [{"name": "A", "tasks": [{"content": "x", "details": "y"}], "colour": "red"}]
    (phase,) = read_phases(raw)
    assert (phase.id, phase.tasks[0].id, phase.tasks[0].status) == ("phase-1", "task-1", "pending")


@pytest.mark.parametrize("raw", [None, "x", [1], [{"tasks": [{"status": "pending"}]}]])
def test_what_is_no_list_of_phases_is_refused(raw: Any) -> None:
    with pytest.raises(CommandError):
        read_phases(raw)
