"""The web server of the live view: read-only, on loopback, protected by a token."""

import os
from collections.abc import Awaitable, Callable
from hmac import compare_digest
from typing import TYPE_CHECKING, Protocol

from ludolf.base import CommandError, dumps
from ludolf.page.live.watch import Watch, read_mark
from ludolf.page.page import page_policy

if TYPE_CHECKING:
    from aiohttp.web import AppRunner, Request, StreamResponse

    Handler = Callable[[Request], Awaitable[StreamResponse]]

HOST = "127.0.0.1"
_NAMES = (HOST, "localhost")
_BEAT_SECONDS = 15.0
_AGAIN_MS = 1000
_CHUNK = 1 << 18
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_HTML = "text/html; charset=utf-8"


class Routes(Protocol):
    """The pages that a server offers."""

    async def route(self, place: str) -> "Handler | None":
        """Return the function that answers requests for a place; None if there is none."""

    async def close(self) -> None:
        """Release waiting pages and files."""


class LiveServer:
    """Serve pages below a secret path."""

    def __init__(self, routes: Routes) -> None:
        import secrets

        self._routes = routes
        self._token = secrets.token_urlsafe(24)
        self._port = 0
        self._runner: AppRunner | None = None

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self._port}/{self._token}/"

    async def start(self, port: int) -> None:
        """Listen on a port; 0 means any free port.

        Raises:
            CommandError: the port is not available.
        """
        from aiohttp import web

        app = web.Application()
        app.router.add_route("GET", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, HOST, port).start()
        except (OSError, OverflowError) as problem:
            await self._runner.cleanup()
            raise CommandError(
                f"Cannot listen on port {port}: {_reason(problem)}. "
                "Choose another one with --port, or leave it out."
            ) from problem
        self._port = self._runner.addresses[0][1]

    async def close(self) -> None:
        """Send the end event to pages, and stop listening."""
        await self._routes.close()
        if self._runner is not None:
            await self._runner.cleanup()

    # ------------------------------------------------------------ access

    async def _answer(self, request: "Request") -> "StreamResponse":
        if not self._is_ours(request):
            return _refusal(403, "Foreign host or origin.\n")
        token, slash, place = request.match_info["path"].partition("/")
        sent = token.encode("utf-8", "replace")
        is_known = compare_digest(sent, self._token.encode()) and bool(slash)
        act = await self._routes.route(place) if is_known else None
        if act is None:
            return _refusal(404, "Not found.\n")
        return await act(request)

    def _is_ours(self, request: "Request") -> bool:
        """Whether host name and origin are those of this server."""
        hosts = {f"{name}:{self._port}" for name in _NAMES}
        if request.headers.get("Host") not in hosts:
            return False
        origin = request.headers.get("Origin")
        if origin is not None and origin.removeprefix("http://") not in hosts:
            return False
        site = request.headers.get("Sec-Fetch-Site", "none")
        goes_there = request.headers.get("Sec-Fetch-Mode") == "navigate"
        return site in ("none", "same-origin") or goes_there


class SessionRoutes:
    """The page of one watched session, its news, and its file."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._acts: dict[str, Handler] = {
            "": self._page,
            "events": self._events,
            "news": self._news,
            "session.jsonl": self._lines,
        }

    async def route(self, place: str) -> "Handler | None":
        return self._acts.get(place)

    async def close(self) -> None:
        await self._watch.close()

    async def _page(self, request: "Request") -> "StreamResponse":
        await self._watch.refresh()
        policy = page_policy(live=True) + "; frame-ancestors 'none'"
        pieces = await self._watch.page()
        return await _send(request, pieces, {"Content-Security-Policy": policy})

    async def _news(self, request: "Request") -> "StreamResponse":
        known = read_mark(request.query.get("after", ""))
        if known is None:
            return _refusal(400, "`after` is not a mark.\n")
        pieces = await self._watch.news(known)
        if pieces is None:
            return _refusal(409, "Load the page again.\n")
        return await _send(request, pieces, {})

    async def _lines(self, request: "Request") -> "StreamResponse":
        """Send the bytes of the open session file, even if its path now names another file."""
        await self._watch.refresh()
        opened = await self._watch.opened()
        if opened is None:
            return _refusal(404, "Not a session file now.\n")
        kind = {"Content-Type": "application/x-ndjson", "Content-Disposition": "attachment"}
        descriptor, size = opened
        try:
            response = await _begin(request, {**kind, "Content-Length": str(size)})
            await _copy(response, descriptor, size)
            return response
        finally:
            os.close(descriptor)

    async def _events(self, request: "Request") -> "StreamResponse":
        """Send the mark whenever the session grows; a page then requests the new entries."""
        response = await _begin(request, {"Content-Type": "text/event-stream"})
        last = request.headers.get("Last-Event-ID") or request.query.get("after", "")
        known = read_mark(last)
        try:
            await response.write(f"retry: {_AGAIN_MS}\n\n".encode())
            while not self._watch.ended:
                mark = await self._watch.after(known, _BEAT_SECONDS)
                if self._watch.ended:
                    await response.write(b"event: end\ndata: {}\n\n")
                elif mark == known:
                    await response.write(b": still here\n\n")
                else:
                    body = dumps({"reading": mark.reading, "count": mark.count}).decode()
                    await response.write(f"id: {mark}\nevent: grown\ndata: {body}\n\n".encode())
                known = mark
        except ConnectionError:
            pass  # the page was closed
        return response


def page_route(render: Callable[[], Awaitable[bytes]], policy: str) -> "Handler":
    """Return a route to a page that is rendered for each request."""

    async def answer(request: "Request") -> "StreamResponse":
        return await _send(request, [await render()], {"Content-Security-Policy": policy})

    return answer


def missing_route(text: str) -> "Handler":
    """Return a route that says why there is nothing."""

    async def answer(_: "Request") -> "StreamResponse":
        return _refusal(404, f"{text}\n")

    return answer


def _reason(problem: OSError | OverflowError) -> str:
    if isinstance(problem, OSError) and problem.errno:
        return os.strerror(problem.errno)  # asyncio's own text repeats the address
    return "ports are numbers from 0 to 65535"


def _refusal(status: int, text: str) -> "StreamResponse":
    from aiohttp import web

    return web.Response(status=status, headers=_HEADERS, text=text)


async def _begin(request: "Request", headers: dict[str, str]) -> "StreamResponse":
    from aiohttp import web

    response = web.StreamResponse(headers={**_HEADERS, **headers})
    await response.prepare(request)
    return response


async def _copy(response: "StreamResponse", descriptor: int, size: int) -> None:
    import asyncio

    sent = 0
    while sent < size:
        data = await asyncio.to_thread(os.pread, descriptor, min(_CHUNK, size - sent), sent)
        if not data:
            return  # the file was truncated; the connection ends before its stated length
        sent += len(data)
        await response.write(data)


async def _send(
    request: "Request", pieces: list[bytes], headers: dict[str, str]
) -> "StreamResponse":
    size = str(sum(map(len, pieces)))
    response = await _begin(request, {"Content-Type": _HTML, "Content-Length": size, **headers})
    for piece in pieces:
        await response.write(piece)
    return response
