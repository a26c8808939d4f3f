"""Commands of oh-my-pi's family, in every dialect: plan, interruption, filters, pages, bounds."""

from ludolf import __version__
from ludolf.base import CommandError
from ludolf.protocol.commands import GetMessagesPage
from ludolf.protocol.frame_limits import VERSIONS
from ludolf.rpc.call import Call, Data, Handler, Result
from ludolf.rpc.paging import messages_page
from ludolf.rpc.state import overhead_tokens


async def _set_interrupt_mode(call: Call) -> Result:
    mode = call.command.mode
    if mode not in ("immediate", "wait"):
        raise CommandError(f"Invalid mode: {mode}")
    call.engine.conversation.queue.interrupts = mode == "immediate"
    return None


async def _set_todos(call: Call) -> Result:
    return Data({"todoPhases": call.engine.todos.set(call.command.phases)})


async def _set_event_filter(call: Call) -> Result:
    events = call.command.events
    call.connection.want(None if events is None else frozenset(events))
    return Data({"events": events})


async def _set_prompt_results(call: Call) -> Result:
    call.connection.prompt_results = call.command.enabled
    return None


async def _negotiate_protocol(call: Call) -> Result:
    version = call.command.protocol_version
    if version is None:
        raise CommandError('negotiate_protocol: missing or invalid "protocolVersion"')
    if isinstance(version, bool) or version not in VERSIONS:
        raise CommandError(f"Unsupported RPC protocol version: {version}")
    call.connection.bound(int(version))
    return Data({"protocolVersion": int(version)})


async def _get_messages_page(call: Call) -> Result:
    command: GetMessagesPage = call.command
    engine = call.engine
    busy = engine.runner.running or engine.compactor.running
    page = messages_page(engine.session, command.cursor, command.limit, busy=busy)
    return Data(page, lambda: {"nonMessageTokens": overhead_tokens(engine)})


async def _get_available_commands(call: Call) -> Result:
    from ludolf.rpc.slash_commands import available_commands

    return Data({"commands": available_commands(call.engine, call.connection.traits)})


async def _set_locale(call: Call) -> Result:
    """Kept by no one: answers follow the language of the prompts."""
    return None


async def _get_integrations(call: Call) -> Result:
    """Whether the chosen model can be asked, as far as is known without asking it."""
    models = call.engine.models
    model = models.current
    if model is None:
        state: dict[str, str] = {"state": "no_provider"}
    else:
        known = "connected" if models.registry.admits(model) else "auth_error"
        state = {"state": known, "provider": model.provider}
    return Data({"version": __version__, "model": state, "services": []})


async def _set_fast_mode(call: Call) -> Result:
    models = call.engine.models
    models.set_fast(call.command.enabled)
    return Data({"enabled": models.wants_fast, "active": models.is_fast})


OMP: dict[str, Handler] = {
    "set_interrupt_mode": Handler("now", _set_interrupt_mode),
    "set_todos": Handler("now", _set_todos),
    "set_event_filter": Handler("now", _set_event_filter),
    "set_prompt_results": Handler("now", _set_prompt_results),
    "negotiate_protocol": Handler("now", _negotiate_protocol),
    "get_messages_page": Handler("now", _get_messages_page),
    "get_available_commands": Handler("now", _get_available_commands),
    "set_fast_mode": Handler("now", _set_fast_mode),
    "set_locale": Handler("now", _set_locale),
    "get_integrations": Handler("now", _get_integrations),
}
