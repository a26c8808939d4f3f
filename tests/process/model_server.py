"""A model server on loopback that answers from a script, in each provider's real stream format."""

import socket
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

import msgspec

from tests.process.script import Act, Answer, Block, Cut, Failure, Gate, Raw, Reply, Reset
from tests.process.wire import Format, format_for, play

USED_UP = Failure(status=400, body=b'{"error":{"message":"the script of the test is used up"}}')
_BULK_BYTES = 64 * 1024


class Asked(msgspec.Struct, frozen=True):
    """One request of the program; `at` is when it had arrived."""

    path: str
    headers: dict[str, str]
    body: Any
    at: float = msgspec.field(default_factory=time.monotonic)


class ModelServer:
    """Serves while the `with` block lasts; each request takes the next reply of the script."""

    def __init__(self) -> None:
        self.requests: list[Asked] = []
        self._replies: list[Reply] = []
        self._gates: list[Gate] = []
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), _handler_for(self))
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.01,), daemon=True
        )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def add(self, *replies: Reply) -> None:
        """Append to the script."""
        self._replies += replies
        self._gates += [gate for reply in replies for gate in _gates(reply)]

    def take(self, asked: Asked) -> Reply:
        with self._lock:
            self.requests.append(asked)
            return self._replies.pop(0) if self._replies else USED_UP

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for gate in self._gates:
            gate.open()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(30)


class TwoScripts(ModelServer):
    """One script for the parent, one for all agents: who asks is told by the tools."""

    def __init__(self) -> None:
        super().__init__()
        self.of_agents: list[Reply] = []

    def take(self, asked: Asked) -> Reply:
        names = [tool["name"] for tool in asked.body.get("tools", ())]
        if "yield" not in names or not self.of_agents:
            return super().take(asked)
        self.requests.append(asked)
        return self.of_agents.pop(0)


def _gates(reply: Reply) -> list[Gate]:
    found: list[Gate] = []
    for block in reply.blocks if isinstance(reply, Answer) else ():
        acts = block.pieces if isinstance(block, Block) else (block,)
        found += [act for act in acts if isinstance(act, Gate)]
    return found


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128  # a connection that finds no place comes again a second later

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that leaves early is what many tests are about."""


def _handler_for(server: ModelServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def setup(self) -> None:
            super().setup()
            self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            reply = server.take(Asked(self.path, headers, msgspec.json.decode(body)))
            form = format_for(self.path)
            if isinstance(reply, Failure) or form is None:
                self._fail(reply if isinstance(reply, Failure) else Failure(status=404))
                return
            with suppress(ConnectionError):
                self._stream(reply, form)

        def _fail(self, failure: Failure) -> None:
            self.send_response(failure.status)
            for name, value in failure.headers.items():
                self.send_header(name, value)
            self.send_header("content-type", failure.kind)
            self.send_header("content-length", str(len(failure.body)))
            self.end_headers()
            self.wfile.write(failure.body)

        def _stream(self, answer: Answer, form: Format) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            pending = b""
            for item in play(answer, form):
                if isinstance(item, bytes):
                    pending += item
                    if answer.bulk and len(pending) < _BULK_BYTES:
                        continue
                self._chunk(pending)
                pending = b""
                if not isinstance(item, bytes) and not self._act(item):
                    return
            self._chunk(pending)
            self.wfile.write(b"0\r\n\r\n")

        def _chunk(self, data: bytes) -> None:
            if data:
                self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))

        def _act(self, act: Act) -> bool:
            """Do it; False if the connection is over."""
            match act:
                case Gate():
                    act.pass_through()
                case Raw(data=data):
                    self._chunk(data)
                case Reset():
                    act.do(self.connection)
                case Cut():
                    pass
            self.close_connection = isinstance(act, Cut | Reset)
            return not self.close_connection

        def log_message(self, format: str, *args: object) -> None:
            return

    return Handler
