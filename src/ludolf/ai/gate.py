"""Interface to a gate that requests to model servers pass, so that many agents share one limit."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from ludolf.ai.access import AUTH_HEADERS
from ludolf.base import Value

if TYPE_CHECKING:
    from ludolf.ai.provider import Request

# Statuses of a server that has too many requests; a gate closes for all of them.
REFUSALS = frozenset((429, 529))


class GateReport(Value):
    """What the head of an answer says about the limits of the server.

    retry_after: Seconds that the server asks to wait.
    remaining: Requests or tokens that are left; the smallest number if there are several.
    reset: Seconds until they are available again.
    """

    status: int
    retry_after: float | None = None
    remaining: int | None = None
    reset: float | None = None

    @property
    def refused(self) -> bool:
        """Whether the server had too many requests."""
        return self.status in REFUSALS


class RequestGate(Protocol):
    """Decides when a request may be sent. All calls come from one event loop.

    A lane is a provider, its address and a digest of the credentials: requests of one lane share
    the limits of the server.
    """

    async def enter(self, lane: str) -> int:
        """Wait until a request of the lane may be sent; return its ticket.

        If the call is cancelled, the request counts as not sent and no ticket is held.
        """
        ...

    def report(self, ticket: int, report: GateReport) -> None:
        """Called once when the server starts to answer; not if it could not be reached."""
        ...

    def leave(self, ticket: int) -> None:
        """Called when the request has ended, however it ended."""
        ...


def lane_of(request: "Request") -> str:
    """Return the lane of a request: provider, host, and a digest of address and credentials."""
    from hashlib import sha256  # slow to load, and most sessions have no gate

    access = request.access
    url = access.base_url or request.model.base_url
    secrets = [url, access.key or "", *_pairs(access.environment)]
    secrets += _pairs({k: v for k, v in access.headers.items() if k.lower() in AUTH_HEADERS})
    digest = sha256("\0".join(secrets).encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{request.model.provider} {_host(url)} {digest}"


def _pairs(values: Mapping[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in sorted(values.items())]


def _host(url: str) -> str:
    """Return host and port; user name, path and query of an address may contain secrets."""
    return url.partition("://")[2].partition("/")[0].rpartition("@")[2].partition("?")[0]
