"""One response as it arrives: head, then body in bounded memory.

llhttp, through httptools, checks the syntax of everything that a server sends.
"""

import asyncio
from collections.abc import Mapping
from typing import Protocol

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from ludolf.ai.errors import ProviderError
from ludolf.ai.http.headers import ResponseHeaders

# Bytes of a head, of trailers, or of anything else that is not a body.
MAX_HEAD_BYTES = 64 << 10
# Unread bytes of a body at which reading from the network pauses.
MAX_UNREAD_BYTES = 128 << 10
# Provisional responses (1xx) before the real one.
MAX_PROVISIONAL = 32
_SILENCE = "Request timed out: Timeout on reading data from socket"
_WITHOUT_BODY = (204, 304)


class Wire(Protocol):
    """The connection of a response, as far as the response needs it."""

    def pause(self) -> None: ...
    def resume(self) -> None: ...
    def abort(self) -> None: ...


class IncomingResponse:
    """A response to one request; the connection feeds it, one task reads it."""

    def __init__(self, wire: Wire, method: str) -> None:
        self._wire = wire
        self._loop = asyncio.get_running_loop()
        self._parser: HttpResponseParser | None = HttpResponseParser(self)
        # Many servers end lines with LF only, or write spaces after the size of a chunk.
        self._parser.set_dangerous_leniencies(
            lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True
        )
        self._method = method
        self._ends_with_connection = False
        self._pairs: list[tuple[bytes, bytes]] = []
        self._provisional = 0
        # Bytes since the last byte of a body.
        self._overhead = 0
        self._pieces: list[bytes] = []
        self._unread = 0
        self._is_paused = False
        self._waiter: asyncio.Future[None] | None = None
        self._error: ProviderError | None = None
        self._silence = 0.0
        self._silent_since = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self.status = 0
        self.reason = ""
        self.headers: Mapping[str, str] = {}
        self.has_head = False
        # Whether any byte has arrived.
        self.has_begun = False
        self.is_complete = False
        # Whether another request can be sent on the connection after this response.
        self.keeps_alive = False

    @property
    def content(self) -> "IncomingResponse":
        return self

    @property
    def connection(self) -> "IncomingResponse":
        """The object whose silence is limited; a recording passes it on."""
        return self

    # ------------------------------------------------------------ for the connection

    def feed(self, data: memoryview) -> None:
        """Take bytes from the network."""
        assert self._parser is not None
        self.has_begun = True
        self._overhead += len(data)
        try:
            self._parser.feed_data(data)
        except HttpParserError as error:
            self._refuse(str(error))
        except HttpParserUpgrade:
            self._refuse("it changes the protocol")
        if self._overhead > MAX_HEAD_BYTES and not self.is_complete:
            part = "its body" if self.has_head else "its head"
            self._refuse(f"{part} has more than {MAX_HEAD_BYTES >> 10} KiB without content")
        if self._waiter is not None and (self._pieces or self.is_complete):
            self._wake()
        if self._unread > MAX_UNREAD_BYTES and not self._is_paused and not self.is_complete:
            self._is_paused = True
            self._wire.pause()

    def cut(self, error: Exception | None) -> None:
        """Take the end of the connection."""
        if self.is_complete or self._error is not None:
            return
        if not self.has_head:
            reason = error or "Server disconnected"
            self._fail(ProviderError(f"Connection error: {reason}", kind="network"))
        elif self._ends_with_connection and error is None:
            self.is_complete = True
            self._wake()
        else:
            self._fail(ProviderError("terminated", kind="network"))

    def close(self) -> None:
        """Take and deliver nothing more."""
        self._parser = None  # refers to this object
        self._pieces.clear()
        if self._timer is not None:
            self._timer.cancel()

    # ------------------------------------------------------------ called by the parser

    def on_message_begin(self) -> None:
        if self.is_complete:
            self.keeps_alive = False  # a response that nothing asked for

    def on_status(self, reason: bytes) -> None:
        if not self.has_head:
            self.reason += reason.decode("latin-1")

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self.has_head:
            self._pairs.append((name, value))

    def on_headers_complete(self) -> None:
        assert self._parser is not None
        if self.has_head:
            return
        status = self._parser.get_status_code()
        if status < 200:
            self._skip_provisional()
            return
        encodings = [value for name, value in self._pairs if name.lower() == b"transfer-encoding"]
        if any(value.strip().lower() != b"chunked" for value in encodings):
            self._refuse("its transfer encoding is not supported")
            return
        self.status, self.has_head, self._overhead = status, True, 0
        self.headers = ResponseHeaders(self._pairs)
        self.keeps_alive = self._parser.should_keep_alive()
        self._find_end(has_chunks=bool(encodings))
        self._wake()

    def on_body(self, data: bytes) -> None:
        if self.is_complete:
            self.keeps_alive = False
            return
        self._overhead = 0
        self._pieces.append(data)
        self._unread += len(data)

    def on_message_complete(self) -> None:
        if self.has_head:
            self.is_complete = True

    # ------------------------------------------------------------ for the reader

    async def head(self) -> None:
        """Wait for status and headers.

        Raises:
            ProviderError: the connection broke, or the server does not speak HTTP.
        """
        while not self.has_head:
            await self._change()

    async def readany(self) -> bytes:
        """Return the bytes that have arrived, at least one; b"" at the end.

        Raises:
            ProviderError: the connection broke, or the server sent nothing for too long.
        """
        pieces = self._pieces
        while not pieces:
            if self.is_complete:
                return b""
            await self._change()
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        self._unread = 0
        if self._is_paused:
            self._is_paused = False
            self._wire.resume()
        return data

    async def read(self, n: int = -1) -> bytes:
        """Return at most `n` bytes that have arrived; b"" at the end."""
        data = await self.readany()
        if 0 <= n < len(data):
            self._pieces.append(data[n:])
            self._unread = len(data) - n
            return data[:n]
        return data

    def at_eof(self) -> bool:
        return self.is_complete and not self._pieces

    def limit_silence(self, seconds: float) -> None:
        """Limit the time that the reader waits for more of the body; 0 is no limit."""
        self._silence = seconds
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # ------------------------------------------------------------ private

    def _skip_provisional(self) -> None:
        self._provisional += 1
        self._pairs, self.reason = [], ""
        if self._provisional > MAX_PROVISIONAL:
            self._refuse(f"more than {MAX_PROVISIONAL} provisional responses")

    def _find_end(self, *, has_chunks: bool) -> None:
        """Find out where the body ends; the parser does that for lengths and chunks."""
        if self._method == "CONNECT" and self.status < 300:
            self.is_complete = self.keeps_alive = True  # the tunnel begins here
        elif self._method == "HEAD":
            self.is_complete = True
            self.keeps_alive = False  # the parser still expects a body
        elif not has_chunks and "content-length" not in self.headers:
            self._ends_with_connection = self.status not in _WITHOUT_BODY

    def _refuse(self, reason: str) -> None:
        """End an exchange whose response violates the protocol."""
        if self.is_complete:
            self.keeps_alive = False
        elif self._error is None:
            text = "Connection error: the server sent an invalid HTTP response"
            terminated = ProviderError("terminated", kind="network")
            invalid = ProviderError(f"{text}: {reason}", kind="network")
            self._fail(terminated if self.has_head else invalid)
            self._wire.abort()

    def _fail(self, error: ProviderError) -> None:
        self._error = error
        self._wake()

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def _change(self) -> "asyncio.Future[None]":
        """Return a future of the next progress; raise the error that ended the exchange."""
        if self._error is not None:
            raise self._error
        loop = self._loop
        waiter = self._waiter = loop.create_future()
        # The timer runs over many reads; only the time of the last one is kept.
        self._silent_since = loop.time()
        if self._timer is None and self._silence:
            self._timer = loop.call_later(self._silence, self._check_silence)
        return waiter

    def _check_silence(self) -> None:
        self._timer = None
        if self._waiter is None or self._waiter.done():
            return  # a slow reader, or data that it has not seen yet
        left = self._silent_since + self._silence - self._loop.time()
        if left > 0:
            self._timer = self._loop.call_later(left, self._check_silence)
        else:
            self._fail(ProviderError(_SILENCE, kind="timeout"))
            self._wire.abort()
