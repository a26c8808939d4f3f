"""Task list that the model maintains, one per branch of the session.

Install: copy it to ~/.pi/agent/extensions/, or try it once with `ludolf -e todo.py`.

The tool `todo` changes the list, `/todos` shows it, and hosts receive it as a widget. The list is
stored in the conversation only: each result has the complete list in its details, and the last
result on the current branch is the current list. Navigating back in the tree restores the list.
"""

from typing import Annotated, Any, Literal

from ludolf.ext import (
    Api,
    CommandContext,
    Context,
    Payload,
    ToolError,
    ToolResult,
    ToolResultMessage,
)

NAME = "todo"
TodoList = list[dict[str, Any]]


def extension(api: Api) -> None:
    @api.tool(
        name=NAME,
        execution="sequential",
        prompt_snippet="Maintain a task list",
        prompt_guidelines=["For work of several steps, keep the task list up to date."],
    )
    async def todo(
        action: Literal["add", "done", "remove", "list"],
        text: Annotated[str, "Text of the task, for add"] = "",
        number: Annotated[int, "Number of the task, from 1, for done and remove"] = 0,
        *,
        ctx: Context,
    ) -> ToolResult:
        """Maintain a task list: add a task, mark one as done, remove one, or list them."""
        tasks = change(stored(ctx), action, text, number)
        ctx.ui.set_widget(NAME, lines(tasks) or None)
        return ToolResult("\n".join(lines(tasks)) or "No tasks.", details={"tasks": tasks})

    @api.command("todos", description="Show the list of tasks")
    async def show(args: str, ctx: CommandContext) -> None:
        ctx.ui.notify("\n".join(lines(stored(ctx))) or "No tasks.")

    def refresh(event: Payload, ctx: Context) -> None:
        ctx.ui.set_widget(NAME, lines(stored(ctx)) or None)

    api.on("session_start", refresh)
    api.on("session_tree", refresh)


def stored(ctx: Context) -> TodoList:
    """Return the list in the last result on the current branch."""
    for entry in reversed(ctx.session.branch()):
        message = entry.message if entry.type == "message" else None
        if isinstance(message, ToolResultMessage) and message.tool_name == NAME:
            details = message.details
            if isinstance(details, dict) and "tasks" in details:  # a failed call has none
                return [dict(task) for task in details["tasks"]]
    return []


def change(tasks: TodoList, action: str, text: str, number: int) -> TodoList:
    if action == "add":
        if not text:
            raise ToolError("add needs a text")
        return [*tasks, {"text": text, "done": False}]
    if action in ("done", "remove"):
        if not 1 <= number <= len(tasks):
            raise ToolError(f"Task {number} does not exist; the list has {len(tasks)}")
        if action == "remove":
            return tasks[: number - 1] + tasks[number:]
        tasks[number - 1]["done"] = True
    return tasks


def lines(tasks: TodoList) -> list[str]:
    return [
        f"{place}. [{'x' if task['done'] else ' '}] {task['text']}"
        for place, task in enumerate(tasks, 1)
    ]
