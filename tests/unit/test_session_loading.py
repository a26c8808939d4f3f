"""Session files that a thread reads before a session is opened on the event loop."""

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ludolf.config.settings.options import Options
from ludolf.engine.build import build
from ludolf.session.entries import make_entry
from ludolf.session.tree import load_session, new_session, open_session
from tests.session_samples import answer, no_warning, texts, user


@contextmanager
def frequent_switches() -> Iterator[None]:
    """Let threads take turns often, so that the load of the machine does not matter."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(usual / 50)
    try:
        yield
    finally:
        sys.setswitchinterval(usual)


def written(folder: Path, count: int = 2) -> Path:
    session = new_session(str(folder), folder, no_warning)
    for number in range(count):
        session.append(user(f"question {number}"))
        session.append(answer(f"answer {number}"))
    session.set_name("Talk")
    session.close()
    assert session.path is not None
    return session.path


def test_a_session_that_was_loaded_before_is_the_same_as_one_that_was_not(tmp_path: Path) -> None:
    path = written(tmp_path)
    loaded = load_session(path)
    plain = open_session(path, "/", no_warning, write=False)
    session = open_session(path, "/", no_warning, loaded=loaded)
    assert session.read_only is None
    assert (session.header, session.leaf, session.name) == (plain.header, plain.leaf, "Talk")
    assert texts(session) == texts(plain)
    assert session.context.model == plain.context.model == ("mock", "large")
    last = session.append(user("more"))
    session.close()
    assert path.read_bytes().endswith(last.line)


def test_entries_that_were_added_after_the_loading_are_part_of_the_session(tmp_path: Path) -> None:
    path = written(tmp_path)
    loaded = load_session(path)
    leaf = loaded.content.entries[-1].id
    late = make_entry(user("late"), entry_id="0000beef", parent_id=leaf, timestamp="t")
    with path.open("ab") as file:
        file.write(late.line)
    session = open_session(path, "/", no_warning, loaded=loaded)
    assert session.leaf == "0000beef"
    assert texts(session)[-1] == "late"
    session.close()


def test_warnings_of_a_loaded_file_are_given_when_it_is_opened(tmp_path: Path) -> None:
    path = written(tmp_path)
    with path.open("ab") as file:
        file.write(b"damage\n")
    loaded, warnings = load_session(path), list[str]()
    open_session(path, "/", warnings.append, loaded=loaded).close()
    assert len(warnings) == 1
    assert "1 unreadable line(s) skipped" in warnings[0]


def test_a_loaded_file_that_is_not_the_one_asked_for_is_not_used(tmp_path: Path) -> None:
    first, second = written(tmp_path / "a"), written(tmp_path / "b", 3)
    session = open_session(second, "/", no_warning, write=False, loaded=load_session(first))
    assert len(texts(session)) == 6


async def test_the_event_loop_answers_while_two_threads_load_sessions(tmp_path: Path) -> None:
    paths = [written(tmp_path / name, 3000) for name in ("a", "b")]
    loading = [asyncio.create_task(asyncio.to_thread(load_session, path)) for path in paths]
    turns = 0
    with frequent_switches():
        while not all(task.done() for task in loading):
            turns += 1
            await asyncio.sleep(0)
    assert turns > 20
    engines = []
    for path, task in zip(paths, loading, strict=True):
        options = Options(
            cwd=tmp_path, agent_dir=tmp_path / "agent", session=str(path), model="ludolf/scripted"
        )
        loaded = await task
        engines.append(build(options, no_warning, loaded=loaded))
        assert engines[-1].session.entries() is loaded.content.entries
    for engine, path in zip(engines, paths, strict=True):
        assert engine.session.path == path
        assert engine.state().message_count == 6000
        assert engine.session.read_only is None
        await engine.close()
