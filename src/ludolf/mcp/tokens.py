"""Access tokens of a stored login: renewed before they end, by one process at a time."""

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from ludolf.agent.scope import Tasks
from ludolf.ai.errors import ProviderError
from ludolf.ai.http.oauth import LoginError
from ludolf.ai.http.transport import Transport
from ludolf.ai.secrets import redact
from ludolf.base import ConfigError, now_ms
from ludolf.mcp.discovery import (
    AuthorizationServer,
    Challenge,
    discover,
    read_challenge,
    read_metadata,
)
from ludolf.mcp.login import TokenStore
from ludolf.mcp.login_state import CLIENT, EXPIRES, TOKENS, WANTED_SCOPE, LoginState
from ludolf.mcp.oauth import (
    OAuthSettings,
    TokenRefusal,
    configured_client,
    merged_scopes,
    registered_client,
    request_tokens,
)
from ludolf.mcp.wire import LoginNeeded, McpError, Tokens

EARLY_SECONDS = 60.0
LIMIT_SECONDS = 15.0
PAUSE_SECONDS = 10.0
REFUSAL_SECONDS = 30.0
# Refusals that another attempt with the same tokens cannot change.
_FINAL = ("invalid_grant", "invalid_client", "unauthorized_client")


class StoredTokens:
    """The tokens of one server at `url`.

    `early` is how many seconds before its end a token is renewed; after a failure, `pause` seconds
    pass before another attempt while the old token is valid. `close` waits for a running renewal.
    """

    def __init__(
        self,
        url: str,
        store: TokenStore,
        settings: OAuthSettings,
        environ: Mapping[str, str],
        *,
        early: float = EARLY_SECONDS,
        pause: float = PAUSE_SECONDS,
    ) -> None:
        self._url = url
        self._store = store
        self._settings = settings
        self._environ = environ
        self._early = early
        self._pause = pause
        self._not_before = 0.0
        self._tasks = Tasks()
        self._running: asyncio.Task[McpError | None] | None = None
        # The last token that came after a refusal, and until when its refusal ends attempts.
        self._after_refusal: tuple[str, float] = ("", 0.0)

    async def current(self) -> str | None:
        """Return the access token, renewed if it ends soon; None without a login.

        Raises:
            McpError: the token has ended, and the authorization server cannot be asked now.
            LoginNeeded: the token has ended, and the server does not renew it.
        """
        state = self._load()
        if not state.access or not state.ends_within(self._early) or not state.refresh:
            return state.access or None
        if not state.ends_within(0) and time.monotonic() < self._not_before:
            return state.access
        problem = await self._renewed(state.access)
        now = self._load()
        if problem is not None and now.access == state.access and now.ends_within(0):
            raise type(problem)(str(problem))
        return now.access or None

    async def refused(self, token: str | None, challenge: str) -> bool:
        """Return whether a request that the server refused is worth another attempt.

        A renewal keeps the scopes of a login. If the server asks for more, they are stored for the
        next login.

        Raises:
            McpError: the authorization server cannot be asked now.
            LoginNeeded: the authorization server does not renew the token.
        """
        asked = read_challenge(challenge)
        state = self._load()
        if state.access and state.access != token:
            return True
        if not state.access:
            return False
        if asked.wants_more_scopes:
            await self._want(state.access, asked.scope)
            return False
        fresh, until = self._after_refusal
        if not state.refresh or (token == fresh and time.monotonic() < until):
            return False
        problem = await self._renewed(state.access)
        now = self._load()
        if problem is not None and now.access == token:
            raise type(problem)(str(problem))
        self._after_refusal = now.access, time.monotonic() + REFUSAL_SECONDS
        return bool(now.access) and now.access != token

    async def close(self) -> None:
        """Wait for a running renewal: its answer may be the only copy of the refresh token."""
        await self._tasks.ended()

    # ------------------------------------------------------------ private

    def _load(self) -> LoginState:
        try:
            return LoginState(self._store.load() or {})
        except ConfigError as error:
            raise McpError(str(error)) from error

    async def _renewed(self, stale: str) -> McpError | None:
        """Renew the token, together with other requests of this process; return the problem."""
        if self._running is None or self._running.done():
            self._running = self._tasks.start(self._renew(stale))
        # A cancelled request must not cancel the renewal: the refresh token is used up.
        problem = await asyncio.shield(self._running)
        self._not_before = 0.0 if problem is None else time.monotonic() + self._pause
        return problem

    async def _renew(self, stale: str) -> McpError | None:
        """Renew the token unless another process did; return why that is not possible now."""
        try:
            async with self._store.renewal_lock():
                state = LoginState(self._store.load() or {})
                if state.access == stale and state.refresh:
                    await self._replace(state)
        except TimeoutError:
            return McpError(self._problem(f"no answer within {LIMIT_SECONDS:.0f} s"))
        except TokenRefusal as error:
            return LoginNeeded(self._problem(str(error)))
        except (LoginError, ProviderError, ConfigError, OSError) as error:
            return McpError(self._problem(str(error)))
        return None

    async def _replace(self, state: LoginState) -> None:
        http = Transport(self._environ)
        try:
            async with asyncio.timeout(LIMIT_SECONDS):
                tokens = await self._ask(http, state)
        except TokenRefusal as error:
            if error.code not in _FINAL:
                raise
            await self._forget(state, with_client=error.is_about_client)
            return
        except (LoginError, ProviderError) as error:
            raise LoginError(redact(str(error), state.secrets(), self._environ)) from None
        finally:
            await http.close()
        if tokens is not None:
            await self._save(state, tokens)

    async def _ask(self, http: Transport, state: LoginState) -> dict[str, Any] | None:
        """Return fresh tokens; None if the client that the login belongs to is unknown."""
        server = await self._issued_by(http, state)
        client = configured_client(self._settings, server)
        client = client or registered_client(state.client, server)
        if client is None:
            return None
        fields = {
            "grant_type": "refresh_token",
            "refresh_token": state.refresh,
            "resource": state.resource or self._url.partition("#")[0],
        }
        return await request_tokens(http, server, client, fields)

    async def _issued_by(self, http: Transport, state: LoginState) -> AuthorizationServer:
        if state.authorization_server:
            return read_metadata(state.authorization_server, local=True)
        named = self._settings.auth_server_metadata_url
        found = await discover(http, self._url, Challenge(), metadata_url=named, guess=False)
        return found.server

    async def _save(self, used: LoginState, tokens: dict[str, Any]) -> None:
        def edit(old: dict[str, Any] | None) -> dict[str, Any] | None:
            # A login that finished meanwhile is newer than this renewal.
            if old is None or LoginState(old).refresh != used.refresh:
                return old
            kept = {name: value for name, value in old.items() if name != EXPIRES}
            same = {"refresh_token": used.refresh, **({"scope": used.scope} if used.scope else {})}
            fresh: dict[str, Any] = {**kept, TOKENS: {**same, **tokens}}
            if "expires_in" in tokens:
                fresh[EXPIRES] = int(now_ms() + tokens["expires_in"] * 1000)
            return fresh

        await asyncio.to_thread(self._store.change, edit)

    async def _forget(self, used: LoginState, *, with_client: bool) -> None:
        gone = (TOKENS, EXPIRES, *((CLIENT,) if with_client else ()))

        def edit(old: dict[str, Any] | None) -> dict[str, Any] | None:
            if old is None or LoginState(old).refresh != used.refresh:
                return old
            return {name: value for name, value in old.items() if name not in gone}

        await asyncio.to_thread(self._store.change, edit)

    async def _want(self, token: str, scope: str) -> None:
        def edit(old: dict[str, Any] | None) -> dict[str, Any] | None:
            state = LoginState(old or {})
            if old is None or state.access != token or not scope:
                return old
            return {**old, WANTED_SCOPE: merged_scopes(state.wanted_scope, scope)}

        try:
            await asyncio.to_thread(self._store.change, edit)
        except ConfigError as error:
            raise McpError(str(error)) from error

    def _problem(self, reason: str) -> str:
        return (
            f"The login to {self._url} could not be renewed: {reason}. The stored login was kept; "
            "try again later, or log in again."
        )


_: type[Tokens] = StoredTokens
