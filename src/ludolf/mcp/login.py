"""Log in to an MCP server in a browser, and log out."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any, Protocol
from urllib.parse import parse_qs, urlencode, urlsplit

import msgspec

from ludolf.ai.access import Patience
from ludolf.ai.http.oauth import REQUEST_SECONDS, LoginError
from ludolf.ai.http.oauth_login import (
    Asker,
    Callback,
    browser_instructions,
    first_code,
    proof_key,
)
from ludolf.ai.http.transport import HttpRequest, Transport
from ludolf.base import dumps, now_ms
from ludolf.mcp.discovery import (
    AuthorizationServer,
    Challenge,
    Discovery,
    checked_address,
    discover,
    read_challenge,
    read_metadata,
    shown,
)
from ludolf.mcp.login_state import (
    CLIENT,
    DISCOVERY,
    EXPIRES,
    STEP_UPS,
    TOKENS,
    UNFINISHED,
    WANTED_SCOPE,
    LoginState,
)
from ludolf.mcp.oauth import (
    OAuthClient,
    OAuthSettings,
    TokenRefusal,
    configured_client,
    is_loopback_redirect,
    merged_scopes,
    register_client,
    registered_client,
    request_tokens,
    revoke_token,
)
from ludolf.mcp.wire import LEGACY_VERSION, HttpServer

PATIENCE_SECONDS = 300.0
MOST_STEP_UPS = 2
_PORTS_TO_TRY = 5
_OFFLINE = "offline_access"
# Refusals of a reused client that another registration may avoid.
_NEW_CLIENT = ("invalid_client", "unauthorized_client", "invalid_scope")
Edit = Callable[[dict[str, Any] | None], dict[str, Any] | None]


class TokenStore(Protocol):
    """Where the login of one server is stored, as a JSON object."""

    def load(self) -> dict[str, Any] | None:
        """Return what is stored; None without a login.

        Raises:
            ConfigError: the file cannot be used.
        """

    def change(self, edit: Edit) -> None:
        """Replace what is stored by the result of `edit`; no other process writes meanwhile.

        Raises:
            ConfigError: the file cannot be used.
        """

    def renewal_lock(self) -> AbstractAsyncContextManager[object]:
        """Return the lock of renewals, which all processes share."""


class _Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What one login asks for."""

    found: Discovery
    scope: str
    step_ups: int
    registered: OAuthClient | None


class BrowserLogin:
    """One login to a server; `host` is where the redirect of the browser arrives."""

    def __init__(
        self,
        server: HttpServer,
        store: TokenStore,
        settings: OAuthSettings,
        asker: Asker,
        *,
        host: str = "127.0.0.1",
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        self._server = server
        self._store = store
        self._settings = settings
        self._asker = asker
        self._host = host
        self._patience = patience

    async def run(self, challenge: str = "") -> None:
        """Log in and store the tokens. `challenge` is the header with which a request was refused.

        Raises:
            LoginError: it failed, was denied, or timed out.
            ProviderError: a server could not be reached.
            ConfigError: the tokens could not be stored.
        """
        checked_address(self._server.url.partition("#")[0], local=True)
        http = Transport(self._server.environ)
        try:
            plan = await self._plan(http, challenge)
            try:
                await self._authorize(http, plan)
            except TokenRefusal as error:
                if error.code not in _NEW_CLIENT or plan.registered is None:
                    raise
                if error.is_about_client:  # the server has forgotten the registration
                    await self._change(_without(CLIENT, TOKENS, EXPIRES))
                await self._authorize(http, msgspec.structs.replace(plan, registered=None))
        finally:
            await http.close()

    # ------------------------------------------------------------ what to ask for

    async def _plan(self, http: Transport, header: str) -> _Plan:
        refused = True
        if not header:
            refused, header = await _asked_without_token(http, self._server)
        challenge = read_challenge(header)
        found = await discover(
            http,
            self._server.url,
            challenge,
            metadata_url=self._settings.auth_server_metadata_url,
            guess=refused,
        )
        state = LoginState(self._store.load() or {})
        scope, step_ups = self._scope(found, challenge, state)
        registered = None
        if not self._settings.client_id and state.issuer == found.server.issuer:
            registered = registered_client(state.client, found.server)
        return _Plan(found=found, scope=scope, step_ups=step_ups, registered=registered)

    def _scope(self, found: Discovery, challenge: Challenge, state: LoginState) -> tuple[str, int]:
        """Return the scopes to ask for, and how often these were asked for because of a refusal."""
        advertised = " ".join(found.scopes)
        wanted = state.wanted_scope
        if challenge.wants_more_scopes:
            wanted = challenge.scope or advertised
        if wanted:
            scope = merged_scopes(self._settings.scope, state.scope, wanted)
        else:
            scope = merged_scopes(self._settings.scope, challenge.scope) or advertised
        if scope and _OFFLINE in found.server.scopes:
            scope = merged_scopes(scope, _OFFLINE)
        if not wanted:
            return scope, 0
        last, count = state.step_ups
        step_ups = count + 1 if set(last.split()) == set(scope.split()) else 1
        if step_ups > MOST_STEP_UPS:
            raise LoginError(
                f"the server still asks for more scopes after {MOST_STEP_UPS} logins with "
                f"{shown(scope)}. Ask its operator which rights your account needs"
            )
        return scope, step_ups

    # ------------------------------------------------------------ the browser

    async def _authorize(self, http: Transport, plan: _Plan) -> None:
        verifier, proof = proof_key()
        async with self._listening(plan) as callback:
            client = await self._client(http, plan, callback.address)
            url = _authorize_address(plan, client, callback, proof)
            self._asker.show(url, browser_instructions(callback))
            try:
                async with asyncio.timeout(self._patience):
                    code = await first_code(self._asker, callback)
            except TimeoutError:
                raise LoginError(self._too_late(plan)) from None
        fields = {
            "grant_type": "authorization_code",
            "code": code,
            "code_verifier": verifier,
            "redirect_uri": callback.address,
            "resource": plan.found.resource,
        }
        tokens = await request_tokens(http, plan.found.server, client, fields)
        await self._change(lambda old: _logged_in(old, plan, client, tokens))

    async def _change(self, edit: Edit) -> None:
        # Another process may hold the lock of the file for seconds.
        await asyncio.to_thread(self._store.change, edit)

    def _too_late(self, plan: _Plan) -> str:
        text = f"the login was not completed within {self._patience:.0f} s"
        if plan.registered is None:
            return text
        return (
            f"{text}. If the page reported an unknown client, log out first: that registers again"
        )

    @asynccontextmanager
    async def _listening(self, plan: _Plan) -> "AsyncIterator[_IssuerCallback]":
        """Listen for the redirect, on the port of the registration if it is free."""
        fixed = self._settings.fixed_redirect()
        for address in (fixed,) if fixed else self._redirects(plan.registered):
            host = "::1" if urlsplit(address).hostname == "::1" else self._host
            async with _IssuerCallback(address, host, plan.found.server) as callback:
                if callback.listens or fixed:
                    yield callback
                    return
        raise LoginError(f"cannot listen on {self._host} for the redirect of the browser")

    def _redirects(self, registered: OAuthClient | None) -> Iterator[str]:
        known = _redirect_of(registered)
        if known and urlsplit(known).path == urlsplit(self._settings.redirect_on(1)).path:
            yield known
        for _ in range(_PORTS_TO_TRY):
            yield self._settings.redirect_on(_free_port(self._host))

    async def _client(self, http: Transport, plan: _Plan, redirect: str) -> OAuthClient:
        server = plan.found.server
        client = configured_client(self._settings, server)
        if client is not None:
            return client
        if plan.registered is not None and _redirect_of(plan.registered) == redirect:
            return plan.registered
        client = await register_client(
            http, server, name=self._settings.client_name, redirect=redirect, scope=plan.scope
        )
        await self._change(lambda old: _registered(old, plan, client))
        return client


class _IssuerCallback(Callback):
    """A callback that takes only redirects of the expected authorization server (RFC 9207)."""

    def __init__(self, address: str, host: str, server: AuthorizationServer) -> None:
        super().__init__(address, host)
        self.state = self.secret
        self._issued_by = server

    def receive(self, fields: Mapping[str, str]) -> int:
        issuer = fields.get("iss")
        # A refusal without an issuer is shown; a code without one is not used.
        needed = self._issued_by.names_issuer and "error" not in fields
        wrong = issuer != self._issued_by.issuer if issuer else needed
        if wrong and fields.get("state") == self.state:
            named = f"names another issuer, {shown(issuer)}" if issuer else "names no issuer"
            text = f"the redirect {named}; {shown(self._issued_by.issuer)} was expected"
            self.fail(LoginError(f"{text}. The code was not used"))
            return 400
        if fields.get("error") in _NEW_CLIENT and fields.get("state") == self.state:
            reason = shown(fields.get("error_description") or fields["error"])
            self.fail(TokenRefusal(f"the login was refused: {reason}", fields["error"]))
            return 400
        return super().receive(fields)

    def paste(self, text: str) -> None:
        """Take the pasted address of the redirect, with all its fields."""
        try:
            query = urlsplit(text.strip()).query
        except ValueError:
            query = ""
        fields = {name: values[0] for name, values in parse_qs(query).items()}
        if not fields:
            raise LoginError("paste the whole address of the last page in the browser")
        if self.receive(fields) != 200 and not self.code.done():
            raise LoginError("the pasted address belongs to another login")


async def log_out(
    store: TokenStore, settings: OAuthSettings, environ: Mapping[str, str]
) -> tuple[bool, str]:
    """Remove what is stored and revoke the tokens.

    Returns whether something was stored, and why the tokens were not revoked ("" if they were, or
    if the server cannot revoke tokens).

    Raises:
        ConfigError: the file cannot be used.
    """
    stored = store.load()
    if stored is None:
        return False, ""
    await asyncio.to_thread(store.change, lambda _: None)
    state = LoginState(stored)
    token = state.refresh or state.access
    try:
        server = read_metadata(state.authorization_server, local=True)
    except LoginError:
        return True, ""
    client = configured_client(settings, server) or registered_client(state.client, server)
    if not server.revoke_url or not token or client is None:
        return True, ""
    http = Transport(environ)
    try:
        return True, await revoke_token(http, server, client, token)
    finally:
        await http.close()


# ---------------------------------------------------------------- private


async def _asked_without_token(http: Transport, server: HttpServer) -> tuple[bool, str]:
    """Return whether the server refuses a request without a token, and its challenge."""
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": LEGACY_VERSION,
            "capabilities": {},
            "clientInfo": {"name": "ludolf", "version": "1"},
        },
    }
    headers = {
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
        **server.headers,
    }
    patience = Patience(first=REQUEST_SECONDS)
    request = HttpRequest(url=server.url, headers=headers, body=dumps(hello), patience=patience)
    async with http.exchange(request) as raw:
        # A server may send the header several times.
        sent = [v for k, v in raw.headers.items() if k.lower() == "www-authenticate"]
        return raw.status in (401, 403), ", ".join(sent)


def _authorize_address(plan: _Plan, client: OAuthClient, callback: Callback, proof: str) -> str:
    fields = {
        "response_type": "code",
        "client_id": client.id,
        "redirect_uri": callback.address,
        "code_challenge": proof,
        "code_challenge_method": "S256",
        "state": callback.state or "",
        "resource": plan.found.resource,
    }
    if plan.scope:
        fields["scope"] = plan.scope
    if _OFFLINE in plan.scope.split():
        fields["prompt"] = "consent"  # OpenID Connect gives a refresh token only then
    url = plan.found.server.authorize_url
    return f"{url}{'&' if '?' in url else '?'}{urlencode(fields)}"


def _redirect_of(client: OAuthClient | None) -> str:
    uris = client.information.get("redirect_uris") if client is not None else None
    first = uris[0] if isinstance(uris, list) and uris else None
    if not isinstance(first, str) or not is_loopback_redirect(first):
        return ""
    return first if urlsplit(first).port else ""


def _free_port(host: str) -> int:
    with suppress(OSError), socket.socket() as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port
    raise LoginError(f"cannot listen on {host} for the redirect of the browser")


def _registered(
    old: dict[str, Any] | None, plan: _Plan, client: OAuthClient
) -> dict[str, Any] | None:
    """Store a registration at once, unless a login would lose the client that it belongs to."""
    if LoginState(old or {}).access:
        return old
    kept = {CLIENT: dict(client.information), DISCOVERY: dict(plan.found.stored)}
    return {**(old or {}), **kept}


def _logged_in(
    old: dict[str, Any] | None, plan: _Plan, client: OAuthClient, tokens: dict[str, Any]
) -> dict[str, Any]:
    gone = (CLIENT, EXPIRES, WANTED_SCOPE, STEP_UPS, *UNFINISHED)
    kept = {name: value for name, value in (old or {}).items() if name not in gone}
    # A response that leaves out the scope grants what was asked for (RFC 6749, 5.1).
    scope = {"scope": plan.scope} if plan.scope else {}
    fresh = {**kept, TOKENS: {**scope, **tokens}, DISCOVERY: dict(plan.found.stored)}
    if client.information:
        fresh[CLIENT] = dict(client.information)
    if "expires_in" in tokens:
        fresh[EXPIRES] = int(now_ms() + tokens["expires_in"] * 1000)
    if plan.step_ups:
        fresh[STEP_UPS] = {"scope": plan.scope, "count": plan.step_ups}
    return fresh


def _without(*names: str) -> Edit:
    def edit(old: dict[str, Any] | None) -> dict[str, Any] | None:
        kept = {name: value for name, value in (old or {}).items() if name not in names}
        return kept if old is not None else None

    return edit
