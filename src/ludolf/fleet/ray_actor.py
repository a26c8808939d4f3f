"""The actor of Ray that runs a worker process on its node; it does not import Ray.

Bytes pass between the driver and the worker. Calls are numbered, so that a call which is repeated
after a broken connection has no second effect.
"""

import asyncio
import os
import shutil
import socket
import sys
import tempfile
from pathlib import Path

import msgspec

from ludolf import __version__
from ludolf.agent.scope import Tasks
from ludolf.base import Value, dumps
from ludolf.fleet.pipes import (
    MOST_MESSAGE_BYTES,
    ItemFinished,
    PrepareWorker,
    ToDriver,
    ToWorker,
    WorkerWarned,
)

_PROGRAM = (sys.executable, "-P", "-m", "ludolf.fleet.ray_worker")
# Session, patch and output of the check of one item.
MOST_FILE_BYTES = 8 << 20
_MOST_FILES = 100
# Messages of this time travel together: a call costs each side about a millisecond of CPU time.
GATHER_SECONDS = 0.03


class ItemFiles(Value, tag_field="type", tag="files"):
    """The files of a finished item from a node without the folder of the batch."""

    folder: str
    files: dict[str, bytes]


class RayWorkerActor:
    """Starts a worker and relays its messages."""

    def __init__(self) -> None:
        self._tasks = Tasks()
        self._changed = asyncio.Event()
        self._taking = asyncio.Lock()
        self._lines: list[bytes] = []
        self._posted = 0
        self._taken = 0
        self._last = b""
        self._has_begun = self._has_ended = False
        # The folder of this node, if that of the batch cannot be reached; names by id of the item.
        self._own: Path | None = None
        self._folders: dict[str, str] = {}

    async def ping(self) -> str:
        """Return the version: all nodes must have that of the driver."""
        return __version__

    async def open(self, prepare: bytes, marker: str, environ: dict[str, str]) -> None:
        """Start the worker with its first message, unless it was started.

        `marker` is a file in the folder of the batch: the node reaches the folder if it exists.
        """
        if not self._has_begun:
            self._has_begun = True
            ours, theirs = socket.socketpair()
            with theirs:
                process = await asyncio.create_subprocess_exec(
                    *(*_PROGRAM, str(theirs.fileno())),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(),),
                    env={**os.environ, **environ},
                    start_new_session=True,
                )
            reader, self._writer = await asyncio.open_unix_connection(
                sock=ours, limit=MOST_MESSAGE_BYTES
            )
            self._writer.write(self._first_message(prepare, marker))
            self._tasks.start(self._read(reader, process))

    async def post(self, number: int, data: bytes) -> None:
        """Pass whole lines to the worker; no lines end it."""
        if number != self._posted + 1:
            return
        self._posted = number
        if self._own is not None:
            self._note_folders(data)
        if data:
            self._writer.write(data)
            await self._drain()
        else:
            self._writer.write_eof()

    async def take(self, number: int) -> bytes | None:
        """Wait for messages of the worker, and return them; None when it has ended.

        `number` counts the answers that the caller has received: the last one may be repeated.
        """
        async with self._taking:
            if number < self._taken:
                return self._last
            while not self._lines and not self._has_ended:
                self._changed.clear()
                await self._changed.wait()
            if not self._has_ended:
                await asyncio.sleep(GATHER_SECONDS)
            if not self._lines:
                return None
            self._last, self._lines = b"".join(self._lines), []
            self._taken += 1
            return self._last

    # ------------------------------------------------------------ private

    async def _read(
        self, reader: asyncio.StreamReader, process: asyncio.subprocess.Process
    ) -> None:
        try:
            while line := await reader.readline():
                if self._own is not None:
                    self._add_files(line)
                self._lines.append(line)
                self._changed.set()
        except (ConnectionError, ValueError):
            process.kill()
        finally:
            self._writer.close()
            await process.wait()
            if self._own is not None:
                shutil.rmtree(self._own, ignore_errors=True)
            self._has_ended = True
            self._changed.set()

    async def _drain(self) -> None:
        try:
            await self._writer.drain()
        except ConnectionError:
            return  # the reader sees the end

    # ------------------------------------------------------------ a node without the folder

    def _first_message(self, prepare: bytes, marker: str) -> bytes:
        """Return the first message; with a folder of this node if it needs one."""
        if os.path.exists(marker):
            return prepare
        self._own = Path(tempfile.mkdtemp(prefix="ludolf-batch-"))
        for name in ("items", "work", "start"):
            (self._own / name).mkdir(mode=0o700)
        setup = msgspec.json.decode(prepare, type=PrepareWorker).setup
        start = setup.start if os.path.isdir(setup.start) else str(self._own / "start")
        setup = msgspec.structs.replace(setup, out=str(self._own), start=start)
        return dumps(PrepareWorker(setup=setup)) + b"\n"

    def _note_folders(self, data: bytes) -> None:
        for line in data.splitlines():
            message: ToWorker = _to_worker.decode(line)
            if (order := getattr(message, "order", None)) is not None:
                self._folders[order.id] = order.folder

    def _add_files(self, line: bytes) -> None:
        """Put the files of an item before its result."""
        message: ToDriver = _to_driver.decode(line)
        if not isinstance(message, ItemFinished) or self._own is None:
            return
        folder = self._folders.pop(message.id, "")
        files = _files_in(self._own / "items" / folder)
        if files is None:
            text = (
                f"The files of {message.id} are larger than {MOST_FILE_BYTES >> 20} MiB and stay "
                "on its node. Use a shared folder for --out to keep such files."
            )
            self._lines.append(dumps(WorkerWarned(text=text)) + b"\n")
        elif folder:
            self._lines.append(dumps(ItemFiles(folder=folder, files=files)) + b"\n")


def _files_in(folder: Path) -> dict[str, bytes] | None:
    """Return the files of a folder by name; None if they are too large."""
    try:
        paths = [path for path in folder.iterdir() if path.is_file() and not path.is_symlink()]
        sizes = sum(path.stat().st_size for path in paths)
        if sizes > MOST_FILE_BYTES or len(paths) > _MOST_FILES:
            return None
        return {path.name: path.read_bytes() for path in paths}
    except OSError:
        return {}


_to_worker = msgspec.json.Decoder(ToWorker)
_to_driver = msgspec.json.Decoder(ToDriver)
