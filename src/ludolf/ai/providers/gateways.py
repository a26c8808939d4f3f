"""Requirements of gateways: ids in their address, headers that identify the caller."""

import re
from collections.abc import Mapping
from typing import Literal

from ludolf.ai.access import AUTH_HEADERS
from ludolf.ai.errors import ProviderError
from ludolf.ai.messages import AssistantMessage, Image, ToolResultMessage
from ludolf.ai.provider import Request
from ludolf.base.patterns import lazy_pattern

KeyHeader = Literal["Authorization", "x-api-key", "x-goog-api-key"]
_PLACE = lazy_pattern(r"\{([A-Z][A-Z0-9_]*)\}")


def variable(request: Request, name: str) -> str:
    """Return an environment variable as seen by this request; "" if it is not set."""
    return request.access.environment.get(name) or request.environ.get(name, "")


def base_url(request: Request) -> str:
    """Return the base URL of the model's server, with `{NAME}` filled from the environment.

    Raises:
        ProviderError: a variable that the address needs is not set.
    """
    address = request.access.base_url or request.model.base_url

    def fill(place: re.Match[str]) -> str:
        from urllib.parse import quote

        value = variable(request, place[1])
        if not value:
            raise ProviderError(
                f"The address of {request.model.provider} needs {place[1]}: set this variable",
                kind="auth",
            )
        return quote(value, safe="")

    return _PLACE.sub(fill, address).rstrip("/")


def user_agent() -> str:
    from ludolf import __version__

    return f"ludolf/{__version__}"


def key_headers(request: Request, usual: KeyHeader) -> dict[str, str]:
    """Return the header with the key for this server; `usual` is the header of the API."""
    key = request.access.key
    if not key:
        return {}
    if request.model.provider == "cloudflare-ai-gateway":
        # The gateway would forward the API's own header to the upstream provider.
        return {"cf-aig-authorization": f"Bearer {key}"}
    if usual == "Authorization" or _is_copilot(request):
        return {"Authorization": f"Bearer {key}"}
    return {usual: key}


def admission_headers(
    request: Request, usual: KeyHeader, admission: Mapping[str, str] | None
) -> Mapping[str, str]:
    """Return the headers that authenticate a request; `admission` replaces its key.

    Raises:
        ProviderError: there is neither a key nor a configured header that replaces it.
    """
    headers = key_headers(request, usual) if admission is None else admission
    if not headers and not request.access.by_header:
        raise no_key(request)
    return headers


def no_key(request: Request) -> ProviderError:
    """Return the error of a request without any credentials."""
    return ProviderError(f"No API key for provider: {request.model.provider}", kind="auth")


def all_headers(request: Request, ours: Mapping[str, str]) -> dict[str, str]:
    """Return all headers of a request for an event stream, in lower case; configured ones win.

    Raises:
        ProviderError: none of them authenticates the request.
    """
    usual = {
        "content-type": "application/json",
        "accept": "text/event-stream",
        "user-agent": user_agent(),
    }
    all_headers = request.access.over({**usual, **ours})
    headers = {name.lower(): value for name, value in all_headers.items()}
    if not headers.keys() & AUTH_HEADERS:
        raise no_key(request)
    return headers


def server_headers(request: Request) -> dict[str, str]:
    """Return the headers that only this server needs; most need none."""
    if _is_copilot(request):
        return _copilot_headers(request)
    if request.session_id and _is_at(request, "opencode", "opencode.ai"):
        return {"x-opencode-session": request.session_id, "x-opencode-client": "ludolf"}
    return {}


def _is_at(request: Request, provider: str, host: str) -> bool:
    return request.model.provider.startswith(provider) or host in request.model.base_url


def _is_copilot(request: Request) -> bool:
    return _is_at(request, "github-copilot", "githubcopilot.com")


def _copilot_headers(request: Request) -> dict[str, str]:
    """Return Copilot's headers: it bills requests that a user starts, not those of an agent."""
    last = request.messages[-1] if request.messages else None
    is_continuation = isinstance(last, AssistantMessage | ToolResultMessage)
    headers = {
        "X-Initiator": "agent" if is_continuation else "user",
        "Openai-Intent": "conversation-edits",
    }
    if request.model.takes_images and _has_images(request):
        headers["Copilot-Vision-Request"] = "true"
    return headers


def _has_images(request: Request) -> bool:
    return any(
        isinstance(part, Image)
        for message in request.messages
        for part in getattr(message, "content", ())
    )
