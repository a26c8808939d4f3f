"""Atomic replacement of files: no temporary file stays behind, whenever the writer dies."""

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ludolf.tools.files import replace_file

STALE = ".ludolf-0123456789ab.tmp"
# The program is killed when the content is written and only the rename is missing.
KILLED = """
import os, signal, sys
from pathlib import Path
from ludolf.tools.files import replace_file
if sys.argv[1] == "named":
    del os.O_TMPFILE
os.fsync = lambda file: os.kill(os.getpid(), signal.SIGKILL)
replace_file(Path("a.txt"), b"new")
"""


def _die_writing(folder: Path, how: str) -> None:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", KILLED, how], cwd=folder, env=env, check=False)
    assert done.returncode == -signal.SIGKILL


@pytest.mark.parametrize("before", [None, "old"])
def test_a_writer_that_is_killed_leaves_no_file_behind(tmp_path: Path, before: str | None) -> None:
    if before is not None:
        (tmp_path / "a.txt").write_text(before)
    _die_writing(tmp_path, "unnamed")
    assert [path.read_text() for path in tmp_path.iterdir()] == ([] if before is None else [before])


def test_what_a_killed_writer_left_goes_with_the_next_write_in_that_folder(tmp_path: Path) -> None:
    _die_writing(tmp_path, "named")
    (left,) = os.listdir(tmp_path)
    assert left.startswith(".ludolf-")
    replace_file(tmp_path / "b.txt", b"x")
    assert os.listdir(tmp_path) == ["b.txt"]


def test_only_our_own_files_whose_writer_is_dead_are_removed(tmp_path: Path) -> None:
    kept = [".ludolf-mine.tmp", ".ludolf-0123456789ac.tmp", "x.ludolf-0123456789ab.tmp"]
    (tmp_path / STALE).touch()
    for name in kept:
        (tmp_path / name).touch()
    (tmp_path / ".ludolf-0123456789ad.tmp").symlink_to(kept[0])
    with open(tmp_path / kept[1]) as live:
        fcntl.flock(live, fcntl.LOCK_EX)
        replace_file(tmp_path / "b.txt", b"x")
    assert set(os.listdir(tmp_path)) == {*kept, ".ludolf-0123456789ad.tmp", "b.txt"}


def test_a_file_system_without_unnamed_files_will_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "O_TMPFILE")
    for text in (b"one", b"two"):
        replace_file(tmp_path / "a.txt", text)
        assert (tmp_path / "a.txt").read_bytes() == text
    assert os.listdir(tmp_path) == ["a.txt"]
