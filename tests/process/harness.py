"""The real program in a home and a folder of its own, beside a scripted model server."""

import asyncio
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import IO, Any, cast

import msgspec

from ludolf.base import dumps, loads
from ludolf.client import Client, Record
from ludolf.client.exchange import SECONDS
from ludolf.client.process import Process
from tests.frames import dialect_of, frames_in, frames_out
from tests.process.fork_server import can_fork
from tests.process.forks import ForkedChild, ForkedProgram, run_forked
from tests.process.model_server import ModelServer

PROGRAM = (sys.executable, "-m", "ludolf")
RPC = (*PROGRAM, "--mode", "rpc")
SOURCE = Path(__file__).parents[2] / "src"
# So long is waited for what comes at once, since a busy machine may be ten times slower.
WAIT_SECONDS = 15.0
# Each API family by the model that speaks it here.
APIS = {
    "claude/large": "anthropic-messages",
    "chat/large": "openai-completions",
    "responses/large": "openai-responses",
    "gemini/large": "google-generative-ai",
}
_PATHS = {"chat": "/v1", "responses": "/v1", "gemini": "/v1beta"}
_COST = {"input": 1, "output": 2, "cacheRead": 0.5, "cacheWrite": 0}


class Finished(msgspec.Struct, frozen=True):
    """How a run of the program ended."""

    code: int
    stdout: bytes
    stderr: str

    @property
    def records(self) -> list[Record]:
        return [loads(line) for line in self.stdout.splitlines()]


class Lab:
    """One home, one working folder, one model server."""

    def __init__(self, root: Path, server: ModelServer) -> None:
        self.server = server
        self.root = root
        self.work = root / "work"
        self.agent = root / "home" / ".pi" / "agent"
        self.lines: list[bytes] = []
        # Whether clients fork a program that is imported already, or execute it.
        self.forks = True
        for folder in (self.work, self.agent, root / "tmp"):
            folder.mkdir(parents=True)
        self.settings(defaultProvider="claude", defaultModel="large")
        (self.agent / "models.json").write_bytes(dumps({"providers": self._providers()}))

    def settings(self, **settings: Any) -> None:
        path = self.agent / "settings.json"
        old = loads(path.read_bytes()) if path.exists() else {}
        # Retries without the patience that real servers need, and each time the same.
        retry = {"baseDelayMs": 1, "jitter": 0, **settings.pop("retry", old.get("retry", {}))}
        path.write_bytes(dumps({**old, **settings, "retry": retry}))

    @property
    def env(self) -> dict[str, str]:
        env = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(self.root / "home"),
            "TMPDIR": str(self.root / "tmp"),
            "LANG": "C.UTF-8",
            "LUDOLF_LOCAL_SERVERS": "0",  # those of whoever runs the tests do not count
        }
        return env if _is_installed() else {**env, "PYTHONPATH": str(SOURCE)}

    # ------------------------------------------------------------ starting the program

    def client(self, *arguments: str, **env: str) -> Client:
        """An RPC client; `lines` of the lab keep all that it reads, and all of it is checked."""
        environ = {**self.env, **env}
        kind = Forked if self.forks and can_fork(environ) else Watched
        return kind(self.lines, arguments, self.work, environ)

    def run(
        self, *arguments: str, stdin: bytes = b"", program: Sequence[str] = PROGRAM, **env: str
    ) -> Finished:
        """Run to the end, with all of stdin given at once."""
        environ = {**self.env, **env}
        if program is PROGRAM and self.forks and can_fork(environ):
            done = run_forked(arguments, str(self.work), environ, stdin, 2 * WAIT_SECONDS)
        else:
            done = subprocess.run(
                [*program, *arguments],
                cwd=self.work,
                env=environ,
                input=stdin,
                capture_output=True,
                timeout=2 * WAIT_SECONDS,
                check=False,
            )
        if program is PROGRAM and "--mode" in arguments and "text" not in arguments:
            check_lines(dialect_of(arguments, environ), done.stdout.split(b"\n")[:-1])
        return Finished(done.returncode, done.stdout, done.stderr.decode())

    def feed(self, *chunks: bytes) -> list[Record]:
        """Start RPC mode, write the chunks one by one, end the input; all that it said."""
        done = self.popen()
        assert done.stdin is not None
        with done:
            writer = threading.Thread(target=_write_chunks, args=(done.stdin, chunks))
            writer.start()
            stdout, stderr = _read_both(done)
            writer.join(WAIT_SECONDS)
            code = done.wait(WAIT_SECONDS)
        assert code == 0, stderr
        lines = stdout.split(b"\n")[:-1]
        check_lines(dialect_of((), self.env), lines)
        return [loads(line) for line in lines]

    def popen(self, *arguments: str, **env: str) -> "subprocess.Popen[bytes]":
        """RPC mode with bare pipes."""
        environ = {**self.env, **env}
        if self.forks and can_fork(environ):
            forked = ForkedProgram(["--mode", "rpc", *arguments], str(self.work), environ)
            return cast("subprocess.Popen[bytes]", forked)
        return subprocess.Popen(
            [*RPC, *arguments],
            cwd=self.work,
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
        )

    # ------------------------------------------------------------ what it left

    @property
    def sessions(self) -> list[Path]:
        return sorted((self.agent / "sessions").rglob("*.jsonl"))

    @property
    def entries(self) -> list[Record]:
        """The entries of the only session, without its header."""
        (path,) = self.sessions
        return read_entries(path)

    def _providers(self) -> dict[str, Any]:
        return {
            name.partition("/")[0]: {
                "baseUrl": self.server.url + _PATHS.get(name.partition("/")[0], ""),
                "api": api,
                "apiKey": "key-of-the-lab",
                "models": [
                    {
                        "id": "large",
                        "reasoning": True,
                        "input": ["text", "image"],
                        "contextWindow": 200_000,
                        "maxTokens": 8_000,
                        "cost": _COST,
                    }
                ],
            }
            for name, api in APIS.items()
        }


class Patient(Client):
    """Waits longer than hosts do for what comes at once."""

    @asynccontextmanager
    async def _limit(self, seconds: float | None, what: str) -> AsyncIterator[None]:
        patience = WAIT_SECONDS if seconds == SECONDS else seconds
        async with super()._limit(patience, what):
            yield


class Watched(Patient):
    """All frames of the program, and each command that succeeds, are as the published schema
    tells."""

    def __init__(
        self, lines: list[bytes], arguments: Sequence[str], cwd: Path, env: Mapping[str, str]
    ) -> None:
        super().__init__(*arguments, program=RPC, cwd=cwd, env=env, trace=self._check)
        self._lines = lines
        self._dialect = dialect_of(arguments, env)
        self._sent: dict[bytes, Record] = {}

    async def close(self) -> int:
        await self._tasks.close()
        return await self.process.close(WAIT_SECONDS)

    async def send(self, command: str, /, **params: Any) -> Any:
        command_id = await super().send(command, **params)
        self._sent[dumps(command_id)] = loads(dumps({**params, "type": command}))
        return command_id

    def _check(self, line: bytes) -> None:
        self._lines.append(line)
        record = loads(line)
        frames_out(self._dialect).check(record)
        if record["type"] == "response" and record["success"] and "id" in record:
            asked = self._sent.pop(dumps(record["id"]), None)
            # Families that acknowledge a prompt before they look at it may refuse it afterwards.
            early = self.wire.greets and record["command"] in ("prompt", "abort_and_prompt")
            if asked is not None and not early:
                frames_in().check(asked)


class ForkedClient(Patient):
    """A client of a program that is forked from one that is imported already."""

    async def _launch(self) -> Process:
        words = self._start.command[len(PROGRAM) :]
        cwd, env = self._options["cwd"], self._options["env"]
        assert cwd is not None
        assert env is not None
        child = await ForkedChild.start(words, str(cwd), env)
        return Process(cast(asyncio.subprocess.Process, child), self._start.name)


class Forked(ForkedClient, Watched):
    """A program that is forked, and whose frames are checked."""


def check_lines(dialect: str, lines: Iterable[bytes]) -> None:
    """All that the program says is as its published schema tells."""
    for line in lines:
        frames_out(dialect).check(loads(line))


def read_entries(path: Path) -> list[Record]:
    """The entries of a session file; every line of it must be whole."""
    text = path.read_bytes()
    assert text.endswith(b"\n")
    header, *entries = [loads(line) for line in text.splitlines()]
    assert header["type"] == "session"
    return entries


def messages(entries: Iterable[Record]) -> list[Record]:
    """The messages that entries hold."""
    return [entry["message"] for entry in entries if entry["type"] == "message"]


def types(records: Iterable[Record]) -> list[str]:
    """The types of records; those of messages with their role, those of updates with their kind."""
    return [_name(record) for record in records]


def _name(record: Record) -> str:
    kind: str = record["type"]
    if kind in ("message_start", "message_end"):
        return f"{kind} {record['message']['role']}"
    if kind == "message_update":
        return str(record["assistantMessageEvent"]["type"])
    if kind.startswith("tool_execution"):
        return f"{kind} {record['toolCallId']}"
    return f"response {record['command']}" if kind == "response" else kind


def text_of(message: Record) -> str:
    """The text blocks of a message or of a tool's result."""
    return "".join(block["text"] for block in message["content"] if block["type"] == "text")


def only(records: Iterable[Record], kind: str) -> list[Record]:
    return [record for record in records if record["type"] == kind]


# ---------------------------------------------------------------- processes


class Bell:
    """A named pipe: a command rings it by writing, a test waits for that."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = path
        self._descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)

    def rings(self, seconds: float = WAIT_SECONDS) -> bool:
        """Whether it has been rung within the time; once only."""
        try:
            return _is_readable(self._descriptor, seconds)
        finally:
            os.close(self._descriptor)


def survivors(pids: Iterable[int], seconds: float = WAIT_SECONDS) -> list[int]:
    """Those processes that are still there after the time, or sooner if all are gone."""
    deadline = time.monotonic() + seconds
    return [pid for pid in pids if not _is_gone_by(pid, deadline)]


def _is_gone_by(pid: int, deadline: float) -> bool:
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return _is_readable(descriptor, max(0.0, deadline - time.monotonic()))
    finally:
        os.close(descriptor)


def _is_readable(descriptor: int, seconds: float) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


def resident_bytes(pid: int) -> int:
    """How much memory a process holds."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _is_installed() -> bool:
    try:
        distribution("ludolf")
    except PackageNotFoundError:
        return False
    return True


def write_all(pipe: IO[bytes], data: bytes) -> None:
    """Write all of it to an unbuffered pipe."""
    view = memoryview(data)
    while view:
        view = view[pipe.write(view) :]


def _write_chunks(pipe: IO[bytes], chunks: Iterable[bytes]) -> None:
    with pipe:
        for chunk in chunks:
            write_all(pipe, chunk)


def _read_both(process: "subprocess.Popen[bytes]") -> tuple[bytes, str]:
    assert process.stdout is not None
    assert process.stderr is not None
    kept: list[bytes] = []
    errors = process.stderr
    reader = threading.Thread(target=lambda: kept.append(errors.read()))
    reader.start()
    stdout = process.stdout.read()
    reader.join(WAIT_SECONDS)
    return stdout, b"".join(kept).decode()
