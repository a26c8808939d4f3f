"""Appending goes on through full disks, vanished folders and other programs' changes."""

import os
import resource
import shutil
from pathlib import Path

import pytest

from ludolf.session.tree import new_session, open_session
from tests.session_samples import answer, is_json, no_warning, stored, texts, user


def test_entries_that_a_full_disk_refused_are_written_when_room_returns(tmp_path: Path) -> None:
    warnings: list[str] = []
    session = new_session("/project", tmp_path, warnings.append)
    session.append(user("one"))
    assert session.path is not None
    before = session.path.read_bytes()
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 40, limit[1]))
    try:
        session.append(answer("two"))
        session.append(user("three"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert session.path.read_bytes() == before
    assert session.unsaved == 2
    assert texts(session) == ["one", "two", "three"]
    assert len(warnings) == 1
    assert "Session is not being saved" in warnings[0]

    session.append(answer("four"))

    assert session.unsaved == 0
    assert warnings[1:] == [f"Session is saved again: {session.path}"]
    session.close()
    assert session.path is not None
    assert texts(open_session(session.path, "/", no_warning)) == ["one", "two", "three", "four"]


def test_a_session_that_could_not_even_begin_is_written_later(tmp_path: Path) -> None:
    warnings: list[str] = []
    blocker = tmp_path / "sessions"
    blocker.write_text("a file where the folder should be")
    session = new_session("/project", blocker / "project", warnings.append)
    session.append(user("one"))
    assert "Session is not being saved" in warnings[0]
    blocker.unlink()
    session.flush()
    assert session.path is not None
    assert [line["type"] for line in stored(session.path)] == ["session", "message"]
    assert session.unsaved == 0


def test_a_vanished_folder_is_made_again_with_the_whole_session(tmp_path: Path) -> None:
    warnings: list[str] = []
    folder = tmp_path / "sessions" / "project"
    session = new_session("/project", folder, warnings.append)
    session.append(user("one"))
    session.append(answer("two"))
    shutil.rmtree(tmp_path / "sessions")
    session.append(user("three"))
    assert session.path is not None
    assert [line["type"] for line in stored(session.path)] == ["session", *["message"] * 3]
    assert warnings == [f"Session file had vanished and is written again: {session.path}"]


def test_a_vanished_file_without_a_final_newline_is_written_again_line_by_line(
    tmp_path: Path,
) -> None:
    made = new_session("/project", tmp_path, no_warning)
    made.append(user("one"))
    made.close()
    path = made.path
    assert path is not None
    path.write_bytes(path.read_bytes().rstrip())
    warnings: list[str] = []
    session = open_session(path, "/project", warnings.append)
    path.unlink()
    session.append(answer("two"))
    assert [line["type"] for line in stored(path)] == ["session", "message", "message"]
    assert len(warnings) == 1


def test_growth_by_another_program_is_told_once_and_its_torn_line_closed(tmp_path: Path) -> None:
    warnings: list[str] = []
    session = new_session("/project", tmp_path, warnings.append)
    session.append(user("one"))
    assert session.path is not None
    with session.path.open("ab") as file:
        file.write(b'{"type":"custom","id":"f0","parentId":null,"timestamp":"t","customType":"x"')
    session.append(answer("two"))
    session.append(user("three"))
    assert len(warnings) == 1
    assert "changed by another program" in warnings[0]
    lines = session.path.read_bytes().splitlines()
    assert [is_json(line) for line in lines] == [True, True, False, True, True]


def test_a_file_replaced_by_an_editor_is_followed(tmp_path: Path) -> None:
    warnings: list[str] = []
    session = new_session("/project", tmp_path, warnings.append)
    session.append(user("one"))
    assert session.path is not None
    beside = tmp_path / "beside"
    beside.write_bytes(session.path.read_bytes())
    os.replace(beside, session.path)
    session.append(answer("two"))
    session.close()
    assert texts(open_session(session.path, "/project", no_warning)) == ["one", "two"]


@pytest.mark.parametrize("change", ["replace", "overwrite", "same size", "folder", "pipe", "link"])
def test_entries_are_never_appended_to_a_file_of_somebody_else(tmp_path: Path, change: str) -> None:
    warnings: list[str] = []
    session = new_session("/project", tmp_path / "sessions", warnings.append)
    session.append(user("one"))
    path = session.path
    assert path is not None
    strange = b"x" * path.stat().st_size if change == "same size" else b"other content\n"
    if change not in ("overwrite", "same size"):
        path.unlink()
    if change == "folder":
        path.mkdir()
    elif change == "pipe":
        os.mkfifo(path)
    elif change == "link":
        (tmp_path / "notes").write_bytes(strange)
        path.symlink_to(tmp_path / "notes")
    else:
        path.write_bytes(strange)

    session.append(answer("two"))
    session.append(user("three"))

    if path.is_file():
        assert path.read_bytes() == strange
    new = path.with_name(f"{path.stem}-1.jsonl")
    assert session.path == new
    assert warnings == [
        f"Session file was replaced by something else: {path}. "
        f"The whole session is written to a new file: {new}"
    ]
    session.close()
    assert texts(open_session(new, "/project", no_warning)) == ["one", "two", "three"]


def test_a_file_that_now_holds_another_session_is_left_to_it(tmp_path: Path) -> None:
    warnings: list[str] = []
    session = new_session("/project", tmp_path, warnings.append)
    session.append(user("one"))
    other = new_session("/project", tmp_path, no_warning)
    other.append(user("other"))
    other.close()
    assert session.path is not None
    assert other.path is not None
    path, content = session.path, other.path.read_bytes()
    os.replace(other.path, path)
    session.append(answer("two"))
    assert path.read_bytes() == content
    assert session.path != path
    assert len(stored(session.path)) == 3
    assert len(warnings) == 1


@pytest.mark.parametrize("left", [0, 1, 200, -10])
def test_a_file_that_was_cut_short_is_left_and_the_session_stored_whole(
    tmp_path: Path, left: int
) -> None:
    warnings: list[str] = []
    session = new_session("/project", tmp_path, warnings.append)
    session.append(user("one"))
    session.append(answer("two"))
    path = session.path
    assert path is not None
    rest = path.read_bytes()[:left]
    os.truncate(path, len(rest))
    session.append(user("three"))
    session.append(answer("four"))
    session.close()
    assert len(warnings) == 1
    if rest:
        assert path.read_bytes() == rest
    assert session.path is not None
    assert texts(open_session(session.path, "/", no_warning)) == ["one", "two", "three", "four"]


def test_a_session_whose_header_follows_damage_is_still_recognised(tmp_path: Path) -> None:
    made = new_session("/project", tmp_path, no_warning)
    made.append(user("one"))
    made.close()
    assert made.path is not None
    made.path.write_bytes(b"damage\n" + made.path.read_bytes())
    warnings: list[str] = []
    session = open_session(made.path, "/project", warnings.append)
    session.append(answer("two"))
    assert session.path == made.path
    assert [is_json(line) for line in made.path.read_bytes().splitlines()] == [False, *[True] * 3]
    assert len(warnings) == 1


def test_a_new_session_never_overwrites_a_file_that_took_its_name(tmp_path: Path) -> None:
    session = new_session("/project", tmp_path, no_warning)
    assert session.path is not None
    wanted = session.path
    wanted.write_text("precious")
    session.append(user("one"))
    assert wanted.read_text() == "precious"
    assert session.path == wanted.with_name(f"{wanted.stem}-1.jsonl")
    assert len(stored(session.path)) == 2
