"""Typed commands: state, models, thinking levels, keys and logins."""

from ludolf.ai.messages import ThinkingLevel
from ludolf.ai.models import Model
from ludolf.client.base import CommandSender
from ludolf.protocol.results import (
    CycledModel,
    LoginMethod,
    LoginProvider,
    State,
)
from ludolf.protocol.wire.answers import (
    AuthStatus,
    AuthStatuses,
    CycledLevel,
    FastMode,
    LastText,
    Levels,
    LoggedOut,
    LoginProviders,
    Models,
)
from ludolf.session.stats import SessionStats


class ModelCommands(CommandSender):
    """Commands about models and state. Each method sends the command of its name."""

    async def get_state(self) -> State:
        """Return the model, the session, and whether the agent runs."""
        state: State = await self._call("get_state")
        return state

    async def get_session_stats(self) -> SessionStats:
        """Counts, tokens and cost of the whole session."""
        stats: SessionStats = await self._call("get_session_stats")
        return stats

    async def get_last_assistant_text(self) -> str | None:
        """The text of the last answer; None before the first."""
        last: LastText = await self._call("get_last_assistant_text")
        return last.text

    async def get_available_models(self) -> tuple[Model, ...]:
        """The models that have a usable key."""
        found: Models = await self._call("get_available_models")
        return found.models

    async def set_model(self, provider: str, model_id: str) -> Model:
        """Choose a model.

        Raises:
            Refused: the model does not exist, or its provider has no key.
        """
        model: Model = await self._call("set_model", provider=provider, model_id=model_id)
        return model

    async def cycle_model(self) -> CycledModel | None:
        """Choose the next model; None if there is only one."""
        chosen: CycledModel | None = await self._call("cycle_model")
        return chosen

    async def get_available_thinking_levels(self) -> tuple[ThinkingLevel, ...]:
        """The levels of the model."""
        found: Levels = await self._call("get_available_thinking_levels")
        return found.levels

    async def set_thinking_level(self, level: ThinkingLevel) -> None:
        """A level that the model does not have becomes the next that it has."""
        await self._call("set_thinking_level", level=level)

    async def cycle_thinking_level(self) -> ThinkingLevel | None:
        """Choose the next level; None if the model has only one."""
        chosen: CycledLevel | None = await self._call("cycle_thinking_level")
        return None if chosen is None else chosen.level

    async def set_fast_mode(self, enabled: bool) -> FastMode:
        """Whether answers are to come sooner, at a higher price.

        Raises:
            Refused: the server of the current model does not sell that.
        """
        mode: FastMode = await self._call("set_fast_mode", enabled=enabled)
        return mode

    async def get_login_providers(self) -> tuple[LoginProvider, ...]:
        """Whom one can log in to, and how."""
        found: LoginProviders = await self._call("get_login_providers")
        return found.providers

    async def login(
        self,
        provider_id: str,
        *,
        method: LoginMethod | None = None,
        api_key: str | None = None,
        domain: str | None = None,
    ) -> None:
        """Store a key, or let the user log in: dialogs and `open_url` requests follow.

        Raises:
            Refused: the provider is unknown, or the login failed or was cancelled.
        """
        await self._call(
            "login", provider_id=provider_id, method=method, api_key=api_key, domain=domain
        )

    async def logout(self, provider_id: str) -> bool:
        """Remove the stored credentials of a provider; returns whether there were any."""
        done: LoggedOut = await self._call("logout", provider_id=provider_id)
        return done.removed

    async def get_auth_status(self) -> tuple[AuthStatus, ...]:
        """Return the source of the credentials of each provider; no field is secret."""
        found: AuthStatuses = await self._call("get_auth_status")
        return found.providers
