"""Logins of providers that extensions register: how they ask the user, and what they return."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from ludolf.ai.access import Access
from ludolf.ai.http.oauth_login import Asker
from ludolf.config.auth.keyring import Keyring
from ludolf.config.auth.keys import OAuth


class LoginAsker(Asker, Protocol):
    """Interface to the user during a login whose steps an extension decides."""

    def progress(self, text: str) -> None:
        """Show what the login does now."""

    async def ask(self, question: str, example: str | None) -> str:
        """Return the text that the user enters, which may be empty.

        Raises:
            LoginError: the user cancelled the login.
        """

    async def choose(self, question: str, labels: Sequence[str]) -> str | None:
        """Return one of the labels; None if the user chooses none."""


class ProviderLogin(Protocol):
    """The login of one provider. Credentials have the form in which auth.json stores them.

    `name` is shown to users. `api_key` is a key that the extension states for users without login.
    """

    @property
    def name(self) -> str: ...
    @property
    def api_key(self) -> str | None: ...

    async def log_in(self, asker: LoginAsker) -> dict[str, Any]:
        """Return a new credential.

        Raises:
            LoginError: it failed or was cancelled.
        """

    async def renew(self, credential: Mapping[str, Any]) -> dict[str, Any]:
        """Return a credential with a new token.

        Raises:
            LoginError: it failed.
        """

    async def access(self, credential: Mapping[str, Any]) -> Access:
        """Return what requests with this credential send.

        Raises:
            LoginError: it failed.
        """


class ExtensionLogins:
    """Logins by provider, and what requests with the stored credentials send."""

    def __init__(self, keyring: Keyring) -> None:
        self._keyring = keyring
        self._logins: dict[str, ProviderLogin] = {}
        self._granted: dict[str, tuple[OAuth, Access]] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._logins)

    def __contains__(self, provider: str) -> bool:
        return provider in self._logins

    def get(self, provider: str) -> ProviderLogin | None:
        return self._logins.get(provider)

    def add(self, provider: str, login: ProviderLogin) -> None:
        self._logins[provider] = login

    def remove(self, provider: str) -> None:
        self._logins.pop(provider, None)
        self._granted.pop(provider, None)

    def stored(self, provider: str) -> OAuth | None:
        """Return the stored login that requests to a provider use, also an expired one."""
        if self._keyring.origin(provider) != "stored":
            return None
        credential = self._keyring.stored()[provider]
        return credential if isinstance(credential, OAuth) else None

    def admits(self, provider: str) -> bool:
        """Return whether the extension states a key; stored credentials do not count here."""
        login = self._logins.get(provider)
        key = login.api_key if login is not None else None
        return key is not None and self._keyring.resolver.can_resolve(key)

    def needs_renewal(self, provider: str) -> bool:
        """Return whether `access` returns nothing until the stored login is renewed or used."""
        return self.stored(provider) is not None and self.access(provider) is None

    def grant(self, provider: str, credential: OAuth, access: Access) -> None:
        """Note what requests with a stored credential send."""
        self._granted[provider] = (credential, access)

    def access(self, provider: str) -> Access | None:
        """Return what requests send; None if the stored login has expired or is not known yet."""
        credential, noted = self.stored(provider), self._granted.get(provider)
        if credential is None or credential.expired or noted is None or noted[0] != credential:
            return None
        return noted[1]

    def granted(self) -> Iterator[tuple[str, Access]]:
        """Yield providers and what requests to them send."""
        for provider, (_, access) in self._granted.items():
            yield provider, access
