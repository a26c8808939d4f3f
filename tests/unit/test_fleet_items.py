"""Items of a batch: what an attempt waits for."""

import asyncio
import fcntl
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import pytest

from ludolf.base import CommandError
from ludolf.fleet import item_run
from ludolf.fleet.orders import FleetSetup, ItemOrder, ItemProgress
from tests.export_page import no_warning


@pytest.fixture
def session(tmp_path: Path) -> Path:
    path = tmp_path / "session.jsonl"
    path.touch()
    return path


@pytest.fixture
def writer(session: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TextIO]:
    """Another writer of the session, until it is closed; looks at it have no pause."""
    monkeypatch.setattr(item_run, "_WRITER_PAUSE", 0)
    with session.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file


async def test_an_attempt_waits_until_nobody_else_writes_the_session(
    session: Path, writer: TextIO
) -> None:
    waiting = asyncio.ensure_future(item_run._wait_for_writer(session))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not waiting.done()
    writer.close()
    await waiting


async def test_a_writer_that_does_not_end_is_reported(session: Path, writer: TextIO) -> None:
    assert not writer.closed
    with pytest.raises(CommandError, match="in use by another process"):
        await item_run._wait_for_writer(session)


async def test_an_item_is_continued_after_the_writer_of_its_session_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(item_run, "_WRITER_PAUSE", 0)
    choices = {"model": "ludolf/offline"}
    setup = FleetSetup(start=str(tmp_path), out=str(tmp_path / "out"), name="b", choices=choices)
    order = ItemOrder(id="a", folder="a", item={"id": "a"}, prompt="Hello", attempt=1)
    steps: list[ItemProgress] = []
    attempts = [item_run.ItemRun(setup, order, steps.append, no_warning) for _ in range(2)]
    assert (await attempts[0].run()).result.how == "new"
    looks = []

    def look(path: Path) -> bool:
        looks.append(path)
        return len(looks) < 3

    monkeypatch.setattr(item_run, "is_written_elsewhere", look)
    assert (await attempts[1].run()).result.how == "collected"
    assert len(looks) == 3
