"""Forked programs as tests use them: with pipes on the loop, or run to their end."""

import asyncio
import os
import select
import signal
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Self

from tests.process.fork_server import fork, read_status

_PIPE_LIMIT = 1 << 16


def run_forked(
    words: Sequence[str], cwd: str, env: Mapping[str, str], stdin: bytes, seconds: float
) -> "subprocess.CompletedProcess[bytes]":
    """Fork a program and wait for its end, as `subprocess.run` does.

    Raises:
        TimeoutExpired: it took longer; it is killed.
    """
    given, feed = os.pipe()
    output, stdout = os.pipe()
    errors, stderr = os.pipe()
    try:
        pid, status = fork(words, cwd, env, (given, stdout, stderr))
    finally:
        for descriptor in (given, stdout, stderr):
            os.close(descriptor)
    with ThreadPoolExecutor(3) as threads:
        threads.submit(_write_all, feed, stdin)
        reads = [threads.submit(_read_all, descriptor) for descriptor in (output, errors)]
        ended, _, _ = select.select([status], [], [], seconds)
        if not ended:
            os.kill(pid, signal.SIGKILL)
        code = read_status(status)
        out, err = (read.result() for read in reads)
    if not ended:
        raise subprocess.TimeoutExpired(list(words), seconds, out, err)
    return subprocess.CompletedProcess(list(words), code, out, err)


def _write_all(descriptor: int, data: bytes) -> None:
    with suppress(BrokenPipeError), open(descriptor, "wb") as pipe:
        pipe.write(data)


def _read_all(descriptor: int) -> bytes:
    with open(descriptor, "rb") as pipe:
        return pipe.read()


class ForkedProgram:
    """A forked program, with the members of an unbuffered `subprocess.Popen` that tests use."""

    def __init__(self, words: Sequence[str], cwd: str, env: Mapping[str, str]) -> None:
        stdin, feed = os.pipe()
        output, stdout = os.pipe()
        errors, stderr = os.pipe()
        try:
            self.pid, self._status = fork(words, cwd, env, (stdin, stdout, stderr))
        finally:
            for descriptor in (stdin, stdout, stderr):
                os.close(descriptor)
        self._words = list(words)
        self.returncode: int | None = None
        self.stdin = open(feed, "wb", buffering=0)  # noqa: SIM115 - closed at the end of the block
        self.stdout = open(output, "rb", buffering=0)  # noqa: SIM115
        self.stderr = open(errors, "rb", buffering=0)  # noqa: SIM115

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for pipe in (self.stdout, self.stderr, self.stdin):
            pipe.close()
        self.wait()

    def poll(self) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Raises:
        TimeoutExpired: it has not ended.
        """
        if self.returncode is None:
            ended, _, _ = select.select([self._status], [], [], timeout)
            if not ended:
                raise subprocess.TimeoutExpired(self._words, timeout or 0)
            self.returncode = read_status(self._status)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def communicate(self, data: bytes = b"", timeout: float | None = None) -> tuple[bytes, bytes]:
        """Raises:
        TimeoutExpired: it has not ended; what it said is lost.
        """
        with ThreadPoolExecutor(3) as threads:
            threads.submit(_write_all, os.dup(self.stdin.fileno()), data)
            self.stdin.close()
            reads = [threads.submit(pipe.readall) for pipe in (self.stdout, self.stderr)]
            try:
                self.wait(timeout)
            except subprocess.TimeoutExpired:
                self.kill()  # so that the reads end
                raise
            out, err = (read.result() for read in reads)
        return out, err


class PipeChild:
    """Pipes on the loop, with the members of `asyncio.subprocess.Process` that a client uses."""

    pid: int
    returncode: int | None = None
    stdin: asyncio.StreamWriter
    stdout: asyncio.StreamReader
    stderr: asyncio.StreamReader

    def __init__(self) -> None:
        self._transport = self  # which a client closes if a grandchild holds the output open
        self._pipes: list[asyncio.BaseTransport] = []
        self._loop = asyncio.get_running_loop()

    async def connect(self) -> tuple[int, int, int]:
        """Open our ends of the pipes; returns those of the program."""
        stdin, feed = os.pipe()
        output, stdout = os.pipe()
        errors, stderr = os.pipe()
        self.stdin = await self._writer(feed)
        self.stdout = await self._reader(output)
        self.stderr = await self._reader(errors)
        return stdin, stdout, stderr

    def close(self) -> None:
        for pipe in self._pipes:
            pipe.close()

    async def _writer(self, descriptor: int) -> asyncio.StreamWriter:
        pipe = open(descriptor, "wb", buffering=0)  # noqa: SIM115, ASYNC230 - the transport closes it
        transport, protocol = await self._loop.connect_write_pipe(
            asyncio.streams.FlowControlMixin, pipe
        )
        self._pipes.append(transport)
        return asyncio.StreamWriter(transport, protocol, None, self._loop)

    async def _reader(self, descriptor: int) -> asyncio.StreamReader:
        pipe = open(descriptor, "rb", buffering=0)  # noqa: SIM115, ASYNC230 - the transport closes it
        reader = asyncio.StreamReader(_PIPE_LIMIT, self._loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=self._loop)
        transport, _ = await self._loop.connect_read_pipe(lambda: protocol, pipe)
        self._pipes.append(transport)
        return reader


class ForkedChild(PipeChild):
    """A process that the fork server started."""

    def __init__(self) -> None:
        super().__init__()
        self._ended: asyncio.Future[int] = self._loop.create_future()

    @classmethod
    async def start(cls, words: Sequence[str], cwd: str, env: Mapping[str, str]) -> Self:
        child = cls()
        theirs = await child.connect()
        try:
            child.pid, status = fork(words, cwd, env, theirs)
        finally:
            for descriptor in theirs:
                os.close(descriptor)
        child._loop.add_reader(status, child._end, status)
        return child

    async def wait(self) -> int:
        return await asyncio.shield(self._ended)

    def _end(self, status: int) -> None:
        self._loop.remove_reader(status)
        self.returncode = read_status(status)
        self._ended.set_result(self.returncode)
        self.stdin.close()
