"""Commands about the connection and the program: events, protocol version, capabilities, reload."""

from ludolf import __version__
from ludolf.base import CommandError
from ludolf.protocol.commands import COMMANDS, invalid_parameter
from ludolf.protocol.dialects import NAMES
from ludolf.protocol.events import EVENT_NAMES
from ludolf.protocol.frame_limits import VERSIONS
from ludolf.rpc.connection import FUNCTIONS, Call, ReplyData, Result, forwards, handles

PROTOCOL_VERSION = 1


@handles
async def get_capabilities(call: Call) -> Result:
    return ReplyData(
        {
            "protocolVersion": PROTOCOL_VERSION,
            "program": "ludolf",
            "version": __version__,
            "dialects": NAMES,
            "commands": sorted(COMMANDS),
            "events": EVENT_NAMES,
        }
    )


@handles
async def negotiate_protocol(call: Call) -> Result:
    version = call.command.protocol_version
    if version is None:
        raise invalid_parameter(call.head.type, "protocolVersion")
    if isinstance(version, bool) or version not in VERSIONS:
        raise CommandError(f"Unsupported RPC protocol version: {version}")
    call.connection.bound(int(version))
    return ReplyData({"protocolVersion": int(version)})


@handles
async def set_event_filter(call: Call) -> Result:
    events, usage = call.command.events, call.command.usage
    if usage not in (None, "all", "changes"):
        raise invalid_parameter(call.head.type, "usage")
    call.connection.want(None if events is None else frozenset(events))
    call.connection.want_usage(changes_only=usage == "changes")
    return ReplyData({"events": events} if usage is None else {"events": events, "usage": usage})


@handles
async def set_prompt_results(call: Call) -> None:
    call.connection.prompt_results = call.command.enabled


FUNCTIONS.update(
    reload=lambda call: call.engine.reload(),
    set_project_trust=lambda call: call.engine.set_project_trust(
        call.command.trusted, remember=call.command.remember
    ),
)
# Accepted without effect: answers follow the language of the prompts.
forwards(set_locale=lambda call: None)
