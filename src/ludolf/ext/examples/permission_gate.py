"""Ask before a command that may do lasting harm; refuse it without a host.

Install: copy it to ~/.pi/agent/extensions/, or try it once with `ludolf -e permission_gate.py`.

The host shows a dialog with three choices. The command is refused without an answer within a
minute, and always in print and JSON mode. Edit DANGEROUS to your needs. The patterns prevent
accidents; they do not contain a malicious model: for that, see sandboxed_bash.py.
"""

import re

from ludolf.ext import Api, Context, ToolCallAnswer, ToolCalled

DANGEROUS = {
    r"\brm\s+(\S+\s+)*?(-\w*[rRf]|--recursive|--force)": "deletes files for good",
    r"\b(sudo|doas|su)\b": "acts as another user",
    r"\b(mkfs|fdisk|shred|dd)\b": "may destroy a disk",
    r"\bchmod\s+(\S+\s+)*?[0-7]*777\b": "makes files writable for all users",
    r"\bgit\s+(push\b.*(-f\b|--force)|reset\s+--hard|clean\s+-\w*f)": "throws away work",
    r"\b(curl|wget)\b.*\|\s*(sudo\s+)?(ba|z|da)?sh\b": "runs a program from the network",
    r"\b(shutdown|reboot|poweroff|halt)\b": "stops the machine",
}
ONCE, ALWAYS, NO = "Allow once", "Allow in this session", "Refuse"
TIMEOUT_MS = 60_000


def extension(api: Api) -> None:
    allowed: set[str] = set()

    @api.on("tool_call")
    async def ask_first(event: ToolCalled, ctx: Context) -> ToolCallAnswer | None:
        if event.tool_name != "bash":
            return None
        command = str(event.input["command"])
        harm = danger(command)
        if harm is None or command in allowed:
            return None
        if not ctx.has_ui:
            return refuse(f"it {harm}, and no host is connected to allow it")
        title = f"The agent wants to run a command that {harm}:\n\n{command}"
        choice = await ctx.ui.select(title, [ONCE, ALWAYS, NO], timeout=TIMEOUT_MS)
        if choice == ALWAYS:
            allowed.add(command)
        return None if choice in (ONCE, ALWAYS) else refuse(f"it {harm}, and the user refused it")


def danger(command: str) -> str | None:
    """Return the harm that the command may do, or None."""
    harms = (harm for pattern, harm in DANGEROUS.items() if re.search(pattern, command))
    return next(harms, None)


def refuse(why: str) -> ToolCallAnswer:
    return {"block": True, "reason": f"This command was not run: {why}."}
