"""Clients of a server over a WebSocket: the token, the same frames, the same cuts."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import WSMsgType, web

from ludolf.client import NotAdmitted, RemoteClient, ServerUnreachable
from ludolf.serve.server import SessionServer
from tests.process.harness import Lab, types
from tests.process.script import answer
from tests.serve.certificates import make_certificate
from tests.serve.hall import serving

TOKEN = "a token that is long enough for it"
SECONDS = 30.0


class WebDoor:
    """A WebSocket in front of a server; `cut` ends its connections without a word."""

    def __init__(self, server: SessionServer) -> None:
        self._server = server
        self._open: set[web.WebSocketResponse] = set()
        self.address = ""

    def cut(self) -> None:
        for socket in tuple(self._open):
            transport = socket._req.transport if socket._req is not None else None
            if transport is not None:
                transport.abort()

    async def meet(self, request: web.Request) -> web.WebSocketResponse:
        assert not request.query_string
        socket = web.WebSocketResponse(compress=False)
        await socket.prepare(request)
        self._open.add(socket)
        connection = self._server.connect(remote=True, trusted=False)

        async def speak() -> None:
            while data := await connection.outgoing():
                await socket.send_str(data.decode())
            await socket.close(code=connection.close_code)

        speaking = self._server.tasks.start(speak())
        async for message in socket:
            if message.type is WSMsgType.TEXT:
                connection.feed(message.data.encode().splitlines())
        connection.lost()
        await asyncio.wait((speaking,))
        self._open.discard(socket)
        return socket


class Only:
    """A guard with one token."""

    def accepts(self, token: str | None) -> bool:
        return token == TOKEN


@asynccontextmanager
async def web_serving(
    lab: Lab, folder: Path, tls: ssl.SSLContext | None = None
) -> AsyncIterator[WebDoor]:
    async with serving(lab, folder / "s") as server:
        server.guard = Only()  # type: ignore[assignment]  # the token is all that counts here
        door = WebDoor(server)
        app = web.Application()
        app.router.add_get("/ws", door.meet)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
        await site.start()
        host, port = runner.addresses[0][:2]
        door.address = f"{'ws' if tls is None else 'wss'}://{host}:{port}"
        try:
            yield door
        finally:
            await runner.cleanup()


async def test_a_session_over_a_websocket_continues_after_cuts(lab: Lab, tmp_path: Path) -> None:
    lab.server.add(*(answer("word " * 50 + str(number), size=5) for number in range(3)))
    async with (
        web_serving(lab, tmp_path) as door,
        RemoteClient(door.address, token=TOKEN, first_delay=0.001, timeout=SECONDS) as client,
    ):
        session = await client.open(cwd=lab.work)
        for number in range(3):
            texts: list[str] = []
            async for piece in session.stream_text("Go"):
                texts.append(piece)
                if len(texts) == 5:
                    door.cut()
            assert "".join(texts) == "word " * 50 + str(number)


async def test_only_the_right_token_is_let_in(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LUDOLF_DIR", str(lab.agent))
    async with web_serving(lab, tmp_path) as door:
        for given in ({}, {"token": "wrong"}):
            with pytest.raises(NotAdmitted):
                await RemoteClient(door.address, **given).connect()  # type: ignore[arg-type]
        (lab.agent / "serve-token").write_text(f"{TOKEN}\n")
        async with RemoteClient(door.address) as client:
            await client.ping()
        with pytest.raises(ServerUnreachable, match="HTTP 404"):
            await RemoteClient(f"{door.address}/elsewhere").connect()


async def test_a_certificate_is_checked(lab: Lab, tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate, key)
    async with web_serving(lab, tmp_path, tls) as door:
        with pytest.raises(ServerUnreachable, match=r"not trusted: .*Pass .* `ca`"):
            await RemoteClient(door.address, token=TOKEN).connect()
        async with RemoteClient(door.address, token=TOKEN, ca=str(certificate)) as client:
            await client.ping()


async def test_rpc_mode_connects_to_a_websocket(lab: Lab, tmp_path: Path) -> None:
    lab.server.add(answer("Hello."))
    (lab.agent / "serve-token").write_text(TOKEN)
    async with web_serving(lab, tmp_path) as door:
        async with lab.client("--connect", door.address, "--no-session") as client:
            assert types(await client.prompt_and_collect("Hi"))[-1] == "agent_settled"
        words = ("--mode", "rpc", "--connect", door.address, "--no-session")
        lines = b'{"id":1,"type":"get_state"}\n{"id":2,"type":"get_commands"}\n'
        done = await asyncio.to_thread(lab.run, *words, stdin=lines)
        assert (done.code, [each["id"] for each in done.records]) == (0, [1, 2])
        (lab.agent / "serve-token").unlink()
        done = await asyncio.to_thread(lab.run, *words)
    assert (done.code, done.stdout) == (1, b"")
    assert "token" in done.stderr
