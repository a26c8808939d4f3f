"""Plan mode: the agent may only read until you agree to its plan.

Install: copy it to ~/.pi/agent/extensions/, or try it once with `ludolf -e plan_mode.py`.

`/plan` switches it on and off, `--plan` starts with it. While it is on, only read-only tools are
active and the model is asked for a plan. A dialog then asks you whether to carry it out. The mode
is stored in the session, so a resumed session continues in it.
"""

from collections.abc import Sequence

from ludolf.ext import (
    AgentSettled,
    Api,
    BeforeAgentStart,
    BeforeAgentStartAnswer,
    CommandContext,
    Context,
    SessionStart,
)

LOOKING = ("read", "grep", "find", "ls")
ENTRY = "plan-mode"
RULES = """You are in plan mode. Read files, but change nothing.
Find out what has to be done, then answer with a numbered plan of small steps. Do not start yet."""
GO = "Carry out the plan."


class PlanMode:
    def __init__(self, api: Api) -> None:
        self.api = api
        self.on = False
        self.planned = False
        self.tools: Sequence[str] = ()

    def switch(self, on: bool, ctx: Context) -> None:
        if on == self.on:
            return
        if on:
            self.tools = ctx.active_tools
        ctx.set_active_tools(LOOKING if on else self.tools)
        ctx.ui.set_status(ENTRY, "planning" if on else None)
        self.on, self.planned = on, False
        self.api.append_entry(ENTRY, {"on": on})

    async def offer(self, ctx: Context) -> None:
        """Ask the user whether to carry out the plan."""
        if await ctx.ui.select("The plan is ready.", [GO, "Keep planning"]) == GO:
            self.switch(False, ctx)
            ctx.send_user_message(GO)


def extension(api: Api) -> None:
    api.flag("plan", description="Start in plan mode")
    mode = PlanMode(api)

    @api.command("plan", description="Switch plan mode on or off")
    async def plan(args: str, ctx: CommandContext) -> None:
        mode.switch(not mode.on, ctx)
        ctx.ui.notify(f"Plan mode is {'on' if mode.on else 'off'}.")

    @api.on("session_start")
    def resume(event: SessionStart, ctx: Context) -> None:
        stored = [e for e in ctx.session.branch() if e.type == "custom" and e.custom_type == ENTRY]
        new = event.reason == "startup" and not stored
        mode.switch(stored[-1].data["on"] if stored else new and bool(api.get_flag("plan")), ctx)

    @api.on("before_agent_start")
    def instruct(event: BeforeAgentStart, ctx: Context) -> BeforeAgentStartAnswer | None:
        mode.planned = mode.on
        if not mode.on:
            return None
        return {"message": {"custom_type": ENTRY, "content": RULES, "display": False}}

    @api.on("agent_settled")
    async def ask(event: AgentSettled, ctx: Context) -> None:
        if mode.planned and ctx.has_ui:
            mode.planned = False
            await mode.offer(ctx)
