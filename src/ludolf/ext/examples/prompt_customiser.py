"""Customise the system prompt: rules, the date, the branch and the project's house style.

Install: copy it to ~/.pi/agent/extensions/, or try it once with `ludolf -e prompt_customiser.py`.

The handler of `before_agent_start` returns the parts to change; all others stay. Edit RULES to your
needs. If the project has a STYLE.md and you trust the project, it is added as a part. To replace
the complete prompt for a run, return {"system_prompt": "…"} instead.
"""

from datetime import date
from pathlib import Path

from ludolf.ext import Api, BeforeAgentStart, BeforeAgentStartAnswer, Context

RULES = (
    "Say what you are unsure of.",
    "Prefer the smallest change that solves the problem.",
)
STYLE = "STYLE.md"
MOST_CHARACTERS = 8_000


def extension(api: Api) -> None:
    @api.on("before_agent_start")
    async def customise(event: BeforeAgentStart, ctx: Context) -> BeforeAgentStartAnswer:
        options = event.system_prompt_options
        sections = {**options.sections, "surroundings": await surroundings(ctx)}
        if ctx.is_project_trusted and (style := read(ctx.cwd / STYLE)):
            sections["house_style"] = f"House style of this project:\n{style}"
        rules = (*options.prompt_guidelines, *RULES)
        return {"system_prompt_options": {"prompt_guidelines": rules, "sections": sections}}


async def surroundings(ctx: Context) -> str:
    result = await ctx.exec("git", ["branch", "--show-current"], timeout=2_000)
    branch = result.stdout.strip()
    where = f" The branch is {branch}." if branch else ""
    return f"Today is {date.today():%A, %d %B %Y}.{where}"


def read(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")[:MOST_CHARACTERS].strip()
    except OSError:
        return ""
