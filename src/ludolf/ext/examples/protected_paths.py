"""Keeps the agent from writing to files that it should leave alone: secrets, .git, lock files.

Install: copy it to ~/.pi/agent/extensions/, or try it once with `ludolf -e protected_paths.py`.

More patterns come from the command line: `ludolf --protect "*.sql,docs/**"`. A pattern without a
slash matches any part of a path, one with a slash the path from the project's folder. It looks at
the tools write and edit; what a shell command does, sandboxed_bash.py keeps in bounds.
"""

from fnmatch import fnmatch
from pathlib import Path

from ludolf.ext import Api, Context, ToolCallAnswer, ToolCalled

PROTECTED = (".env", ".env.*", "*.pem", "id_rsa*", ".git", ".ssh", "node_modules", "*.lock")
WRITERS = ("write", "edit")


def extension(api: Api) -> None:
    api.flag("protect", type=str, default="", description="Further patterns, comma-separated")
    more = str(api.get_flag("protect")).split(",")
    patterns = (*PROTECTED, *(text.strip() for text in more if text.strip()))

    @api.on("tool_call")
    def guard(event: ToolCalled, ctx: Context) -> ToolCallAnswer | None:
        if event.tool_name not in WRITERS:
            return None
        path = str(event.input["path"])
        pattern = protecting(path, ctx.cwd, patterns)
        if pattern is None:
            return None
        ctx.ui.notify(f"Kept the agent from writing to {path}", "warning")
        return {"block": True, "reason": f"{path} is protected by the pattern {pattern}."}


def protecting(path: str, cwd: Path, patterns: tuple[str, ...]) -> str | None:
    """The first pattern that the path matches, by its own name or by where a link leads."""
    named = cwd / Path(path).expanduser()
    for place in (named.absolute(), named.resolve()):
        within = place.relative_to(cwd) if place.is_relative_to(cwd) else place
        for pattern in patterns:
            parts = (within.as_posix(),) if "/" in pattern else within.parts
            if any(fnmatch(part, pattern) for part in parts):
                return pattern
    return None
