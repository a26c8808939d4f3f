"""The methods of the agent: each takes a request and returns its result."""

from collections.abc import Awaitable, Callable
from typing import Any, cast

from ludolf.acp.requests import IncomingRequest
from ludolf.acp.sessions import ClientSessions
from ludolf.protocol.acp.structs import (
    AuthenticateParams,
    ConfigOptionsResult,
    ListSessionsParams,
    ListSessionsResult,
    NewSessionParams,
    OpenedSessionResult,
    OpenSessionParams,
    PromptParams,
    SessionParams,
    SetConfigOptionParams,
    SetModelParams,
    SetModeParams,
    TurnResult,
)


def table_of(sessions: ClientSessions) -> dict[str, Callable[[IncomingRequest], Awaitable[Any]]]:
    """Return the methods by name; `initialize` is answered before the engine is loaded."""
    methods = SessionMethods(sessions)
    return {
        "authenticate": methods.authenticate,
        "session/new": methods.new,
        "session/load": methods.load,
        "session/resume": methods.resume,
        "session/fork": methods.fork,
        "session/list": methods.list,
        "session/close": methods.close,
        "session/delete": methods.delete,
        "session/prompt": methods.prompt,
        "session/set_mode": methods.set_mode,
        "session/set_config_option": methods.set_config_option,
        "session/set_model": methods.set_model,
    }


class SessionMethods:
    def __init__(self, sessions: ClientSessions) -> None:
        self._sessions = sessions

    async def authenticate(self, request: IncomingRequest) -> dict[str, Any]:
        from ludolf.acp.login import authenticate

        params = cast(AuthenticateParams, request.params())
        await authenticate(params.method_id, request.id, self._sessions.link)
        return {}

    async def new(self, request: IncomingRequest) -> OpenedSessionResult:
        session = await self._sessions.new(cast(NewSessionParams, request.params()))
        request.after = session.begin
        return session.state(named=True)

    async def load(self, request: IncomingRequest) -> OpenedSessionResult:
        return await self._continue(request, replays=True)

    async def resume(self, request: IncomingRequest) -> OpenedSessionResult:
        return await self._continue(request, replays=False)

    async def _continue(self, request: IncomingRequest, *, replays: bool) -> OpenedSessionResult:
        params = cast(OpenSessionParams, request.params())
        session = await self._sessions.resume(params, replays=replays)
        request.after = session.begin
        return session.state(named=False)

    async def fork(self, request: IncomingRequest) -> OpenedSessionResult:
        session = await self._sessions.fork(cast(OpenSessionParams, request.params()))
        request.after = session.begin
        return session.state(named=True)

    async def list(self, request: IncomingRequest) -> ListSessionsResult:
        return await self._sessions.list(cast(ListSessionsParams, request.params()))

    async def close(self, request: IncomingRequest) -> dict[str, Any]:
        await self._sessions.close(cast(SessionParams, request.params()).session_id)
        return {}

    async def delete(self, request: IncomingRequest) -> dict[str, Any]:
        await self._sessions.delete(cast(SessionParams, request.params()).session_id)
        return {}

    async def prompt(self, request: IncomingRequest) -> TurnResult:
        params = cast(PromptParams, request.params())
        return await self._sessions.get(params.session_id).turns.prompt(request, params)

    async def set_mode(self, request: IncomingRequest) -> dict[str, Any]:
        params = cast(SetModeParams, request.params())
        session = self._sessions.get(params.session_id)
        session.choose("mode", params.mode_id)
        request.after = session.report_options
        return {}

    async def set_config_option(self, request: IncomingRequest) -> ConfigOptionsResult:
        params = cast(SetConfigOptionParams, request.params())
        session = self._sessions.get(params.session_id)
        session.choose(params.config_id, params.value)
        if params.config_id == "mode":
            request.after = session.report_mode
        return ConfigOptionsResult(config_options=session.choices.config_options())

    async def set_model(self, request: IncomingRequest) -> dict[str, Any]:
        params = cast(SetModelParams, request.params())
        session = self._sessions.get(params.session_id)
        session.choose("model", params.model_id)
        request.after = session.report_options
        return {}
