"""Save your files before each prompt, and restore them when you fork there.

Install: copy it to ~/.pi/agent/extensions/, or try it once with `ludolf -e git_checkpoint.py`.

Before a prompt runs, all files of the repository that git does not ignore are committed without a
branch, below refs/ludolf/; your branch and your index do not change. Forking before a prompt asks
whether to restore the files. Files created later and never added to git stay.
"""

import os
from tempfile import TemporaryDirectory

from ludolf.ext import Api, BeforeAgentStart, Context, ForkAnswer, SessionBeforeFork

ENTRY = "git-checkpoint"
WHO = ("-c", "user.name=checkpoint", "-c", "user.email=checkpoint@localhost")


class GitFailed(Exception):
    """Raised when git fails; the text is its error output."""


def extension(api: Api) -> None:
    async def git(*args: str, index: str | None = None) -> str:
        variables = [] if index is None else [f"GIT_INDEX_FILE={index}"]
        result = await api.exec("env", [*variables, "git", *args])
        if result.code != 0:
            raise GitFailed(result.stderr.strip())
        return result.stdout.strip()

    async def snapshot(text: str) -> str:
        """Commit all files through a temporary index and return the commit."""
        with TemporaryDirectory() as folder:
            index = os.path.join(folder, "index")
            await git("add", "--all", ".", index=index)
            tree = await git("write-tree", index=index)
        commit = await git(*WHO, "commit-tree", tree, "-m", text)
        await git("update-ref", f"refs/ludolf/checkpoints/{commit}", commit)
        return commit

    @api.on("before_agent_start")
    async def keep(event: BeforeAgentStart, ctx: Context) -> None:
        if await is_repository(ctx):
            # The entry directly precedes that of the prompt, where `commit_before` finds it.
            api.append_entry(ENTRY, {"commit": await snapshot(f"Before: {event.prompt[:60]}")})

    @api.on("session_before_fork")
    async def restore(event: SessionBeforeFork, ctx: Context) -> ForkAnswer | None:
        commit = commit_before(event.entry_id, ctx)
        if commit is None or not ctx.has_ui:
            return None
        if await ctx.ui.confirm("Restore files?", "As they were before this prompt."):
            await git("restore", f"--source={commit}", "--worktree", "--", ".")
            ctx.ui.notify(f"Files are as in {commit[:10]}.")
        return None


async def is_repository(ctx: Context) -> bool:
    """Return whether the folder is the root of a repository, so that a snapshot is complete."""
    result = await ctx.exec("git", ["rev-parse", "--show-prefix"])
    return result.code == 0 and not result.stdout.strip()


def commit_before(entry_id: str, ctx: Context) -> str | None:
    """Return the checkpoint of the prompt of an entry, or None."""
    for entry in reversed(ctx.session.branch(entry_id)):
        if entry.type == "custom" and entry.custom_type == ENTRY:
            return str(entry.data["commit"])
        if entry.type == "message" and entry.id != entry_id:
            return None
    return None
