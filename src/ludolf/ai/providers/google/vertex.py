"""Google's models on Vertex AI (`google-vertex`): addresses by project, identity tokens."""

import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol

import msgspec

from ludolf.ai.errors import ProviderError
from ludolf.ai.http.proxy import proxies, proxy_for
from ludolf.ai.http.transport import Transport
from ludolf.ai.provider import Request
from ludolf.ai.providers.cloud_tokens import Token, TokenCache, is_of_process, keep_quiet
from ludolf.ai.providers.gateways import base_url, variable
from ludolf.ai.providers.google.provider import STREAM, Google, headers_for
from ludolf.base import loads, user_dir

SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)
_ANYWHERE = "https://aiplatform.googleapis.com"
_PLACE = "{location}"
_SHIPPED = f"https://{_PLACE}-aiplatform.googleapis.com"
_FILE = "GOOGLE_APPLICATION_CREDENTIALS"
_WEB_SECONDS = 30.0


class Vertex(Google):
    """Access by an API key, a configured header, or a token of the application's identity."""

    api = "google-vertex"
    owner = "Google Vertex"

    def __init__(self, transport: Transport) -> None:
        super().__init__(transport)
        self._tokens = TokenCache()

    async def reach(self, request: Request) -> tuple[str, dict[str, str]]:
        """Return the address and the headers of a request.

        Raises:
            ProviderError: project or location are unknown, or no credentials were found.
        """
        url = f"{_parent(request)}/{_model_path(request.model.id)}:{STREAM}"
        if request.access.key or request.access.by_header:
            return url, headers_for(request)
        file = variable(request, _FILE)
        token = await self._tokens.get(file, lambda: fetch_token(file, request.environ))
        return url, headers_for(request, {"Authorization": f"Bearer {token}"})


make = Vertex


# ---------------------------------------------------------------- addresses


def _parent(request: Request) -> str:
    """Return the part of the address before the model."""
    base = base_url(request)
    if request.access.key:
        return _versioned(_ANYWHERE if base == _SHIPPED else _placed(base, request))
    if "/projects/" in base:
        return _versioned(_placed(base, request))
    project, location = _project(request), _location(request)
    base = _regional(location) if base == _SHIPPED else _placed(base, request)
    return f"{_versioned(base)}/projects/{project}/locations/{location}"


def _placed(base: str, request: Request) -> str:
    return base.replace(_PLACE, _location(request)) if _PLACE in base else base


def _project(request: Request) -> str:
    for name in ("GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT"):
        if project := variable(request, name):
            return project
    raise ProviderError("Vertex AI needs a project: set GOOGLE_CLOUD_PROJECT", kind="auth")


def _location(request: Request) -> str:
    location = variable(request, "GOOGLE_CLOUD_LOCATION")
    if not location:
        raise ProviderError("Vertex AI needs a location: set GOOGLE_CLOUD_LOCATION", kind="auth")
    return location


def _regional(location: str) -> str:
    if location == "global":
        return _ANYWHERE
    if location in ("us", "eu"):
        return f"https://aiplatform.{location}.rep.googleapis.com"
    return f"https://{location}-aiplatform.googleapis.com"


def _versioned(base: str) -> str:
    """Add the API version to a base URL unless it contains one."""
    parts = base.split("/")[3:]
    has_version = any(part in ("v1", "v1beta1", "v1alpha") for part in parts)
    return base if has_version else f"{base}/v1"


def _model_path(name: str) -> str:
    if name.startswith("publishers/"):
        return name
    owner, _, model = name.removeprefix("models/").rpartition("/")
    return f"publishers/{owner or 'google'}/models/{model}"


# ---------------------------------------------------------------- application default credentials


def fetch_token(file: str, environ: Mapping[str, str]) -> Token:
    """Return a new token of the credentials in `file`, or of the machine's; blocks.

    Raises:
        ProviderError: the package is missing, or Google returned no token.
    """
    try:
        from google.auth.exceptions import GoogleAuthError, TransportError
    except ImportError as error:
        raise ProviderError(
            "Application default credentials need google-auth: pip install 'ludolf[vertex]'",
            kind="auth",
        ) from error
    keep_quiet("google")
    try:
        credentials = _credentials(file, environ)
        credentials.refresh(partial(_web, environ))
    except TransportError as error:
        raise ProviderError(f"Connection error: Google login: {error}", kind="network") from error
    except (GoogleAuthError, OSError, ValueError) as error:
        raise ProviderError(f"Google gave no token: {error}", kind="auth") from error
    return Token(str(credentials.token), _expiry(credentials))


class Credentials(Protocol):
    """The used part of google-auth's class, which has no types."""

    token: str | None
    expiry: Any

    def refresh(self, request: Callable[..., "TokenResponse"]) -> None: ...


def _credentials(file: str, environ: Mapping[str, str]) -> Credentials:
    import google.auth
    from google.oauth2 import credentials, service_account

    find: Callable[..., tuple[Credentials, Any]] = google.auth.default
    readers: dict[str, Callable[..., Credentials]] = {
        "service_account": service_account.Credentials.from_service_account_file,
        "authorized_user": credentials.Credentials.from_authorized_user_file,
    }
    if is_of_process(environ) and file in ("", environ.get(_FILE)):
        return find(scopes=SCOPES)[0]
    file = file or _gcloud_file(environ)
    kind = _kind_of(file)
    if kind not in readers:
        # Other kinds run programs or call servers; google-auth accepts them only from there.
        raise ValueError(f"{file} holds {kind or 'no account'}: set {_FILE} for the whole process")
    return readers[kind](file, scopes=SCOPES)


def _gcloud_file(environ: Mapping[str, str]) -> str:
    """Return the file that `gcloud auth application-default login` writes."""
    folder = environ.get("CLOUDSDK_CONFIG") or user_dir(environ) / ".config" / "gcloud"
    return os.path.join(folder, "application_default_credentials.json")


def _kind_of(file: str) -> str:
    with open(file, "rb") as opened:
        value = loads(opened.read())
    return str(value.get("type") or "") if isinstance(value, dict) else ""


def _expiry(credentials: Credentials) -> float:
    from datetime import UTC

    # The value is in UTC, without a time zone.
    return float(credentials.expiry.replace(tzinfo=UTC).timestamp()) if credentials.expiry else 0.0


class TokenResponse(msgspec.Struct, frozen=True):
    """The part of an HTTP response that google-auth reads."""

    status: int
    headers: Any
    data: bytes


def _web(
    environ: Mapping[str, str],
    url: str,
    method: str = "GET",
    body: Any = None,
    headers: Any = None,
    **_: Any,
) -> TokenResponse:
    """HTTP client for google-auth, which includes none."""
    from urllib.error import HTTPError
    from urllib.request import ProxyHandler, build_opener
    from urllib.request import Request as Asked

    from google.auth import exceptions

    failed: Callable[..., Exception] = exceptions.TransportError
    data = body.encode() if isinstance(body, str) else body
    web_request = Asked(url, data=data, headers=dict(headers or {}), method=method)
    way = ProxyHandler(proxies(environ) if proxy_for(url, environ) is not None else {})
    try:
        with build_opener(way).open(web_request, timeout=_WEB_SECONDS) as reply:
            return TokenResponse(reply.status, reply.headers, reply.read())
    except HTTPError as error:
        with error:
            return TokenResponse(error.code, error.headers, error.read())
    except OSError as error:
        raise failed(str(error)) from error
