"""`--mode rpc --connect ADDRESS`: serve the host on stdio from a session of a server.

The server speaks the protocol of RPC mode; this side only moves bytes.
"""

import asyncio
import math
import os
import secrets
import sys
from contextlib import suppress
from typing import Any

from ludolf.agent.scope import Tasks
from ludolf.base import CommandError, dumps, loads
from ludolf.base.addresses import Address, parse_address
from ludolf.base.byte_pipes import BytePipe, open_pipe
from ludolf.config.settings.arguments import Arguments
from ludolf.config.settings.home import current_folder
from ludolf.config.settings.server_places import token_for
from ludolf.config.settings.session_request import session_choices, session_environment
from ludolf.rpc.signals import Stop, watch_signals
from ludolf.rpc.stdio import Stdio

LAST_WORDS_SECONDS = 0.5
LOST = 1
_ABORT = b'{"type":"abort"}\n'
# Bytes that may wait for the server before nothing more is read from the host.
_UNSENT = 1 << 20


def run_connected(arguments: Arguments, dialect: str, address: str) -> int:
    """Serve the host on stdin and stdout until its input ends; returns the exit code.

    Raises:
        LudolfError: the server cannot be reached, or it refuses the session.
    """
    arguments.cwd = current_folder()
    return asyncio.run(_main(arguments, dialect, parse_address(address)))


async def _main(arguments: Arguments, dialect: str, address: Address) -> int:
    pipe = await open_pipe(address)
    try:
        opening = Opening(pipe, address)
        await opening.ask("hello", _hello(address, dialect))
        await opening.ask("open", _open(arguments))
        return await move_lines(pipe, opening.rest, aborts=arguments.on_eof == "abort")
    finally:
        await pipe.close()


def token_of(address: Address) -> dict[str, str]:
    """The parameter of `hello` for a server on this machine."""
    token = token_for(address, os.environ)
    return {"token": token} if token else {}


def _hello(address: Address, dialect: str) -> dict[str, Any]:
    return {"bare": True, "dialect": dialect, **token_of(address)}


def _open(arguments: Arguments) -> dict[str, Any]:
    session = "last" if arguments.continue_last else arguments.session
    wanted = {} if session is None else {"session": session}
    env, options = session_environment(os.environ), session_choices(arguments)
    return {"cwd": str(arguments.cwd), **wanted, "env": env, "options": options}


class Opening:
    """The first commands and their replies; `rest` are the bytes after them."""

    def __init__(self, pipe: BytePipe, address: Address) -> None:
        self._pipe = pipe
        self._address = address
        self._count = 0
        self.rest = b""

    async def ask(self, command: str, params: dict[str, Any]) -> bytes:
        """Return the line of the reply.

        Raises:
            CommandError: the server refuses the command, or closes the connection.
        """
        self._count += 1
        line = dumps({"id": f"connect-{self._count}", "type": command, **params}) + b"\n"
        with suppress(ConnectionError):  # its last words may say why
            await self._pipe.write(line)
        found = await self._line()
        try:
            reply = loads(found)
        except (ValueError, RecursionError):
            reply = None
        if not isinstance(reply, dict) or not reply.get("success"):
            text = reply.get("error") if isinstance(reply, dict) else None
            raise CommandError(str(text or f"{self._address} is not a server of Ludolf."))
        return found

    async def _line(self) -> bytes:
        while b"\n" not in self.rest:
            chunk = await self._pipe.read()
            if not chunk:
                raise CommandError(f"The server at {self._address} closed the connection.")
            self.rest += chunk
        line, _, self.rest = self.rest.partition(b"\n")
        return line


async def move_lines(pipe: BytePipe, begun: bytes, *, aborts: bool = False) -> int:
    """Move lines between stdio and a server; returns the exit code.

    `begun` is written first. After the end of input, the server answers what it has read;
    `aborts`: it stops the run too.
    """
    stop = Stop()
    with Stdio(on_broken=lambda: stop(LOST)) as stdio:
        pump = _Pump(pipe, stdio, aborts=aborts)
        watch_signals(stop)
        code = await stop.race(pump.run(begun))
        if code is None and not pump.input_ended:
            sys.stderr.write("Error: The server closed the connection.\n")
            code = LOST
        elif code == LOST:
            sys.stderr.write("Error: stdout was closed by the reader\n")
        if code is not None:
            stdio.leave()
        await stdio.drain(LAST_WORDS_SECONDS)
        return code or 0


class _Pump:
    """Bytes both ways, until the server closes the connection."""

    def __init__(self, pipe: BytePipe, stdio: Stdio, *, aborts: bool) -> None:
        self._pipe = pipe
        self._stdio = stdio
        self._aborts = aborts
        self._lines: list[bytes] = []
        self._size = 0
        self._due = asyncio.Event()
        self.input_ended = False
        # The id of a command whose reply comes after those of the host, where the connection
        # cannot be closed in one direction only.
        self._mark = b""
        self._is_done = False

    async def run(self, begun: bytes) -> None:
        self._stdio.lines(self._take, self._end)
        tasks = Tasks()
        tasks.start(self._send())
        try:
            data = begun or await self._pipe.read()
            while data:
                self._stdio.send(self._without_mark(data))
                await self._stdio.room()
                data = b"" if self._is_done else await self._pipe.read()
            await self._stdio.drain(math.inf)
        finally:
            await tasks.close()

    def _without_mark(self, data: bytes) -> bytes:
        if not self._mark or self._mark not in data:
            return data
        self._is_done = True
        lines = data.splitlines(keepends=True)
        return b"".join(line for line in lines if self._mark not in line)

    def _take(self, lines: list[bytes]) -> None:
        self._lines += lines
        self._size += sum(map(len, lines))
        if self._size > _UNSENT:
            self._stdio.pause_input()
        self._due.set()

    def _end(self) -> None:
        self.input_ended = True
        self._due.set()

    async def _send(self) -> None:
        with suppress(ConnectionError):  # the reader sees the same end
            while True:
                await self._due.wait()
                self._due.clear()
                lines, self._lines, self._size = self._lines, [], 0
                if lines:
                    await self._pipe.write(b"\n".join((*lines, b"")))
                self._stdio.resume_input()
                if self.input_ended and not self._lines:
                    break
            if self._aborts:
                await self._pipe.write(_ABORT)
            if self._pipe.half_closes:
                self._pipe.end()
            else:
                self._mark = b"last-" + secrets.token_hex(16).encode()
                await self._pipe.write(b'{"id":"%b","type":"get_state"}\n' % self._mark)
