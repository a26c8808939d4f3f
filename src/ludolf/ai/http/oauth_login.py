"""Log in with a browser and a redirect or pasted code, or with a device code."""

import asyncio
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Protocol, Self

import msgspec

from ludolf.ai.http.oauth import (
    Flow,
    LoginError,
    OAuthMethod,
    OAuthResponse,
    ask,
    exchanged,
    host_of,
    tokens,
)
from ludolf.ai.http.transport import Transport

_READ_SECONDS = 10.0
_LONGEST_LINE = 16 << 10
_PAGE = """\
<!doctype html><html lang="en"><meta charset="utf-8"><title>Ludolf</title>
<body style="font-family: sans-serif; margin: 4em"><h1>{title}</h1><p>{text}</p></body></html>
"""
_WORDS = {
    200: ("Logged in", "You can close this window."),
    400: ("Not logged in", "This page does not belong to a login, or the login was denied."),
    404: ("Not found", "This page does not exist."),
}


class Callback:
    """Listens on loopback for the duration of the `async with` block.

    With an address, it listens on its port. If the port is in use, it does not listen, and the user
    has to paste the code. Without an address, it uses any free port and a secret path.
    """

    def __init__(self, address: str, host: str) -> None:
        import secrets
        from urllib.parse import urlsplit

        self.secret = secrets.token_urlsafe(24)
        self.state: str | None = None
        self.address = address
        self.listens = False
        self.code: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._host = host
        self._path = urlsplit(address).path if address else f"/oauth/callback/{self.secret}"
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        from urllib.parse import urlsplit

        port = urlsplit(self.address).port or 80 if self.address else 0
        try:
            self._server = await asyncio.start_server(
                self._serve, self._host, port, limit=_LONGEST_LINE
            )
        except OSError as error:
            if not self.address:
                raise LoginError(f"cannot listen on {self._host}: {error.strerror}") from error
            return self
        self.listens = True
        if not self.address:
            port = self._server.sockets[0].getsockname()[1]
            self.address = f"http://{self._host}:{port}{self._path}"
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._server is not None:
            self._server.close()

    def give(self, code: str) -> None:
        if not self.code.done():
            self.code.set_result(code)

    def paste(self, text: str) -> None:
        """Take the text that a user pasted.

        Raises:
            LoginError: it contains no code of this login.
        """
        self.give(code_in(text, self.state))

    def fail(self, error: LoginError) -> None:
        if not self.code.done():
            self.code.set_exception(error)

    def receive(self, fields: Mapping[str, str]) -> int:
        """Handle the fields of a redirect and return the status of the response."""
        if self.state is not None and fields.get("state") != self.state:
            return 400
        if "error" in fields:
            text = fields.get("error_description") or fields["error"]
            plain = "".join(char for char in text if char.isprintable())[:200]
            self.fail(LoginError(f"the login was refused: {plain}"))
            return 400
        if "code" not in fields:
            return 400
        self.give(fields["code"])
        return 200

    # ------------------------------------------------------------ private

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_READ_SECONDS):
                line = await reader.readline()
                while (await reader.readline()).strip():
                    pass
            status = self._take(line)
            writer.write(_response(status))
            await writer.drain()
        except (TimeoutError, ConnectionError, ValueError):
            pass  # not a browser, or a closed connection
        finally:
            writer.close()

    def _take(self, line: bytes) -> int:
        """Handle one request and return the status of the response."""
        from urllib.parse import parse_qs, urlsplit

        method, _, rest = line.decode("latin-1").partition(" ")
        target = urlsplit(rest.partition(" ")[0])
        if method != "GET" or target.path != self._path:
            return 404
        fields = {name: values[0] for name, values in parse_qs(target.query).items()}
        return self.receive(fields)


def code_in(text: str, state: str | None) -> str:
    """Return the code in pasted text: a URL, its query, `code#state`, or the code alone.

    Raises:
        LoginError: it contains no code, or the code of another login.
    """
    from urllib.parse import parse_qs, urlsplit

    text = text.strip()
    query = urlsplit(text).query if "://" in text else text
    if "code=" in query:
        fields = parse_qs(query)
        code, other = fields.get("code", [""])[0], fields.get("state", [None])[0]
    elif "://" in text:
        code, other = "", None
    else:
        code, _, rest = text.partition("#")
        other = rest or None
    if not code:
        raise LoginError("the pasted text contains no code")
    if state is not None and other is not None and other != state:
        raise LoginError("the pasted code belongs to another login")
    return code


def _response(status: int) -> bytes:
    title, text = _WORDS[status]
    body = _PAGE.format(title=title, text=text).encode()
    reason = "OK" if status == 200 else "Not OK"
    head = (
        f"HTTP/1.1 {status} {reason}\r\nContent-Type: text/html; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body


DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
DEVICE_SECONDS = 15 * 60.0
_POLL_SECONDS = 5.0
_LONGEST_CODE = 64
_PASTE = "Paste the last address in the browser, or the code:"
_FOREVER = 2**53 - 1  # pi's value for a token that does not expire
_PENDING = ("authorization_pending", "deviceauth_authorization_pending")
_REFUSED = {
    "access_denied": "the login was denied",
    "authorization_denied": "the login was denied",
    "expired_token": "the code has expired",
}


class Asker(Protocol):
    """Interface to the user during a login."""

    def show(self, url: str, instructions: str, *, launch: str | None = None) -> None:
        """Show an address to the user; `launch` is the same address with the code filled in."""

    async def paste(self, question: str, example: str) -> str | None:
        """Return the text that the user pastes, or None if the user cannot be asked.

        Raises:
            LoginError: the user cancelled the login.
        """


class _Device(msgspec.Struct, frozen=True):
    code: str
    user_code: str
    url: str
    launch: str | None
    pause: float
    seconds: float


async def log_in(
    flow: Flow,
    method: OAuthMethod,
    asker: Asker,
    environ: Mapping[str, str],
    *,
    domain: str | None = None,
    host: str = "127.0.0.1",
) -> dict[str, Any]:
    """Log in and return the credential in its stored form.

    Raises:
        LoginError: it failed, was denied, or timed out.
        ProviderError: the server could not be reached.
    """
    http = Transport(environ)
    enterprise = host_of(domain) if domain else None
    try:
        if method == "device":
            fields = await _by_device(http, flow, asker, enterprise)
        else:
            fields = await _by_browser(http, flow, asker, host)
    finally:
        await http.close()
    more = {"enterpriseUrl": enterprise} if enterprise else {}
    return {"type": "oauth", **fields, **more}


# ---------------------------------------------------------------- in a browser


async def _by_browser(http: Transport, flow: Flow, asker: Asker, host: str) -> dict[str, Any]:
    verifier, challenge = proof_key()
    try:
        async with asyncio.timeout(flow.patience), Callback(flow.callback, host) as callback:
            # OpenRouter has no state; the secret in the path of the callback replaces it.
            state = None if flow.kind == "openrouter" else callback.secret
            callback.state = state
            url = _authorize_address(flow, callback.address, challenge, state)
            asker.show(url, browser_instructions(callback))
            code = await first_code(asker, callback)
    except TimeoutError:
        raise LoginError(f"the login was not completed within {flow.patience:.0f} s") from None
    return await _for_code(http, flow, code, verifier, callback.address)


async def first_code(asker: Asker, callback: Callback) -> str:
    """Return the code from the browser or from the user, whichever comes first."""
    async with asyncio.TaskGroup() as group:
        pasting = group.create_task(_pasted(asker, callback))
        await asyncio.wait((callback.code,))
        pasting.cancel()
    return callback.code.result()


async def _pasted(asker: Asker, callback: Callback) -> None:
    try:
        text = await asker.paste(_PASTE, callback.address)
        if text is not None:
            callback.paste(text)
        elif not callback.listens:
            raise LoginError(f"no code was entered, and another program uses {callback.address}")
    except LoginError as error:
        callback.fail(error)


async def _for_code(
    http: Transport, flow: Flow, code: str, verifier: str, callback: str
) -> dict[str, Any]:
    if flow.kind == "openrouter":
        fields = {"code": code, "code_verifier": verifier, "code_challenge_method": "S256"}
        answer = await ask(http, flow.token_url, fields, as_json=True)
        return {"access": answer.text("key"), "refresh": "", "expires": _FOREVER}
    fields = {
        "grant_type": "authorization_code",
        "client_id": flow.client_id,
        "code": code,
        "code_verifier": verifier,
        "redirect_uri": callback,
    }
    answer = await ask(
        http, flow.at(flow.token_url), fields, headers=flow.headers, as_json=flow.json_body
    )
    return tokens(flow, answer)


def _authorize_address(flow: Flow, callback: str, challenge: str, state: str | None) -> str:
    from urllib.parse import urlencode

    proof = {"code_challenge": challenge, "code_challenge_method": "S256"}
    if flow.kind == "openrouter":
        return f"{flow.authorize_url}?{urlencode({'callback_url': callback, **proof})}"
    fields = {
        "response_type": "code",
        "client_id": flow.client_id,
        "redirect_uri": callback,
        "scope": flow.scope,
        **proof,
        "state": state or "",
        **flow.authorize_extra,
    }
    return f"{flow.at(flow.authorize_url)}?{urlencode(fields)}"


def browser_instructions(callback: Callback) -> str:
    """Return what the user has to do with the address that is shown."""
    if not callback.listens:
        return "Log in with a browser, then paste the last address that it opens."
    return (
        "Log in with a browser. If it runs on another machine, paste the last address that it "
        "opens, even if that page cannot be shown."
    )


def proof_key() -> tuple[str, str]:
    """Return a PKCE verifier and its challenge (RFC 7636)."""
    import base64
    import hashlib
    import secrets

    verifier = secrets.token_urlsafe(48)
    digest = hashlib.sha256(verifier.encode()).digest()
    return verifier, base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


# ---------------------------------------------------------------- by a device code


async def _by_device(
    http: Transport, flow: Flow, asker: Asker, domain: str | None
) -> dict[str, Any]:
    device = await _begin(http, flow, domain)
    asker.show(device.url, f"Enter the code {device.user_code} there.", launch=device.launch)
    try:
        async with asyncio.timeout(device.seconds):
            answer = await _typed(http, flow, device, domain)
    except TimeoutError:
        raise LoginError("the code was not entered in time") from None
    if flow.kind == "codex":
        code, verifier = answer.text("authorization_code"), answer.text("code_verifier")
        return await _for_code(http, flow, code, verifier, flow.device_callback)
    if flow.exchange_url:
        return await exchanged(http, flow, answer.text("access_token"), domain)
    return tokens(flow, answer)


async def _begin(http: Transport, flow: Flow, domain: str | None) -> _Device:
    fields = {"client_id": flow.client_id, **flow.device_extra}
    if flow.scope and flow.kind != "codex":
        fields["scope"] = flow.scope
    url = flow.at(flow.device_url, domain)
    codex = flow.kind == "codex"
    answer = await ask(http, url, fields, headers=flow.headers, as_json=codex)
    launch = answer.body.get("verification_uri_complete")
    return _Device(
        code=answer.text("device_auth_id" if codex else "device_code"),
        user_code=_typeable(answer.text("user_code")),
        url=_web_address(flow.verification_url or answer.text("verification_uri")),
        launch=_web_address(launch) if isinstance(launch, str) and launch else None,
        pause=max(answer.number("interval") or _POLL_SECONDS, flow.least_poll),
        seconds=min(answer.number("expires_in") or DEVICE_SECONDS, DEVICE_SECONDS),
    )


async def _typed(http: Transport, flow: Flow, device: _Device, domain: str | None) -> OAuthResponse:
    """Poll until the user has entered the code."""
    url = flow.at(flow.device_token_url or flow.token_url, domain)
    codex = flow.kind == "codex"
    fields = _question(flow, device)
    pause = device.pause
    while True:
        await asyncio.sleep(pause)
        answer = await ask(http, url, fields, headers=flow.headers, as_json=codex)
        problem = _problem(answer)
        if answer.ok and problem is None:
            return answer
        if problem == "slow_down":
            pause = max(pause, answer.number("interval") or pause + _POLL_SECONDS)
        elif problem not in _PENDING and not (codex and answer.status in (403, 404)):
            raise LoginError(_REFUSED.get(problem or "", answer.complaint))


def _question(flow: Flow, device: _Device) -> Mapping[str, str]:
    if flow.kind == "codex":
        return {"device_auth_id": device.code, "user_code": device.user_code}
    return {
        "grant_type": DEVICE_GRANT,
        "client_id": flow.client_id,
        "device_code": device.code,
    }


def _problem(answer: OAuthResponse) -> str | None:
    error = answer.body.get("error")
    if isinstance(error, dict):
        error = error.get("code")
    return error if isinstance(error, str) else None


def _typeable(code: str) -> str:
    """Check a code before it is shown in a terminal, which would interpret control characters."""
    if len(code) > _LONGEST_CODE or not code.isprintable():
        raise LoginError("the server returned an invalid user code")
    return code


def _web_address(url: str) -> str:
    """Check an address before a click opens it: it must not be a file or a command."""
    if not url.lower().startswith(("https://", "http://")) or not url.isprintable():
        raise LoginError("the server returned a URL that is not http(s)")
    return url
