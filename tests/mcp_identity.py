"""A protected MCP server and its authorization server, on loopback."""

import base64
import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.error import HTTPError
from urllib.parse import parse_qs, urlencode, urlsplit
from urllib.request import urlopen

import msgspec

Answer = tuple[int, dict[str, Any]]


class Request(msgspec.Struct, frozen=True):
    """One request to the server; names of headers are in lower case."""

    path: str
    headers: dict[str, str]
    fields: dict[str, Any]


class ProtectedServer:
    """Serves while the `with` block lasts; tokens are numbered: access-1-secret, …

    documents     what is published, by path; tests change or remove documents
    challenge     the fields of the WWW-Authenticate header; "" sends no header
    redirects     addresses of documents that moved, by path
    answers       if a path is in it, what a request for it is answered
    issuer_sent   the `iss` of redirects; None leaves it out
    life          seconds that an access token lives; None leaves them out of the answer
    hold          if set, waited for before tokens are given
    """

    def __init__(self, prefix: str = "/mcp", issuer_path: str = "") -> None:
        self.requests: list[Request] = []
        self.answers: dict[str, Answer] = {}
        self.redirects: dict[str, str] = {}
        self.life: int | None = 3600
        self.hold: threading.Event | None = None
        self.asked_for_token = threading.Event()
        self.clients: dict[str, dict[str, Any]] = {}
        self.valid: set[str] = set()
        self.extra_redirect: dict[str, str] = {}
        self._refresh: set[str] = set()
        self._codes: dict[str, dict[str, str]] = {}
        self._count = 0
        self._server = _Server(("127.0.0.1", 0), _handler_for(self))
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.01,), daemon=True
        )
        self.origin = f"http://127.0.0.1:{self._server.server_address[1]}"
        self.url = f"{self.origin}{prefix}"
        self.issuer = f"{self.origin}{issuer_path}"
        self.issuer_sent: str | None = self.issuer
        known = f"/.well-known/oauth-protected-resource{prefix}"
        self.challenge = f'Bearer resource_metadata="{self.origin}{known}", scope="read"'
        self.resource: dict[str, Any] = {
            "resource": self.url,
            "authorization_servers": [self.issuer],
            "scopes_supported": ["read", "list"],
        }
        self.metadata: dict[str, Any] = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.origin}/authorize",
            "token_endpoint": f"{self.origin}/token",
            "registration_endpoint": f"{self.origin}/register",
            "code_challenge_methods_supported": ["S256"],
        }
        self.documents: dict[str, Any] = {
            known: self.resource,
            f"/.well-known/oauth-authorization-server{issuer_path}": self.metadata,
        }

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.hold is not None:
            self.hold.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    def accept_refresh(self, token: str) -> None:
        """Take this refresh token once, as if it had been issued."""
        self._refresh.add(token)

    def asked(self, path: str) -> list[dict[str, Any]]:
        """The fields of all requests for a path."""
        return [request.fields for request in self.requests if request.path == path]

    def redirect(self, url: str) -> str:
        """Where a browser is sent after a login at this address."""
        fields = _first(urlsplit(url).query)
        self.requests.append(Request("/authorize", {}, dict(fields)))
        code = f"code-{len(self._codes) + 1}-secret"
        self._codes[code] = fields
        given = {"code": code, "state": fields["state"]}
        if self.issuer_sent is not None:
            given["iss"] = self.issuer_sent
        return f"{fields['redirect_uri']}?{urlencode({**given, **self.extra_redirect})}"

    def browse(self, url: str) -> int:
        """Log in as a browser does; returns the status of the last page."""
        try:
            with urlopen(self.redirect(url), timeout=5) as page:
                return int(page.status)
        except HTTPError as error:
            return error.code

    # ------------------------------------------------------------ what it answers

    def answer(self, request: Request) -> Answer:
        self.requests.append(request)
        if request.path in self.answers:
            return self.answers[request.path]
        if request.path in self.documents:
            return 200, self.documents[request.path]
        match request.path:
            case "/register":
                return self._register(request.fields)
            case "/token":
                return self._token(request.fields)
            case "/revoke":
                return 200, {}
            case _:
                return 404, {}

    def refuses(self, request: Request) -> bool:
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        return self.origin + request.path == self.url and token not in self.valid

    def _register(self, wish: dict[str, Any]) -> Answer:
        id = f"client-{len(self.clients) + 1}"
        self.clients[id] = wish
        return 201, {**wish, "client_id": id}

    def _token(self, fields: dict[str, Any]) -> Answer:
        self.asked_for_token.set()
        if self.hold is not None:
            self.hold.wait(60)
        if fields["grant_type"] == "refresh_token":
            if fields["refresh_token"] not in self._refresh:
                self._refresh.clear()  # it was used twice: the grant ends
                return 400, {"error": "invalid_grant"}
            self._refresh.discard(fields["refresh_token"])
            return 200, self._tokens()
        asked = self._codes.pop(fields["code"], {"code_challenge": ""})
        digest = hashlib.sha256(fields["code_verifier"].encode()).digest()
        proof = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if asked["code_challenge"] != proof or asked["redirect_uri"] != fields["redirect_uri"]:
            return 400, {"error": "invalid_grant"}
        return 200, self._tokens()

    def _tokens(self) -> dict[str, Any]:
        self._count += 1
        access, refresh = f"access-{self._count}-secret", f"refresh-{self._count}-secret"
        self.valid.add(access)
        self._refresh.add(refresh)
        life = {} if self.life is None else {"expires_in": self.life}
        return {"access_token": access, "token_type": "Bearer", "refresh_token": refresh, **life}


def _first(query: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(query).items()}


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that leaves early is normal here."""


def _handler_for(server: ProtectedServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = 1 << 16  # head and body in one packet

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0)).decode()
            is_json = "json" in self.headers.get("content-type", "")
            self._reply(json.loads(body) if is_json else _first(body))

        def do_GET(self) -> None:
            self._reply({})

        def _reply(self, fields: dict[str, Any]) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            request = Request(urlsplit(self.path).path, headers, fields)
            refused = server.refuses(request)
            status, answer = server.answer(request)
            body = json.dumps(answer).encode()
            moved = server.redirects.get(request.path)
            self.send_response(301 if moved else 401 if refused else status)
            if moved:
                self.send_header("Location", moved)
            if refused and server.challenge:
                self.send_header("WWW-Authenticate", server.challenge)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing: stderr belongs to the tests."""

    return Handler
