"""Measure parts of a batch inside one Python program; run as a separate program."""

import asyncio
import json
import os
import resource
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec

from bench.in_process import rss
from ludolf import create_session
from ludolf.agent.scope import Tasks
from ludolf.ai.gate import GateReport
from ludolf.config.settings.options import Options
from ludolf.engine.build import warn_on_stderr
from ludolf.fleet.agents import LocalAgent
from ludolf.fleet.gate import RateGate
from ludolf.fleet.gate_pipe import PipeGate, WorkerAtGate
from ludolf.fleet.pipes import GateMessage, GateOpened, MessagePipe, open_pipe_end
from ludolf.sdk import AgentSession, ModelContext

_AT_ONCE = 4
# A long conversation: 100 answers of a thousand tokens.
_ANSWER, _ANSWERS = "word " * 1000, 100


async def gate(requests: int) -> float:
    """CPU of both ends of the pipe for a request that need not wait, in ms."""
    here, there = socket.socketpair()
    worker, driver = await open_pipe_end(here), await open_pipe_end(there)
    asked, at_gate, tasks = PipeGate(worker), WorkerAtGate(RateGate(), driver), Tasks()
    tasks.start(_pass_on(worker, GateOpened, asked))
    tasks.start(_pass_on(driver, GateMessage, at_gate))

    async def send(count: int) -> None:
        for _ in range(count):
            ticket = await asked.enter("provider host digest")
            asked.report(ticket, GateReport(status=200))
            asked.leave(ticket)

    before = time.process_time()
    await asyncio.gather(*(send(requests // _AT_ONCE) for _ in range(_AT_ONCE)))
    spent = time.process_time() - before
    await at_gate.close()
    await tasks.close()
    worker.close()
    driver.close()
    return 1e3 * spent / requests


async def _pass_on(pipe: MessagePipe, kind: object, end: PipeGate | WorkerAtGate) -> None:
    decoder = msgspec.json.Decoder(kind)
    async for message in pipe.messages(decoder):
        end.take(message)


async def turns(count: int, others: int, folder: Path) -> float:
    """CPU of a turn with a command in ms, while this program has other children."""
    call = {"content": [{"tool": "bash", "args": {"command": "true"}}]}
    script = folder / "script.json"
    script.write_text(json.dumps([call, {"text": "Warm."}, *[call] * count, {"text": "Done."}]))
    environ = {**os.environ, "LUDOLF_SCRIPT": str(script)}
    options = Options(cwd=folder, environ=environ, model="ludolf/scripted", no_session=True)
    agent = LocalAgent(options, None, lambda _: None, warn_on_stderr)
    await agent.open()
    children = _start_others(others)
    try:
        await agent.ask("warm up", ())
        before = resource.getrusage(resource.RUSAGE_SELF)
        answer = await agent.ask("go", ())
        used = resource.getrusage(resource.RUSAGE_SELF)
    finally:
        for child in children:
            child.kill()
            child.wait()
        await agent.close()
    assert answer.text == "Done.", answer
    spent = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
    return 1e3 * spent / count


def _start_others(count: int) -> list[subprocess.Popen[bytes]]:
    return [subprocess.Popen(("sleep", "600")) for _ in range(count)]


async def agents(count: int, answers: int, folder: Path) -> float:
    """Memory of an agent in MiB, whose conversation has answers of a thousand words."""

    async def model(context: ModelContext) -> AsyncIterator[str]:
        yield _ANSWER

    def opened(number: int) -> AgentSession:
        work = folder / f"agent-{answers}-{number}"
        work.mkdir(exist_ok=True)
        return create_session(model=model, cwd=work, store="files", agent_dir=folder / "agent")

    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(opened(0))
        await first.prompt("go")
        held = rss()
        for number in range(1, count + 1):
            session = await stack.enter_async_context(opened(number))
            for _ in range(answers):
                await session.prompt("go")
        return (rss() - held) / count


async def measure(scale: int, folder: Path) -> dict[str, float]:
    return {
        "batch.gate": await gate(1000 * scale),
        "batch.turn": await turns(20 * scale, 200, folder),
        "batch.agent": await agents(10 * scale, 1, folder),
        "batch.agent.long": await agents(2 * scale, _ANSWERS, folder),
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asyncio.run(measure(int(sys.argv[1]), Path(sys.argv[2])))))
