"""Commands beyond pi's own: limits, stored sessions, the tree, and what this program can do."""

from ludolf import __version__
from ludolf.base import CommandError
from ludolf.engine.feature import TreeMove
from ludolf.engine.run.limits import Limits
from ludolf.protocol.commands import (
    COMMANDS,
    NavigateTree,
    RenameSession,
    SetLimits,
    SetProjectTrust,
)
from ludolf.protocol.dialects import NAMES
from ludolf.protocol.events import EVENT_NAMES
from ludolf.rpc.call import Call, Data, Handler, Result

PROTOCOL_VERSION = 1


async def _set_limits(call: Call) -> Result:
    command: SetLimits = call.command
    limits = Limits(
        max_turns=command.max_turns, max_tokens=command.max_tokens, max_cost=command.max_cost
    )
    call.engine.conversation.meter.limits = limits.check()
    return Data(limits)


async def _list_sessions(call: Call) -> Result:
    return Data({"sessions": call.engine.library.list(everywhere=call.command.all)})


async def _rename_session(call: Call) -> Result:
    command: RenameSession = call.command
    if call.engine.library.is_current(command.session_path):
        call.engine.set_session_name(command.name)
    else:
        call.engine.library.rename(command.session_path, command.name)
    return None


async def _delete_session(call: Call) -> Result:
    return Data({"movedTo": str(call.engine.library.delete(call.command.session_path))})


async def _navigate_tree(call: Call) -> Result:
    command: NavigateTree = call.command
    if call.engine.session.get(command.target_id) is None:
        raise CommandError(f"Entry not found: {command.target_id}")
    await call.engine.abort()
    return Data(
        await call.engine.tree.go(
            TreeMove(
                target_id=command.target_id,
                summarize=command.summarize,
                instructions=command.custom_instructions,
                replace=command.replace_instructions,
                label=command.label,
            )
        )
    )


async def _reload(call: Call) -> Result:
    await call.engine.reload()
    return None


async def _set_project_trust(call: Call) -> Result:
    command: SetProjectTrust = call.command
    await call.engine.set_project_trust(command.trusted, remember=command.remember)
    return None


async def _get_capabilities(call: Call) -> Result:
    return Data(
        {
            "protocolVersion": PROTOCOL_VERSION,
            "program": "ludolf",
            "version": __version__,
            "dialects": NAMES,
            "commands": sorted(COMMANDS),
            "events": EVENT_NAMES,
        }
    )


MORE: dict[str, Handler] = {
    "set_limits": Handler("now", _set_limits),
    "list_sessions": Handler("now", _list_sessions),
    "rename_session": Handler("now", _rename_session),
    "delete_session": Handler("now", _delete_session),
    "navigate_tree": Handler("turn", _navigate_tree),
    "reload": Handler("turn", _reload),
    "set_project_trust": Handler("turn", _set_project_trust),
    "get_capabilities": Handler("now", _get_capabilities),
}
