"""OAuth requests to identity servers, and renewal of stored tokens."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from ludolf.ai.access import Patience
from ludolf.ai.http.transport import HttpRequest, HttpResponse, Transport
from ludolf.ai.json_text import json_object
from ludolf.ai.secrets import redact
from ludolf.base import LudolfError, Value, dumps, loads, now_ms

OAuthMethod = Literal["oauth", "device"]
REQUEST_SECONDS = 30.0
_DEFAULT_LIFE = 3600.0
_A_DAY = 24 * 3600.0
_ACCOUNT_CLAIM = "https://api.openai.com/auth"
_SECRET_FIELDS = ("refresh_token", "code", "code_verifier", "device_code", "device_auth_id")


class Flow(Value):
    """How one provider logs users in. A missing URL means that the method is not available.

    kind             protocol variant: `standard` is plain OAuth
    domain           value of `{domain}` in URLs, unless the user has an enterprise domain
    authorize_url    page to open in the browser; it redirects to `callback`, or to any free port
    device_url       starts a login with a code that the user types
    device_token_url polled for the result of that login; default `token_url`
    exchange_url     exchanges the login token for the token of model requests
    early_seconds    seconds before its expiry at which a token counts as expired
    least_poll       shortest interval between two polls, in seconds
    patience         time limit of a login in a browser, in seconds
    model_headers    headers of model requests in addition to the token
    """

    name: str
    kind: Literal["standard", "codex", "copilot", "meta", "openrouter"] = "standard"
    domain: str = ""
    client_id: str = ""
    scope: str = ""
    json_body: bool = False
    authorize_url: str = ""
    authorize_extra: dict[str, str] = msgspec.field(default_factory=dict)
    callback: str = ""
    token_url: str = ""
    device_url: str = ""
    device_token_url: str = ""
    device_extra: dict[str, str] = msgspec.field(default_factory=dict)
    verification_url: str = ""
    device_callback: str = ""
    exchange_url: str = ""
    early_seconds: float = 0
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    model_headers: dict[str, str] = msgspec.field(default_factory=dict)
    least_poll: float = 1.0
    patience: float = 300.0

    @property
    def methods(self) -> tuple[OAuthMethod, ...]:
        """Return the available login methods, the preferred one first."""
        methods: list[OAuthMethod] = []
        if self.authorize_url:
            methods.append("oauth")
        if self.device_url:
            methods.append("device")
        return tuple(methods)

    def at(self, address: str, domain: str | None = None) -> str:
        return address.replace("{domain}", domain or self.domain)


class LoginError(LudolfError):
    """A login or a token renewal failed. The text is the reason and contains no secret."""


class OAuthResponse(msgspec.Struct, frozen=True):
    """Response of an identity server; `body` is empty if it was not a JSON object."""

    status: int
    body: Mapping[str, Any]
    complaint: str

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    def text(self, name: str) -> str:
        """Return a required field.

        Raises:
            LoginError: the server refused, or the field is missing.
        """
        if not self.ok:
            raise LoginError(self.complaint)
        value = self.body.get(name)
        if not isinstance(value, str) or not value:
            raise LoginError(f"the server's response has no {name}")
        return value

    def number(self, name: str) -> float | None:
        value = self.body.get(name)
        if isinstance(value, str) and value.strip().isdigit():
            value = int(value)
        right = isinstance(value, int | float) and not isinstance(value, bool) and value > 0
        return float(value) if right and value is not None else None


async def ask(
    http: Transport,
    url: str,
    fields: Mapping[str, Any] | None,
    *,
    headers: Mapping[str, str] | None = None,
    as_json: bool = False,
    bearer: str = "",
) -> OAuthResponse:
    """Send fields to an identity server; without fields, send a GET request.

    Raises:
        ProviderError: the server could not be reached.
    """
    from urllib.parse import urlencode

    all_headers = {"Accept": "application/json", "Accept-Encoding": "identity", **(headers or {})}
    if bearer:
        all_headers["Authorization"] = f"Bearer {bearer}"
    body = b""
    if fields is not None:
        kind = "json" if as_json else "x-www-form-urlencoded"
        all_headers["Content-Type"] = f"application/{kind}"
        body = dumps(dict(fields)) if as_json else urlencode(fields).encode()
    method = "GET" if fields is None else "POST"
    patience = Patience(first=REQUEST_SECONDS)
    sent = HttpRequest(method=method, url=url, headers=all_headers, body=body, patience=patience)
    async with http.exchange(sent) as raw:
        text = await HttpResponse(raw, patience).text()
        status = raw.status
    secrets = [bearer, *(str((fields or {}).get(name, "")) for name in _SECRET_FIELDS)]
    reply = json_object(text)
    return OAuthResponse(status, reply, redact(_complaint(status, reply), secrets, http.environ))


async def renew(
    http: Transport, flow: Flow, credential: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Return the changed fields of a stored credential; None if it cannot expire.

    Raises:
        LoginError: the server refused, or the refresh token is missing.
        ProviderError: the server could not be reached.
    """
    if flow.kind == "openrouter":
        return None
    refresh = credential.get("refresh")
    if not isinstance(refresh, str) or not refresh:
        raise LoginError("no refresh token is stored; log in again")
    if flow.exchange_url:
        domain = credential.get("enterpriseUrl")
        return await exchanged(http, flow, refresh, domain if isinstance(domain, str) else None)
    fields = {
        "grant_type": "refresh_token",
        "client_id": flow.client_id,
        "refresh_token": refresh,
    }
    answer = await ask(
        http, flow.at(flow.token_url), fields, headers=flow.headers, as_json=flow.json_body
    )
    return tokens(flow, answer, refresh)


async def exchanged(
    http: Transport, flow: Flow, identity: str, domain: str | None
) -> dict[str, Any]:
    """Exchange a login token for a request token; the login token serves as refresh token.

    Raises:
        LoginError: the server refused.
        ProviderError: it could not be reached.
    """
    url = flow.at(flow.exchange_url, domain and host_of(domain))
    if flow.kind == "meta":
        answer = await ask(http, url, {}, headers=flow.headers, as_json=True, bearer=identity)
        access, ends = answer.text("api_key"), now_ms() + _A_DAY * 1000
    else:
        answer = await ask(http, url, None, headers=flow.headers, bearer=identity)
        access = answer.text("token")
        ends = (answer.number("expires_at") or now_ms() / 1000) * 1000
    return {
        "access": access,
        "refresh": identity,
        "expires": int(ends - flow.early_seconds * 1000),
    }


def tokens(flow: Flow, answer: OAuthResponse, refresh: str = "") -> dict[str, Any]:
    """Return the tokens of a response; without a new refresh token, keep the old one.

    Raises:
        LoginError: the server refused.
    """
    access = answer.text("access_token")
    new_refresh = answer.body.get("refresh_token")
    life = answer.number("expires_in") or _DEFAULT_LIFE
    fields: dict[str, Any] = {
        "access": access,
        "refresh": new_refresh if isinstance(new_refresh, str) and new_refresh else refresh,
        "expires": int(now_ms() + (life - flow.early_seconds) * 1000),
    }
    if flow.kind == "codex":
        account = chatgpt_account(access)
        if account is None:
            raise LoginError("the token does not name a ChatGPT account")
        fields["accountId"] = account
    return fields


def chatgpt_account(token: str) -> str | None:
    """Return the ChatGPT account of a token, which each request must name; None if missing."""
    import base64

    payload = token.partition(".")[2].partition(".")[0]
    try:
        claims = loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        account = claims[_ACCOUNT_CLAIM]["chatgpt_account_id"]
    except (ValueError, KeyError, TypeError):
        return None
    return account if isinstance(account, str) and account else None


def host_of(address: str) -> str:
    """Return the host of a URL or host name that a user entered.

    Raises:
        LoginError: it contains no host name.
    """
    from urllib.parse import urlsplit

    url = address.strip() if "://" in address else f"https://{address.strip()}"
    try:
        host = urlsplit(url).netloc
    except ValueError:
        host = ""
    if not host or "@" in host or any(char.isspace() for char in host):
        raise LoginError(f"{address!r} is not a host name")
    return host


def _complaint(status: int, fields: Mapping[str, Any]) -> str:
    error = fields.get("error")
    if isinstance(error, dict):
        error = error.get("message") or error.get("code")
    more = (error, fields.get("error_description"), fields.get("message"), fields.get("detail"))
    words = dict.fromkeys(word.strip() for word in more if isinstance(word, str) and word.strip())
    text = ": ".join((f"the server returned {status}", *words))[:500]
    # The text is shown in a terminal, which would interpret control characters.
    return "".join(char if char.isprintable() else " " for char in text)
