"""A scripted HTTP server on loopback: replies as told, in order, and records what it was asked."""

import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

import msgspec

EVENT_STREAM = {"content-type": "text/event-stream"}
JSON_BODY = {"content-type": "application/json"}


class Canned(msgspec.Struct, frozen=True):
    """One reply. `cut` breaks the connection after the chunks; `hold` waits for the event first."""

    status: int = 200
    headers: Mapping[str, str] = msgspec.field(default_factory=EVENT_STREAM.copy)
    chunks: Sequence[bytes] = ()
    cut: bool = False
    hold: threading.Event | None = None


class Asked(msgspec.Struct, frozen=True):
    """One request; header names are in lower case."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)


class Loopback:
    """Serves while the `with` block lasts; the last reply is repeated when the list is used up."""

    def __init__(self, *replies: Canned) -> None:
        self.requests: list[Asked] = []
        self.connections = 0
        self._replies = list(replies)
        self._server = _Server(("127.0.0.1", 0), _handler_for(self))
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.01,), daemon=True
        )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(30)

    def next_reply(self, asked: Asked) -> Canned:
        self.requests.append(asked)
        return self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]


@contextmanager
def nobody() -> Iterator[str]:
    """An address where nobody listens, and where no other test can begin to meanwhile."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that leaves early is normal here."""


def _handler_for(loopback: Loopback) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def setup(self) -> None:
            super().setup()
            loopback.connections += 1

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            reply = loopback.next_reply(Asked(self.path, headers, body))
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            self._send_chunks(reply)

        def do_GET(self) -> None:
            self.do_POST()

        def _send_chunks(self, reply: Canned) -> None:
            for chunk in reply.chunks:
                self.wfile.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
                self.wfile.flush()
            if reply.hold is not None:
                reply.hold.wait(60)
            if reply.cut:
                self.close_connection = True
                return
            self.wfile.write(b"0\r\n\r\n")

        def log_message(self, format: str, *args: object) -> None:
            return

    return Handler
