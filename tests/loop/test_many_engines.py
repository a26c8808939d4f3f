"""Many engines in one process: each session file has one of them, and closing frees everything."""

import gc
import os
import tracemalloc
from pathlib import Path

import pytest

from ludolf.base import CommandError
from ludolf.config.settings.options import Options
from ludolf.engine.build import build
from ludolf.engine.engine import Engine
from ludolf.session.tree import new_session
from tests.session_samples import answer, no_warning, stored, user


def written(folder: Path) -> Path:
    session = new_session(str(folder), folder / "kept", no_warning)
    session.append(user("question"))
    session.append(answer("answer"))
    session.close()
    assert session.path is not None
    return session.path


async def started(root: Path, session: Path | None = None) -> Engine:
    options = Options(
        cwd=root,
        agent_dir=root / "agent",
        session_dir=str(root / "kept"),
        session=str(session) if session is not None else None,
        model="ludolf/scripted",
    )
    engine = build(options, no_warning)
    await engine.start("sdk")
    return engine


async def test_a_closed_engine_leaves_its_file_to_the_next_one(tmp_path: Path) -> None:
    path = written(tmp_path)
    for text in ("one", "two"):
        engine = await started(tmp_path, path)
        engine.session.append(user(text))
        await engine.close()
    contents = [entry.get("message", {}).get("content") for entry in stored(path)]
    assert [content[0]["text"] for content in contents if content] == [
        "question",
        "answer",
        "one",
        "two",
    ]


async def test_a_file_has_one_engine_in_a_process(tmp_path: Path) -> None:
    path, other = written(tmp_path), written(tmp_path)
    first, second = await started(tmp_path, path), await started(tmp_path, other)
    before = path.read_bytes()
    with pytest.raises(CommandError, match=r"already open in this program.*fork it") as refused:
        await started(tmp_path, path)
    assert refused.value.code == "session_in_use"
    link = tmp_path / "link.jsonl"
    link.symlink_to(path)
    for name in (path, link):
        with pytest.raises(CommandError, match="already open in this program"):
            await second.sessions.switch(str(name))
        with pytest.raises(CommandError, match="already open in this program"):
            second.library.rename(str(name), "mine")
        with pytest.raises(CommandError, match="already open in this program"):
            second.library.delete(str(name))
    assert second.session.path == other
    assert path.read_bytes() == before
    await first.sessions.switch(str(path))
    await first.close()
    await second.sessions.switch(str(path))
    assert second.session.read_only is None
    await second.close()


async def test_a_released_file_that_another_engine_has_opened_is_not_taken_back(
    tmp_path: Path,
) -> None:
    path = written(tmp_path)
    first = await started(tmp_path, path)
    first.session.release()
    second = await started(tmp_path, path)
    with pytest.raises(CommandError, match="in use"):
        first.session.append(user("mine"))
    second.session.append(user("other"))
    await second.close()
    first.session.append(user("mine"))
    assert [entry.type for entry in first.session.path_to_leaf()].count("message") == 4
    await first.close()


async def test_engines_that_come_and_go_leave_nothing_behind(tmp_path: Path) -> None:
    path = written(tmp_path)

    async def come_and_go(times: int) -> tuple[int, int]:
        for _ in range(times):
            engine = await started(tmp_path, path)
            await engine.close()
        del engine
        gc.collect()
        return len(gc.get_objects()), len(os.listdir("/dev/fd"))

    objects, descriptors = await come_and_go(5)
    more_objects, more_descriptors = await come_and_go(100)
    assert more_descriptors == descriptors
    assert more_objects - objects < 100


async def test_the_fiftieth_idle_engine_costs_no_more_than_the_fifth(tmp_path: Path) -> None:
    engines = [await started(tmp_path) for _ in range(5)]

    async def cost_of_five() -> int:
        gc.collect()
        tracemalloc.start()
        engines.extend([await started(tmp_path) for _ in range(5)])
        gc.collect()
        cost = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        return cost

    early = await cost_of_five()
    engines.extend([await started(tmp_path) for _ in range(40)])
    late = await cost_of_five()
    for engine in engines:
        await engine.close()
    assert late < 1.5 * early
