"""The gate of the driver for requests of worker processes: both ends of the pipe."""

import asyncio
from itertools import count
from typing import TYPE_CHECKING

from ludolf.agent.scope import Tasks
from ludolf.ai.gate import GateReport, RequestGate
from ludolf.fleet.pipes import (
    GateEntered,
    GateLeft,
    GateMessage,
    GateOpened,
    GateReported,
    MessagePipe,
)


class PipeGate:
    """The gate as sessions in a worker see it: it asks the driver."""

    def __init__(self, pipe: MessagePipe) -> None:
        self._pipe = pipe
        self._numbers = count(1)
        self._waiting: dict[int, asyncio.Future[None]] = {}

    async def enter(self, lane: str) -> int:
        """Wait until the driver admits a request of the lane; return its ticket."""
        number = next(self._numbers)
        turn = self._waiting[number] = asyncio.get_running_loop().create_future()
        self._pipe.send(GateEntered(number=number, lane=lane))
        try:
            await turn
        except asyncio.CancelledError:
            self.leave(number)
            raise
        finally:
            del self._waiting[number]
        return number

    def report(self, ticket: int, report: GateReport) -> None:
        self._pipe.send(GateReported(number=ticket, report=report))

    def leave(self, ticket: int) -> None:
        self._pipe.send(GateLeft(number=ticket))

    def take(self, message: GateOpened) -> None:
        """Admit a request; one that was aborted meanwhile has left already."""
        turn = self._waiting.get(message.number)
        if turn is not None and not turn.done():
            turn.set_result(None)


class WorkerAtGate:
    """The requests of one worker at the gate of the driver."""

    def __init__(self, gate: RequestGate, pipe: MessagePipe) -> None:
        self._gate = gate
        self._pipe = pipe
        self._tasks = Tasks()
        self._entering: dict[int, asyncio.Task[None]] = {}
        self._tickets: dict[int, int] = {}

    def take(self, message: GateMessage) -> None:
        match message:
            case GateEntered(number=number, lane=lane):
                self._entering[number] = self._tasks.start(self._enter(number, lane))
            case GateReported(number=number, report=report):
                if number in self._tickets:
                    self._gate.report(self._tickets[number], report)
            case GateLeft(number=number):
                self._leave(number)

    async def close(self) -> None:
        """The worker has ended: none of its requests is on its way any more."""
        await self._tasks.close()
        for number in tuple(self._tickets):
            self._leave(number)

    async def _enter(self, number: int, lane: str) -> None:
        try:
            self._tickets[number] = await self._gate.enter(lane)
        finally:
            del self._entering[number]
        self._pipe.send(GateOpened(number=number))

    def _leave(self, number: int) -> None:
        entering = self._entering.get(number)
        if entering is not None:
            entering.cancel()
        ticket = self._tickets.pop(number, None)
        if ticket is not None:
            self._gate.leave(ticket)


if TYPE_CHECKING:

    def _proof(pipe: MessagePipe) -> RequestGate:
        return PipeGate(pipe)
