"""Find the authorization server of an MCP server (RFC 9728, RFC 8414, OpenID discovery)."""

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urljoin, urlsplit

import msgspec

from ludolf.ai.access import Patience
from ludolf.ai.http.oauth import REQUEST_SECONDS, LoginError
from ludolf.ai.http.transport import HttpRequest, HttpResponse, Transport
from ludolf.ai.json_text import json_object
from ludolf.mcp.wire import LEGACY_VERSION

_RESOURCE = "/.well-known/oauth-protected-resource"
_OAUTH = "/.well-known/oauth-authorization-server"
_OPENID = "/.well-known/openid-configuration"
_LOOPBACK = frozenset(("localhost", "127.0.0.1", "::1"))
_LONGEST_HEADER = 4096
_MOST_SCOPES = 100
_MOST_MOVES = 4
_HEADERS = {
    "Accept": "application/json",
    "Accept-Encoding": "identity",
    "MCP-Protocol-Version": LEGACY_VERSION,
}
_BEARER = re.compile(r"(?:^|[,\s])bearer(?=\s|,|$)", re.IGNORECASE)
_OTHER_SCHEME = re.compile(r",\s*[A-Za-z][A-Za-z0-9-]*\s+[A-Za-z]")
_FIELD = re.compile(r'(?<![A-Za-z_])([A-Za-z_]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s",]+))')
_STRINGS = re.compile(r'"(?:[^"\\]|\\.)*"')


class Challenge(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of a `WWW-Authenticate: Bearer` header that a login uses."""

    metadata_url: str = ""
    scope: str = ""
    error: str = ""

    @property
    def wants_more_scopes(self) -> bool:
        return self.error == "insufficient_scope"


class AuthorizationServer(msgspec.Struct, frozen=True, kw_only=True):
    """Checked metadata of an authorization server."""

    issuer: str
    authorize_url: str
    token_url: str
    register_url: str
    revoke_url: str
    scopes: tuple[str, ...]
    token_methods: tuple[str, ...]
    names_issuer: bool


class Discovery(msgspec.Struct, frozen=True, kw_only=True):
    """Where to log in, and for what. `stored` is the form of the file of logins."""

    server: AuthorizationServer
    resource: str
    scopes: tuple[str, ...]
    stored: Mapping[str, Any]


def read_challenge(header: str) -> Challenge:
    """Read a `WWW-Authenticate` header; fields of other schemes and broken ones are left out."""
    header = header[:_LONGEST_HEADER]
    masked = _STRINGS.sub(lambda match: " " * len(match[0]), header)
    begin = _BEARER.search(masked)
    if begin is None:
        return Challenge()
    end = _OTHER_SCHEME.search(masked, begin.end())
    ours = header[begin.end() : end.start() if end else len(header)]
    fields: dict[str, str] = {}
    for name, quoted, plain in _FIELD.findall(ours):
        fields.setdefault(name.lower(), re.sub(r"\\(.)", r"\1", quoted) or plain)
    return Challenge(
        metadata_url=fields.get("resource_metadata", ""),
        scope=" ".join(fields.get("scope", "").split()),
        error=fields.get("error", ""),
    )


async def discover(
    http: Transport, url: str, challenge: Challenge, *, metadata_url: str = "", guess: bool = True
) -> Discovery:
    """Find the authorization server of the MCP server at `url`.

    `metadata_url` names the metadata of the authorization server and replaces the search. `guess`
    allows the addresses that revision 2025-03-26 assumes where no metadata is published.

    Raises:
        LoginError: no usable server was found, or metadata contradict an address.
        ProviderError: a server could not be reached.
    """
    if metadata_url:
        named = await _required(http, checked_address(metadata_url, local=True))
        server = read_metadata(named, local=_is_loopback(metadata_url))
        return _discovery(url, server, named, {})
    resource = await _resource_metadata(http, url, challenge)
    listed = _strings(resource.get("authorization_servers"))
    local = _is_loopback(url)
    issuer = checked_address(listed[0], local=local) if listed else _origin(url)
    found = await _server_metadata(http, issuer)
    if found is None and not listed and guess:
        found = _assumed(issuer)
    if found is None:
        raise LoginError(f"no metadata of an authorization server were found for {issuer}")
    metadata = read_metadata(found, local=local)
    if metadata.issuer.removesuffix("/") != issuer.removesuffix("/"):
        raise LoginError(
            f"the metadata of {issuer} name another issuer, {shown(metadata.issuer)}. "
            "The login was stopped, because another server may be posing as this one"
        )
    return _discovery(url, metadata, found, resource)


def read_metadata(found: Mapping[str, Any], *, local: bool) -> AuthorizationServer:
    """Check the metadata of an authorization server; `local` allows http on loopback.

    Raises:
        LoginError: a field is missing or an address is not secure, or PKCE with S256 is missing.
    """

    def address(name: str) -> str:
        value = found.get(name)
        return checked_address(value, local=local) if isinstance(value, str) and value else ""

    issuer = found.get("issuer")
    authorize, token = address("authorization_endpoint"), address("token_endpoint")
    if not isinstance(issuer, str) or not issuer or not authorize or not token:
        raise LoginError("the metadata of the authorization server are incomplete")
    if "S256" not in _strings(found.get("code_challenge_methods_supported")):
        raise LoginError(
            f"the authorization server {shown(issuer)} does not offer PKCE with S256, which a "
            "login needs. Ask the operator of the server to enable it"
        )
    return AuthorizationServer(
        issuer=issuer,
        authorize_url=authorize,
        token_url=token,
        register_url=address("registration_endpoint"),
        revoke_url=address("revocation_endpoint"),
        scopes=_strings(found.get("scopes_supported")),
        token_methods=_strings(found.get("token_endpoint_auth_methods_supported")),
        names_issuer=found.get("authorization_response_iss_parameter_supported") is True,
    )


def checked_address(url: str, *, local: bool) -> str:
    """Return an address that tokens may be sent to: https, or http on loopback if `local`.

    Raises:
        LoginError: it is another one.
    """
    try:
        parts = urlsplit(url)
        secure = parts.scheme == "https" or (
            local and parts.scheme == "http" and parts.hostname in _LOOPBACK
        )
        plain = url.isprintable() and " " not in url and "@" not in parts.netloc
        if secure and plain and parts.hostname and not parts.fragment:
            return url
    except ValueError:
        pass
    raise LoginError(f"{shown(url)} is not an https address; the login was stopped")


def shown(text: str) -> str:
    """Return a text of a server so that a terminal can show it."""
    return "".join(char if char.isprintable() else " " for char in text)[:200]


# ---------------------------------------------------------------- the protected resource


async def _resource_metadata(http: Transport, url: str, challenge: Challenge) -> Mapping[str, Any]:
    """Return the metadata of the MCP server; empty if it publishes none."""
    local = _is_loopback(url)
    path = urlsplit(url).path.rstrip("/")
    well_known = [f"{_origin(url)}{_RESOURCE}{path}", f"{_origin(url)}{_RESOURCE}"]
    if challenge.metadata_url:
        well_known.insert(0, checked_address(challenge.metadata_url, local=local))
    for address in dict.fromkeys(well_known):
        found = await _document(http, address)
        if found is None or not isinstance(found.get("resource"), str):
            continue
        if not _fits(found["resource"], url):
            raise LoginError(
                f"the metadata at {address} are for {shown(found['resource'])}, not for {url}. "
                "Check the address of the server"
            )
        return found
    return {}


def _fits(resource: str, url: str) -> bool:
    """Return whether the address is the resource or inside it."""
    try:
        outer, inner = urlsplit(resource), urlsplit(url)
        same_origin = _origin(resource) == _origin(url)
    except (ValueError, LoginError):
        return False
    folder = f"{outer.path.rstrip('/')}/"
    same_query = not outer.query or outer.query == inner.query
    return same_origin and same_query and f"{inner.path.rstrip('/')}/".startswith(folder)


# ---------------------------------------------------------------- the authorization server


async def _server_metadata(http: Transport, issuer: str) -> Mapping[str, Any] | None:
    for address in _metadata_addresses(issuer):
        found = await _document(http, address)
        if found is not None:
            return found
    return None


def _metadata_addresses(issuer: str) -> Iterator[str]:
    """Yield the addresses in the order of the MCP specification."""
    origin, path = _origin(issuer), urlsplit(issuer).path.rstrip("/")
    yield f"{origin}{_OAUTH}{path}"
    yield f"{origin}{_OPENID}{path}"
    if path:
        yield f"{origin}{path}{_OPENID}"


def _assumed(origin: str) -> Mapping[str, Any]:
    """Return the metadata that revision 2025-03-26 assumes."""
    return {
        "issuer": origin,
        "authorization_endpoint": f"{origin}/authorize",
        "token_endpoint": f"{origin}/token",
        "registration_endpoint": f"{origin}/register",
        "response_types_supported": ["code"],
        "code_challenge_methods_supported": ["S256"],
    }


def _discovery(
    url: str,
    server: AuthorizationServer,
    found: Mapping[str, Any],
    resource: Mapping[str, Any],
) -> Discovery:
    stored = {"authorizationServerUrl": server.issuer, "authorizationServerMetadata": dict(found)}
    if resource:
        stored["resourceMetadata"] = dict(resource)
    return Discovery(
        server=server,
        resource=resource.get("resource") or url.partition("#")[0],
        scopes=_strings(resource.get("scopes_supported")),
        stored=stored,
    )


async def _document(http: Transport, address: str) -> Mapping[str, Any] | None:
    """Return the JSON object at an address, or where it moved to; None if there is none."""
    patience = Patience(first=REQUEST_SECONDS)
    for _ in range(_MOST_MOVES):
        sent = HttpRequest(method="GET", url=address, headers=_HEADERS, body=b"", patience=patience)
        async with http.exchange(sent) as raw:
            if raw.status >= 500:
                raise LoginError(f"cannot load {address}: the server returned {raw.status}")
            if raw.status == 200:
                return json_object(await HttpResponse(raw, patience).text()) or None
            moved = raw.headers.get("Location", "") if 300 < raw.status < 400 else ""
        if not moved:
            return None
        address = checked_address(urljoin(address, moved), local=_is_loopback(address))
    return None


async def _required(http: Transport, address: str) -> Mapping[str, Any]:
    found = await _document(http, address)
    if found is None:
        raise LoginError(f"{address} is not the metadata of an authorization server")
    return found


def _strings(value: Any) -> tuple[str, ...]:
    items = value[:_MOST_SCOPES] if isinstance(value, list) else ()
    return tuple(item for item in items if isinstance(item, str) and item)


def _origin(url: str) -> str:
    """Return scheme, host and port, without the port that the scheme implies.

    Raises:
        LoginError: the address has no host.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise LoginError(f"{shown(url)} is not an address of a server") from None
    host = (parts.hostname or "").lower()
    shown_host = f"[{host}]" if ":" in host else host
    usual = {"http": 80, "https": 443}.get(parts.scheme)
    return f"{parts.scheme}://{shown_host}" + ("" if port in (None, usual) else f":{port}")


def _is_loopback(url: str) -> bool:
    try:
        return urlsplit(url).hostname in _LOOPBACK
    except ValueError:
        return False
