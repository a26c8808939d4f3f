"""Answer the requests that a server sends to its client."""

import asyncio
from typing import Any

from ludolf.agent.scope import Tasks
from ludolf.base import LudolfError
from ludolf.base.jsonrpc import RequestId, RpcPeer
from ludolf.mcp.call_clocks import CallClocks
from ludolf.mcp.wire import Client, Json, McpError, Refusal

# Requests of a server that are answered at the same time, and inputs that one result asks for.
MAX_QUESTIONS = 32
_INVALID_PARAMS, _INTERNAL_ERROR, _BUSY = -32602, -32603, -32000


class PendingQuestions:
    """Requests of a legacy server that wait for an answer of the client."""

    def __init__(self, client: Client, clocks: CallClocks) -> None:
        self._client = client
        self._clocks = clocks
        self._tasks = Tasks()
        self._open: dict[RequestId, asyncio.Task[Any]] = {}

    def take(self, peer: RpcPeer, number: RequestId, method: str, params: Any) -> None:
        """Answer a request, in a task if the client has to."""
        if method == "ping":
            peer.respond(number, {})
        elif params is not None and not isinstance(params, dict):
            peer.refuse(number, _INVALID_PARAMS, "`params` must be an object")
        elif len(self._open) >= MAX_QUESTIONS or number in self._open:
            peer.refuse(number, _BUSY, "Too many requests at the same time")
        else:
            self._open[number] = self._tasks.start(self._answer(peer, number, method, params or {}))

    def cancel(self, number: Any) -> None:
        """Stop to answer a request that the server has cancelled."""
        task = self._open.get(number) if isinstance(number, int | str) else None
        if task is not None:
            task.cancel()

    async def close(self) -> None:
        await self._tasks.close()

    async def _answer(self, peer: RpcPeer, number: RequestId, method: str, params: Json) -> None:
        self._clocks.pause()
        try:
            result = await self._client.answer(method, params)
        except Refusal as error:
            peer.refuse(number, error.code, str(error), error.data)
        except LudolfError as error:
            peer.refuse(number, _INTERNAL_ERROR, str(error))
        else:
            peer.respond(number, result)
        finally:
            self._open.pop(number, None)
            if not self._open:
                self._clocks.restart()


async def gather_inputs(client: Client, result: Json) -> Json:
    """Return the parameters that a modern server wants with the next attempt of a call.

    Raises:
        McpError: the result cannot be understood.
        Refusal: the client refuses to answer.
    """
    requests = result.get("inputRequests")
    asked = requests if isinstance(requests, dict) else {}
    if len(asked) > MAX_QUESTIONS:
        raise McpError(f"The server asked for more than {MAX_QUESTIONS} inputs at once")
    answers: dict[str, Any] = {}
    for key, request in asked.items():
        method = request.get("method") if isinstance(request, dict) else None
        params = request.get("params") if isinstance(request, dict) else None
        if not isinstance(method, str) or not isinstance(params, dict | None):
            raise McpError("The server asked for input by a request that is not valid")
        answers[key] = await client.answer(method, params or {})
    extra: dict[str, Any] = {"inputResponses": answers} if answers else {}
    if "requestState" in result:
        extra["requestState"] = result["requestState"]
    return extra
