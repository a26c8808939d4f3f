"""A host with bad manners: writes without waiting, stops reading, and keeps a log of both sides."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

from ludolf.agent.scope import Tasks
from ludolf.base import dumps, loads
from tests.loop.law_of_commands import NOW
from tests.loop.laws import Log, Said, Sent
from tests.process.harness import RPC, Lab

Record = dict[str, Any]
LONGEST_LINE = 1 << 28
REPLY_SECONDS = 60.0


class Host:
    """One life of the program. `open` are the commands that wait for their reply."""

    def __init__(self, lab: Lab, *words: str, env: dict[str, str]) -> None:
        self._lab, self._words, self._env = lab, words, env
        self.log: Log = []
        self.open: dict[str, Record] = {}
        self.answered = 0
        self.refused = 0
        self.settled = 0
        self.unnamed = 0
        self.ended: list[Record] = []
        self.trouble: list[str] = []
        self.stderr = b""
        # The newest answers to `get_state` and `get_fork_messages`.
        self.state: Record = {}
        self.entries: list[str] = []
        self._reading = asyncio.Event()
        self._reading.set()
        self._news = asyncio.Event()
        self._tasks = Tasks()

    async def start(self) -> None:
        pipe = asyncio.subprocess.PIPE
        self._process = await asyncio.create_subprocess_exec(
            *RPC,
            *self._words,
            cwd=self._lab.work,
            env={**self._lab.env, **self._env},
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            limit=LONGEST_LINE,
        )
        self._readers = [self._tasks.start(self._read()), self._tasks.start(self._read_errors())]

    @property
    def pid(self) -> int:
        return self._process.pid

    # ------------------------------------------------------------ speaking

    def send(self, record: Record) -> str:
        """Send a command without waiting for anything; its id."""
        number = str(record["id"])
        self.open[number] = record
        # What is answered at once is logged with its answer: on a pipe nobody sees when it acted.
        if record["type"] not in NOW:
            self.log.append(Sent(record))
        self.write(dumps(record) + b"\n")
        return number

    def write(self, data: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(data)

    async def drain(self) -> None:
        assert self._process.stdin is not None
        if self._reading.is_set():
            await self._process.stdin.drain()

    async def reply(self, number: str) -> None:
        await self.until(lambda: number not in self.open)

    async def until(self, done: Any) -> None:
        """Wait for something that a record brings; a program that ends brings nothing more."""
        async with asyncio.timeout(REPLY_SECONDS):
            while not done() and not self._readers[0].done():
                self._news.clear()
                await self._news.wait()

    # ------------------------------------------------------------ listening

    async def stop_reading(self, seconds: float) -> None:
        self._reading.clear()
        await asyncio.sleep(seconds)
        self._reading.set()

    async def _read(self) -> None:
        stdout = self._process.stdout
        assert stdout is not None
        while line := await stdout.readline():
            await self._reading.wait()
            self._hear(loads(line))
            self._news.set()
        self._news.set()

    def _hear(self, record: Record) -> None:
        if record["type"] == "response":
            self._hear_reply(record)
            return
        self.settled += record["type"] == "agent_settled"
        if record["type"] == "message_end":
            self.ended.append(record["message"])
        self.log.append(Said(record))

    def _hear_reply(self, record: Record) -> None:
        if "Internal error" in record.get("error", ""):
            self.trouble.append(record["error"])
        number = record.get("id")
        if number is None:
            self.unnamed += 1  # the answer to a line that was no command
            return
        command = self.open.pop(str(number), None)
        if command is None:
            self.trouble.append(f"a reply that nobody waits for: {number}")
            return
        self.answered += 1
        self.refused += not record["success"]
        if command["type"] in NOW:
            self.log.append(Sent(command))
        self.log.append(Said(record))
        if record["success"] and record["command"] == "get_state":
            self.state = record["data"]
        if record["success"] and record["command"] == "get_fork_messages":
            self.entries = [one["entryId"] for one in record["data"]["messages"]]

    async def _read_errors(self) -> None:
        assert self._process.stderr is not None
        while chunk := await self._process.stderr.read(1 << 16):
            self.stderr += chunk

    # ------------------------------------------------------------ ending

    def signal(self, number: signal.Signals) -> None:
        if self._process.returncode is None:  # else its number may be another's by now
            self._process.send_signal(number)

    async def finish(self) -> int:
        """Read to the end; the exit code."""
        self._reading.set()
        assert self._process.stdin is not None
        self._process.stdin.close()
        async with asyncio.timeout(REPLY_SECONDS):
            await asyncio.gather(*self._readers)
            return await self._process.wait()

    def kill(self) -> None:
        if self._process.returncode is None:
            self._process.kill()

    # ------------------------------------------------------------ looking

    def resources(self) -> dict[str, int]:
        """What the program holds: memory in KiB, descriptors, threads, children."""
        base = Path(f"/proc/{self.pid}")
        status = dict(
            line.split(":", 1) for line in (base / "status").read_text().splitlines() if ":" in line
        )
        children = (base / "task" / str(self.pid) / "children").read_text().split()
        return {
            "rss": int(status["VmRSS"].split()[0]),
            "peak": int(status["VmHWM"].split()[0]),
            "threads": int(status["Threads"]),
            "descriptors": len(os.listdir(base / "fd")),
            "children": len(children),
        }
