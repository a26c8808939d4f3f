"""The audit of dependencies passes on our locks, and finds what is wrong with others."""

from importlib.metadata import Distribution
from pathlib import Path

import pytest

from scripts.audit import LOCKS, ROOT, file_problems, lock_problems, pins, version_problems

DIGEST = "nia_NpkRxFwkPGhBR7I_yeHc_PJX0pmhxjIBam_NM_Q"
GOOD = """a-b==1.0 \\
    --hash=sha256:00
    # via c
c==2.0 ; python_version < '4' \\
    --hash=sha256:11
"""


@pytest.mark.parametrize("name", LOCKS)
def test_our_locks_are_sound(name: str) -> None:
    text = (ROOT / name).read_text()
    assert list(lock_problems(text)) == []
    assert len(pins(text)) > 10


def test_pins_are_read() -> None:
    assert list(lock_problems(GOOD)) == []
    assert pins(GOOD) == {"a-b": "1.0", "c": "2.0"}


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ("d>=1.0 \\\n    --hash=sha256:00\n", "is not pinned"),
        ("d==1.0\n", "has no hash"),
        ("d @ https://elsewhere/d.whl \\\n    --hash=sha256:00\n", "names a source"),
        ("--extra-index-url https://elsewhere\n", "names a source"),
        ("-f https://elsewhere\n", "names a source"),
    ],
)
def test_what_a_lock_must_not_say_is_found(bad: str, said: str) -> None:
    (problem,) = lock_problems(GOOD + bad)
    assert problem.startswith(said)


def _install(folder: Path) -> Distribution:
    info = folder / "thing-1.0.dist-info"
    info.mkdir()
    (folder / "thing.py").write_text("x = 1\n")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: thing\nVersion: 1.0\n")
    (info / "RECORD").write_text(f"thing.py,sha256={DIGEST},6\nthing-1.0.dist-info/RECORD,,\n")
    (found,) = Distribution.discover(path=[str(folder)])
    return found


def test_other_versions_than_the_locks_are_found(tmp_path: Path) -> None:
    thing = _install(tmp_path)
    assert list(version_problems({"thing": "1.0"}, [thing])) == []
    (problem,) = version_problems({"thing": "1.1"}, [thing])
    assert problem == "thing 1.0 is installed, the lock requires 1.1"


def test_files_that_were_changed_or_removed_are_found(tmp_path: Path) -> None:
    thing = _install(tmp_path)
    assert list(file_problems(thing)) == []
    (tmp_path / "thing.py").write_text("import evil\n")
    assert len(list(file_problems(thing))) == 1
    (tmp_path / "thing.py").unlink()
    assert len(list(file_problems(thing))) == 1
