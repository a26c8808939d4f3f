"""The todo tool: the model keeps the plan, by the texts of tasks or by their ids."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from ludolf.agent.tool import ToolContext, ToolDefaults, ToolFailure, ToolOutput, text_output
from ludolf.base import CommandError
from ludolf.engine.features.todos import (
    FINISHED,
    OPEN,
    Phases,
    TodoPlan,
    read_phases,
    tasks,
)
from ludolf.protocol.results import (
    TodoPhase,
    TodoTask,
)

DESCRIPTION = """Keep a todo list of phases and tasks for work of several steps.
One `op` a call: init (with `list`), start, done, drop, block (with `reason`), unblock, rm, \
append (with `phase` and `items`), view. `task` is the exact text of a task; `phase` alone means \
all tasks of that phase. Or `ops`, a list of replace, add_phase, add_task, update, remove_task, \
by id.
The first open task is marked in progress automatically. A call that fails changes nothing."""
_TEXT = {"type": "string"}
_TEXTS = {"type": "array", "items": _TEXT}
PARAMETERS: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "op": {
            "type": "string",
            "enum": [
                "init",
                "start",
                "done",
                "drop",
                "block",
                "unblock",
                "rm",
                "append",
                "view",
            ],
        },
        "list": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"phase": _TEXT, "items": _TEXTS},
                "required": ["phase", "items"],
            },
        },
        "task": _TEXT,
        "phase": _TEXT,
        "items": _TEXTS,
        "reason": _TEXT,
        "ops": {"type": "array", "items": {"type": "object"}},
    },
}
TodoOperation = Callable[[Phases, Mapping[str, Any]], Phases]


class TodoTool(ToolDefaults):
    """Runs alone, so that two calls of one answer change the list in their order."""

    name = "todo"
    label = "Todo"
    description = DESCRIPTION
    parameters = PARAMETERS
    alone = True
    read_only = True

    def __init__(self, todos: TodoPlan) -> None:
        self._todos = todos

    async def execute(self, args: Mapping[str, Any], ctx: ToolContext) -> ToolOutput:
        before = self._todos.phases
        after = before
        try:
            for step in args.get("ops", [args]):
                after = _step(after, step)
        except ToolFailure as error:
            text = f"{error}\n{summary(before)}"
            raise ToolFailure(text, text_output(text, self._details(args, before))) from error
        if after != before or not before:
            after = _promoted(after)
            self._todos.put(after)
        details = self._details(args, after)
        if done := _newly_done(before, after):
            details["completedTasks"] = done
        return text_output(summary(after), details)

    def _details(self, args: Mapping[str, Any], phases: Phases) -> dict[str, Any]:
        return {
            "op": str(args.get("op") or "update"),
            "phases": msgspec.to_builtins(phases),
            "storage": self._todos.storage,
        }


def _step(phases: Phases, args: Mapping[str, Any]) -> Phases:
    op = args.get("op")
    step = _STEPS.get(str(op))
    if step is None:
        raise ToolFailure(f"Unknown todo op: {op}")
    return step(phases, args)


def summary(phases: Phases) -> str:
    """The list as the model reads it."""
    if not any(True for _ in tasks(phases)):
        return "The todo list is empty."
    every = list(tasks(phases))
    done = sum(task.status in FINISHED for task in every)
    lines = [f"{done} of {len(every)} done."]
    for phase in phases:
        lines.append(f"{phase.name}:")
        lines += (f"- [{_mark(task)}] {task.content}{_remark(task)}" for task in phase.tasks)
    return "\n".join(lines)


def _mark(task: TodoTask) -> str:
    return "x" if task.status == "completed" else " "


def _remark(task: TodoTask) -> str:
    if task.status == "blocked":
        return f" (blocked: {task.blocker})" if task.blocker else " (blocked)"
    words = {"in_progress": " (in progress)", "abandoned": " (dropped)"}
    return words.get(task.status, "")


# ---------------------------------------------------------------- by text


def _init(phases: Phases, args: Mapping[str, Any]) -> Phases:
    listed = args.get("list") or []
    if not listed:
        raise ToolFailure("init needs `list`: phases with their items")
    raw = [{"name": item["phase"], "tasks": item["items"]} for item in listed]
    return _checked(raw)


def _marked(**changes: Any) -> TodoOperation:
    def step(phases: Phases, args: Mapping[str, Any]) -> Phases:
        return _changed(phases, args, lambda task: replace(task, **changes))

    return step


def _block(phases: Phases, args: Mapping[str, Any]) -> Phases:
    reason = args.get("reason")
    return _changed(phases, args, lambda task: replace(task, status="blocked", blocker=reason))


def _start(phases: Phases, args: Mapping[str, Any]) -> Phases:
    """Only one task is in progress: the one named now."""
    _changed(phases, args, lambda task: task)
    rested = _each(phases, lambda _, task: _rest(task))
    return _changed(rested, args, lambda task: replace(task, status="in_progress"))


def _rest(task: TodoTask) -> TodoTask:
    return replace(task, status="pending") if task.status == "in_progress" else task


def _append(phases: Phases, args: Mapping[str, Any]) -> Phases:
    name, items = args.get("phase"), args.get("items") or []
    if not name or not items:
        raise ToolFailure("append needs `phase` and `items`")
    number = _highest(phases)
    new = tuple(
        TodoTask(id=f"task-{number + place}", content=item, status="pending")
        for place, item in enumerate(items, 1)
    )
    if all(phase.name != name for phase in phases):
        return (*phases, TodoPhase(id=f"phase-{len(phases) + 1}", name=name, tasks=new))
    return tuple(
        replace(phase, tasks=(*phase.tasks, *new)) if phase.name == name else phase
        for phase in phases
    )


def _rm(phases: Phases, args: Mapping[str, Any]) -> Phases:
    if not args.get("task") and not args.get("phase"):
        return tuple(replace(phase, tasks=()) for phase in phases)
    return _without(phases, _named(phases, args))


# ---------------------------------------------------------------- by id


def _replace(phases: Phases, args: Mapping[str, Any]) -> Phases:
    return _checked(args.get("phases"))


def _add_phase(phases: Phases, args: Mapping[str, Any]) -> Phases:
    raw = {"name": args.get("name"), "tasks": args.get("tasks") or []}
    number = _highest(phases)
    new = _checked([raw])[0]
    placed = tuple(
        replace(task, id=f"task-{number + place}") for place, task in enumerate(new.tasks, 1)
    )
    return (*phases, replace(new, id=f"phase-{len(phases) + 1}", tasks=placed))


def _add_task(phases: Phases, args: Mapping[str, Any]) -> Phases:
    found = [phase.name for phase in phases if args.get("phase") in (phase.id, phase.name)]
    if not found:
        raise ToolFailure(f"No such phase: {args.get('phase')}")
    return _append(phases, {"phase": found[0], "items": [str(args.get("content", ""))]})


def _update(phases: Phases, args: Mapping[str, Any]) -> Phases:
    fields = ("content", "status", "notes", "blocker")
    changes = {name: args[name] for name in fields if isinstance(args.get(name), str)}
    if all(task.id != args.get("id") for task in tasks(phases)):
        raise ToolFailure(f"No such task: {args.get('id')}")
    changed = _each(phases, lambda _, t: replace(t, **changes) if t.id == args["id"] else t)
    return _checked(msgspec.to_builtins(changed))


def _remove_task(phases: Phases, args: Mapping[str, Any]) -> Phases:
    if all(task.id != args.get("id") for task in tasks(phases)):
        raise ToolFailure(f"No such task: {args.get('id')}")
    return _without(phases, frozenset((args["id"],)))


_STEPS: dict[str, TodoOperation] = {
    "init": _init,
    "start": _start,
    "done": _marked(status="completed", blocker=None),
    "drop": _marked(status="abandoned", blocker=None),
    "block": _block,
    "unblock": _marked(status="pending", blocker=None),
    "rm": _rm,
    "append": _append,
    "view": lambda phases, _: phases,
    "replace": _replace,
    "add_phase": _add_phase,
    "add_task": _add_task,
    "update": _update,
    "remove_task": _remove_task,
}


# ---------------------------------------------------------------- common


def _checked(raw: Any) -> Phases:
    try:
        return read_phases(raw)
    except CommandError as error:
        raise ToolFailure(str(error)) from error


def _named(phases: Phases, args: Mapping[str, Any]) -> frozenset[str]:
    """Ids of the tasks that the arguments name: one by its text, or all of a phase."""
    text, name = args.get("task"), args.get("phase")
    if text:
        found = [task.id for task in tasks(phases) if task.content == text]
    else:
        found = [task.id for phase in phases if phase.name == name for task in phase.tasks]
    if not found and (text or all(phase.name != name for phase in phases)):
        raise ToolFailure(f'No such task: "{text}"' if text else f'No such phase: "{name}"')
    return frozenset(found)


def _changed(
    phases: Phases, args: Mapping[str, Any], change: Callable[[TodoTask], TodoTask]
) -> Phases:
    named = _named(phases, args)
    return _each(phases, lambda _, task: change(task) if task.id in named else task)


def _without(phases: Phases, ids: frozenset[str]) -> Phases:
    return tuple(
        replace(phase, tasks=tuple(task for task in phase.tasks if task.id not in ids))
        for phase in phases
    )


def _each(phases: Phases, change: Callable[[TodoPhase, TodoTask], TodoTask]) -> Phases:
    return tuple(
        replace(phase, tasks=tuple(change(phase, task) for task in phase.tasks)) for phase in phases
    )


def _promoted(phases: Phases) -> Phases:
    """At most one task is in progress, the first; if none is, the first open one becomes it."""
    current = next((t.id for t in tasks(phases) if t.status == "in_progress"), None)
    chosen = current or next((t.id for t in tasks(phases) if t.status in OPEN), None)
    return _each(
        phases,
        lambda _, t: replace(t, status="in_progress") if t.id == chosen else _rest(t),
    )


def _highest(phases: Phases) -> int:
    numbers = [task.id.removeprefix("task-") for task in tasks(phases)]
    return max((int(number) for number in numbers if number.isdigit()), default=0)


def _newly_done(before: Phases, after: Phases) -> Sequence[dict[str, str]]:
    was = {task.id for task in tasks(before) if task.status == "completed"}
    return [
        {"phase": phase.name, "content": task.content}
        for phase in after
        for task in phase.tasks
        if task.status == "completed" and task.id not in was
    ]
