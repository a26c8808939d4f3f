"""Commands about agents in the background: who hears of them, who runs, what they have said."""

import math
import sys
from typing import Any

from ludolf.base import CommandError
from ludolf.protocol.commands import CancelSubagent, GetSubagentMessages, SteerSubagent
from ludolf.rpc.call import Call, Data, Handler, Result


def _set_subscription(call: Call) -> Result:
    level = call.command.level
    if level is None:
        raise CommandError('set_subagent_subscription: missing or invalid "level"')
    if level not in ("off", "progress", "events"):
        raise CommandError(f"Invalid subagent subscription level: {level}")
    jobs = call.engine.parts.jobs
    if jobs is not None:
        jobs.board.level = level
    if level != "events":
        call.connection.forget_agents()
    return Data({"level": level})


def _get_subagents(call: Call) -> Result:
    jobs = call.engine.parts.jobs
    return Data({"subagents": jobs.board.snapshots() if jobs is not None else []})


def _get_messages(call: Call) -> Result:
    command: GetSubagentMessages = call.command
    start = _byte(command.from_byte)
    jobs = call.engine.parts.jobs
    if jobs is not None:
        return Data(jobs.board.transcript(command.subagent_id, command.session_file, start))
    from ludolf.engine.features.subagents.registry import NEITHER, UNKNOWN

    wanted = command.subagent_id or command.session_file
    raise CommandError(UNKNOWN.format(wanted=wanted) if wanted else NEITHER)


def _byte(value: Any) -> int:
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise CommandError("fromByte must be a number")
    if isinstance(value, float) and not math.isfinite(value):
        raise CommandError("fromByte must be a number")
    # No file is larger, and no larger number can be sought.
    return min(max(0, int(value)), sys.maxsize)


def _cancel(call: Call) -> Result:
    command: CancelSubagent = call.command
    jobs = call.engine.parts.jobs
    job = jobs.board.find(command.subagent_id) if jobs is not None else None
    if job is None or job.scope.aborted:
        return Data({"cancelled": False})
    job.abort(silent=False)
    return Data({"cancelled": True})


def _steer(call: Call) -> Result:
    command: SteerSubagent = call.command
    if not command.message.strip():
        raise CommandError("The message to a subagent cannot be empty")
    jobs = call.engine.parts.jobs
    job = jobs.board.find(command.subagent_id) if jobs is not None else None
    if job is None:
        raise CommandError(f"Subagent not running: {command.subagent_id}")
    job.say(command.message)
    return None


SUBAGENTS: dict[str, Handler] = {
    "set_subagent_subscription": Handler("now", _set_subscription),
    "get_subagents": Handler("now", _get_subagents),
    "get_subagent_messages": Handler("now", _get_messages),
    "cancel_subagent": Handler("now", _cancel),
    "steer_subagent": Handler("now", _steer),
}
