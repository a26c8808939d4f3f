"""Clients of a server over a WebSocket: the token, the certificate, the same frames, cuts."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ludolf.client import NotAdmitted, RemoteClient, ServerUnreachable
from ludolf.config.settings.options import Options
from ludolf.serve.guard import load_guard
from ludolf.serve.options import ServeOptions
from ludolf.serve.server import SessionServer
from ludolf.serve.web import WebDoor, WebWaits
from tests.process.harness import Lab, types
from tests.process.script import answer
from tests.serve.certificates import make_certificate
from tests.serve.relay import TcpRelay

SECONDS = 30.0


@asynccontextmanager
async def web_serving(lab: Lab, **options: Any) -> AsyncIterator[str]:
    """The address of a server on a port, with the home of the lab."""
    base = Options(cwd=lab.work, environ=lab.env)
    given = ServeOptions(options=base, agent_dir=lab.agent, http=("127.0.0.1", 0), **options)
    server = SessionServer(given, load_guard(given))
    door = WebDoor(server, given, None, WebWaits(refusal=0.0))
    url = await door.open()
    try:
        yield url.replace("http", "ws", 1)
    finally:
        await server.close(0)
        await door.close()
        await server.tasks.close()


def token_of(lab: Lab) -> str:
    return (lab.agent / "serve-token").read_text().strip()


@pytest.mark.parametrize("seed", range(2))
async def test_cuts_at_random_places_lose_and_double_nothing(lab: Lab, seed: int) -> None:
    texts = ["word " * 50 + str(number) for number in range(5)]
    lab.server.add(*(answer(text, size=5) for text in texts))
    async with web_serving(lab) as address:
        port = int(address.rpartition(":")[2])
        async with (
            TcpRelay(port, seed=seed, life=(1, 5000)) as relay,
            RemoteClient(
                f"ws://127.0.0.1:{relay.port}",
                token=token_of(lab),
                first_delay=0.001,
                longest_delay=0.02,
                timeout=SECONDS,
            ) as client,
        ):
            relay.most = 30
            relay.cut()
            session = await client.open(cwd=lab.work)
            told = ["".join([piece async for piece in session.stream_text("Go")]) for _ in texts]
    assert relay.cuts > 5
    assert told == texts
    assert len(lab.server.requests) == len(texts)


async def test_only_the_right_token_is_let_in(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    async with web_serving(lab) as address:
        monkeypatch.setenv("LUDOLF_DIR", str(lab.root / "elsewhere"))
        for given in ({}, {"token": "wrong"}):
            with pytest.raises(NotAdmitted):
                await RemoteClient(address, **given).connect()  # type: ignore[arg-type]
        async with RemoteClient(address, token=token_of(lab)) as client:
            await client.ping()
        monkeypatch.setenv("LUDOLF_DIR", str(lab.agent))
        async with RemoteClient(address) as client:
            await client.ping()
        with pytest.raises(ServerUnreachable, match="HTTP 404"):
            await RemoteClient(f"{address}/elsewhere").connect()


async def test_a_certificate_is_checked(lab: Lab, tmp_path: Path) -> None:
    files = make_certificate(tmp_path)
    async with web_serving(lab, tls=files) as address:
        assert address.startswith("wss://")
        with pytest.raises(ServerUnreachable, match=r"not trusted: .*Pass .* `ca`"):
            await RemoteClient(address, token=token_of(lab)).connect()
        async with RemoteClient(address, token=token_of(lab), ca=str(files[0])) as client:
            await client.ping()


async def test_rpc_mode_connects_to_a_websocket(lab: Lab) -> None:
    lab.server.add(answer("Hello."))
    async with web_serving(lab) as address:
        async with lab.client("--connect", address, "--no-session") as client:
            assert types(await client.prompt_and_collect("Hi"))[-1] == "agent_settled"
        words = ("--mode", "rpc", "--connect", address, "--no-session")
        lines = b'{"id":1,"type":"get_state"}\n{"id":2,"type":"get_commands"}\n'
        done = await asyncio.to_thread(lab.run, *words, stdin=lines)
        assert (done.code, [each["id"] for each in done.records]) == (0, [1, 2])
        (lab.agent / "serve-token").unlink()
        done = await asyncio.to_thread(lab.run, *words)
    assert (done.code, done.stdout) == (1, b"")
    assert "token" in done.stderr
