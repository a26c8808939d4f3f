"""Shared by the parts of the MCP client: addresses of servers, errors, what servers may ask."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec

from ludolf.base import LudolfError

# `legacy`: revisions up to 2025-11-25, with a handshake. `modern`: 2026-07-28, without one.
Era = Literal["legacy", "modern"]
LEGACY_VERSION = "2025-11-25"
MODERN_VERSION = "2026-07-28"
METHOD_NOT_FOUND = -32601
Json = Mapping[str, Any]


class McpError(LudolfError):
    """A server cannot be used, or a request to it failed. The text names the reason."""


class Refusal(McpError):
    """The server answered a request with an error, or we refuse a request of the server."""

    def __init__(self, code: int, text: str, data: Any = None) -> None:
        super().__init__(text)
        self.code = code
        self.data = data


class LoginNeeded(McpError):
    """The server requires a login. `challenge` is its WWW-Authenticate header."""

    def __init__(self, text: str, challenge: str = "") -> None:
        super().__init__(text)
        self.challenge = challenge


class StdioServer(msgspec.Struct, frozen=True, kw_only=True):
    """A server that is started as a process; `env` is its whole environment."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: Path


class HttpServer(msgspec.Struct, frozen=True, kw_only=True):
    """A server at an address; `environ` names the proxies on the way."""

    url: str
    headers: Mapping[str, str]
    environ: Mapping[str, str]


class Tokens(Protocol):
    """Where a connection over HTTP gets its access token."""

    async def current(self) -> str | None:
        """Return the access token, renewed if it ends soon; None without a login."""

    async def refused(self, token: str | None, challenge: str) -> bool:
        """Return whether a request that the server refused is worth another attempt.

        Called after a 401, and after a 403 with `insufficient_scope`; `token` was sent.
        """

    async def close(self) -> None:
        """Wait until nothing is being renewed."""


class Client(Protocol):
    """What a server may ask and report; one object serves all requests of a connection."""

    def capabilities(self) -> Json:
        """Return the capabilities to declare, such as `{"roots": {}}`."""

    async def answer(self, method: str, params: Json) -> Json:
        """Return the result of a request of the server.

        Raises:
            Refusal: the request is unknown or refused.
        """

    def notice(self, method: str, params: Json) -> None:
        """Take a notification, such as `notifications/tools/list_changed`."""


class ServerFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a server said of itself when it was connected."""

    era: Era
    version: str
    name: str = ""
    server_version: str = ""
    instructions: str = ""
    capabilities: Json = {}
