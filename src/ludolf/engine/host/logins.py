"""Logins over the protocol: keys from the host, and identity servers that its user visits."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

from ludolf.agent.questions import AnswerClock
from ludolf.agent.scope import Aborted, Scope
from ludolf.ai.errors import ProviderError
from ludolf.ai.http.oauth import LoginError, OAuthMethod
from ludolf.ai.http.oauth_login import log_in
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
from ludolf.config.auth.provider_logins import LoginAsker
from ludolf.config.auth.status import CredentialStatus, auth_status
from ludolf.config.models.registry import ModelRegistry
from ludolf.engine.feature import Feature, Features, Send
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
        self,
        registry: ModelRegistry,
        features: Features,
        send: Send | None,
        work: Scope,
        clock: AnswerClock,
    ) -> None:
        self._registry = registry
        self._features = features
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
        await self._changed(provider)

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
        removed = bool(await asyncio.to_thread(keyring.forget, provider))
        await self._changed(provider)
        return removed

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
        if way == "api-key":
            name = login_providers(registry)[provider]
            key = await asker.ask(f"API key for {name}:", None)
            await self.with_key(provider, key)
            return
        credential = await credential_of(registry, provider, way, asker, domain)
        await asyncio.to_thread(registry.keyring.store_login, provider, credential)
        await self._changed(provider)

    async def _changed(self, provider: str) -> None:
        for feature in self._features.hooks["after_login"]:
            await feature.after_login(provider)


async def credential_of(
    registry: ModelRegistry, provider: str, way: OAuthMethod, asker: LoginAsker, domain: str | None
) -> dict[str, Any]:
    """Log in to a provider and return the credential to store.

    Raises:
        LoginError: it failed, was denied or cancelled.
        ProviderError: the server could not be reached.
        CommandError: the provider has no login.
    """
    login = registry.logins.get(provider)
    if login is not None:
        return await login.log_in(asker)
    flow = flow_for(registry, provider)
    if flow is None:
        raise CommandError(f"{provider} has no login. Store an API key.")
    environ = registry.keyring.environ
    host = callback_host(environ)
    return await log_in(flow, way, asker, environ, domain=domain, host=host)


class HostAsker(LoginAsker):
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

    def progress(self, text: str) -> None:
        self._put(UiRequest(id=uuid4(), method="notify", message=text, notify_type="info"))

    async def paste(self, question: str, example: str) -> str:
        return await self.ask(question, example)

    async def ask(self, question: str, example: str | None) -> str:
        request = UiRequest(id=uuid4(), method="input", title=question, placeholder=example)
        value = await self._answer(request)
        if value is None:
            raise LoginError(CANCELLED)
        return value

    async def choose(self, question: str, labels: Sequence[str]) -> str | None:
        options = tuple(labels)
        return await self._answer(
            UiRequest(id=uuid4(), method="select", title=question, options=options)
        )

    async def _answer(self, request: UiRequest) -> str | None:
        try:
            answer = await self.dialogs.ask(request)
        except TimeoutError:
            raise LoginError(CANCELLED) from None
        if answer is None or not isinstance(answer.value, str):
            return None
        return answer.value

    def _put(self, request: UiRequest) -> None:
        # A login may succeed at a host that shows no dialogs: the user opens the address elsewhere.
        self._send(request)
