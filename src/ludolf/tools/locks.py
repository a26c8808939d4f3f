"""Locks that serialise changes to one file; different files change in parallel."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from ludolf.tools.paths import real_path

_locks: dict[str, tuple[asyncio.Lock, int]] = {}


@asynccontextmanager
async def file_lock(path: Path) -> AsyncIterator[None]:
    """Hold the lock of a file; all links to it share one lock."""
    async with name_lock(real_path(path)):
        yield


@asynccontextmanager
async def name_lock(key: str) -> AsyncIterator[None]:
    """Hold the lock of a name, such as the address of a document."""
    lock, users = _locks.get(key, (None, 0))
    lock = lock or asyncio.Lock()
    _locks[key] = (lock, users + 1)
    try:
        async with lock:
            yield
    finally:
        users = _locks[key][1] - 1
        if users:
            _locks[key] = (lock, users)
        else:
            del _locks[key]
