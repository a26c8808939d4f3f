"""Block writes to protected files: secrets, .git, lock files.

Install: copy it to ~/.pi/agent/extensions/, or try it once with `ludolf -e protected_paths.py`.

Add patterns on the command line: `ludolf --protect "*.sql,docs/**"`. A pattern without a slash
matches any part of a path, one with a slash the path relative to the project's folder. The
extension checks the tools write and edit; for shell commands, see sandboxed_bash.py.
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
        ctx.ui.notify(f"Blocked a write to {path}", "warning")
        return {"block": True, "reason": f"{path} is protected by the pattern {pattern}."}


def protecting(path: str, cwd: Path, patterns: tuple[str, ...]) -> str | None:
    """Return the first pattern that matches the path or the target of its links, or None."""
    full = cwd / Path(path).expanduser()
    for place in (full.absolute(), full.resolve()):
        within = place.relative_to(cwd) if place.is_relative_to(cwd) else place
        for pattern in patterns:
            parts = (within.as_posix(),) if "/" in pattern else within.parts
            if any(fnmatch(part, pattern) for part in parts):
                return pattern
    return None
