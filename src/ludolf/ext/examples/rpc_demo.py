"""Send every dialog and notice of the extension interface, for authors of hosts.

Install: copy it to ~/.pi/agent/extensions/, or try it once with `ludolf -e rpc_demo.py`.

Prompt `/demo select`, `/demo confirm`, `/demo input` or `/demo editor`: the answer is sent back as
a notice. `/demo timeout` opens a dialog with a timeout of one second. `/demo notices` sends
all requests without an answer. `/demo` alone does everything in order.
"""

import json
from collections.abc import Awaitable, Callable
from typing import Any

from ludolf.ext import Api, CommandContext, Ui

Ask = Callable[[Ui], Awaitable[Any]]
ASKED: dict[str, Ask] = {
    "select": lambda ui: ui.select("Which colour?", ["Red", "Green", "Blue"]),
    "confirm": lambda ui: ui.confirm("Sure?", "Nothing will happen either way."),
    "input": lambda ui: ui.input("Your name?", "Ada"),
    "editor": lambda ui: ui.editor("Change this text", "line 1\nline 2"),
    "timeout": lambda ui: ui.confirm("Quick?", "No is taken for an answer.", timeout=1_000),
}
NOTICES = "notices"


def extension(api: Api) -> None:
    @api.command("demo", description="Every dialog and every notice", completions=complete)
    async def demo(args: str, ctx: CommandContext) -> None:
        names = args.split() or [*ASKED, NOTICES]
        for name in names:
            if name == NOTICES:
                notices(ctx.ui)
            elif name in ASKED:
                answer = await ASKED[name](ctx.ui)
                ctx.ui.notify(f"{name}: {json.dumps(answer)}")
            else:
                ctx.ui.notify(f"Unknown demo: {name}. Try {', '.join(ASKED)}.", "error")


def complete(prefix: str) -> list[str]:
    return [name for name in (*ASKED, NOTICES) if name.startswith(prefix)]


def notices(ui: Ui) -> None:
    ui.notify("For your information")
    ui.notify("Take care", "warning")
    ui.notify("Something is wrong", "error")
    ui.set_status("demo", "at work")
    ui.set_status("demo", None)  # None removes it
    ui.set_widget("demo", ["above", "the editor"])
    ui.set_widget("demo", ["below it"], placement="belowEditor")
    ui.set_widget("demo", None)
    ui.set_title("A title")
    ui.set_editor_text("A text to send")
