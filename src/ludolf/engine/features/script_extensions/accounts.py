"""Logins and model lists of providers whose code is in script extensions."""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any, Generic, TypeVar

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

T = TypeVar("T")


class OpenCalls(Generic[T]):
    """What calls of a script that are under way may use, by number."""

    def __init__(self, ended: str) -> None:
        self._ended = ended
        self._numbers = count(1)
        self._values: dict[int, T] = {}

    @contextmanager
    def open(self, value: T) -> Iterator[int]:
        """Let one call use a value; yields the number of the call."""
        number = next(self._numbers)
        self._values[number] = value
        try:
            yield number
        finally:
            del self._values[number]

    def get(self, number: Any) -> T:
        """Return what the call with this number may use.

        Raises:
            CommandError: the call has ended.
        """
        if not isinstance(number, Hashable) or number not in self._values:
            raise CommandError(self._ended)
        return self._values[number]


class ScriptAccounts:
    """Logins and refreshes of one script that are under way."""

    def __init__(self) -> None:
        self.logins: OpenCalls[LoginAsker] = OpenCalls("This login has ended.")
        self.refreshes: OpenCalls[StoreModels] = OpenCalls("This refresh of models has ended.")


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
        with self._accounts.logins.open(asker) as number:
            return checked_credential(await self._call("login", login=number))

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
        with self._accounts.refreshes.open(context.store) as number:
            listed = await self._provider.call(
                "models",
                refresh=number,
                credential=context.credential,
                stored=context.stored,
                network=context.allow_network,
                force=context.force,
            )
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
