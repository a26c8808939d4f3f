"""JSON-RPC 2.0 between two peers, independent of the transport."""

import asyncio
from collections.abc import Callable
from typing import Any, Protocol, cast

import msgspec

from ludolf.base import LudolfError, dumps, is_nested_deeper, loads

# Characters kept of an error message, and of the first message that was invalid.
_MOST_TEXT, _MOST_SHOWN = 10_000, 200
INVALID_REQUEST = -32600
RequestId = int | str
# One message; a large one arrives in a buffer, which is not copied.
RpcFrame = bytes | bytearray


class RpcFault(LudolfError):
    """The other side answered a request with an error."""

    def __init__(self, code: int, text: str, data: Any = None) -> None:
        super().__init__(text)
        self.code = code
        self.data = data


class RpcHandler(Protocol):
    """Receives the requests and notifications of the other side; must not raise."""

    def requested(self, number: RequestId, method: str, params: Any) -> None:
        """Take a request; answer it by `RpcPeer.respond` or `RpcPeer.refuse`."""

    def notified(self, method: str, params: Any) -> None: ...


class Envelope(msgspec.Struct):
    """One message: a request, a notification or an answer."""

    id: RequestId | None = None
    method: str | None = None
    params: Any = None
    result: Any = msgspec.UNSET
    error: Any = None


class _Answered(msgspec.Struct):
    id: RequestId


_decoder = msgspec.json.Decoder(Envelope)
_id_decoder = msgspec.json.Decoder(_Answered)


class OutgoingCall:
    """A request that waits for its answer. `frame` is the message, without a line break."""

    __slots__ = ("answer", "answer_bytes", "frame", "id", "method")

    def __init__(self, number: int, method: str, frame: bytes) -> None:
        self.id = number
        self.method = method
        self.frame = frame
        self.answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        # Size of the message that answered it.
        self.answer_bytes = 0


def request_frame(number: RequestId, method: str, params: Any = None) -> bytes:
    body = {"jsonrpc": "2.0", "id": number, "method": method}
    return dumps(body if params is None else {**body, "params": params})


def notification_frame(method: str, params: Any = None) -> bytes:
    body = {"jsonrpc": "2.0", "method": method}
    return dumps(body if params is None else {**body, "params": params})


class RpcPeer:
    """Our end of a connection: numbers requests, and matches answers to them.

    `send` takes one message. Invalid messages of the other side are counted and ignored.
    """

    def __init__(self, send: Callable[[bytes], None], handler: RpcHandler) -> None:
        self._send = send
        self._handler = handler
        self._calls: dict[RequestId, OutgoingCall] = {}
        self._last = 0
        self._closed: LudolfError | None = None
        self.invalid_count = 0
        self.first_invalid = ""

    # ------------------------------------------------------------ our messages

    def next_id(self) -> int:
        self._last += 1
        return self._last

    def open(self, method: str, params: Any = None, number: int | None = None) -> OutgoingCall:
        """Register a request that the caller sends; the caller must also `drop` it.

        Raises:
            LudolfError: the error with which the connection was closed.
        """
        if self._closed is not None:
            raise self._closed.with_traceback(None)
        number = self.next_id() if number is None else number
        call = OutgoingCall(number, method, request_frame(number, method, params))
        self._calls[number] = call
        return call

    def drop(self, call: OutgoingCall) -> None:
        """Forget a request; an answer that arrives later is ignored."""
        self._calls.pop(call.id, None)
        if not call.answer.cancel() and not call.answer.cancelled():
            call.answer.exception()  # its caller may have been cancelled, and not have seen it

    async def call(self, method: str, params: Any = None) -> Any:
        """Send a request and return the result.

        Raises:
            RpcFault: the other side answered with an error.
            LudolfError: the error with which the connection was closed.
        """
        call = self.open(method, params)
        try:
            self._send(call.frame)
            return await call.answer
        finally:
            self.drop(call)

    def notify(self, method: str, params: Any = None) -> None:
        self._send(notification_frame(method, params))

    def respond(self, number: RequestId, result: Any) -> None:
        self._send(dumps({"jsonrpc": "2.0", "id": number, "result": result}))

    def refuse(self, number: RequestId, code: int, text: str, data: Any = None) -> None:
        error = {"code": code, "message": text}
        if data is not None:
            error["data"] = data
        self._send(dumps({"jsonrpc": "2.0", "id": number, "error": error}))

    def close(self, error: LudolfError) -> None:
        """Fail all waiting and later calls with this error."""
        if self._closed is None:
            self._closed = error
        for call in tuple(self._calls.values()):
            if not call.answer.done():
                call.answer.set_exception(error)

    # ------------------------------------------------------------ their messages

    def receive(self, line: RpcFrame) -> None:
        """Handle one message of the other side."""
        if is_nested_deeper(cast(bytes, line)):
            self._refuse_nested(line)
            return
        message = parse_envelope(line)
        if message is None:
            self._count(line)
        elif message.method is not None:
            if message.id is None:
                self._handler.notified(message.method, message.params)
            else:
                self._handler.requested(message.id, message.method, message.params)
        elif message.id is None or (
            message.result is msgspec.UNSET and not isinstance(message.error, dict)
        ):
            self._count(line)
        else:
            self._answered(message, message.id, line)

    def _answered(self, message: Envelope, number: RequestId, line: RpcFrame) -> None:
        call = self._calls.get(number)
        if call is None or call.answer.done():
            # An answer after its caller has left is normal; one to an unknown id is not.
            if not isinstance(number, int) or not 0 < number <= self._last:
                self._count(line)
            return
        call.answer_bytes = len(line)
        if isinstance(message.error, dict):
            call.answer.set_exception(fault_from(message.error))
        else:
            call.answer.set_result(message.result)

    def _refuse_nested(self, line: RpcFrame) -> None:
        """Fail the call that a message nested too deeply for us answers."""
        try:
            call = self._calls.get(_id_decoder.decode(line).id)
        except (ValueError, RecursionError):
            call = None
        if call is None or call.answer.done():
            self._count(line)
        else:
            call.answer.set_exception(RpcFault(INVALID_REQUEST, "The answer is nested too deeply"))

    def _count(self, line: RpcFrame) -> None:
        if not line.strip():
            return
        if not self.invalid_count:
            self.first_invalid = bytes(line[:_MOST_SHOWN]).decode("utf-8", "replace").strip()
        self.invalid_count += 1


def parse_envelope(line: RpcFrame) -> Envelope | None:
    """Return the message, or None if the bytes are not a JSON-RPC message."""
    try:
        return _decoder.decode(line)
    except (ValueError, RecursionError):
        pass
    try:  # accepts invalid UTF-8 and lone surrogates
        return msgspec.convert(loads(line), Envelope)
    except (ValueError, RecursionError):
        return None


def fault_from(error: dict[str, Any]) -> RpcFault:
    """Return the error of an answer; missing and wrong members are replaced."""
    code, text = error.get("code"), error.get("message")
    if not isinstance(text, str) or not text:
        text = dumps(error).decode("utf-8", "replace")
    number = code if isinstance(code, int) else 0
    return RpcFault(number, text[:_MOST_TEXT], error.get("data"))
