"""Run commands of the model and the user in a sandbox.

Install: copy it to ~/.pi/agent/extensions/, or try it once with `ludolf -e sandboxed_bash.py`.

Commands have no network, and only the project's folder is writable. The extension uses bubblewrap
(bwrap) if it is installed, else unshare with user namespaces; both exist on Linux only. It tests
each program first and uses one only if the home folder and the system are not writable. If no
sandbox works, commands are refused. `--no-sandbox` disables this extension.
"""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from ludolf.ext import Api, Context, ExecResult, ToolError, UserBash, UserBashAnswer

REFUSED = (
    "No sandbox: neither bubblewrap nor unshare works on this machine. "
    "Install bubblewrap, or start with --no-sandbox."
)
PROBE = 'test ! -w / && test ! -w "$HOME" && test -w .'
# Make every mount read-only except the bind mount of the project's folder.
SHUT = """
places=$(findmnt -rno TARGET)
mount --make-rprivate / && mount --bind "$PWD" "$PWD" && mount -t tmpfs tmpfs /dev/shm || exit 1
for place in $places; do mount -o remount,bind,ro "$place" 2>/dev/null; done
cd "$PWD" && TMPDIR=/dev/shm exec bash -c "$0"
"""
MOST_CHARACTERS = 50_000


def bubblewrap(cwd: Path, command: str) -> list[str]:
    shown = ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"]
    own = ["--bind", str(cwd), str(cwd), "--chdir", str(cwd)]
    return ["bwrap", *shown, *own, "--unshare-all", "--die-with-parent", "bash", "-c", command]


def unshare(cwd: Path, command: str) -> list[str]:
    apart = ["--user", "--map-root-user", "--mount", "--net", "--pid", "--fork", "--kill-child"]
    return ["unshare", *apart, "sh", "-c", SHUT, command]


WAYS = {"bwrap": bubblewrap, "unshare": unshare}


class BashSandbox:
    """Runs commands in the first sandbox program that works, tested once."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._way: Callable[[Path, str], list[str]] | None = None
        self._tried = False

    async def run(self, command: str, cwd: Path, timeout: float | None = None) -> ExecResult:
        if not self._tried:
            self._way, self._tried = await self._find(cwd), True
        if self._way is None:
            raise ToolError(REFUSED)
        program, *args = self._way(cwd, f"exec 2>&1\n{command}")
        return await self._api.exec(program, args, timeout=timeout)

    async def _find(self, cwd: Path) -> Callable[[Path, str], list[str]] | None:
        for program, way in WAYS.items():
            if shutil.which(program):
                _, *args = way(cwd, PROBE)
                if (await self._api.exec(program, args)).code == 0:
                    return way
        return None


def extension(api: Api) -> None:
    api.flag("no-sandbox", description="Run commands without the sandbox")
    if api.get_flag("no-sandbox"):
        return
    sandbox = BashSandbox(api)

    @api.tool(label="Sandboxed bash", prompt_snippet="Run commands in a sandbox")
    async def bash(
        command: str,
        timeout: Annotated[float | None, "Seconds"] = None,
        *,
        ctx: Context,
    ) -> str:
        """Run a shell command in the project's folder, without network; only that folder is
        writable. Returns the end of its output."""
        limit = None if timeout is None else timeout * 1000
        result = await sandbox.run(command, ctx.cwd, limit)
        output = result.stdout[-MOST_CHARACTERS:]
        if result.killed:
            raise ToolError(f"{output}\n\nCommand timed out after {timeout:g} seconds")
        if result.code != 0:
            raise ToolError(f"{output}\n\nCommand exited with code {result.code}")
        return output or "(no output)"

    @api.on("user_bash")
    async def user_bash(event: UserBash, ctx: Context) -> UserBashAnswer:
        result = await sandbox.run(event.command, ctx.cwd)
        output = result.stdout[-MOST_CHARACTERS:]
        truncated = len(output) < len(result.stdout)
        return {"result": {"output": output, "exit_code": result.code, "truncated": truncated}}
