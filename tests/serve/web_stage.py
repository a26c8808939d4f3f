"""A server over HTTP in this process, with real sockets on loopback."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import aiohttp

from ludolf.config.settings.options import Options
from ludolf.serve.gate import GateLimits
from ludolf.serve.guard import load_guard
from ludolf.serve.options import ServeOptions
from ludolf.serve.server import SessionServer
from ludolf.serve.web import WebDoor, WebWaits

T = TypeVar("T")
SOON = 30.0
QUICK = WebWaits(refusal=0.0)


class WebStage:
    """The server, its address, and a client without the token."""

    def __init__(self, server: SessionServer, door: WebDoor, url: str, token: str) -> None:
        self.server = server
        self.door = door
        self.url = url
        self.port = int(url.rpartition(":")[2])
        self.token = token
        self.bearer = {"Authorization": f"Bearer {token}"}
        self.web = aiohttp.ClientSession()

    @property
    def is_in_use(self) -> bool:
        """Whether a client or a TCP connection is there."""
        return bool(self.server.connections or self.door._gates.gates)

    async def status(self, path: str, method: str = "GET", **more: Any) -> int:
        async with self.web.request(method, self.url + path, **more) as answer:
            await answer.read()
            return answer.status

    async def post(self, command: dict[str, Any], client: str | None = None) -> dict[str, Any]:
        """The reply to one command."""
        headers = self.bearer | ({"Ludolf-Client": client} if client else {})
        async with self.web.post(
            f"{self.url}/command", data=json.dumps(command), headers=headers
        ) as answer:
            assert answer.status == 200, await answer.text()
            reply: dict[str, Any] = await answer.json()
            return reply

    async def open(self) -> str:
        """A new session."""
        reply = await self.post({"type": "open", "options": {"noSession": True}})
        assert reply["success"], reply
        name: str = reply["data"]["session"]
        return name

    @asynccontextmanager
    async def socket(
        self, *, token: bool = True, **more: Any
    ) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        headers = self.bearer if token else {}
        async with self.web.ws_connect(
            f"{self.url}/ws", headers=headers, max_msg_size=0, **more
        ) as socket:
            yield socket

    async def raw(self, text: str) -> bytes:
        """All that the server answers to these bytes until it closes."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(text.encode())
        answer = await soon(reader.read())
        writer.close()
        return answer


@asynccontextmanager
async def served(
    folder: Path,
    *,
    gate_limits: GateLimits | None = None,
    waits: WebWaits = QUICK,
    **chosen: Any,
) -> AsyncIterator[WebStage]:
    work = folder / "work"
    work.mkdir(exist_ok=True)
    base = Options(cwd=work, model="ludolf/offline", no_context_files=True)
    given = {"http": ("127.0.0.1", 0), "agent_dir": folder / "agent", "options": base, **chosen}
    options = ServeOptions(**given)
    server = SessionServer(options, load_guard(options))
    door = WebDoor(server, options, gate_limits, waits)
    url = await door.open()
    token = (folder / "agent" / "serve-token").read_text().strip()
    stage = WebStage(server, door, url, token)
    try:
        yield stage
    finally:
        await server.close(0)
        await door.close()
        await server.tasks.close()
        await stage.web.close()


async def soon(work: Awaitable[T]) -> T:
    return await asyncio.wait_for(work, SOON)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(SOON):
        while not holds():  # noqa: ASYNC110 (states of sockets, which have no event)
            await asyncio.sleep(0)


async def frames(socket: aiohttp.ClientWebSocketResponse) -> list[dict[str, Any]]:
    """The frames of the next message."""
    message = await soon(socket.receive())
    assert message.type is aiohttp.WSMsgType.TEXT, message
    assert message.data.endswith("\n")
    return [json.loads(line) for line in message.data.splitlines()]


async def reply(socket: aiohttp.ClientWebSocketResponse, name: str) -> dict[str, Any]:
    """The reply with this id; frames before it are passed over."""
    while True:
        for frame in await frames(socket):
            if frame["type"] == "response" and frame.get("id") == name:
                return frame


async def close_code(socket: aiohttp.ClientWebSocketResponse) -> int | None:
    """The code with which the server closes; frames before it are passed over."""
    while (await soon(socket.receive())).type is aiohttp.WSMsgType.TEXT:
        pass
    return socket.close_code
