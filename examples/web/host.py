"""Web page for a session: a small host that relays frames of Ludolf as server-sent events.

    python host.py [--port 8321] [options of ludolf]

It prints the address to open. The address contains a key, because the page can run commands as
you; the host listens on this machine only. Requires aiohttp, which is installed with Ludolf.
"""

import argparse
import asyncio
import bisect
import contextlib
import hmac
import json
import secrets
import signal
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from aiohttp import web

Frame = dict[str, Any]
HERE = Path(__file__).parent
FILES = {"/": "index.html", **{f"/{name}": name for name in ("page.css", "page.js", "icon.svg")}}
COMMANDS = ("prompt", "abort", "new_session", "extension_ui_response")
EVENTS = (
    *("agent_start", "agent_settled", "message_update", "message_end", "auto_retry_start"),
    *("tool_execution_start", "tool_execution_update", "tool_execution_end", "warning"),
)
HEADERS = {
    # Allow only our own files, no inline code, and no conversion of text to HTML.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


class Story:
    """Numbered frames for the page.

    A new reader receives all frames, a returning one those after its last; a slow reader does not
    delay others and uses no memory.
    """

    def __init__(self) -> None:
        self._entries: list[tuple[int, Frame]] = []
        self._count = 0
        self._more = asyncio.Event()
        self.begin()

    def begin(self) -> None:
        self._entries.clear()
        self.id = secrets.token_hex(4)  # numbers are valid within one story only
        self._wake()

    def add(self, frame: Frame) -> None:
        self._drop_superseded(frame)
        self._count += 1
        self._entries.append((self._count, frame))
        self._wake()

    async def stream(self, last: str) -> AsyncIterator[bytes]:
        """Yield server-sent events after the one with this id, and new ones as they arrive."""
        story, _, number = last.partition(".")
        sent = int(number) if story == self.id and number.isdecimal() else 0
        while True:
            if story != self.id:
                story, sent = self.id, 0
                yield b"retry: 1000\nevent: begin\ndata: {}\n\n"
            more = self._more
            start = bisect.bisect(self._entries, sent, key=lambda entry: entry[0])
            for sent, frame in self._entries[start:]:
                yield f"id: {story}.{sent}\ndata: {json.dumps(frame)}\n\n".encode()
                if frame["type"] == "ended":
                    return
                if story != self.id:
                    break
            else:
                await more.wait()

    def _drop_superseded(self, frame: Frame) -> None:
        """Drop the deltas of a complete message, the progress of a result, and closed dialogs."""
        match frame:
            case {"type": "message_end", "message": {"role": "assistant"}}:
                self._keep(lambda old: old["type"] != "message_update")
            case {"type": "tool_execution_end", "toolCallId": call}:
                over = ("tool_execution_update", call)
                self._keep(lambda old: (old["type"], old.get("toolCallId")) != over)
            case {"type": "agent_start" | "agent_settled"}:
                self._keep(lambda old: old["type"] not in ("agent_start", "agent_settled"))
            case {"type": "dialog_over", "id": dialog}:
                self._keep(lambda old: old.get("id") != dialog)

    def _keep(self, keeps: Any) -> None:
        self._entries = [entry for entry in self._entries if keeps(entry[1])]

    def _wake(self) -> None:
        self._more.set()
        self._more = asyncio.Event()


class Ludolf:
    """The Ludolf process: sends commands, returns replies, adds all other frames to the story."""

    def __init__(self, process: asyncio.subprocess.Process, story: Story) -> None:
        assert process.stdin is not None and process.stdout is not None
        self._process, self._stdin, self._stdout = process, process.stdin, process.stdout
        self._story = story
        self._waiting: dict[str, asyncio.Future[Frame]] = {}
        self._running = False

    @classmethod
    async def start(cls, story: Story, *options: str) -> "Ludolf":
        pipe = asyncio.subprocess.PIPE
        words = ("--mode", "rpc", "--rpc-dialect", "pi-delta", *options)
        process = await asyncio.create_subprocess_exec(
            "ludolf", *words, stdin=pipe, stdout=pipe, limit=2**27, start_new_session=True
        )
        return cls(process, story)

    async def send(self, frame: Frame) -> None:
        self._stdin.write(json.dumps(frame).encode() + b"\n")
        await self._stdin.drain()

    async def ask(self, **frame: Any) -> Frame:
        """Send a command and wait for its reply."""
        frame["id"] = secrets.token_hex(8)
        reply: asyncio.Future[Frame] = asyncio.get_running_loop().create_future()
        self._waiting[frame["id"]] = reply
        await self.send(frame)
        return await reply

    async def execute(self, frame: Frame) -> Frame:
        """Execute a command of the page and return the reply."""
        if frame["type"] == "extension_ui_response":
            self._story.add({"type": "dialog_over", "id": frame.get("id")})
            await self.send(frame)  # this frame has no reply
            return {"success": True}
        if frame["type"] == "prompt" and self._running:
            frame["streamingBehavior"] = "steer"
        reply = await self.ask(**frame)
        if frame["type"] == "new_session" and reply["success"] and not reply["data"]["cancelled"]:
            await self.begin()
        return reply

    async def begin(self) -> None:
        """Start the story with the state of the session and its messages."""
        await self.ask(type="set_event_filter", events=EVENTS)
        self._story.begin()
        state = await self.ask(type="get_state")
        self._story.add({"type": "state", **state["data"]})
        for message in (await self.ask(type="get_messages"))["data"]["messages"]:
            self._story.add({"type": "message_end", "message": message})

    async def listen(self) -> int:
        """Read frames until the program ends; returns its exit code."""
        try:
            while line := await self._stdout.readline():
                self._handle(json.loads(line))
        finally:
            self._story.add({"type": "ended"})
            for reply in self._waiting.values():
                reply.set_exception(ConnectionError("Ludolf has ended"))
        return await self._process.wait()

    def _handle(self, frame: Frame) -> None:
        match frame:
            case {"type": "response", "id": command_id}:
                reply = self._waiting.pop(command_id)
                if not reply.done():  # the request may have been cancelled
                    reply.set_result(frame)
                return
            case {"type": "extension_ui_request", "method": "cancel", "targetId": dialog}:
                frame = {"type": "dialog_over", "id": dialog}
            case {"type": "agent_start" | "agent_settled" as kind}:
                self._running = kind == "agent_start"
        self._story.add(frame)

    async def end(self) -> None:
        self._stdin.close()
        await self._process.wait()


class Site:
    """HTTP server of the page, protected by the key."""

    def __init__(self, ludolf: Ludolf, story: Story, port: int) -> None:
        self._ludolf, self._story = ludolf, story
        self._port, self._key = port, secrets.token_urlsafe()
        self._cookie = f"ludolf-{port}"  # cookies are not bound to a port
        self.address = f"http://127.0.0.1:{port}/?key={self._key}"

    def app(self) -> web.Application:
        app = web.Application(middlewares=[self._guard])
        app.router.add_get("/events", self._events)
        app.router.add_post("/command", self._command)
        for path in FILES:
            app.router.add_get(path, self._file)
        return app

    @web.middleware
    async def _guard(self, request: web.Request, handler: Any) -> web.StreamResponse:
        # Another host name that resolves to this machine may belong to a foreign page.
        if request.host not in (f"127.0.0.1:{self._port}", f"localhost:{self._port}"):
            raise web.HTTPForbidden(text="Wrong host")
        if request.headers.get("Origin", f"http://{request.host}") != f"http://{request.host}":
            raise web.HTTPForbidden(text="Wrong origin")
        if self._is_key(request.query.get("key", "")):
            response = web.Response(status=303, headers={"Location": "/", **HEADERS})
            response.set_cookie(self._cookie, self._key, httponly=True, samesite="Strict")
            return response
        if not self._is_key(request.cookies.get(self._cookie, "")):
            raise web.HTTPForbidden(text="Open the address that the host printed")
        result: web.StreamResponse = await handler(request)
        return result

    def _is_key(self, text: str) -> bool:
        return hmac.compare_digest(text.encode(), self._key.encode())

    async def _file(self, request: web.Request) -> web.StreamResponse:
        return web.FileResponse(HERE / FILES[request.path], headers=HEADERS)

    async def _events(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={**HEADERS, "Content-Type": "text/event-stream"})
        await response.prepare(request)
        async for event in self._story.stream(request.headers.get("Last-Event-ID", "")):
            await response.write(event)
        return response

    async def _command(self, request: web.Request) -> web.StreamResponse:
        try:
            frame = await request.json()
        except ValueError:
            frame = None
        if not isinstance(frame, dict) or frame.get("type") not in COMMANDS:
            raise web.HTTPBadRequest(text=f"Not one of {', '.join(COMMANDS)}")
        try:
            reply = await self._ludolf.execute(frame)
        except ConnectionError as error:
            reply = {"success": False, "error": str(error)}
        return web.json_response(reply, headers=HEADERS)


async def main(port: int, options: list[str]) -> int:
    story = Story()
    ludolf = await Ludolf.start(story, *options)
    listening = asyncio.create_task(ludolf.listen())
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, listening.cancel)
    try:
        await ludolf.begin()
    except ConnectionError:
        return await listening  # the program could not start; the reason is on stderr
    listener = socket.create_server(("127.0.0.1", port))
    site = Site(ludolf, story, listener.getsockname()[1])
    # Cancel the handler when the page is closed, so that no reader remains.
    runner = web.AppRunner(site.app(), handler_cancellation=True, shutdown_timeout=1)
    await runner.setup()
    await web.SockSite(runner, listener).start()
    print(f"Open {site.address}", flush=True)
    code = 0
    with contextlib.suppress(asyncio.CancelledError):
        code = await listening
    await ludolf.end()
    await runner.cleanup()
    return code


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--port", type=int, default=8321)
    arguments, others = parser.parse_known_args()
    raise SystemExit(asyncio.run(main(arguments.port, others)))
