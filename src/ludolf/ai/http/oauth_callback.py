"""Loopback web page that receives the code after a login in a browser."""

import asyncio
from types import TracebackType
from typing import Self

from ludolf.ai.http.oauth import LoginError

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

    def fail(self, error: LoginError) -> None:
        if not self.code.done():
            self.code.set_exception(error)

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
        if self.state is not None and fields.get("state") != self.state:
            return 400
        if "error" in fields:
            self.fail(LoginError(f"the login was refused: {_tame(fields)}"))
            return 400
        if "code" not in fields:
            return 400
        self.give(fields["code"])
        return 200


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


def _tame(fields: dict[str, str]) -> str:
    text = fields.get("error_description") or fields["error"]
    return "".join(char for char in text if char.isprintable())[:200]


def _response(status: int) -> bytes:
    title, text = _WORDS[status]
    body = _PAGE.format(title=title, text=text).encode()
    reason = "OK" if status == 200 else "Not OK"
    head = (
        f"HTTP/1.1 {status} {reason}\r\nContent-Type: text/html; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
