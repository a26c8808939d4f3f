"""Logins and model lists of providers that extensions in Python register."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import msgspec
from msgspec import structs

from ludolf.ai.access import Access
from ludolf.ai.http.oauth import LoginError
from ludolf.ai.models import Model
from ludolf.config.auth.keys import OAuth
from ludolf.config.auth.provider_logins import LoginAsker
from ludolf.config.models.models_file import ModelEntry
from ludolf.functions.content import BadAnswer, camel, read
from ludolf.functions.isolation import Failed, call

MANUAL_CODE = "Paste the authorization code"
# Stores the list of a provider for the next start; None removes it.
StoreModels = Callable[[Mapping[str, Any] | None], Awaitable[None]]


class RefreshContext(msgspec.Struct, frozen=True, kw_only=True):
    """State for `refresh_models`.

    `credential` is the stored one, in the form of auth.json. `stored` is what `store` kept at an
    earlier time. `force` asks for a new list even if the stored one is recent.
    """

    credential: Mapping[str, Any] | None
    stored: Mapping[str, Any] | None
    store: StoreModels
    allow_network: bool
    force: bool = False


class ProviderCatalog(Protocol):
    """The models of a provider as far as code of an extension decides them."""

    async def fetch(self, context: RefreshContext) -> tuple[ModelEntry, ...] | None:
        """Return the models to register; None leaves them as they are.

        Raises:
            Failed: the code failed.
            BadAnswer: a model is invalid.
        """

    async def adapt(
        self, models: Sequence[Model], credential: Mapping[str, Any]
    ) -> tuple[Model, ...] | None:
        """Return the models that a login can use; None leaves them as they are.

        Raises:
            Failed: the code failed.
            BadAnswer: a model is invalid.
        """


class LoginCallbacks:
    """What the `login` function of an extension asks of the user."""

    def __init__(self, asker: LoginAsker) -> None:
        self._asker = asker

    def on_auth(self, url: str, instructions: str | None = None) -> None:
        """Show an address to open."""
        self._asker.show(url, instructions or "Log in with a browser.")

    def on_device_code(self, user_code: str, verification_uri: str) -> None:
        """Show an address to open, and the code to enter there."""
        self._asker.show(verification_uri, f"Enter the code {user_code} there.")

    def on_progress(self, message: str) -> None:
        self._asker.progress(message)

    async def on_prompt(self, message: str, placeholder: str | None = None) -> str:
        """Return the text that the user enters."""
        return await self._asker.ask(message, placeholder)

    async def on_manual_code_input(self) -> str:
        """Return a code that the user pastes, for a browser on another machine."""
        return await self._asker.ask(MANUAL_CODE, None)

    async def on_select(self, message: str, options: Mapping[str, str]) -> str | None:
        """Return the id of the option that the user chooses; `options` maps ids to labels."""
        label = await self._asker.choose(message, tuple(options.values()))
        return next((id for id, one in options.items() if one == label), None)


class PythonLogin:
    """The login of a provider by an object, or a dict, of an extension.

    It has `login(callbacks)`, `refresh_token(credentials)` and `get_api_key(credentials)`.
    """

    def __init__(self, provider: str, author: Any, api_key: str | None) -> None:
        self.api_key = api_key
        self.name = str(member(author, "name") or provider)
        self._author = author
        for name in ("login", "refresh_token", "get_api_key"):
            if not callable(member(author, name)):
                raise BadAnswer(f"provider {provider}: oauth needs {name}()")

    async def log_in(self, asker: LoginAsker) -> dict[str, Any]:
        return await self._credential("login", LoginCallbacks(asker))

    async def renew(self, credential: Mapping[str, Any]) -> dict[str, Any]:
        return await self._credential("refresh_token", dict(credential))

    async def access(self, credential: Mapping[str, Any]) -> Access:
        return Access(key=str(await self._call("get_api_key", dict(credential))))

    async def _credential(self, name: str, argument: Any) -> dict[str, Any]:
        return checked_credential(await self._call(name, argument))

    async def _call(self, name: str, argument: Any) -> Any:
        try:
            return await call(member(self._author, name), argument)
        except Failed as error:
            raise LoginError(str(error)) from error


class PythonCatalog:
    """The models that `refresh_models(context)` returns, as `modify_models` changes them."""

    def __init__(self, refresh: Any, oauth: Any, change: Callable[[Any], Any]) -> None:
        self._refresh = refresh
        self._modify = member(oauth, "modify_models") if oauth is not None else None
        self._change = change

    async def fetch(self, context: RefreshContext) -> tuple[ModelEntry, ...] | None:
        if self._refresh is None:
            return None
        listed = await call(self._refresh, context)
        return None if listed is None else read_models(map(self._change, _listed(listed)))

    async def adapt(
        self, models: Sequence[Model], credential: Mapping[str, Any]
    ) -> tuple[Model, ...] | None:
        if self._modify is None:
            return None
        return read_adapted(await call(self._modify, tuple(models), dict(credential)))


def member(author: Any, name: str) -> Any:
    """Return an attribute of an object, or an item of a dict in either spelling."""
    if isinstance(author, Mapping):
        return author.get(name, author.get(camel(name)))
    return getattr(author, name, None)


def read_models(models: Any) -> tuple[ModelEntry, ...]:
    """Return models of an extension's list.

    Raises:
        BadAnswer: one is invalid.
    """
    return tuple(read(ModelEntry, one, "model") for one in _listed(models))


def read_adapted(models: Any) -> tuple[Model, ...]:
    """Return complete models that an extension has changed for a login.

    Raises:
        BadAnswer: one is invalid.
    """
    return tuple(
        one if isinstance(one, Model) else read(Model, one, "model") for one in _listed(models)
    )


def _listed(models: Any) -> Iterable[Any]:
    if isinstance(models, str | Mapping) or not isinstance(models, Iterable):
        raise BadAnswer("a list of models is expected")
    return models


def checked_credential(credential: Any) -> dict[str, Any]:
    """Return a credential as auth.json stores it.

    Raises:
        LoginError: it has no token, or no time at which it expires.
    """
    if isinstance(credential, msgspec.Struct):
        credential = structs.asdict(credential)
    fields = {**credential, "type": "oauth"} if isinstance(credential, Mapping) else {}
    try:
        msgspec.convert(fields, OAuth)
    except msgspec.ValidationError as error:
        raise LoginError(f"the extension returned no valid credential: {error}") from None
    return fields
