"""A real `ludolf serve`, and the clients of a transcript on its socket."""

import asyncio
import contextlib
import json
import re
import socket
import ssl
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from ludolf.agent.scope import Tasks
from tests.examples.ground import Ground
from tests.frames import server_frames_in, server_frames_out
from tests.process.harness import WAIT_SECONDS
from tests.process.test_protocol_page import ANYTHING, fits, read_expected

FOLDER = "/home/me/demo"


class Served:
    """A server that runs; `said` is its first line."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.process = process
        assert process.stdout is not None
        self.said = json.loads(process.stdout.readline())
        self.socket = str(self.said.get("socket"))
        self.url = str(self.said.get("url"))

    def end(self) -> int:
        """End it as a service manager does; returns its exit code."""
        self.process.terminate()
        return self.process.wait(WAIT_SECONDS)


@contextmanager
def served(ground: Ground, *options: str) -> Iterator[Served]:
    """`ludolf serve`, with a socket whose path is short enough for every system."""
    with tempfile.TemporaryDirectory(prefix="l", dir="/tmp") as folder:
        ground.env["XDG_RUNTIME_DIR"] = folder
        with ground.started("ludolf", "serve", *options) as process:
            yield Served(process)


class Client:
    """One client of a transcript; every frame that it reads is checked against the schema."""

    def __init__(self, place: str) -> None:
        self._connection = socket.socket(socket.AF_UNIX)
        self._connection.settimeout(WAIT_SECONDS)
        self._connection.connect(place)
        self._lines = self._connection.makefile("rb")

    def send(self, text: str) -> None:
        server_frames_in().check(json.loads(text))
        self._connection.sendall(text.encode() + b"\n")

    def read(self) -> Any:
        try:
            frame = json.loads(self._lines.readline())
        except TimeoutError:
            return None
        server_frames_out().check(frame)
        return frame

    def cut(self) -> None:
        self._lines.close()
        self._connection.close()


class Transcript:
    """Plays the lines of one example, and remembers what its `$names` stand for."""

    def __init__(self, place: str, work: Path) -> None:
        self._place = place
        self._work = str(work)
        self._clients: dict[str, Client] = {}
        self._names: dict[str, Any] = {}
        self._may_skip: set[str] = set()

    def play(self, line: str) -> None:
        found = re.fullmatch(r"([a-z])([<>!])(?: (.*))?", line)
        assert found is not None, f"neither sent nor expected: {line}"
        name, direction, text = found[1], found[2], (found[3] or "").replace(FOLDER, self._work)
        if direction == "!":
            self._clients.pop(name).cut()
            return
        if name not in self._clients:
            self._clients[name] = Client(self._place)
        if direction == ">":
            known = re.sub(r'"(\$\w+)"', lambda one: json.dumps(self._names[one[1]]), text)
            self._clients[name].send(known)
        elif text == ANYTHING:
            self._may_skip.add(name)
        else:
            self._expect(name, text)

    def _expect(self, name: str, text: str) -> None:
        expected = read_expected(text)
        skipped: list[str] = []
        while (frame := self._clients[name].read()) is not None:
            known = dict(self._names)
            if fits(expected, frame, known):
                self._names = known
                self._may_skip.discard(name)
                return
            skipped.append(json.dumps(frame)[:300])
            if name not in self._may_skip:
                break
        pytest.fail(f"{name} did not read: {text}\nbut: " + "\n     ".join(skipped))

    def close(self) -> None:
        for client in self._clients.values():
            client.cut()


# ---------------------------------------------------------------- TLS in front of the server


@asynccontextmanager
async def tls_relay(_: str, port: int, files: tuple[Path, Path]) -> AsyncIterator[int]:
    """A proxy that terminates TLS and passes all bytes on at once; yields its port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*files)

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back, forth = await asyncio.open_connection("127.0.0.1", port)
        try:
            await asyncio.gather(pump(reader, forth), pump(back, writer))
        finally:
            forth.close()
            writer.close()

    tasks = Tasks()

    def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.start(pass_on(reader, writer))

    relay = await asyncio.start_server(
        meet,
        "127.0.0.1",
        0,
        ssl=context,
    )
    try:
        yield relay.sockets[0].getsockname()[1]
    finally:
        relay.close()
        await tasks.close()


@asynccontextmanager
async def nginx(text: str, port: int, files: tuple[Path, Path]) -> AsyncIterator[int]:
    """A real nginx with this block `server` and these files; yields its port."""
    folder = files[0].parent
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        own = probe.getsockname()[1]
    block = text.replace("listen 443", f"listen 127.0.0.1:{own}").replace(":8765", f":{port}")
    block = block.replace("/etc/ssl/agents.pem", str(files[0]))
    block = block.replace("/etc/ssl/agents.key", str(files[1]))
    logs = "error_log stderr; pid nginx.pid; events {}\nhttp { access_log off;\n"
    (folder / "whole.conf").write_text(f"daemon off; master_process off; {logs}{block}}}\n")
    process = await asyncio.create_subprocess_exec(
        "nginx", "-p", str(folder), "-c", str(folder / "whole.conf")
    )
    try:
        await _answers(own)
        yield own
    finally:
        process.terminate()
        await process.wait()


async def _answers(port: int) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        while True:
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                return
            await asyncio.sleep(0)
