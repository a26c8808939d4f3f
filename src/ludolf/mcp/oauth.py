"""OAuth requests of MCP logins: clients and their registration, tokens, revocation."""

import base64
from collections.abc import Mapping
from typing import Any, Literal
from urllib.parse import quote, urlsplit

import msgspec

from ludolf.ai.errors import ProviderError
from ludolf.ai.http.oauth import LoginError, OAuthResponse, ask
from ludolf.ai.http.transport import Transport
from ludolf.ai.secrets import redact
from ludolf.base import Value, now_ms
from ludolf.mcp.discovery import AuthorizationServer, checked_address, shown
from ludolf.mcp.wire import McpError

CLIENT_NAME = "ludolf"
CALLBACK_PATH = "/callback"
_LOOPBACK_HOSTS = frozenset(("localhost", "127.0.0.1", "::1"))
_LONGEST_LIFE = 10 * 365 * 24 * 3600.0
_HOSTS_PORTS = range(1, 65536)
TokenMethod = Literal["none", "client_secret_basic", "client_secret_post"]


class OAuthSettings(Value):
    """The key `oauth` of an entry, in the form of pi.

    client_id                a registered client; without it, a login registers one
    client_secret            its secret; variables and commands are resolved already
    callback_port            port of the redirect to loopback
    callback_url             the whole address of the redirect
    scope                    scopes to ask for, separated by spaces
    client_name              name to register with
    client_registration      `dcr` and `auto` register a client
    auth_server_metadata_url metadata of the authorization server, in place of a search
    """

    client_id: str = ""
    client_secret: str = ""
    callback_port: int | None = None
    callback_url: str = ""
    scope: str = ""
    client_name: str = ""
    client_registration: Literal["auto", "dcr", "cimd"] = "auto"
    auth_server_metadata_url: str = ""

    def fixed_redirect(self) -> str:
        """Return the configured address of the redirect; "" if any port will do.

        Raises:
            LoginError: it is not an http address on loopback.
        """
        if self.callback_url and not is_loopback_redirect(self.callback_url):
            raise LoginError("oauth.callbackUrl must be an http address on 127.0.0.1 or localhost")
        if self.callback_url and urlsplit(self.callback_url).port is not None:
            return self.callback_url
        return self.redirect_on(self.callback_port) if self.callback_port else ""

    def redirect_on(self, port: int) -> str:
        """Return the address of the redirect on this port."""
        parts = urlsplit(self.callback_url or f"http://127.0.0.1{CALLBACK_PATH}")
        return parts._replace(netloc=f"{parts.netloc}:{port}").geturl()


class OAuthClient(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks for tokens. `information` is the stored registration; empty if configured."""

    id: str
    secret: str = ""
    method: TokenMethod = "none"
    information: Mapping[str, Any] = {}


class TokenRefusal(LoginError):
    """The authorization server refused tokens for good; `code` is its OAuth error."""

    def __init__(self, text: str, code: str) -> None:
        super().__init__(text)
        self.code = code

    @property
    def is_about_client(self) -> bool:
        return self.code in ("invalid_client", "unauthorized_client")


def read_oauth_settings(value: Mapping[str, Any] | None) -> OAuthSettings:
    """Read the key `oauth` of an entry.

    Raises:
        McpError: a value has the wrong type, or the settings contradict each other.
    """
    try:
        settings = msgspec.convert(value or {}, OAuthSettings)
    except msgspec.ValidationError as error:
        raise McpError(f"Invalid oauth settings: {error}") from None
    if settings.callback_port is not None and settings.callback_port not in _HOSTS_PORTS:
        raise McpError("Invalid oauth settings: callbackPort is not a port")
    if settings.client_registration == "cimd":
        raise McpError(
            "Invalid oauth settings: Ludolf has no client metadata document. "
            'Remove "clientRegistration", or set "clientId"'
        )
    return settings


def configured_client(settings: OAuthSettings, server: AuthorizationServer) -> OAuthClient | None:
    if not settings.client_id:
        return None
    secret = settings.client_secret
    return OAuthClient(
        id=settings.client_id, secret=secret, method=_method("", secret, server.token_methods)
    )


def registered_client(
    information: Mapping[str, Any], server: AuthorizationServer
) -> OAuthClient | None:
    """Return the client of a stored registration; None if it is incomplete or has ended."""
    id, secret = information.get("client_id"), information.get("client_secret")
    ends = information.get("client_secret_expires_at")
    if isinstance(ends, int | float) and 0 < ends * 1000 <= now_ms():
        return None
    if not isinstance(id, str) or not id:
        return None
    wanted = information.get("token_endpoint_auth_method")
    text = secret if isinstance(secret, str) else ""
    method = _method(wanted if isinstance(wanted, str) else "", text, server.token_methods)
    return OAuthClient(id=id, secret=text, method=method, information=information)


async def register_client(
    http: Transport, server: AuthorizationServer, *, name: str, redirect: str, scope: str
) -> OAuthClient:
    """Register a public client (RFC 7591).

    Raises:
        LoginError: the server has no registration, or refused it.
        ProviderError: it could not be reached.
    """
    if not server.register_url:
        raise LoginError(
            f"{shown(server.issuer)} does not register clients. Register one by hand and set "
            '"oauth": {"clientId": …} in the entry of the server'
        )
    wish: dict[str, Any] = {
        "client_name": name or CLIENT_NAME,
        "application_type": "native",
        "redirect_uris": [redirect],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
        **({"scope": scope} if scope else {}),
    }
    answer = await ask(http, server.register_url, wish, as_json=True)
    if not answer.ok:
        raise LoginError(f"the registration of a client was refused: {answer.complaint}")
    # A server may leave out what it accepted unchanged.
    client = registered_client({**wish, **answer.body}, server)
    if client is None:
        raise LoginError("the registration of a client failed: the server returned no client_id")
    return _with_redirect(client, redirect)


async def request_tokens(
    http: Transport,
    server: AuthorizationServer,
    client: OAuthClient,
    fields: Mapping[str, str],
) -> dict[str, Any]:
    """Ask for tokens; return them in the form of the response.

    Raises:
        TokenRefusal: the server refused the grant or the client.
        LoginError: the response cannot be used.
        ProviderError: the server could not be reached.
    """
    answer = await _ask_as(http, server.token_url, client, fields)
    secrets = (client.secret, *fields.values())
    code = answer.body.get("error")
    if answer.status in (400, 401, 403) and isinstance(code, str):
        raise TokenRefusal(redact(answer.complaint, secrets, http.environ), code)
    if not answer.ok:
        raise LoginError(redact(answer.complaint, secrets, http.environ))
    return _tokens(answer)


async def revoke_token(
    http: Transport, server: AuthorizationServer, client: OAuthClient, token: str
) -> str:
    """Revoke a token (RFC 7009); return why it failed, "" if it did not."""
    fields = {"token": token, "token_type_hint": "refresh_token"}
    try:
        answer = await _ask_as(http, server.revoke_url, client, fields)
    except (LoginError, ProviderError) as error:
        return redact(str(error), (token, client.secret), http.environ)
    return "" if answer.ok else redact(answer.complaint, (token, client.secret), http.environ)


def merged_scopes(*scopes: str) -> str:
    """Return all scopes, each once."""
    return " ".join(dict.fromkeys(one for scope in scopes for one in scope.split()))


def is_loopback_redirect(url: str) -> bool:
    try:
        parts = urlsplit(url)
        local = parts.hostname in _LOOPBACK_HOSTS and (parts.port or 1) in _HOSTS_PORTS
    except ValueError:
        return False
    return parts.scheme == "http" and local and not parts.query and not parts.fragment


# ---------------------------------------------------------------- private


def _method(wanted: str, secret: str, offered: tuple[str, ...]) -> TokenMethod:
    """Choose how the client proves who it is; a server that lists no ways offers HTTP Basic."""
    if not secret:
        return "none"
    if wanted == "client_secret_post":
        return "client_secret_post"
    basic = "client_secret_basic"
    if wanted == basic or not offered or basic in offered:
        return "client_secret_basic"
    return "client_secret_post"


def _with_redirect(client: OAuthClient, redirect: str) -> OAuthClient:
    """Remember the redirect of a registration: the next login listens there again."""
    kept = {**client.information, "redirect_uris": [redirect]}
    return msgspec.structs.replace(client, information=kept)


async def _ask_as(
    http: Transport, url: str, client: OAuthClient, fields: Mapping[str, str]
) -> OAuthResponse:
    checked_address(url, local=True)
    if client.method == "client_secret_basic":
        pair = f"{quote(client.id, safe='')}:{quote(client.secret, safe='')}"
        headers = {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}
        return await ask(http, url, fields, headers=headers)
    proof = {"client_id": client.id}
    if client.method == "client_secret_post":
        proof["client_secret"] = client.secret
    return await ask(http, url, {**fields, **proof})


def _tokens(answer: OAuthResponse) -> dict[str, Any]:
    access = answer.text("access_token")
    if not access.isascii() or not access.isprintable() or " " in access:
        raise LoginError("the server returned an access token that cannot be sent")
    kind = answer.body.get("token_type", "Bearer")
    if not isinstance(kind, str) or kind.lower() != "bearer":
        raise LoginError("the server returned a token that is not a bearer token")
    tokens: dict[str, Any] = {"access_token": access, "token_type": "Bearer"}
    for name in ("refresh_token", "scope"):
        value = answer.body.get(name)
        if isinstance(value, str) and value:
            tokens[name] = value
    life = answer.number("expires_in")
    if life is not None:
        life = min(life, _LONGEST_LIFE)
        tokens["expires_in"] = int(life) if life.is_integer() else life
    return tokens
