"""The program in a thread of the test: real pipes and a real engine, without a process.

For tests that use a client and the model server, but whose subject is not the process. The thread
takes over the environment, the folder, the temporary folder and stderr of the whole process, so
only one program can run at a time.
"""

import asyncio
import os
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, cast

from ludolf.base import LudolfError
from ludolf.cli.main import _in_our_words
from ludolf.client import Client
from ludolf.client.process import Process
from ludolf.config.settings.arguments import Arguments, parse
from ludolf.config.settings.home import current_folder
from ludolf.engine.build import build
from ludolf.protocol.dialects import make_dialect
from ludolf.protocol.framing import Frame
from ludolf.rpc.line_reader import Ear
from ludolf.rpc.server import Server
from ludolf.rpc.stdio import Stdio
from tests.frames import dialect_of
from tests.process.forks import PipeChild
from tests.process.harness import PROGRAM, WAIT_SECONDS, Lab, Watched

_ALONE = threading.Lock()


class ThreadLab(Lab):
    """A lab whose clients run the program in a thread, unless it is to be executed."""

    def client(self, *arguments: str, **env: str) -> Client:
        if not self.forks:
            return super().client(*arguments, **env)
        return Inside(self.lines, arguments, self.work, {**self.env, **env})


class Inside(Watched):
    """A client of a program in a thread."""

    async def _launch(self) -> Process:
        words = self._start.command[len(PROGRAM) :]
        cwd, env = self._options["cwd"], self._options["env"]
        assert cwd is not None
        assert env is not None
        child = ThreadChild()
        await child.start(words, str(cwd), env)
        return Process(cast(asyncio.subprocess.Process, child), self._start.name)


class ThreadChild(PipeChild):
    """A thread that a client takes for a process. It gets no signals; its input ends it."""

    pid = -1
    returncode = 0

    async def start(self, words: Sequence[str], cwd: str, env: Mapping[str, str]) -> None:
        pipes = await self.connect()
        self._code = 0
        self._thread = threading.Thread(
            target=self._run, args=(words, cwd, env, pipes), daemon=True
        )
        self._thread.start()

    async def wait(self) -> int:
        await asyncio.to_thread(self._thread.join, WAIT_SECONDS)
        return self._code

    def _run(
        self, words: Sequence[str], cwd: str, env: Mapping[str, str], pipes: tuple[int, int, int]
    ) -> None:
        stdin, stdout, stderr = pipes
        with (
            open(stdin, "rb", buffering=0) as given,
            open(stdout, "wb", buffering=0) as said,
            open(stderr, "w", buffering=1) as told,
        ):
            try:
                with _ALONE, _surroundings(cwd, env, told):
                    arguments = parse(_in_our_words(words))
                    told.writelines(f"Warning: {text}\n" for text in arguments.warnings)
                    arguments.cwd = current_folder()
                    asyncio.run(_serve(arguments, dialect_of(words, env), Pipes(given, said)))
            except LudolfError as error:
                told.write(f"Error: {error}\n")
                self._code = 1


class _Ending(asyncio.BaseProtocol):
    def __init__(self, closed: "asyncio.Future[None]") -> None:
        self._closed = closed

    def connection_lost(self, error: Exception | None) -> None:
        self._closed.set_result(None)


class Pipes:
    """The members of `Stdio` that a server uses, on two pipes. There is always room."""

    def __init__(self, given: IO[bytes], said: IO[bytes]) -> None:
        self._given, self._said = given, said

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        pipe = os.fdopen(os.dup(self._said.fileno()), "wb", 0)
        self._closed: asyncio.Future[None] = loop.create_future()
        self._transport, _ = await loop.connect_write_pipe(lambda: _Ending(self._closed), pipe)

    def lines(self, feed: Callable[[list[bytes]], None], end: Callable[[], None]) -> None:
        Ear(self._given.fileno(), feed, end).open()

    def send(self, frame: Frame) -> None:
        self._transport.write(frame if isinstance(frame, bytes) else b"".join(frame))

    def hold(self, frame: Frame) -> None:
        self.send(frame)

    def flush(self) -> bool:
        return True

    def has_room(self) -> bool:
        return True

    async def room(self) -> None:
        """There is always room."""

    async def drain(self, seconds: float) -> None:
        self._transport.close()  # which sends the rest first
        await asyncio.wait((self._closed,), timeout=seconds)


async def _serve(arguments: Arguments, dialect: str, pipes: Pipes) -> None:
    engine = build(arguments)
    await pipes.open()
    server = Server(engine, make_dialect(dialect), cast(Stdio, pipes))
    await engine.start("rpc", server.ask)
    await server.serve()


@contextmanager
def _surroundings(cwd: str, env: Mapping[str, str], stderr: IO[str]) -> Iterator[None]:
    """What belongs to a process: for the program as it would find it, then as it was."""
    before = dict(os.environ)
    folder, streams = os.getcwd(), (sys.stderr, sys.stdout, sys.__stdout__)
    temporary, tempfile.tempdir = tempfile.tempdir, None
    _set_environment(env)
    os.chdir(cwd)
    sys.stderr = stderr
    try:
        with warnings.catch_warnings():
            # Tests raise all warnings; this one is about the speed of large requests.
            warnings.filterwarnings("ignore", "Sending a large body", ResourceWarning)
            yield
    finally:
        sys.stderr, sys.stdout = streams[:2]
        sys.__stdout__ = streams[2]  # type: ignore[misc]  # the loader of extensions changes it
        os.chdir(folder)
        _set_environment(before)
        tempfile.tempdir = temporary


def _set_environment(env: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(env)
