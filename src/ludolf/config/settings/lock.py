"""File lock compatible with pi: a directory `<file>.lock` whose mtime is refreshed."""

import asyncio
import os
import random
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Self

from ludolf.base import ConfigError

AUTH_STALE = 30.0
SETTINGS_STALE = 10.0
_LONGEST_PAUSE = 1.0


class LockLost(ConfigError):
    """Another process took over the lock; the file must not be written."""


class FileLock:
    """Hold the lock of a file inside a `with` or `async with` block.

    Raises:
        ConfigError: on entry, if another process holds the lock through all pauses.
    """

    def __init__(self, path: Path, *, stale: float, pauses: Iterable[float]) -> None:
        self.path = path
        self.directory = path.with_name(path.name + ".lock")
        self._stale = stale
        self._pauses = pauses
        self._mark: tuple[int, int, int] | None = None
        self._guard = threading.Lock()
        self._released = threading.Event()
        self._keeper = threading.Thread(target=self._keep_fresh, daemon=True)

    def __enter__(self) -> Self:
        for pause in self._attempts():
            time.sleep(pause)
        return self._begin()

    async def __aenter__(self) -> Self:
        """Acquire the lock without blocking the event loop; cancelling acquires no lock."""
        for pause in self._attempts():
            await asyncio.sleep(pause)
        return self._begin()

    async def __aexit__(self, *_: object) -> None:
        self.__exit__()

    def __exit__(self, *_: object) -> None:
        self._released.set()
        self._keeper.join()
        if self.held():
            _remove(self.directory)

    def _attempts(self) -> Iterator[float]:
        """Try to take the lock; yield the pause before each further attempt."""
        if self._take():
            return
        for pause in self._pauses:
            yield pause
            if self._take():
                return
        raise ConfigError(f"{self.path} is locked by another process ({self.directory})")

    def _begin(self) -> Self:
        self._mark = _mark(self.directory)
        self._keeper.start()
        return self

    def held(self) -> bool:
        """Whether the directory is still the one that this lock created."""
        with self._guard:
            return self._mark is not None and _mark(self.directory) == self._mark

    def check(self) -> None:
        """Check the lock; call this immediately before a write.

        Raises:
            LockLost: another process took over the lock.
        """
        if not self.held():
            raise LockLost(f"the lock of {self.path} was taken over by another process")

    def refresh(self) -> bool:
        """Update the mtime of the lock; return False if another process took it over."""
        with self._guard:
            if self._mark is None or _mark(self.directory) != self._mark:
                return False
            try:
                os.utime(self.directory)
            except OSError:
                return False
            self._mark = _mark(self.directory)
            return True

    def _take(self) -> bool:
        if _make(self.directory):
            return True
        try:
            age = time.time() - os.stat(self.directory).st_mtime
        except FileNotFoundError:
            age = self._stale + 1
        return age > self._stale and _remove(self.directory) and _make(self.directory)

    def _keep_fresh(self) -> None:
        while not self._released.wait(self._stale / 3):
            if not self.refresh():
                return


def settings_lock(path: Path) -> FileLock:
    """Return a lock that tries ten times, 20 ms apart."""
    return FileLock(path, stale=SETTINGS_STALE, pauses=[0.02] * 9)


def auth_lock(path: Path, *, patience: float = 30.0) -> FileLock:
    """Return a lock that waits with growing pauses, up to `patience` seconds."""
    return FileLock(path, stale=AUTH_STALE, pauses=growing_pauses(patience))


def growing_pauses(patience: float) -> Iterator[float]:
    """Yield pauses that double from 10 ms, with jitter, and sum to `patience` seconds."""
    left, pause = patience, 0.01
    while left > 0:
        step = min(pause * random.uniform(0.5, 1.0), left)
        left -= step
        pause = min(pause * 2, _LONGEST_PAUSE)
        yield step


def _mark(directory: Path) -> tuple[int, int, int] | None:
    try:
        status = os.stat(directory)
    except OSError:
        return None
    return (status.st_dev, status.st_ino, status.st_mtime_ns)


def _make(directory: Path) -> bool:
    try:
        os.mkdir(directory, 0o700)
    except FileExistsError:
        return False
    return True


def _remove(directory: Path) -> bool:
    try:
        os.rmdir(directory)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
