"""Thousands of commands and random faults on the real program, then a look at everything it left.

The seed gives the commands, the faults and the model's dice; what meets what is up to the machine.
"""

import asyncio
import random
import signal
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from ludolf.base import dumps, loads
from ludolf.session.entries import message_json
from ludolf.session.tree import open_session
from tests.loop.laws import check
from tests.process.faults import Clock, fill_disk, free_disk
from tests.process.harness import Lab
from tests.soak.host import Host, Record
from tests.soak.model import ChanceServer
from tests.soak.play import RUBBISH, Play

DAY = 86_400
LIFE = 1250  # commands in one life of the program
PATIENCE = 0.15
MEMORY_GROWTH_KIB = 96 << 10
DESCRIPTOR_GROWTH = 8
POLLS = 200
THREADS_MOST = 40


class Result(msgspec.Struct, kw_only=True):
    """What a soak has seen; `trouble` is empty if all is well."""

    seed: int
    commands: int = 0
    answered: int = 0
    refused: int = 0
    events: int = 0
    requests: int = 0
    messages: int = 0
    lives: int = 0
    seconds: float = 0.0
    faults: dict[str, int] = msgspec.field(default_factory=dict)
    rss_kib: list[tuple[int, int]] = msgspec.field(default_factory=list)
    peak_kib: int = 0
    descriptors: list[tuple[int, int]] = msgspec.field(default_factory=list)
    threads: int = 0
    trouble: list[str] = msgspec.field(default_factory=list)


async def soak(root: Path, seed: int, commands: int) -> Result:
    """Send so many commands, with faults among them, and check all there is to check."""
    with ChanceServer(seed) as server:
        run = Run(Lab(root, server), server, seed)
        began = time.monotonic()
        try:
            while run.result.commands < commands and not run.result.trouble:
                await run.live(min(LIFE, commands - run.result.commands))
        finally:
            run.host.kill()
        run.check_files()
        run.result.requests = server.asked
        run.result.faults = dict(sorted(run.faults.items()))
        run.result.seconds = round(time.monotonic() - began, 1)
    return run.result


class Run:
    """One soak: lives of the program one after another, in the same home."""

    def __init__(self, lab: Lab, server: ChanceServer, seed: int) -> None:
        self._lab = lab
        self._chance = random.Random(seed)
        self._play = Play(self._chance, lab.agent / "sessions")
        self._clock = Clock(lab.root / "clock")
        lab.settings(
            retry={"baseDelayMs": 1, "maxRetries": 2}, compaction={"keepRecentTokens": 200}
        )
        self.result = Result(seed=seed)
        self.faults: Counter[str] = Counter()
        self._told: list[Record] = []
        self._foreign: Counter[str] = Counter()
        self._full = 0

    # ------------------------------------------------------------ one life

    async def live(self, commands: int) -> None:
        """Start the program, be unkind to it, end it in some way, and look at what it said."""
        again = ("--continue",) if self.result.lives else ()
        self.host = Host(self._lab, "--rpc-dialect", "pi-delta", *again, env=self._clock.env)
        await self.host.start()
        self.result.lives += 1
        for number in range(commands):
            await self._step()
            if number == commands // 10:
                await self._rest()
                start = self.host.resources()
        await self._rest()
        self._compare(start, await self._resources_at_rest(start))
        ended = await self._end()
        self._judge(ended=ended)

    async def _resources_at_rest(self, start: dict[str, int]) -> dict[str, int]:
        """Resources once commands in the background have ended; each holds a descriptor."""
        for _ in range(POLLS):
            end = self.host.resources()
            if end["descriptors"] - start["descriptors"] <= DESCRIPTOR_GROWTH:
                break
            await asyncio.sleep(0.1)
        return end

    async def _step(self) -> None:
        chance, host = self._chance, self.host
        record = self._play.next()
        self.result.commands += 1
        number = host.send(record)
        if chance.random() < 0.06:
            await self._fault()
        if self._full:
            self._full -= 1
            if not self._full:
                await self._find_room()
        await host.drain()
        if chance.random() < 0.45:
            with suppress(TimeoutError):  # some take long, or wait for an abort
                async with asyncio.timeout(PATIENCE):
                    await host.reply(number)
        if record["type"] == "prompt" and chance.random() < 0.4:
            settled = host.settled
            with suppress(TimeoutError):
                async with asyncio.timeout(2 * PATIENCE):
                    await host.until(lambda: host.settled > settled)
        self._play.entries = host.entries
        if chance.random() < 0.05:
            await asyncio.sleep(chance.random() * 0.05)

    async def _rest(self) -> None:
        """Everything has been answered, and nothing runs."""
        host = self.host
        if self._full:
            self._full = 0
            await self._find_room()
        while True:
            for kind in ("abort", "abort_bash", "clear_queue"):
                host.send(self._play.command(kind))
            await host.until(lambda: not host.open)
            await host.reply(host.send(self._play.command("get_state")))
            if not host.state["isStreaming"]:
                return

    # ------------------------------------------------------------ faults

    async def _fault(self) -> None:
        faults = {
            "unread": self._do_not_read,
            "stopped": self._hold_still,
            "full disk": self._fill,
            "vanished file": self._remove_file,
            "foreign line": self._write_into_file,
            "clock": self._jump,
            "rubbish": self._talk_rubbish,
            "pieces": self._send_in_pieces,
            "huge frame": self._send_much,
        }
        name = self._chance.choice(sorted(faults))
        self.faults[name] += 1
        await faults[name]()

    async def _do_not_read(self) -> None:
        await self.host.stop_reading(0.02 + self._chance.random() * 0.2)

    async def _hold_still(self) -> None:
        self.host.signal(signal.SIGSTOP)
        await asyncio.sleep(0.03)
        self.host.signal(signal.SIGCONT)

    async def _fill(self) -> None:
        fill_disk(self.host.pid)
        self._full = self._chance.randrange(5, 40)

    async def _find_room(self) -> None:
        free_disk(self.host.pid)
        # A change of session stores at once what waited, of this session and of those left before.
        await self.host.reply(self.host.send(self._play.command("new_session")))

    async def _remove_file(self) -> None:
        path = await self._own_file()
        if path is None or self._full:
            return
        path.unlink(missing_ok=True)
        self._foreign.pop(str(path), None)
        await self.host.reply(self.host.send(self._play.command("set_session_name")))

    async def _write_into_file(self) -> None:
        path = await self._own_file()
        if path is None or not path.exists():
            return
        with path.open("ab") as file:
            file.write(b'{"type":"message","id":"torn' + self._chance.choice((b"", b"\n")))
        self._foreign[str(path)] += 1

    async def _own_file(self) -> Path | None:
        """The file of the open session, once everything before has been done."""
        await self._rest()
        found = self.host.state.get("sessionFile")
        return Path(found) if found else None

    async def _jump(self) -> None:
        self._clock.jump(self._chance.choice((-DAY, 0, DAY, 30 * DAY, -30 * DAY)))

    async def _talk_rubbish(self) -> None:
        before = self.host.unnamed
        lines = self._chance.choices(RUBBISH, k=3)
        self.host.write(b"\n\n" + b"\n".join(lines) + b"\n")
        await self.host.until(lambda: self.host.unnamed >= before + len(lines))

    async def _send_in_pieces(self) -> None:
        await self._send_raw(self._play.command("get_state"), 1)

    async def _send_much(self) -> None:
        record = self._play.command("get_state", ignored="x" * self._chance.randrange(1 << 22))
        await self._send_raw(record, 1 << 16)

    async def _send_raw(self, record: Record, size: int) -> None:
        number = str(record["id"])
        self.host.open[number] = {"id": number, "type": record["type"]}
        data = dumps(record) + b"\n"
        for at in range(0, len(data), size):
            self.host.write(data[at : at + size])
            if not at % 64:
                await asyncio.sleep(0)
        await self.host.reply(number)

    # ------------------------------------------------------------ the end of a life

    async def _end(self) -> bool:
        """End the program; whether it had come to rest before."""
        how = self._chance.choice(("input", "SIGTERM", "SIGKILL"))
        self.faults[f"end by {how}"] += 1
        if how == "input":
            code = await self.host.finish()
            self._expect(code == 0, f"the end of input gave code {code}")
            return True
        # In the midst of work.
        for _ in range(self._chance.randrange(6)):
            self.host.send(self._play.next())
            self.result.commands += 1
        await asyncio.sleep(self._chance.random() * 0.05)
        number = signal.Signals[how]
        self.host.signal(number)
        code = await self.host.finish()
        self._expect(code in (-number, 128 + number), f"{how} gave code {code}")
        return False

    def _judge(self, *, ended: bool) -> None:
        host, result = self.host, self.result
        result.answered += host.answered
        result.refused += host.refused
        result.events += len(host.log)
        result.trouble += host.trouble
        self._told += host.ended
        self._expect(b"Traceback" not in host.stderr, host.stderr.decode()[-2000:])
        if ended:
            self._expect(not host.open, f"never answered: {list(host.open)}")
        try:
            check(host.log, ended=ended)
        except AssertionError as error:
            result.trouble.append(str(error))

    def _compare(self, start: dict[str, int], end: dict[str, int]) -> None:
        result = self.result
        result.rss_kib.append((start["rss"], end["rss"]))
        result.peak_kib = max(result.peak_kib, end["peak"])
        result.descriptors.append((start["descriptors"], end["descriptors"]))
        result.threads = max(result.threads, end["threads"])
        self._expect(end["rss"] - start["rss"] < MEMORY_GROWTH_KIB, f"memory: {start} {end}")
        grown = end["descriptors"] - start["descriptors"]
        self._expect(grown <= DESCRIPTOR_GROWTH, f"descriptors: {start} {end}")
        self._expect(end["threads"] <= THREADS_MOST, f"threads: {end}")

    def _expect(self, holds: bool, text: str) -> None:
        if not holds:
            self.result.trouble.append(text)

    # ------------------------------------------------------------ what is left on disk

    def check_files(self) -> None:
        """Every file opens, damage is only what was done to it, and all that was told is stored."""
        stored: set[bytes] = set()
        for path in self._lab.sessions:
            warnings: list[str] = []
            session = open_session(path, str(self._lab.work), warnings.append, write=False)
            entries = [entry for entry in session.entries() if entry.type == "message"]
            stored |= {_canonical(loads(bytes(message_json(entry)))) for entry in entries}
            if not self._foreign[str(path)]:
                self._expect(warnings == [], f"{path}: {warnings}")
        lost = [message for message in self._told if _canonical(message) not in stored]
        self.result.messages = len(self._told)
        self._expect(not lost, f"{len(lost)} messages are in no file, the first: {lost[:1]}")


def _canonical(message: Any) -> bytes:
    return msgspec.json.encode(message, order="deterministic")
