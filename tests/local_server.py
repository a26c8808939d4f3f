"""A stand-in on loopback for the model servers that people run at home: fixed JSON, and a chat."""

import socket
import threading
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

import msgspec

from ludolf.base import dumps, loads

Chunk = dict[str, Any]
_TAKEN: list[socket.socket] = []


class Asked(msgspec.Struct, frozen=True):
    """One request; header names are in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any


class LocalServer:
    """Serves while the `with` block lasts. `shows` answers `/api/show`; `chats` the chats in turn.

    With a key, whoever does not send it gets 401.
    """

    def __init__(
        self,
        pages: Mapping[str, Any],
        *,
        shows: Mapping[str, Any] | None = None,
        chats: Sequence[Sequence[Chunk]] = (),
        key: str | None = None,
        port: int = 0,
    ) -> None:
        self.pages = dict(pages)
        self.shows = dict(shows or {})
        self.chats = list(chats)
        self.key = key
        self.requests: list[Asked] = []
        self._server = _Server(("127.0.0.1", port), _handler_for(self))
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.01,), daemon=True
        )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def asked(self, path: str) -> list[Asked]:
        return [request for request in self.requests if request.path == path]

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


def free_port() -> int:
    """A port on which nobody listens, and no other test will: it stays taken."""
    taken = socket.socket()
    _TAKEN.append(taken)
    taken.bind(("127.0.0.1", 0))
    port: int = taken.getsockname()[1]
    return port


class Silent:
    """A port that lets everybody in and says nothing."""

    def __enter__(self) -> Self:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        return self

    def __exit__(self, *rest: object) -> None:
        self._socket.close()


def says(text: str) -> list[Chunk]:
    """The chunks of an answer in words."""
    return [
        {"choices": [{"index": 0, "delta": {"role": "assistant", "content": text}}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
        {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 3}},
    ]


def ollama(*names: str, running: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """The pages of an Ollama with these models."""
    models = [{"name": name, "model": name, "digest": "1f", "details": {}} for name in names]
    return {"/api/tags": {"models": models}, "/api/ps": {"models": list(running)}}


def shown(*capabilities: str, trained: int = 32_768, parameters: str = "") -> dict[str, Any]:
    """What Ollama says of a model that can do this."""
    return {
        "capabilities": ["completion", *capabilities],
        "parameters": parameters,
        "template": "",
        "model_info": {"general.architecture": "qwen3", "qwen3.context_length": trained},
    }


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128  # a connection that finds no place comes again a second later

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that leaves early is normal here."""


def _handler_for(server: LocalServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer(None)

        def do_POST(self) -> None:
            self._answer(loads(self.rfile.read(int(self.headers.get("content-length") or 0))))

        def _answer(self, body: Any) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            server.requests.append(Asked(self.command, self.path, headers, body))
            if server.key and headers.get("authorization") != f"Bearer {server.key}":
                self._json({"error": {"message": "Invalid API Key", "code": 401}}, 401)
            elif self.path == "/v1/chat/completions":
                self._chat(body)
            elif self.path == "/api/show":
                self._json(server.shows.get(body["model"], {"capabilities": ["completion"]}))
            elif self.path in server.pages:
                page = server.pages[self.path]
                self._json(page(body) if callable(page) else page)
            else:
                self._json({"error": "not found"}, 404)

        def _chat(self, body: Any) -> None:
            if not server.chats:
                text = f"model '{body['model']}' not found"
                self._json({"error": {"message": text, "type": "not_found_error"}}, 404)
                return
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("connection", "close")
            self.end_headers()
            for chunk in server.chats.pop(0):
                self.wfile.write(b"data: " + dumps(chunk) + b"\n\n")
            self.wfile.write(b"data: [DONE]\n\n")
            self.close_connection = True

        def _json(self, value: Any, status: int = 200) -> None:
            data = dumps(value)
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            return

    return Handler
