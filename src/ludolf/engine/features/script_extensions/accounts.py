"""Logins and model lists of providers whose code is in script extensions."""

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

from ludolf.ai.access import Access
from ludolf.ai.http.oauth import LoginError
from ludolf.ai.models import Model
from ludolf.base import CommandError
from ludolf.config.auth.provider_logins import LoginAsker, ProviderLogin
from ludolf.config.models.models_file import ModelEntry
from ludolf.engine.features.script_extensions.link import ScriptError, ScriptFrame, ScriptLink
from ludolf.extensions.provider_accounts import (
    ProviderCatalog,
    RefreshContext,
    StoreModels,
    checked_credential,
    read_adapted,
    read_models,
)


class ScriptAccounts:
    """Logins and refreshes of one script that are under way, by number."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self._askers: dict[int, LoginAsker] = {}
        self._stores: dict[int, StoreModels] = {}

    def asker(self, number: Any) -> LoginAsker:
        """Return the user of a login.

        Raises:
            CommandError: the login has ended.
        """
        asker = self._askers.get(number)
        if asker is None:
            raise CommandError("This login has ended.")
        return asker

    def store(self, number: Any) -> StoreModels:
        """Return how a refresh stores a list.

        Raises:
            CommandError: the refresh has ended.
        """
        store = self._stores.get(number)
        if store is None:
            raise CommandError("This refresh of models has ended.")
        return store

    def open_login(self, asker: LoginAsker) -> int:
        number = next(self._numbers)
        self._askers[number] = asker
        return number

    def open_refresh(self, store: StoreModels) -> int:
        number = next(self._numbers)
        self._stores[number] = store
        return number

    def close(self, number: int) -> None:
        """End a login or a refresh."""
        self._askers.pop(number, None)
        self._stores.pop(number, None)


class ScriptProvider:
    """How the functions of a provider are called: the script and the name of the provider."""

    def __init__(self, link: ScriptLink, extension: int, name: str) -> None:
        self.name = name
        self._link = link
        self._extension = extension

    async def call(self, method: str, **args: Any) -> Any:
        """Call a function of the provider.

        Raises:
            ScriptError: it failed.
        """
        return await self._link.call(method, {"ext": self._extension, "name": self.name, **args})


class ScriptLogin:
    """The login that `oauth` of a provider implements."""

    def __init__(
        self, provider: ScriptProvider, accounts: ScriptAccounts, name: str, api_key: str | None
    ) -> None:
        self.name = name or provider.name
        self.api_key = api_key
        self._provider = provider
        self._accounts = accounts

    async def log_in(self, asker: LoginAsker) -> dict[str, Any]:
        number = self._accounts.open_login(asker)
        try:
            return checked_credential(await self._call("login", login=number))
        finally:
            self._accounts.close(number)

    async def renew(self, credential: Mapping[str, Any]) -> dict[str, Any]:
        return checked_credential(await self._call("renew", credential=credential))

    async def access(self, credential: Mapping[str, Any]) -> Access:
        granted = await self._call("access", credential=credential)
        if not isinstance(granted, Mapping):
            raise LoginError("the extension returned no key")
        headers = granted.get("headers")
        headers = headers if isinstance(headers, Mapping) else {}
        key, base_url = granted.get("apiKey"), granted.get("baseUrl")
        return Access(
            key=None if key is None else str(key),
            headers={str(name): str(value) for name, value in headers.items() if value is not None},
            base_url=None if base_url is None else str(base_url),
        )

    async def _call(self, method: str, **args: Any) -> Any:
        try:
            return await self._provider.call(method, **args)
        except ScriptError as error:
            raise LoginError(str(error)) from error


class ScriptCatalog:
    """The models that `refreshModels` of a provider lists and `modifyModels` changes."""

    def __init__(
        self,
        provider: ScriptProvider,
        accounts: ScriptAccounts,
        frame: ScriptFrame,
        change: Callable[[Mapping[str, Any]], Mapping[str, Any]],
    ) -> None:
        self._provider = provider
        self._accounts = accounts
        self._refreshes = frame.get("refreshes") is True
        self._adapts = frame.get("adapts") is True
        self._change = change

    async def fetch(self, context: RefreshContext) -> tuple[ModelEntry, ...] | None:
        if not self._refreshes:
            return None
        number = self._accounts.open_refresh(context.store)
        try:
            listed = await self._provider.call(
                "models",
                refresh=number,
                credential=context.credential,
                stored=context.stored,
                network=context.allow_network,
                force=context.force,
            )
        finally:
            self._accounts.close(number)
        if not isinstance(listed, list):
            return None
        return read_models([self._change(one) for one in listed if isinstance(one, Mapping)])

    async def adapt(
        self, models: Sequence[Model], credential: Mapping[str, Any]
    ) -> tuple[Model, ...] | None:
        if not self._adapts:
            return None
        changed = await self._provider.call("adapt", models=list(models), credential=credential)
        return read_adapted(changed)


if TYPE_CHECKING:

    def _proof(login: ScriptLogin, catalog: ScriptCatalog) -> tuple[ProviderLogin, ProviderCatalog]:
        return login, catalog
