"""Todo list of a session, shared between host and model, and the tool to change it.

The model sees nothing of it until the todo tool is on or a reminder is due.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, get_args

import msgspec
from msgspec.structs import replace

from ludolf.agent.io import RunEnd
from ludolf.agent.tool import ToolContext, ToolDefaults, ToolFailure, ToolOutput, text_output
from ludolf.ai.messages import ToolResultMessage, text_of
from ludolf.base import CommandError
from ludolf.engine.bundles import Bundles, Component
from ludolf.engine.feature import Feature
from ludolf.protocol.host_events import TodoAutoClear, TodoReminder
from ludolf.protocol.results import TodoPhase, TodoStatus, TodoTask
from ludolf.session.entries import CustomMessageBody, message_of, role_of
from ludolf.session.tree import Session

STATUSES: tuple[str, ...] = get_args(TodoStatus)
FINISHED = ("completed", "abandoned")
OPEN = ("pending", "in_progress")
TOOL_NAMES = ("todo", "todo_write")
REMINDER = "todo-reminder"


Phases = tuple[TodoPhase, ...]


class TodoPlan(Component, Feature):
    """The phases of the current session; another session has its own."""

    def __init__(self, bundles: Bundles) -> None:
        super().__init__(bundles)
        self._phases: Phases = ()
        self._session: Session | None = None
        self._reminds = False
        self._reminded = 0
        self._acted = True
        self._clears = False
        self._timer: asyncio.TimerHandle | None = None
        self.was_used = False

    def configure(self, *, on: bool, clears: bool) -> None:
        """Switch the tool and the reminders on or off, unless the settings do."""
        chosen = self.workspace.settings.todo
        enabled = on if chosen.enabled is None else chosen.enabled
        self._reminds = enabled and (on if chosen.reminders is None else chosen.reminders)
        self._clears = clears
        if enabled:
            self.toolset.provide("todo", [TodoTool(self)], inherited=False)

    @property
    def phases(self) -> Phases:
        if self._session is not self.conversation.session:
            self._session = self.conversation.session
            self._phases = _stored(self._session)
        return self._phases

    @property
    def storage(self) -> str:
        return "memory" if self.conversation.session.path is None else "session"

    def set(self, phases: Any) -> Phases:
        """Replace all phases; missing fields are filled in.

        Raises:
            CommandError: not a list of phases with tasks, or a status is unknown.
        """
        self.put(read_phases(phases))
        return self._phases

    def put(self, phases: Phases) -> None:
        self._session = self.conversation.session
        self._phases = phases
        self.was_used = True
        if self._clears and any(task.status in FINISHED for task in tasks(phases)):
            self._clear_later()

    # ------------------------------------------------------------ reminders

    def on_prompt(self) -> None:
        self._reminded, self._acted = 0, True

    def continues(self, end: RunEnd) -> bool:
        """Add a reminder to the conversation if the run stops with open tasks.

        Not twice without a tool call in between, and not when the answer asks the user.
        """
        if self.features.will_wake():
            return False
        left = tuple(task for task in tasks(self.phases) if task.status in OPEN)
        self._acted |= any(isinstance(item, ToolResultMessage) for item in end.messages)
        most = self.workspace.settings.todo.reminders_max
        if not self._reminds or not left or not self._acted or self._reminded >= most:
            return False
        if end.last is None or end.last.stop_reason != "stop" or _asks(text_of(end.last.content)):
            return False
        self._reminded += 1
        self._acted = False
        text = _reminder(self.phases, self._reminded, most)
        body = CustomMessageBody(custom_type=REMINDER, content=text, display=False)
        self.conversation.session.append(body)
        todos = tuple(msgspec.to_builtins(task) for task in left)
        self.conversation.hub.post(
            TodoReminder(todos=todos, attempt=self._reminded, max_attempts=most)
        )
        return True

    # ------------------------------------------------------------ finished tasks

    def _clear_later(self) -> None:
        delay = self.workspace.settings.tasks.todo_clear_delay
        if delay >= 0 and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(delay, self._clear)

    def _clear(self) -> None:
        self._timer = None
        kept = _without(self.phases, lambda task: task.status in FINISHED)
        if kept != self._phases:
            self._phases = kept
            self.conversation.hub.post(TodoAutoClear())


def tasks(phases: Sequence[TodoPhase]) -> Iterator[TodoTask]:
    return (task for phase in phases for task in phase.tasks)


def read_phases(raw: Any) -> Phases:
    """Phases as hosts send them: known fields kept, missing ids filled in.

    Raises:
        CommandError: the shape is wrong; the text names the place.
    """
    if not isinstance(raw, list | tuple):
        raise CommandError("Missing field: phases")
    count = 0
    phases = []
    for index, item in enumerate(raw):
        listed = item.get("tasks") if isinstance(item, dict) else None
        if not isinstance(listed, list | tuple):
            raise CommandError(f"Missing field: phases[{index}].tasks")
        read = []
        for task in listed:
            count += 1
            read.append(_read_task(task, f"phases[{index}].tasks", count))
        name = _text(item, "name") or f"Phase {index + 1}"
        phase_id = _text(item, "id") or f"phase-{index + 1}"
        phases.append(TodoPhase(id=phase_id, name=name, tasks=tuple(read)))
    return tuple(phases)


def _read_task(raw: Any, where: str, number: int) -> TodoTask:
    fields = {"content": raw} if isinstance(raw, str) else raw
    if not isinstance(fields, dict) or not isinstance(fields.get("content"), str):
        raise CommandError(f"Missing field: {where}.content")
    status = fields.get("status", "pending")
    if status not in STATUSES:
        raise CommandError(f"Invalid todo status: {status}")
    return TodoTask(
        id=_text(fields, "id") or f"task-{number}",
        content=fields["content"],
        status=status,
        notes=_text(fields, "notes"),
        blocker=_text(fields, "blocker"),
    )


def _text(fields: dict[str, Any], name: str) -> str | None:
    value = fields.get(name)
    return value if isinstance(value, str) else None


def _stored(session: Session) -> Phases:
    """The phases of the newest result of the todo tool."""
    for entry in reversed(session.path_to_leaf()):
        if role_of(entry) != "toolResult":
            continue
        message = message_of(entry)
        if not isinstance(message, ToolResultMessage) or message.tool_name not in TOOL_NAMES:
            continue
        if not message.is_error and isinstance(message.details, dict):
            try:
                return read_phases(message.details.get("phases"))
            except CommandError:
                return ()
    return ()


def _asks(text: str) -> bool:
    return text.rstrip().endswith(("?", "\uff1f"))


def _reminder(phases: Phases, attempt: int, most: int) -> str:
    lines = [f"<system-reminder>\nThe todo list still has open work (Reminder {attempt}/{most}):"]
    for phase in phases:
        left = [task for task in phase.tasks if task.status in OPEN]
        if left:
            lines += [f"{phase.name}:", *(f"- {task.content} [{task.status}]" for task in left)]
    lines.append(
        "Continue with it. If a task is done, mark it; if it cannot be done, say why and drop it."
    )
    return "\n".join(lines) + "\n</system-reminder>"


# ---------------------------------------------------------------- the tool

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
            "enum": ["init", "start", "done", "drop", "block", "unblock", "rm", "append", "view"],
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
    step = _STEPS.get(str(args.get("op")))
    if step is None:
        raise ToolFailure(f"Unknown todo op: {args.get('op')}")
    return step(phases, args)


def summary(phases: Phases) -> str:
    """The list as the model reads it."""
    every = list(tasks(phases))
    if not every:
        return "The todo list is empty."
    done = sum(task.status in FINISHED for task in every)
    lines = [f"{done} of {len(every)} done."]
    for phase in phases:
        lines.append(f"{phase.name}:")
        for task in phase.tasks:
            mark = "x" if task.status == "completed" else " "
            lines.append(f"- [{mark}] {task.content}{_remark(task)}")
    return "\n".join(lines)


def _remark(task: TodoTask) -> str:
    if task.status == "blocked":
        return f" (blocked: {task.blocker})" if task.blocker else " (blocked)"
    words = {"in_progress": " (in progress)", "abandoned": " (dropped)"}
    return words.get(task.status, "")


# ---------------------------------------------------------------- operations by text


def _init(phases: Phases, args: Mapping[str, Any]) -> Phases:
    listed = args.get("list")
    if not listed:
        raise ToolFailure("init needs `list`: phases with their items")
    return _checked([{"name": item["phase"], "tasks": item["items"]} for item in listed])


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
    return _changed(_each(phases, _rest), args, lambda task: replace(task, status="in_progress"))


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
    named = _named(phases, args)
    return _without(phases, lambda task: task.id in named)


# ---------------------------------------------------------------- operations by id


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
    wanted = _known_id(phases, args)
    changed = _each(phases, lambda task: replace(task, **changes) if task.id == wanted else task)
    return _checked(msgspec.to_builtins(changed))


def _remove_task(phases: Phases, args: Mapping[str, Any]) -> Phases:
    wanted = _known_id(phases, args)
    return _without(phases, lambda task: task.id == wanted)


def _known_id(phases: Phases, args: Mapping[str, Any]) -> Any:
    wanted = args.get("id")
    if all(task.id != wanted for task in tasks(phases)):
        raise ToolFailure(f"No such task: {wanted}")
    return wanted


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
    "replace": lambda _, args: _checked(args.get("phases")),
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
    return _each(phases, lambda task: change(task) if task.id in named else task)


def _without(phases: Phases, is_removed: Callable[[TodoTask], bool]) -> Phases:
    return tuple(
        replace(phase, tasks=tuple(task for task in phase.tasks if not is_removed(task)))
        for phase in phases
    )


def _each(phases: Phases, change: Callable[[TodoTask], TodoTask]) -> Phases:
    return tuple(replace(phase, tasks=tuple(map(change, phase.tasks))) for phase in phases)


def _promoted(phases: Phases) -> Phases:
    """At most one task is in progress, the first; if none is, the first open one becomes it."""
    current = next((t.id for t in tasks(phases) if t.status == "in_progress"), None)
    chosen = current or next((t.id for t in tasks(phases) if t.status in OPEN), None)
    return _each(
        phases,
        lambda t: replace(t, status="in_progress") if t.id == chosen else _rest(t),
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
