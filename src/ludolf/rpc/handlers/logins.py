"""Commands about credentials: providers, login, logout, status."""

from ludolf.base import CommandError
from ludolf.protocol.commands import Login
from ludolf.rpc.connection import Call, ReplyData, Result, forwards, handles


@handles
async def login(call: Call) -> Result:
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
    return ReplyData({"providerId": command.provider_id})


def _check_dialogs(call: Call) -> None:
    """Raises:
    CommandError: the dialect has no dialogs, so that the login could never be completed.
    """
    from ludolf.protocol.ui import UiRequest

    if call.connection.ui(UiRequest(id="", method="open_url", url="")) is None:
        provider = call.command.provider_id
        raise CommandError(
            "This dialect has no dialogs. Give apiKey, or run "
            f'"ludolf auth login {provider}" in a terminal.'
        )


@handles
async def logout(call: Call) -> Result:
    provider = call.command.provider_id
    removed = await call.engine.logins.logout(provider)
    return ReplyData({"providerId": provider, "removed": removed})


forwards(
    get_login_providers=lambda call: {"providers": call.engine.logins.providers()},
    get_auth_status=lambda call: {"providers": call.engine.logins.status()},
)
