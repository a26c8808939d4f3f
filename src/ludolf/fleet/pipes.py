"""Messages between a driver and a worker process: JSON lines on a socket pair."""

import asyncio
import socket
from collections.abc import AsyncIterator
from typing import TypeVar

import msgspec

from ludolf.ai.gate import GateReport
from ludolf.base import LudolfError, Value, dumps
from ludolf.fleet.orders import FleetSetup, ItemOrder, ItemProgress

# A result holds an answer and a patch of at most 64 KiB; items may be as long as 16 MiB.
MOST_MESSAGE_BYTES = 64 * 1024 * 1024
M = TypeVar("M")


class PipeBroken(LudolfError):
    """The other process sent bytes that are not a message."""


# ---------------------------------------------------------------- to a worker


class PrepareWorker(Value, tag_field="type", tag="prepare"):
    setup: FleetSetup


class StartItem(Value, tag_field="type", tag="start"):
    order: ItemOrder


class ItemRecorded(Value, tag_field="type", tag="recorded"):
    """The result is on disk: the workspace can be removed."""

    id: str
    folder: str


class EndTurns(Value, tag_field="type", tag="end_turns"):
    """The budget is used up: running items end after their turn."""


class StopItems(Value, tag_field="type", tag="stop"):
    """Abort the running items, store their sessions, and exit."""


class GateOpened(Value, tag_field="type", tag="gate_opened"):
    """The request with this number may be sent."""

    number: int


ToWorker = PrepareWorker | StartItem | ItemRecorded | EndTurns | StopItems | GateOpened


# ---------------------------------------------------------------- to the driver


class WorkerReady(Value, tag_field="type", tag="ready"):
    """The worker can run items with this model; or `problem` says why not."""

    model: str | None = None
    sandbox: str | None = None
    problem: str | None = None


class ItemFinished(Value, tag_field="type", tag="finished"):
    """An item has ended; `line` is its result for `results.jsonl`."""

    id: str
    status: str
    cost: float
    line: msgspec.Raw
    kind: str | None = None
    text: str = ""
    is_transient: bool = False


class WorkerWarned(Value, tag_field="type", tag="warned"):
    text: str


class WorkspaceRemoved(Value, tag_field="type", tag="removed"):
    id: str


class ItemMoved(Value, tag_field="type", tag="progress"):
    progress: ItemProgress


class GateEntered(Value, tag_field="type", tag="gate_enter"):
    """A request waits at the gate of the driver; the lane has a digest of the key."""

    number: int
    lane: str


class GateReported(Value, tag_field="type", tag="gate_report"):
    number: int
    report: GateReport


class GateLeft(Value, tag_field="type", tag="gate_leave"):
    """The request has ended, or does not wait any more."""

    number: int


GateMessage = GateEntered | GateReported | GateLeft
ToDriver = WorkerReady | ItemFinished | WorkerWarned | WorkspaceRemoved | ItemMoved | GateMessage


class MessagePipe:
    """One end of the socket pair."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def send(self, message: ToWorker | ToDriver) -> None:
        """Queue a message; without effect if the other process is gone."""
        if not self._writer.is_closing():
            self._writer.write(dumps(message) + b"\n")

    async def messages(self, decoder: msgspec.json.Decoder[M]) -> AsyncIterator[M]:
        """Yield messages until the other process is gone.

        Raises:
            PipeBroken: bytes arrived that are not a message.
        """
        while True:
            try:
                line = await self._reader.readuntil(b"\n")
            except (asyncio.IncompleteReadError, ConnectionError):
                return
            except asyncio.LimitOverrunError as error:
                raise PipeBroken(f"A message is too long: {error}") from error
            try:
                message = decoder.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise PipeBroken(f"A message is invalid: {error}") from error
            yield message

    async def drain(self) -> None:
        """Wait until the messages have been sent."""
        try:
            await self._writer.drain()
        except ConnectionError:
            return

    def close(self) -> None:
        self._writer.close()


async def open_pipe_end(end: socket.socket) -> MessagePipe:
    """Return the pipe at one end of a socket pair."""
    reader, writer = await asyncio.open_unix_connection(sock=end, limit=MOST_MESSAGE_BYTES)
    return MessagePipe(reader, writer)
