"""The folder of a batch: options, journal, results, and the lock that admits one driver.

`batch.json` holds the options, `journal.jsonl` a line for each start of an item, `results.jsonl` a
line for each finished item, `items/NAME/` the session, the patch and the output of the check, and
`work/NAME/` the workspace. Lines are only appended; one that a crash cut off is removed.
"""

import errno
import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ludolf.base import CommandError, ConfigError, LudolfError, Value, dumps, now_ms
from ludolf.fleet.tasks import Task

VERSION = 1
# Seconds that a new driver waits for workers of an old one, which exit within 5 s.
LOCK_SECONDS = 10.0
_LOCK_POLL_SECONDS = 0.05
_FULL = (errno.ENOSPC, errno.EDQUOT)
_CHUNK = 1 << 20
L = TypeVar("L", bound=msgspec.Struct)


class DiskFull(LudolfError):
    """A file of the batch cannot grow: the disk is full, or the quota is used up."""


class StartedLine(Value, tag_field="type", tag="started"):
    """A line of the journal: an attempt at an item begins in a worker."""

    id: str
    attempt: int
    worker: int
    digest: str
    at: int


class _Cost(msgspec.Struct):
    cost: float = 0.0


class _Recorded(msgspec.Struct):
    """The fields of a result that a resume needs; the rest of the line is skipped."""

    id: str
    attempts: int
    status: str
    usage: _Cost


class BatchHeader(msgspec.Struct):
    """The content of `batch.json`; `options` are those that must not change."""

    version: int
    created: int
    options: dict[str, Any]


class BatchHistory(msgspec.Struct):
    """What earlier drivers left: by id, the attempts and whether the last recorded one was ok.

    `open` are items that were started later than they were recorded: attempt and digest.
    """

    recorded: dict[str, int]
    open: dict[str, tuple[int, str]]
    cost: float = 0.0
    finished: int = 0

    def attempts(self, task_id: str) -> int:
        last = self.open.get(task_id)
        return last[0] if last else self.recorded.get(task_id, 0) >> 1

    def is_recorded(self, task_id: str) -> bool:
        return task_id in self.recorded and task_id not in self.open

    def is_ok(self, task_id: str) -> bool:
        return self.is_recorded(task_id) and bool(self.recorded[task_id] & 1)


class BatchFolder:
    """The folder, locked for this driver between `open_folder` and `close`."""

    def __init__(self, path: Path, lock: int, journal: "LineFile", results: "LineFile") -> None:
        self.path = path
        # Inherited by workers: the lock is free when the last of them has exited.
        self.lock = lock
        self.journal = journal
        self.results = results
        self.items = path / "items"
        self.work = path / "work"

    def read(self) -> BatchHistory:
        """Read results and journal, and cut off what a crash left of their last lines.

        Raises:
            ConfigError: a file is not one of a batch.
        """
        return _history(self.results, self.journal)

    def note_start(self, task: Task, attempt: int, worker: int) -> None:
        """Append a line to the journal.

        Raises:
            DiskFull: the line was not written.
        """
        self.journal.append(
            dumps(
                StartedLine(
                    id=task.id, attempt=attempt, worker=worker, digest=task.digest, at=now_ms()
                )
            )
        )

    def remove_partial(self) -> None:
        """Remove workspaces that killed workers were making."""
        for path in self.work.glob(".*"):
            shutil.rmtree(path, ignore_errors=True)

    def close(self) -> None:
        self.journal.close()
        self.results.close()
        os.close(self.lock)


def read_history(path: Path) -> BatchHistory:
    """Read what earlier runs left in a folder, without a change of it."""
    files = (path / "results.jsonl", path / "journal.jsonl")
    if not all(file.is_file() for file in files):
        return BatchHistory({}, {})
    return _history(*(LineFile(file, write=False) for file in files))


def _history(results: "LineFile", journal: "LineFile") -> BatchHistory:
    history = BatchHistory({}, {})
    for record in results.scan(_Recorded):
        history.recorded[record.id] = record.attempts << 1 | (record.status == "ok")
        history.cost += record.usage.cost
        history.finished += 1
    for line in journal.scan(StartedLine):
        if line.attempt > history.recorded.get(line.id, 0) >> 1:
            history.open[line.id] = (line.attempt, line.digest)
    return history


# ---------------------------------------------------------------- opening


def open_folder(
    path: Path,
    options: dict[str, Any],
    *,
    seconds: float = LOCK_SECONDS,
    sleep: Callable[[float], None] = time.sleep,
) -> BatchFolder:
    """Create the folder, or open that of an interrupted batch, and lock it.

    Raises:
        ConfigError: another driver uses it, or an option differs from those of the batch.
    """
    try:
        for folder in (path, path / "items", path / "work"):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        journal = LineFile(path / "journal.jsonl")
    except OSError as error:
        raise ConfigError(f"--out {path}: {error.strerror}. Choose another folder.") from error
    try:
        if not _try_lock(journal.descriptor):
            raise ConfigError(f"Another `ludolf batch` is working in {path}. Wait for its end.")
        lock = _locked_header(path, seconds, sleep)
        try:
            _check_header(path, lock, options)
            return BatchFolder(path, lock, journal, LineFile(path / "results.jsonl"))
        except BaseException:
            os.close(lock)
            raise
    except BaseException:
        journal.close()
        raise


def _locked_header(path: Path, seconds: float, sleep: Callable[[float], None]) -> int:
    lock = os.open(path / "batch.json", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    until = time.monotonic() + seconds
    while not _try_lock(lock):
        if time.monotonic() >= until:
            os.close(lock)
            raise ConfigError(
                f"A worker of an earlier `ludolf batch` still works in {path}. Try again when it "
                "has ended."
            )
        sleep(_LOCK_POLL_SECONDS)
    return lock


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _check_header(path: Path, lock: int, options: dict[str, Any]) -> None:
    data = os.pread(lock, os.fstat(lock).st_size, 0)
    try:
        header = msgspec.json.decode(data, type=BatchHeader) if data else None
    except msgspec.DecodeError as error:
        if os.path.getsize(path / "journal.jsonl"):
            raise ConfigError(
                f"{path / 'batch.json'} is not a file of a batch: {error}."
            ) from error
        header = None  # a crash cut it off before the first item
    if header is None:
        _write_header(lock, BatchHeader(VERSION, now_ms(), options))
        return
    if header.version != VERSION:
        raise ConfigError(f"{path} belongs to a batch of another version of Ludolf.")
    same = msgspec.json.decode(dumps(options))
    names = sorted({*header.options, *same})
    changed = [name for name in names if header.options.get(name) != same.get(name)]
    if changed:
        raise ConfigError(
            f"The batch in {path} was started with another {', '.join(changed)}. Use the same "
            "options to resume it, or start a new batch with another --out."
        )


def _write_header(lock: int, header: BatchHeader) -> None:
    os.ftruncate(lock, 0)
    os.pwrite(lock, msgspec.json.format(dumps(header)) + b"\n", 0)
    os.fsync(lock)


# ---------------------------------------------------------------- files of lines


class LineFile:
    """A file of JSON lines that only grows."""

    def __init__(self, path: Path, *, write: bool = True) -> None:
        self.path = path
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND if write else os.O_RDONLY
        self.descriptor = os.open(path, flags | os.O_CLOEXEC, 0o600)
        self._writes = write
        self._is_synced = True

    def scan(self, kind: type[L]) -> Iterator[L]:
        """Yield every line as a value; cut off a last line that is not whole.

        Raises:
            ConfigError: a line in the middle is not one of this file.
        """
        decoder, at = msgspec.json.Decoder(kind), 0
        with open(self.path, "rb", buffering=_CHUNK) as file:
            for line in file:
                try:
                    value = decoder.decode(line) if line.endswith(b"\n") else None
                except (msgspec.DecodeError, UnicodeDecodeError) as error:
                    if file.read(1):
                        raise ConfigError(f"{self.path}, byte {at}: {error}.") from error
                    value = None
                if value is None:
                    if self._writes:
                        os.ftruncate(self.descriptor, at)
                    return
                at += len(line)
                yield value

    def append(self, line: bytes) -> None:
        """Append one line; a part of it is taken back.

        Raises:
            DiskFull: the disk has no room for it.
        """
        size = os.fstat(self.descriptor).st_size
        try:
            written = os.write(self.descriptor, line + b"\n")
        except OSError as error:
            raise self._full(error) from error
        if written <= len(line):
            os.ftruncate(self.descriptor, size)
            raise self._full(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
        self._is_synced = False

    def sync(self) -> None:
        """Make the lines survive a crash of the machine.

        Raises:
            DiskFull: the disk has no room for them.
        """
        if self._is_synced:
            return
        try:
            os.fdatasync(self.descriptor)
        except OSError as error:
            raise self._full(error) from error
        self._is_synced = True

    def close(self) -> None:
        os.close(self.descriptor)

    def _full(self, error: OSError) -> DiskFull:
        return disk_full(error) or DiskFull(f"{self.path} cannot be written: {error.strerror}.")


def disk_full(error: OSError) -> DiskFull | None:
    """Return the error for a full disk; None if the cause is another one."""
    if error.errno not in _FULL:
        return None
    place = f" ({error.filename})" if error.filename else ""
    return DiskFull(f"{os.strerror(error.errno)}{place}. Free some space, then resume.")


# ---------------------------------------------------------------- spending


class _StoredCost(msgspec.Struct):
    total: float = 0.0


class _StoredUsage(msgspec.Struct):
    cost: _StoredCost = msgspec.field(default_factory=_StoredCost)


class _StoredMessage(msgspec.Struct):
    usage: _StoredUsage | None = None


class _StoredEntry(msgspec.Struct):
    message: _StoredMessage | None = None
    usage: _StoredUsage | None = None  # of a summary, or of a subagent


def cost_of_sessions(folder: Path) -> float:
    """Return the dollars that the sessions in a folder have cost; broken lines count nothing."""
    decoder, total = msgspec.json.Decoder(_StoredEntry), 0.0
    for path in folder.glob("*.jsonl"):
        with path.open("rb") as file:
            for line in file:
                try:
                    entry = decoder.decode(line)
                except (msgspec.DecodeError, UnicodeDecodeError):
                    continue
                for source in (entry, entry.message):
                    if source is not None and source.usage is not None:
                        total += source.usage.cost.total
    return total


def write_private(path: Path, data: bytes) -> None:
    """Replace a file by one that only the user can read; a reader sees the old or the new one."""
    part = path.with_name(f"{path.name}.part")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb") as file:
        file.write(data)
    part.rename(path)


def private_folder(path: Path) -> Path:
    """Create a folder that only the user can enter.

    Raises:
        CommandError: it cannot be created.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise disk_full(error) or CommandError(f"{path}: {error.strerror}") from error
    return path
