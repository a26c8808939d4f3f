"""An identity server on loopback: device codes, authorization codes with proof, renewals."""

import base64
import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlencode, urlsplit
from urllib.request import urlopen

import msgspec

LIFE_SECONDS = 3600
ACCOUNT = "account-7"


class Asked(msgspec.Struct, frozen=True):
    """One request; header names are in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    fields: dict[str, str]


class IdentityServer:
    """Serves while the `with` block lasts. Tokens are numbered: access-1, refresh-1, access-2, …

    pending      how many times a device code is said to be still waiting
    hurried      how many times after that the asker is told to slow down
    denied       whether the user says no
    refusal      if set, what every request for tokens is answered, as status and body
    hold         if set, waited for before an answer
    """

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.was_asked = threading.Event()
        self.user_code = "ABCD-1234"
        self.pending = 0
        self.hurried = 0
        self.denied = False
        self.refusal: tuple[int, dict[str, Any]] | None = None
        self.hold: threading.Event | None = None
        self.rotates = True
        self._count = 0
        self._challenges: dict[str, str] = {}
        self._server = _Server(("127.0.0.1", 0), _handler_for(self))
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.01,), daemon=True
        )

    @property
    def netloc(self) -> str:
        return f"127.0.0.1:{self._server.server_address[1]}"

    @property
    def url(self) -> str:
        return f"http://{self.netloc}"

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
        self._thread.join(30)

    def write_flows(self, path: Path) -> Path:
        """A file that sends every login here."""
        common = {"tokenUrl": f"{self.url}/token", "leastPoll": 0.01}
        device = {"deviceUrl": f"{self.url}/device"}
        authorize = {"authorizeUrl": f"{self.url}/authorize", "callback": ""}
        codex = {
            "deviceUrl": f"{self.url}/codex/usercode",
            "deviceTokenUrl": f"{self.url}/codex/token",
            "verificationUrl": f"{self.url}/codex/device",
            "deviceCallback": f"{self.url}/codex/callback",
        }
        copilot = {
            "domain": self.netloc,
            "tokenUrl": "http://{domain}/token",
            "deviceUrl": "http://{domain}/device",
            "exchangeUrl": "http://{domain}/copilot",
        }
        flows: dict[str, dict[str, Any]] = {
            "anthropic": common,
            "openai-codex": {**common, **authorize, **codex},
            "github-copilot": {**common, **copilot},
            "openrouter": {**common, **authorize, "tokenUrl": f"{self.url}/keys"},
            "xai": {**common, **device},
            "kimi-coding": {**common, **device},
            "meta": {**common, **device, "exchangeUrl": f"{self.url}/mint"},
            "radius": {**common, **device},
        }
        path.write_text(json.dumps(flows))
        return path

    def browse(self, url: str, *, state: str | None = None) -> int:
        """Log in with a browser that follows redirects; returns the status it ends with."""
        end = self.end_of(url, state=state)
        with urlopen(end, timeout=30) as page:
            assert page.headers["content-type"].startswith("text/html")
            return int(page.status)

    def end_of(self, url: str, *, state: str | None = None) -> str:
        """Where a browser is sent after a login at this address."""
        assert url.startswith(self.url)
        fields = _first(urlsplit(url).query)
        code = f"code-{len(self._challenges) + 1}"
        self._challenges[code] = fields["code_challenge"]
        given = {"code": code}
        if "state" in fields:
            given["state"] = state or fields["state"]
        back = fields.get("redirect_uri") or fields["callback_url"]
        return f"{back}?{urlencode(given)}"

    # ------------------------------------------------------------ what it answers

    def answer(self, asked: Asked) -> tuple[int, dict[str, Any]]:
        self.asked.append(asked)
        self.was_asked.set()
        if self.hold is not None:
            self.hold.wait(60)
        if asked.path in ("/device", "/codex/usercode"):
            return 200, self._device(asked)
        if self.refusal is not None:
            return self.refusal
        match asked.path:
            case "/token":
                return self._token(asked.fields)
            case "/codex/token":
                return self._codex_token()
            case "/keys":
                proven = self._is_proven(asked.fields)
                return (200, {"key": "sk-or-given"}) if proven else (403, {"error": "no proof"})
            case "/copilot":
                self._count += 1
                token = f"tid=1;proxy-ep=proxy.test.example;n={self._count}"
                return 200, {"token": token, "expires_at": 4_000_000_000}
            case "/mint":
                self._count += 1
                return 200, {"api_key": f"access-{self._count}"}
            case _:
                return 404, {"error": "not_found"}

    def _device(self, asked: Asked) -> dict[str, Any]:
        device = {"user_code": self.user_code, "interval": 0.01, "expires_in": 60}
        if asked.path == "/codex/usercode":
            return {**device, "device_auth_id": "device-1"}
        uri = f"{self.url}/enter"
        complete = {"verification_uri_complete": f"{uri}?code=ABCD-1234"}
        return {**device, "device_code": "device-1", "verification_uri": uri, **complete}

    def _token(self, fields: dict[str, str]) -> tuple[int, dict[str, Any]]:
        match fields.get("grant_type"):
            case "refresh_token":
                return 200, self._tokens(fields["client_id"])
            case "authorization_code":
                proven = fields["code"] == "from-device" or self._is_proven(fields)
                return (200, self._tokens(fields["client_id"])) if proven else (400, {})
            case _:
                return self._waiting() or (200, self._tokens(fields["client_id"]))

    def _waiting(self) -> tuple[int, dict[str, Any]] | None:
        if self.denied:
            return 400, {"error": "access_denied"}
        if self.pending:
            self.pending -= 1
            return 400, {"error": "authorization_pending"}
        if self.hurried:
            self.hurried -= 1
            return 400, {"error": "slow_down", "interval": 0.02}
        return None

    def _codex_token(self) -> tuple[int, dict[str, Any]]:
        if self.pending:
            self.pending -= 1
            return 403, {}
        return 200, {"authorization_code": "from-device", "code_verifier": "v"}

    def _tokens(self, client: str) -> dict[str, Any]:
        self._count += 1
        access = f"access-{self._count}"
        if client.startswith("app_"):
            claims = {"https://api.openai.com/auth": {"chatgpt_account_id": ACCOUNT}}
            access = f"h.{_encoded(json.dumps(claims).encode())}.{self._count}"
        refresh = {"refresh_token": f"refresh-{self._count}"} if self.rotates else {}
        return {"access_token": access, "expires_in": LIFE_SECONDS, **refresh}

    def _is_proven(self, fields: dict[str, str]) -> bool:
        """Whether the one who brings the code is the one who asked for it."""
        digest = hashlib.sha256(fields["code_verifier"].encode()).digest()
        return self._challenges.get(fields["code"]) == _encoded(digest)


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _first(query: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(query).items()}


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that leaves early is normal here."""


def _handler_for(server: IdentityServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            is_json = "json" in self.headers.get("content-type", "")
            self._reply(json.loads(body) if is_json else _first(body.decode()))

        def do_GET(self) -> None:
            self._reply({})

        def _reply(self, fields: dict[str, str]) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, body = server.answer(Asked(self.command, self.path, headers, fields))
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            return

    return Handler
