"""Commands about the model: selection, thinking level, fast mode, reachability."""

from ludolf import __version__
from ludolf.protocol.commands import SetModel
from ludolf.rpc.connection import Call, ReplyData, Result, forwards, handles


@handles
async def set_model(call: Call) -> Result:
    command: SetModel = call.command
    await _find_local_models(call, command.provider)
    return ReplyData(call.engine.models.set_model(command.provider, command.model_id))


@handles
async def cycle_model(call: Call) -> Result:
    await _find_local_models(call)
    return ReplyData(call.engine.models.cycle())


@handles
async def get_available_models(call: Call) -> Result:
    await _find_local_models(call)
    return ReplyData({"models": call.engine.models.registry.available()})


async def _find_local_models(call: Call, provider: str | None = None) -> None:
    """Find local models first, if the command may be about one of them."""
    if call.engine.models.needs_scan(provider):
        await call.engine.models.scan()


@handles
async def cycle_thinking_level(call: Call) -> Result:
    level = call.engine.models.cycle_level()
    return ReplyData(None if level is None else {"level": level})


@handles
async def set_fast_mode(call: Call) -> Result:
    models = call.engine.models
    models.set_fast(call.command.enabled)
    return ReplyData({"enabled": models.wants_fast, "active": models.is_fast})


@handles
async def get_integrations(call: Call) -> Result:
    """Report whether there are credentials for the current model; no request is made."""
    models = call.engine.models
    model = models.current
    if model is None:
        state: dict[str, str] = {"state": "no_provider"}
    else:
        status = "connected" if models.registry.admits(model) else "auth_error"
        state = {"state": status, "provider": model.provider}
    return ReplyData({"version": __version__, "model": state, "services": []})


forwards(
    set_thinking_level=lambda call: call.engine.models.set_level(call.command.level),
    get_available_thinking_levels=lambda call: {"levels": call.engine.models.levels()},
)
