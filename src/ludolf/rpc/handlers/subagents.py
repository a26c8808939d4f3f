"""Commands about subagents: subscription, list, transcripts, cancel, steer."""

import math
import sys
from typing import TYPE_CHECKING, Any

from ludolf.base import CommandError
from ludolf.protocol.commands import (
    CancelSubagent,
    GetSubagentMessages,
    SteerSubagent,
    invalid_parameter,
)
from ludolf.rpc.connection import Call, ReplyData, Result, handles

if TYPE_CHECKING:
    from ludolf.engine.features.subagents.subagents import SubagentRegistry


def _registry(call: Call) -> "SubagentRegistry | None":
    """Return the subagents of the engine; None if the model may not start any."""
    from ludolf.engine.features.subagents.subagents import SubagentSpawner

    subagents = call.engine.features.find(SubagentSpawner)
    return None if subagents is None else subagents.registry


@handles
async def set_subagent_subscription(call: Call) -> Result:
    level = call.command.level
    if level is None:
        raise invalid_parameter(call.head.type, "level")
    if level not in ("off", "progress", "events"):
        raise CommandError(f"Invalid subagent subscription level: {level}")
    registry = _registry(call)
    if registry is not None:
        registry.subscription.level = level
    if level != "events":
        call.connection.forget_agents()
    return ReplyData({"level": level})


@handles
async def get_subagents(call: Call) -> Result:
    registry = _registry(call)
    return ReplyData({"subagents": registry.snapshots() if registry is not None else []})


@handles
async def get_subagent_messages(call: Call) -> Result:
    command: GetSubagentMessages = call.command
    start = _byte(command.from_byte)
    registry = _registry(call)
    if registry is not None:
        return ReplyData(registry.transcript(command.subagent_id, command.session_file, start))
    from ludolf.engine.features.subagents.subagents import NEITHER, UNKNOWN

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


@handles
async def cancel_subagent(call: Call) -> Result:
    command: CancelSubagent = call.command
    registry = _registry(call)
    subagent = registry.find(command.subagent_id) if registry is not None else None
    if subagent is None or subagent.scope.aborted:
        return ReplyData({"cancelled": False})
    subagent.abort(silent=False)
    return ReplyData({"cancelled": True})


@handles
async def steer_subagent(call: Call) -> None:
    command: SteerSubagent = call.command
    if not command.message.strip():
        raise CommandError("The message to a subagent cannot be empty")
    registry = _registry(call)
    subagent = registry.find(command.subagent_id) if registry is not None else None
    if subagent is None:
        raise CommandError(f"Subagent not running: {command.subagent_id}")
    subagent.steer(command.message)
