"""Logins over the protocol: keys from the host, and identity servers that its user visits."""

import asyncio
from collections.abc import Iterator

from ludolf.agent.questions import AnswerClock
from ludolf.agent.scope import Aborted, Scope
from ludolf.ai.errors import ProviderError
from ludolf.ai.http.oauth import LoginError
from ludolf.ai.http.oauth_login import Asker, log_in
from ludolf.base import CommandError, uuid4
from ludolf.config.auth.credentials import (
    Way,
    checked_key,
    choose_way,
    flow_for,
    login_methods,
    login_providers,
)
from ludolf.config.auth.oauth import callback_host
from ludolf.config.auth.status import CredentialStatus, auth_status
from ludolf.config.models.registry import ModelRegistry
from ludolf.engine.feature import Feature, Send
from ludolf.engine.host.dialogs import HostDialogs
from ludolf.protocol.commands import UiAnswer
from ludolf.protocol.results import LoginProvider
from ludolf.protocol.ui import UiRequest

CANCELLED = "Login cancelled"


class Logins(Feature):
    """One login per provider at a time.

    `work` is the scope that logins run in, `clock` measures the time for answers of the user.
    """

    def __init__(
        self, registry: ModelRegistry, send: Send | None, work: Scope, clock: AnswerClock
    ) -> None:
        self._registry = registry
        self._send = send
        self._work = work
        self._clock = clock
        self._running: dict[str, HostAsker] = {}

    def providers(self) -> tuple[LoginProvider, ...]:
        registry = self._registry
        return tuple(
            LoginProvider(
                id=name,
                name=title,
                available=True,
                authenticated=registry.admits_provider(name),
                methods=login_methods(registry, name),
            )
            for name, title in login_providers(registry).items()
        )

    def status(self) -> tuple[CredentialStatus, ...]:
        return auth_status(self._registry)

    async def with_key(self, provider: str, key: str) -> None:
        """Store a key.

        Raises:
            CommandError: the provider is unknown, or the key is invalid.
            ConfigError: it could not be written.
        """
        self.check(provider)
        value = checked_key(key)
        await asyncio.to_thread(self._registry.keyring.store, provider, value)

    async def login(self, provider: str, method: str | None, domain: str | None) -> None:
        """Log in with the user's help; without another way, by asking for a key.

        Raises:
            CommandError: it is refused, failed, or was cancelled.
            ConfigError: it could not be written.
        """
        self.check(provider)
        if self._send is None:
            raise CommandError("Interactive login is not available here; pass apiKey instead.")
        if provider in self._running:
            raise CommandError(f"A login to {provider} is under way already")
        chosen = choose_way(self._registry, provider, method)
        asker = HostAsker(self._send, self._clock)
        self._running[provider] = asker
        try:
            with self._work.open() as scope:
                await scope.run(self._go(provider, chosen, domain, asker))
        except Aborted:
            raise CommandError(CANCELLED) from None
        except (LoginError, ProviderError) as error:
            text = str(error)
            raise CommandError(text if text == CANCELLED else f"Login failed: {text}") from error
        finally:
            del self._running[provider]

    async def logout(self, provider: str) -> bool:
        """Remove what is stored; False if nothing was.

        Raises:
            CommandError: the provider is unknown.
            ConfigError: it could not be written.
        """
        keyring = self._registry.keyring
        if provider not in keyring.entries():
            self.check(provider)
            return False
        return bool(await asyncio.to_thread(keyring.forget, provider))

    def answer_dialog(self, answer: UiAnswer) -> None:
        for asker in self._running.values():
            asker.dialogs.answer(answer)

    def open_dialogs(self) -> Iterator[UiRequest]:
        for asker in self._running.values():
            yield from asker.dialogs.waiting()

    def disconnect(self) -> None:
        self._work.abort_open()

    def check(self, provider: str) -> None:
        """Raises:
        CommandError: the provider is unknown.
        """
        if provider not in login_providers(self._registry):
            raise CommandError(f"Unknown OAuth provider: {provider}")

    # ------------------------------------------------------------ private

    async def _go(self, provider: str, way: Way, domain: str | None, asker: "HostAsker") -> None:
        registry = self._registry
        flow = flow_for(registry, provider)
        if way == "api-key" or flow is None:
            name = login_providers(registry)[provider]
            key = await asker.paste(f"API key for {name}:", None)
            await self.with_key(provider, key)
            return
        environ = registry.keyring.environ
        host = callback_host(environ)
        credential = await log_in(flow, way, asker, environ, domain=domain, host=host)
        await asyncio.to_thread(registry.keyring.store_login, provider, credential)


class HostAsker(Asker):
    """Asks the user through the host."""

    def __init__(self, send: Send, clock: AnswerClock) -> None:
        self._send = send
        self.dialogs = HostDialogs(clock, self._put)

    def show(self, url: str, instructions: str, *, launch: str | None = None) -> None:
        self._put(
            UiRequest(
                id=uuid4(),
                method="open_url",
                url=url,
                launch_url=launch if launch != url else None,
                instructions=instructions,
            )
        )

    async def paste(self, question: str, example: str | None) -> str:
        request = UiRequest(id=uuid4(), method="input", title=question, placeholder=example)
        try:
            answer = await self.dialogs.ask(request)
        except TimeoutError:
            raise LoginError(CANCELLED) from None
        if answer is None or not isinstance(answer.value, str):
            raise LoginError(CANCELLED)
        return answer.value

    def _put(self, request: UiRequest) -> None:
        # A login may succeed at a host that shows no dialogs: the user opens the address elsewhere.
        self._send(request)
