"""What a connection needs of a transport, and the failures of transports."""

import asyncio
from collections.abc import Mapping
from typing import Any, Protocol

from ludolf.base.jsonrpc import OutgoingCall, RpcFrame
from ludolf.mcp.wire import McpError


class SessionLost(McpError):
    """The server has forgotten our session and has not handled the request."""


class HttpFailure(McpError):
    """The server answered with an HTTP status that means failure."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class AnswerCut(McpError):
    """The stream that should bring the answer ended before it; the server may have acted."""


class LinkOwner(Protocol):
    """Takes what arrives on the link to a server."""

    def received(self, frame: RpcFrame) -> None: ...

    def lost(self, reason: str) -> None:
        """Called once if the server ends or cannot be used further, unless we closed the link."""


class Link(Protocol):
    """Transport to one server."""

    # Done when something has arrived from the server.
    heard: "asyncio.Future[None]"
    session: str | None

    @property
    def pid(self) -> int | None: ...
    @property
    def stderr(self) -> str: ...

    async def start(self) -> None:
        """Begin; raises McpError if the server cannot be started."""

    async def exchange(self, call: OutgoingCall, headers: Mapping[str, str]) -> Any:
        """Send a request and return the result; raises RpcFault and McpError."""

    def send(self, frame: bytes) -> None:
        """Send a notification or an answer without waiting."""

    async def handshake_done(self, version: str) -> None:
        """Take the version of a legacy server, after all messages so far were delivered."""

    async def close(self) -> None: ...
