"""Commands of logins: who can be logged in to, in which way, and what is there."""

from ludolf.base import CommandError
from ludolf.protocol.commands import Login
from ludolf.rpc.call import Call, Data, Handler, Result


async def _get_login_providers(call: Call) -> Result:
    return Data({"providers": call.engine.logins.providers()})


async def _login(call: Call) -> Result:
    command: Login = call.command
    logins = call.engine.logins
    if command.api_key is not None:
        if command.method not in (None, "api-key"):
            raise CommandError(f'apiKey does not go with method "{command.method}"')
        await logins.with_key(command.provider_id, command.api_key)
    else:
        logins.check(command.provider_id)
        _check_dialogs(call)
        await logins.login(command.provider_id, command.method, command.domain)
    return Data({"providerId": command.provider_id})


def _check_dialogs(call: Call) -> None:
    """In some dialects nobody can be asked anything, and a login would wait in vain."""
    from ludolf.protocol.ui import UiRequest

    if call.connection.ui(UiRequest(id="", method="open_url", url="")) is None:
        provider = call.command.provider_id
        raise CommandError(
            "This dialect has no dialogs. Give apiKey, or run "
            f'"ludolf auth login {provider}" in a terminal.'
        )


def _needs_the_user(call: Call) -> bool:
    """Such a login may take minutes: nothing waits behind it."""
    return call.command.api_key is None


async def _logout(call: Call) -> Result:
    provider = call.command.provider_id
    removed = await call.engine.logins.logout(provider)
    return Data({"providerId": provider, "removed": removed})


async def _get_auth_status(call: Call) -> Result:
    return Data({"providers": call.engine.logins.status()})


LOGINS: dict[str, Handler] = {
    "get_login_providers": Handler("now", _get_login_providers),
    "login": Handler("turn", _login, own_if=_needs_the_user),
    "logout": Handler("turn", _logout),
    "get_auth_status": Handler("now", _get_auth_status),
}
