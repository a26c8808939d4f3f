"""The plan of a session: phases of tasks that the host sees, the model keeps, and nobody must use.

Nothing of it reaches the model until the todo tool is on or a reminder is due.
"""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any, Literal, get_args

import msgspec

from ludolf.agent.io import RunEnd
from ludolf.ai.messages import ToolResultMessage, text_of
from ludolf.base import CommandError, Value
from ludolf.engine.parts import Parts
from ludolf.protocol.host_events import TodoAutoClear, TodoReminder
from ludolf.session.entries import CustomMessageEntry, message_of, role_of
from ludolf.session.tree import Session

Status = Literal["pending", "in_progress", "completed", "abandoned", "blocked"]
STATUSES: tuple[str, ...] = get_args(Status)
FINISHED = ("completed", "abandoned")
OPEN = ("pending", "in_progress")
TOOL_NAMES = ("todo", "todo_write")
REMINDER = "todo-reminder"


class Task(Value, kw_only=True):
    id: str
    content: str
    status: Status
    notes: str | None = None
    blocker: str | None = None


class Phase(Value, kw_only=True):
    id: str
    name: str
    tasks: tuple[Task, ...]


Phases = tuple[Phase, ...]


class Todos:
    """The phases of the current session; another session has its own."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._phases: Phases = ()
        self._session: Session | None = None
        self._reminds = False
        self._reminded = 0
        self._acted = True
        self._clears = False
        self._timer: asyncio.TimerHandle | None = None
        self.was_used = False

    def adopt(self, *, on: bool, clears: bool) -> None:
        """Switch the tool and the reminders on or off, where the settings do not say."""
        chosen = self._parts.settings.todo
        enabled = on if chosen.enabled is None else chosen.enabled
        self._reminds = enabled and (on if chosen.reminders is None else chosen.reminders)
        self._clears = clears
        if enabled:
            from ludolf.engine.features.todo_tool import TodoTool

            self._parts.toolbox.provide("todo", [TodoTool(self)])

    @property
    def phases(self) -> Phases:
        if self._session is not self._parts.session:
            self._session = self._parts.session
            self._phases = _stored(self._session)
        return self._phases

    @property
    def storage(self) -> str:
        return "memory" if self._parts.session.path is None else "session"

    def set(self, phases: Any) -> Phases:
        """Replace everything by what a host or the model says, made whole.

        Raises:
            CommandError: it is no list of phases with tasks, or a status is unknown.
        """
        self.put(read_phases(phases))
        return self._phases

    def put(self, phases: Phases) -> None:
        self._session = self._parts.session
        self._phases = phases
        self.was_used = True
        if self._clears and any(task.status in FINISHED for task in tasks(phases)):
            self._clear_later()

    # ------------------------------------------------------------ reminders

    def new_prompt(self) -> None:
        """A user spoke: reminding starts anew."""
        self._reminded, self._acted = 0, True

    def remind(self, end: RunEnd) -> bool:
        """If the run stops with work left, put a reminder into the conversation; True if done.

        Not twice without any tool used in between, and not when the answer asks the user.
        """
        jobs = self._parts.jobs
        if jobs is not None and jobs.will_wake:
            return False
        left = tuple(task for task in tasks(self.phases) if task.status in OPEN)
        self._acted |= any(isinstance(item, ToolResultMessage) for item in end.messages)
        most = self._parts.settings.todo.reminders_max
        if not self._reminds or not left or not self._acted or self._reminded >= most:
            return False
        if end.last is None or end.last.stop_reason != "stop" or _asks(text_of(end.last.content)):
            return False
        self._reminded += 1
        self._acted = False
        text = _reminder(self.phases, self._reminded, most)
        body = CustomMessageEntry(custom_type=REMINDER, content=text, display=False)
        self._parts.session.append(body)
        todos = tuple(msgspec.to_builtins(task) for task in left)
        self._parts.hub.post(TodoReminder(todos=todos, attempt=self._reminded, max_attempts=most))
        return True

    # ------------------------------------------------------------ finished tasks

    def _clear_later(self) -> None:
        delay = self._parts.settings.tasks.todo_clear_delay
        if delay >= 0 and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(delay, self._clear)

    def _clear(self) -> None:
        self._timer = None
        kept = tuple(
            msgspec.structs.replace(
                phase, tasks=tuple(task for task in phase.tasks if task.status not in FINISHED)
            )
            for phase in self.phases
        )
        if kept != self._phases:
            self._phases = kept
            self._parts.hub.post(TodoAutoClear())


def tasks(phases: Sequence[Phase]) -> Iterator[Task]:
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
        phases.append(Phase(id=phase_id, name=name, tasks=tuple(read)))
    return tuple(phases)


def _read_task(raw: Any, where: str, number: int) -> Task:
    fields = {"content": raw} if isinstance(raw, str) else raw
    if not isinstance(fields, dict) or not isinstance(fields.get("content"), str):
        raise CommandError(f"Missing field: {where}.content")
    status = fields.get("status", "pending")
    if status not in STATUSES:
        raise CommandError(f"Invalid todo status: {status}")
    return Task(
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
        "Go on with it. If a task is done, mark it; if it cannot be done, say why and drop it."
    )
    return "\n".join(lines) + "\n</system-reminder>"
