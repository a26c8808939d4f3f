"""`--dry-run`: render the prompts and check what a batch needs, without a request to a model."""

import os
import resource
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ludolf.base import CommandError, LudolfError, Value
from ludolf.fleet.folder import BatchHistory, read_history
from ludolf.fleet.git import is_url
from ludolf.fleet.plan import BatchPlan, SelectedTasks, select_tasks
from ludolf.fleet.tasks import Task, render_prompt
from ludolf.fleet.workspace import existing_folder, find_commit

_FREE_BYTES = 1 << 30
_HANDLES_PER_AGENT = 4
_OTHER_HANDLES = 64


class PlannedItem(Value):
    """An item that would run."""

    id: str
    prompt: str
    repo: str | None = None


class DryRunReport(Value):
    """The findings of a dry run; `problems` are what would make items fail."""

    items: tuple[PlannedItem, ...]
    recorded: int
    model: str | None
    notes: tuple[str, ...]
    problems: tuple[str, ...]


async def report_dry_run(plan: BatchPlan, out: Path) -> DryRunReport:
    """Check the items, their repositories, the model, the disk and the handles.

    Raises:
        ConfigError: an item or an option is invalid.
    """
    history = read_history(out)
    selected = select_tasks(plan, history, set())
    problems: list[str] = []
    for task in selected.tasks:
        problem = await _repository_problem(task, plan)
        if problem is not None:
            problems.append(f"{task.id}: {problem}")
    model = None
    try:
        model = await _model_of(plan)
    except LudolfError as error:
        problems.append(str(error))
    problems += _machine_problems(plan, out)
    return DryRunReport(
        items=tuple(
            PlannedItem(
                id=task.id, prompt=render_prompt(task, plan.prompt), repo=task.item.get("repo")
            )
            for task in selected.tasks
        ),
        recorded=selected.recorded_ok + selected.recorded_failed,
        model=model,
        notes=tuple(_notes(history, selected)),
        problems=tuple(problems),
    )


async def _repository_problem(task: Task, plan: BatchPlan) -> str | None:
    repo, ref = task.item.get("repo"), task.item.get("ref")
    if repo is not None and is_url(repo):
        return None  # the network is not used
    try:
        name = repo or task.item.get("folder") or "."
        source = existing_folder(Path(plan.setup.start), name)
        if ref is not None:
            await find_commit(source, ref)
    except CommandError as error:
        return str(error)
    return None


async def _model_of(plan: BatchPlan) -> str | None:
    """Return the model that would answer.

    Raises:
        LudolfError: no session can start.
    """
    from ludolf.fleet.preflight import prepare_session

    with tempfile.TemporaryDirectory(prefix="ludolf-dry-run-") as folder:
        os.mkdir(os.path.join(folder, "work"), 0o700)
        setup = plan.setup.replace(out=folder)
        ready, _ = await prepare_session(setup, lambda text: None)
    return ready.model


def _machine_problems(plan: BatchPlan, out: Path) -> Iterator[str]:
    place = out
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    if free < _FREE_BYTES:
        yield f"Only {free >> 20} MiB are free at {place}."
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    needed = _HANDLES_PER_AGENT * plan.jobs + _OTHER_HANDLES
    if hard != resource.RLIM_INFINITY and hard < needed:
        yield f"-j {plan.jobs} needs {needed} open files; the limit is {hard} (ulimit -Hn)."


def _notes(history: BatchHistory, selected: SelectedTasks) -> Iterator[str]:
    if history.finished and history.cost:
        mean = history.cost / history.finished
        estimate = mean * len(selected.tasks)
        yield f"Estimated cost: ${estimate:.2f} (${mean:.4f} for each item so far)."
    else:
        yield "The cost is unknown until some items have run: try --first 3."
