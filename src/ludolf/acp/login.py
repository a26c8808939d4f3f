"""Logins of the protocol: providers with an identity server, whose address the client opens."""

import os

from ludolf.acp.link import ClientLink
from ludolf.acp.permission import ClientDialogs, DialogScope
from ludolf.agent.questions import AnswerClock
from ludolf.agent.scope import Scope
from ludolf.base.jsonrpc import RequestId
from ludolf.config.auth.credentials import flow_for
from ludolf.config.auth.keyring import Keyring
from ludolf.config.auth.oauth import flow_names
from ludolf.config.models.registry import ModelRegistry
from ludolf.config.settings.home import find_home
from ludolf.engine.feature import Features
from ludolf.engine.host.logins import Logins
from ludolf.protocol.acp.structs import AuthMethod, InvalidParams
from ludolf.protocol.commands import UiAnswer
from ludolf.protocol.ui import UiRequest


def login_choices() -> list[AuthMethod]:
    """Return a method for each provider with a login in the browser.

    Raises:
        ConfigError: the file of private identity servers cannot be used.
    """
    registry = _registry()
    found = ((name, flow_for(registry, name)) for name in flow_names(os.environ))
    return [
        AuthMethod(id=name, name=f"Log in to {flow.name}")
        for name, flow in found
        if flow is not None
    ]


async def authenticate(method_id: str, request_id: RequestId, link: ClientLink) -> None:
    """Log in to the provider of a method, with the help of the client's user.

    Raises:
        InvalidParams: there is no such method.
        CommandError: the login failed or was cancelled.
    """
    if not link.client.urls or method_id not in {method.id for method in login_choices()}:
        raise InvalidParams(
            f"methodId: there is no login {method_id[:100]!r} here. In a terminal, "
            "`ludolf auth login` stores keys and logins."
        )
    work = Scope()
    dialogs = LoginDialogs(
        link, DialogScope(request_id=request_id), lambda answer: logins.answer_dialog(answer)
    )
    dialogs.work = work
    logins = Logins(_registry(), Features(), dialogs.send, work, AnswerClock())
    try:
        await logins.login(method_id, None, None)
    finally:
        work.abort()
        await dialogs.close()


class LoginDialogs(ClientDialogs):
    """Dialogs of a login in `work`, which ends when the user does not open its address."""

    work: Scope

    async def _answer_to(self, request: UiRequest) -> UiAnswer:
        if not self._link.client.forms:
            # The browser may return to us without the code that would be asked for here.
            await self.work.until_aborted()
        return await super()._answer_to(request)

    def _refuse_visit(self) -> None:
        self.work.abort_open()


def _registry() -> ModelRegistry:
    home = find_home(None, os.environ)
    return ModelRegistry(home.models_file, Keyring(home.auth_file, os.environ))
