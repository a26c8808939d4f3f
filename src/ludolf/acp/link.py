"""What all sessions of a client share: the connection, and how the client is asked."""

import asyncio
from typing import Any

import msgspec

from ludolf.base.jsonrpc import RpcPeer, request_frame
from ludolf.protocol.acp.structs import ClientCapabilities
from ludolf.rpc.stdio import Stdio


class ClientLink(msgspec.Struct, frozen=True):
    """The client of a connection: what it offers, and the way to it.

    `asked_folders` are those whose trust the user was asked about.
    """

    client: ClientCapabilities
    peer: RpcPeer
    stdio: Stdio
    asked_folders: set[str]

    async def ask(self, method: str, params: Any, seconds: float | None = None) -> Any:
        """Send a request and return the result. One that is given up is withdrawn at the client.

        Raises:
            RpcFault: the client answered with an error.
            TimeoutError: it did not answer within `seconds`.
            LudolfError: the connection is closed.
        """
        call = self.peer.open(method, params)
        self.stdio.send(call.frame + b"\n")
        try:
            async with asyncio.timeout(seconds):
                return await call.answer
        except (asyncio.CancelledError, TimeoutError):
            self.peer.notify("$/cancel_request", {"requestId": call.id})
            raise
        finally:
            self.peer.drop(call)

    def post(self, method: str, params: Any) -> None:
        """Send a request whose answer does not matter; also to a client that is leaving."""
        self.stdio.send(request_frame(self.peer.next_id(), method, params) + b"\n")
