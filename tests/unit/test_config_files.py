"""Where configuration lives, how its files are read and written, and pi's lock."""

import json
import os
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ludolf.base import ConfigError
from ludolf.config.settings.files import read_object, write_object
from ludolf.config.settings.home import agent_dir, env, env_flag, find_home, session_dir_override
from ludolf.config.settings.lock import FileLock, LockLost, auth_lock, growing_pauses, settings_lock

HOLDER = """
import sys
from pathlib import Path
from ludolf.config.settings.lock import auth_lock
with auth_lock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.readline()
"""


def hold_in_child(path: Path) -> subprocess.Popen[str]:
    source = Path(__file__).parents[2] / "src"
    child = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(source)},
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "held\n"
    return child


def release(child: subprocess.Popen[str]) -> None:
    child.communicate("go\n", timeout=15)


# ---------------------------------------------------------------- home


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"HOME": "/u"}, "/u/.pi/agent"),
        ({"HOME": "/u", "PI_CODING_AGENT_DIR": "~/x"}, "/u/x"),
        ({"HOME": "/u", "PI_CODING_AGENT_DIR": "/p", "LUDOLF_CODING_AGENT_DIR": "/l"}, "/l"),
        ({"HOME": "/u", "PI_CODING_AGENT_DIR": "/p", "LUDOLF_DIR": "/own"}, "/own"),
        ({"HOME": "/u", "PI_CODING_AGENT_DIR": ""}, "/u/.pi/agent"),
    ],
)
def test_agent_dir_follows_the_environment(environ: dict[str, str], expected: str) -> None:
    assert agent_dir(environ) == Path(expected)


def test_own_variable_wins_over_the_familys() -> None:
    assert env("OFFLINE", {"PI_OFFLINE": "0", "LUDOLF_OFFLINE": "yes"}) == "yes"
    assert env("OFFLINE", {"PI_OFFLINE": ""}) is None
    assert env_flag("OFFLINE", {"PI_OFFLINE": "TRUE"})
    assert not env_flag("OFFLINE", {"PI_OFFLINE": "0"})


def test_home_names_project_and_session_dir(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "PI_CODING_AGENT_SESSION_DIR": "~/s"}
    home = find_home(tmp_path / "work", environ)
    assert home.project == tmp_path / "work" / ".pi"
    assert home.settings_file == tmp_path / ".pi" / "agent" / "settings.json"
    assert session_dir_override(environ) == tmp_path / "s"
    assert session_dir_override({"HOME": "/u"}) is None


# ---------------------------------------------------------------- files


def test_a_byte_order_mark_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(b'\xef\xbb\xbf{"a": 1}')
    assert read_object(path) == {"a": 1}


def test_comments_and_trailing_commas_are_allowed_only_where_asked(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text('{ // one\n "u": "http://h/*no*/,]", /* two */ "l": [1, 2, // three\n ],\n}')
    assert read_object(path, relaxed=True) == {"u": "http://h/*no*/,]", "l": [1, 2]}
    with pytest.raises(ConfigError):
        read_object(path)


@pytest.mark.parametrize("text", ["{broken", "[1]", "[" * 5000])
def test_what_is_not_an_object_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(ConfigError):
        read_object(path)


def test_missing_and_blank_files_are_empty(tmp_path: Path) -> None:
    (tmp_path / "blank.json").write_text(" \n")
    assert read_object(tmp_path / "blank.json") == {}
    assert read_object(tmp_path / "none.json") == {}


def test_writing_keeps_links_and_modes_and_leaves_no_litter(tmp_path: Path) -> None:
    real = tmp_path / "dotfiles.json"
    real.write_text("{}")
    real.chmod(0o640)
    link = tmp_path / "settings.json"
    link.symlink_to(real)
    write_object(link, {"ä": 1})
    assert link.is_symlink()
    assert real.read_text() == '{\n  "ä": 1\n}'
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dotfiles.json", "settings.json"]


# ---------------------------------------------------------------- lock


def test_the_lock_is_a_directory_beside_the_file(tmp_path: Path) -> None:
    path = tmp_path / "auth.json"
    before = os.umask(0)
    try:
        with settings_lock(path):
            made = (tmp_path / "auth.json.lock").stat()
    finally:
        os.umask(before)
    assert stat.S_ISDIR(made.st_mode)
    assert stat.S_IMODE(made.st_mode) == 0o700
    assert not (tmp_path / "auth.json.lock").exists()


def test_a_second_process_keeps_us_out(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    child = hold_in_child(path)
    with pytest.raises(ConfigError, match="locked by another process"), settings_lock(path):
        pytest.fail("two holders")
    release(child)
    with settings_lock(path):
        assert (tmp_path / "settings.json.lock").is_dir()


def test_waiting_ends_when_the_other_process_lets_go(tmp_path: Path) -> None:
    path = tmp_path / "auth.json"
    child = hold_in_child(path)
    pauses = growing_pauses(5)

    def release_after_first_pause() -> Iterator[float]:
        yield next(pauses)
        release(child)
        yield from pauses

    lock = FileLock(path, stale=30, pauses=release_after_first_pause())
    with lock:
        assert lock.held()
    assert child.returncode == 0


def test_a_stale_lock_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "auth.json"
    lock = tmp_path / "auth.json.lock"
    lock.mkdir()
    old = time.time() - 31
    os.utime(lock, (old, old))
    with auth_lock(path, patience=0) as held:
        assert held.held()


def test_a_young_lock_of_a_dead_process_is_respected(tmp_path: Path) -> None:
    (tmp_path / "auth.json.lock").mkdir()
    with pytest.raises(ConfigError), auth_lock(tmp_path / "auth.json", patience=0.02):
        pytest.fail("taken too early")


def test_a_lost_lock_stops_the_write_and_is_not_removed(tmp_path: Path) -> None:
    directory = tmp_path / "auth.json.lock"
    with auth_lock(tmp_path / "auth.json") as lock:
        directory.rmdir()
        directory.mkdir()
        os.utime(directory, (1, 1))
        with pytest.raises(LockLost):
            lock.check()
        assert not lock.refresh()
    assert directory.is_dir()


def test_a_held_lock_is_kept_young(tmp_path: Path) -> None:
    directory = tmp_path / "auth.json.lock"
    lock = FileLock(tmp_path / "auth.json", stale=0.03, pauses=())
    with lock:
        first = directory.stat().st_mtime_ns
        deadline = time.monotonic() + 15
        while directory.stat().st_mtime_ns == first:
            assert time.monotonic() < deadline
        lock.check()


def test_pauses_add_up_to_the_patience() -> None:
    pauses = list(growing_pauses(3))
    assert sum(pauses) == pytest.approx(3)
    assert pauses[0] <= 0.01
    assert max(pauses) <= 1


def test_written_json_is_readable_by_others(tmp_path: Path) -> None:
    write_object(tmp_path / "x.json", {"a": {"b": [1]}})
    assert json.loads((tmp_path / "x.json").read_text()) == {"a": {"b": [1]}}


def test_a_file_that_is_made_is_for_its_owner_only(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        write_object(tmp_path / "new.json", {})
    finally:
        os.umask(old)
    assert (tmp_path / "new.json").stat().st_mode & 0o777 == 0o600
    (tmp_path / "new.json").chmod(0o640)
    write_object(tmp_path / "new.json", {"a": 1})
    assert (tmp_path / "new.json").stat().st_mode & 0o777 == 0o640
