"""A server that runs as a child process: one JSON-RPC message per line of stdin and stdout."""

import asyncio
import os
from collections.abc import Mapping

from ludolf.base import expand_user, user_dir
from ludolf.base.jsonrpc import OutgoingCall, RpcFrame
from ludolf.mcp.link import LinkOwner
from ludolf.mcp.wire import McpError, StdioServer
from ludolf.tools.piped_process import PipedProcess
from ludolf.tools.process import ProcessCommand, StartError
from ludolf.tools.supervisor import GRACE_SECONDS

MAX_LINE_BYTES = 32 << 20
STDERR_BYTES = 64 << 10
# Bytes that may wait for a server that does not read its stdin.
MAX_UNSENT_BYTES = 64 << 20
# Length of the part of stderr that an error quotes.
_SHOWN_LINES, _SHOWN_CHARACTERS = 3, 500


class StdioLink:
    """A link to a server that is a child process."""

    def __init__(
        self,
        server: StdioServer,
        owner: LinkOwner,
        *,
        max_line: int = MAX_LINE_BYTES,
        grace: float = GRACE_SECONDS,
    ) -> None:
        self._server = server
        self._owner = owner
        self._max_line = max_line
        self._grace = grace
        self._line = bytearray()
        self._errors = bytearray()
        self._gone = False
        self._process: PipedProcess | None = None
        # Done when the server has written its first byte.
        self.heard: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # A pipe has no sessions.
        self.session: str | None = None

    async def start(self) -> None:
        """Start the process.

        Raises:
            McpError: the program does not exist or cannot be started.
        """
        server = self._server
        argv = (server_program(server), *server.argv[1:])
        command = ProcessCommand(argv=argv, cwd=server.cwd, env=server.env)
        self._process = PipedProcess(command, self)
        try:
            await self._process.start()
        except StartError as error:
            raise McpError(str(error)) from error

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    @property
    def stderr(self) -> str:
        """The last 64 KiB that the server wrote to stderr."""
        return self._errors.decode("utf-8", "replace")

    async def exchange(self, call: OutgoingCall, headers: Mapping[str, str]) -> object:
        """Send a request and return the result; there are no headers on a pipe."""
        self.send(call.frame)
        return await call.answer

    def send(self, frame: bytes) -> None:
        """Send a message without waiting."""
        if self._process is None or self._gone:
            return
        self._process.write(frame + b"\n")
        if self._process.unsent_bytes > MAX_UNSENT_BYTES:
            self._lose("does not read its input")

    async def handshake_done(self, version: str) -> None:
        """Nothing to do: a pipe needs no version in each message."""

    async def close(self) -> None:
        """End the server and everything that it started, within about two seconds."""
        self._gone = True
        if self._process is not None:
            await self._process.end(self._grace)

    # ------------------------------------------------------------ output of the process

    def take_output(self, chunk: bytes) -> None:
        if self._gone:
            return
        if not self.heard.done():
            self.heard.set_result(None)
        start = 0
        while (end := chunk.find(b"\n", start)) >= 0 and not self._gone:
            if self._line:
                self._line += chunk[start:end]
                line, self._line = self._line, bytearray()
                self._take_line(line)
            else:
                self._take_line(chunk[start:end])
            start = end + 1
        if start < len(chunk) and not self._gone:
            self._line += chunk[start:]
            if len(self._line) > self._max_line:
                self._lose_long_line()

    def take_diagnostics(self, chunk: bytes) -> None:
        self._errors += chunk
        if len(self._errors) > STDERR_BYTES:
            del self._errors[:-STDERR_BYTES]

    def output_ended(self, code: int | None) -> None:
        self._lose(_ending(code) + self._last_words())

    def _take_line(self, line: RpcFrame) -> None:
        if len(line) > self._max_line:
            self._lose_long_line()
        elif line:
            self._owner.received(line)

    def _lose_long_line(self) -> None:
        self._lose(f"wrote a line that was too long, more than {self._max_line >> 20} MiB")

    def _lose(self, reason: str) -> None:
        if self._gone:
            return
        self._gone = True
        self._line = bytearray()
        self._owner.lost(f"The server {reason}")

    def _last_words(self) -> str:
        lines = ["".join(filter(str.isprintable, line)) for line in self.stderr.splitlines()]
        text = "\n".join([line.strip() for line in lines if line.strip()][-_SHOWN_LINES:])
        return f": {text[-_SHOWN_CHARACTERS:]}" if text else ""


def _ending(code: int | None) -> str:
    if code is None:
        return "closed its output"
    if code < 0:
        return f"was ended by signal {-code}"
    return f"ended with exit code {code}"


def server_program(server: StdioServer) -> str:
    """Return the path of the program: relative to the server's folder, or found in its PATH.

    Raises:
        McpError: there is no such program.
    """
    name = server.argv[0]
    if not os.path.isdir(server.cwd):
        raise McpError(f"Cannot start {name}: the folder {server.cwd} does not exist")
    if "/" in name:
        path = os.path.join(server.cwd, expand_user(name, user_dir(server.env)))
        if os.path.isfile(path):
            return path
        raise McpError(f"Cannot start {name}: the file does not exist")
    for folder in server.env.get("PATH", os.defpath).split(os.pathsep):
        path = os.path.join(server.cwd, folder, name)
        if folder and os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    raise McpError(f"Cannot start {name}: no such program in PATH. Install it or correct `command`")
