"""Todo list of a session, shared between host and model.

The model sees nothing of it until the todo tool is on or a reminder is due.
"""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any, get_args

import msgspec

from ludolf.agent.io import RunEnd
from ludolf.ai.messages import ToolResultMessage, text_of
from ludolf.base import CommandError
from ludolf.engine.conversation import Conversation
from ludolf.engine.feature import Feature, Features
from ludolf.engine.toolset import Toolset
from ludolf.engine.workspace import Workspace
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


class TodoPlan(Feature):
    """The phases of the current session; another session has its own."""

    def __init__(
        self,
        workspace: Workspace,
        conversation: Conversation,
        toolset: Toolset,
        features: Features,
    ) -> None:
        self._workspace = workspace
        self._conversation = conversation
        self._toolset = toolset
        self._features = features
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
        chosen = self._workspace.settings.todo
        enabled = on if chosen.enabled is None else chosen.enabled
        self._reminds = enabled and (on if chosen.reminders is None else chosen.reminders)
        self._clears = clears
        if enabled:
            self._provide_tool()

    def _provide_tool(self) -> None:
        from ludolf.engine.features.todo_tool import TodoTool

        self._toolset.provide("todo", [TodoTool(self)])

    @property
    def phases(self) -> Phases:
        if self._session is not self._conversation.session:
            self._session = self._conversation.session
            self._phases = _stored(self._session)
        return self._phases

    @property
    def storage(self) -> str:
        return "memory" if self._conversation.session.path is None else "session"

    def set(self, phases: Any) -> Phases:
        """Replace all phases; missing fields are filled in.

        Raises:
            CommandError: not a list of phases with tasks, or a status is unknown.
        """
        self.put(read_phases(phases))
        return self._phases

    def put(self, phases: Phases) -> None:
        self._session = self._conversation.session
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
        if self._features.will_wake():
            return False
        left = tuple(task for task in tasks(self.phases) if task.status in OPEN)
        self._acted |= any(isinstance(item, ToolResultMessage) for item in end.messages)
        most = self._workspace.settings.todo.reminders_max
        if not self._reminds or not left or not self._acted or self._reminded >= most:
            return False
        if end.last is None or end.last.stop_reason != "stop" or _asks(text_of(end.last.content)):
            return False
        self._reminded += 1
        self._acted = False
        text = _reminder(self.phases, self._reminded, most)
        body = CustomMessageBody(custom_type=REMINDER, content=text, display=False)
        self._conversation.session.append(body)
        todos = tuple(msgspec.to_builtins(task) for task in left)
        self._conversation.hub.post(
            TodoReminder(todos=todos, attempt=self._reminded, max_attempts=most)
        )
        return True

    # ------------------------------------------------------------ finished tasks

    def _clear_later(self) -> None:
        delay = self._workspace.settings.tasks.todo_clear_delay
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
            self._conversation.hub.post(TodoAutoClear())


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
