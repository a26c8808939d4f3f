"""Servers of others: codex over WebSocket, and opencode over HTTP with server-sent events."""

import asyncio
import json
import re
from typing import Any

import aiohttp

from bench.agent import Silent
from bench.programs import Home
from bench.served import PATIENCE, MeasuredServer, RunEnds, ServedClient

_ADDRESS = re.compile(rb"(?:ws|http)://127\.0\.0\.1:\d+")


class PeerServer(MeasuredServer):
    """A server that prints its address."""

    _web: aiohttp.ClientSession
    _draining: asyncio.Task[None]

    async def _launch(self, *words: str) -> str:
        """Start the program; returns its address."""
        self._web = aiohttp.ClientSession()
        out = await self._spawn(*self.home.program.command, *words)
        found = None
        try:
            async with asyncio.timeout(PATIENCE):
                while found is None and (line := await out.readline()):
                    found = _ADDRESS.search(line)
        except TimeoutError:
            found = None
        self._draining = asyncio.create_task(_drain(out))
        if found is None:
            raise Silent("the server did not print its address")
        return found[0].decode()

    async def close(self) -> None:
        await super().close()
        await self._web.close()
        await asyncio.wait((self._draining,))


async def _drain(out: asyncio.StreamReader) -> None:
    while await out.read(1 << 16):
        pass


class CodexServer(PeerServer):
    async def start(self) -> None:
        words = ("app-server", "--listen", "ws://127.0.0.1:0")
        self._address = await self._launch(*words)

    async def _connect(self) -> "CodexClient":
        client = CodexClient(self.home, await self._web.ws_connect(self._address, max_msg_size=0))
        await client.ask("initialize", clientInfo={"name": "bench", "version": "1"})
        return client


class CodexClient(ServedClient):
    """A client of the app server, which speaks JSON-RPC."""

    def __init__(self, home: Home, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._home = home
        self._socket = socket
        self._number = 0
        self._replies: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._ends = RunEnds()
        self._reading = asyncio.create_task(self._read())

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        reply = self._replies[self._number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": self._number, "method": method, "params": params})
        async with asyncio.timeout(PATIENCE):
            answer = await reply
        if "error" in answer:
            raise Silent(f"{method} was refused: {answer['error']}"[:300])
        result: dict[str, Any] = answer["result"]
        return result

    async def open(self, **options: Any) -> str:
        return str((await self.ask("thread/start", cwd=str(self._home.work)))["thread"]["id"])

    async def attach(self, session: str, last: int = 100) -> None:
        await self.ask("thread/resume", threadId=session)

    async def prompt(self, session: str, text: str) -> None:
        end = asyncio.ensure_future(self.next_idle(session))
        content = [{"type": "text", "text": text}]
        await self.ask("turn/start", threadId=session, input=content)
        await end

    async def next_idle(self, session: str) -> None:
        await self._ends.next(session)

    async def close(self) -> None:
        await self._socket.close()
        await asyncio.wait((self._reading,))

    async def _read(self) -> None:
        async for message in self._socket:
            if '"turn/completed"' in message.data[:100]:
                self._ends.note(json.loads(message.data)["params"]["threadId"])
            elif '"id":' in message.data[:8]:
                reply = json.loads(message.data)
                if "method" not in reply:
                    self._replies.pop(reply["id"]).set_result(reply)


class OpencodeServer(PeerServer):
    async def start(self) -> None:
        self._address = await self._launch("serve", "--port", "0", "--pure")

    async def _connect(self) -> "OpencodeClient":
        query = {"directory": str(self.home.work)}
        quiet = aiohttp.ClientTimeout(total=None)
        events = await self._web.get(f"{self._address}/event", params=query, timeout=quiet)
        return OpencodeClient(self._web, self._address, query, events)


class OpencodeClient(ServedClient):
    """A client that reads the events of all sessions of the folder."""

    def __init__(
        self,
        web: aiohttp.ClientSession,
        address: str,
        query: dict[str, str],
        events: aiohttp.ClientResponse,
    ) -> None:
        self._web = web
        self._address = address
        self._query = query
        self._events = events
        self._ends = RunEnds()
        self._reading = asyncio.create_task(self._read())

    async def open(self, **options: Any) -> str:
        return str((await self._ask("POST", "/session", {}))["id"])

    async def attach(self, session: str, last: int = 100) -> None:
        await self._ask("GET", f"/session/{session}/message", None)

    async def prompt(self, session: str, text: str) -> None:
        end = asyncio.ensure_future(self.next_idle(session))
        model = {"providerID": "bench", "modelID": "bench"}
        body = {"model": model, "parts": [{"type": "text", "text": text}]}
        await self._ask("POST", f"/session/{session}/prompt_async", body)
        await end

    async def next_idle(self, session: str) -> None:
        await self._ends.next(session)

    async def close(self) -> None:
        self._events.close()
        await asyncio.wait((self._reading,))

    async def _ask(self, method: str, path: str, body: Any) -> Any:
        url = self._address + path
        async with self._web.request(method, url, params=self._query, json=body) as reply:
            data = await reply.read()
        if reply.status >= 300:
            raise Silent(f"{path} was refused: {data[:200]!r}")
        return json.loads(data) if data else None

    async def _read(self) -> None:
        rest = b""
        try:
            async for data in self._events.content.iter_any():
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    if b'"session.idle"' in line[:120]:
                        self._ends.note(_session_of(line))
        except aiohttp.ClientError:
            pass  # the connection was cut


def _session_of(line: bytes) -> str:
    return str(json.loads(line.removeprefix(b"data: "))["properties"]["sessionID"])
