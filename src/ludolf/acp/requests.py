"""Requests of the client while they run, and the errors that answer them."""

import asyncio
from collections.abc import Callable
from typing import Any

from ludolf.agent.scope import Scope
from ludolf.base import CommandError, LudolfError
from ludolf.base.jsonrpc import INVALID_REQUEST, RequestId
from ludolf.protocol.acp.structs import (
    AUTH_REQUIRED,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    NOT_FOUND,
    InvalidParams,
    MethodParams,
    MethodUnknown,
    decode_params,
)

NOT_INITIALIZED = "The connection is not initialized: send `initialize` first."
_ABOUT_KEYS = ("no_key", "no_model")


class RequestFault(LudolfError):
    """A request is answered with this error."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


def no_session(session_id: str) -> RequestFault:
    """Return the error for a session that does not exist or is not open."""
    return RequestFault(NOT_FOUND, f"No such session: {session_id[:100]}. Open it first.")


def not_initialized() -> RequestFault:
    return RequestFault(INVALID_REQUEST, NOT_INITIALIZED)


def code_of(error: LudolfError) -> int:
    """Return the code of JSON-RPC for an error."""
    match error:
        case RequestFault():
            return error.code
        case InvalidParams():
            return INVALID_PARAMS
        case MethodUnknown():
            return METHOD_NOT_FOUND
        case CommandError() if error.code in _ABOUT_KEYS:
            return AUTH_REQUIRED
    return INTERNAL_ERROR


class IncomingRequest:
    """One request until it is answered.

    Requests about the same session begin in the order of their arrival: a handler that has done
    what later ones depend on calls `begin`, and may then take its time. `after` is called when the
    answer has been sent. `on_cancel` replaces the usual effect of a cancellation.
    """

    def __init__(self, number: RequestId, method: str, raw: Any) -> None:
        self.id = number
        self.method = method
        self._raw = raw
        self.scope = Scope()
        self.cancelled = False
        self.on_cancel: Callable[[], None] | None = None
        self.after: Callable[[], None] | None = None
        self.begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def session_id(self) -> str | None:
        """The session that the request is about; None for none, and for one that is not a text."""
        found = self._raw.get("sessionId") if isinstance(self._raw, dict) else None
        return found if isinstance(found, str) else None

    def params(self) -> MethodParams:
        """Raises:
        InvalidParams: a field is missing or wrong.
        """
        return decode_params(self.method, self._raw)

    def begin(self) -> None:
        """Let the next request about the same session begin."""
        if not self.begun.done():
            self.begun.set_result(None)

    def cancel(self) -> None:
        """Stop the request; a prompt ends with the reason `cancelled`, others with an error."""
        self.cancelled = True
        if self.on_cancel is not None:
            self.on_cancel()
        elif self.method != "session/prompt":
            self.scope.abort()
