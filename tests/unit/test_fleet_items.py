"""Items of a batch: what an attempt waits for."""

import asyncio
import fcntl
from pathlib import Path

import pytest

from ludolf.base import CommandError
from ludolf.fleet import item_run


async def test_an_attempt_waits_until_nobody_else_writes_the_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(item_run, "_WRITER_PAUSE", 0)
    path = tmp_path / "session.jsonl"
    path.touch()
    with path.open() as writer:
        fcntl.flock(writer, fcntl.LOCK_EX)
        waiting = asyncio.ensure_future(item_run._wait_for_writer(path))
        for _ in range(5):
            await asyncio.sleep(0)
        assert not waiting.done()
    await waiting


async def test_a_writer_that_does_not_end_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(item_run, "_WRITER_PAUSE", 0)
    path = tmp_path / "session.jsonl"
    path.touch()
    with path.open() as writer:
        fcntl.flock(writer, fcntl.LOCK_EX)
        with pytest.raises(CommandError, match="in use by another process"):
            await item_run._wait_for_writer(path)
