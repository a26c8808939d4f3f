"""Commands that take the work elsewhere: to a new session by a document, to another folder."""

from ludolf.base import CommandError
from ludolf.protocol.commands import Handoff
from ludolf.rpc.call import Call, Data, Handler, Result


async def _handoff(call: Call) -> Result:
    command: Handoff = call.command
    instructions = command.custom_instructions or command.instructions
    return Data(await call.engine.handoff.go(instructions))


async def _open_session(call: Call) -> Result:
    if not call.command.session_dir.strip():
        raise CommandError("Session folder cannot be empty")
    return Data(await call.engine.sessions.open_folder(call.command.session_dir))


MOVING: dict[str, Handler] = {
    "handoff": Handler("turn", _handoff),
    "open_session": Handler("turn", _open_session),
}
