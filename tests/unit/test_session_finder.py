"""Session folders, names and lists, and which file a flag means."""

import json
import os
from pathlib import Path

import pytest

from ludolf.ai.messages import UserMessage
from ludolf.base import CommandError
from ludolf.session.entries import MessageBody
from ludolf.session.finder import (
    SessionElsewhere,
    SessionFolder,
    check_cwd,
    check_session_id,
    encode_cwd,
    find,
    find_id,
    latest,
    list_sessions,
    local_time,
    move_old_sessions,
    read_record,
    short_ids,
)
from ludolf.session.tree import new_session
from tests.session_samples import no_warning


def make(
    place: SessionFolder, session_id: str, age: int, text: str = "hello", cwd: str = ""
) -> Path:
    session = new_session(cwd or place.cwd, place.folder, no_warning, session_id=session_id)
    session.append(MessageBody(message=UserMessage(content=text, timestamp=2_000_000 - age)))
    session.close()
    assert session.path is not None
    os.utime(session.path, (1_000_000 - age, 1_000_000 - age))
    return session.path


def test_a_project_has_a_folder_named_after_it() -> None:
    assert encode_cwd("/home/a/p") == "--home-a-p--"
    assert encode_cwd("C:\\work\\x") == "--C--work-x--"
    place = SessionFolder(home=Path("/home/a"), agent_dir=Path("/agent"), cwd="/home/a/p")
    assert place.folder == Path("/agent/sessions/--home-a-p--")
    custom = SessionFolder(
        home=Path("/home/a"), agent_dir=Path("/agent"), cwd="/home/a/p", custom=Path("/flat")
    )
    assert custom.folder == Path("/flat")


@pytest.mark.parametrize("good", ["a", "my-own-id", "A.b_c-9"])
def test_plain_ids_are_accepted(good: str) -> None:
    assert check_session_id(good) == good


@pytest.mark.parametrize("bad", ["", "-a", "a-", "a/b", "a b", ".a", "ä", "a\n"])
def test_other_ids_are_refused(bad: str) -> None:
    with pytest.raises(CommandError, match=r"^Session id must be non-empty, contain only"):
        check_session_id(bad)


def test_continue_takes_the_newest_valid_file(tmp_path: Path) -> None:
    place = SessionFolder(home=Path("/home/a"), agent_dir=tmp_path, cwd="/project")
    assert latest(place) is None
    make(place, "old", 100)
    newer = make(place, "new", 50)
    (place.folder / "broken.jsonl").write_text("newest, but no session")
    assert latest(place) == newer


def test_in_a_shared_folder_only_this_project_counts(tmp_path: Path) -> None:
    place = SessionFolder(
        home=Path("/home/a"), agent_dir=tmp_path, cwd="/project", custom=tmp_path / "flat"
    )
    mine = make(place, "mine", 100)
    make(place, "other", 1, cwd="/elsewhere")
    assert latest(place) == mine
    assert [record.id for record in list_sessions(place)] == ["mine"]
    assert [record.id for record in list_sessions(place, everywhere=True)] == ["other", "mine"]


def test_an_exact_id_beats_a_prefix(tmp_path: Path) -> None:
    place = SessionFolder(home=Path("/home/a"), agent_dir=tmp_path, cwd="/project")
    exact = make(place, "abc", 100)
    other = make(place, "abcd", 50)
    assert find(place, "abc") == exact
    assert find(place, "abcd") == find(place, "abcd"[:4]) == other
    assert find_id(place, "abcd") is not None
    assert find_id(place, "ab") is None


def test_an_exact_id_of_another_project_beats_a_prefix_here(tmp_path: Path) -> None:
    place = SessionFolder(home=Path("/home/a"), agent_dir=tmp_path, cwd="/project")
    make(place, "abcd", 1)
    exact = make(
        SessionFolder(home=Path("/home/a"), agent_dir=tmp_path, cwd="/elsewhere"), "abc", 100
    )
    with pytest.raises(SessionElsewhere) as info:
        find(place, "abc")
    assert info.value.path == exact


def test_a_prefix_of_several_ids_is_refused_with_id_time_and_name_of_each(tmp_path: Path) -> None:
    place = SessionFolder(home=Path("/home/a"), agent_dir=tmp_path, cwd="/project")
    make(place, "01a1e052-7777", 50, "first talk")
    make(place, "01a1e052-7788", 10, "second\ntalk")
    with pytest.raises(CommandError) as info:
        find(place, "01a1")
    head, newest, oldest = str(info.value).splitlines()
    assert head == "2 sessions have an id that begins with '01a1'. Use a longer id:"
    assert newest.split()[0] == "01a1e052-778"
    assert oldest.split()[0] == "01a1e052-777"
    assert newest.endswith(f"  {local_time(1_999_990)}  second talk")
    assert find(place, "01a1e052-778").name.endswith("_01a1e052-7788.jsonl")
    with pytest.raises(CommandError, match="2 sessions have an id"):
        find(SessionFolder(home=Path("/home/a"), agent_dir=tmp_path, cwd="/elsewhere"), "01a1")


def test_a_long_list_of_matches_is_cut(tmp_path: Path) -> None:
    place = SessionFolder(home=Path("/home/a"), agent_dir=tmp_path, cwd="/project")
    for number in range(12):
        make(place, f"abc-{number:02}", number)
    with pytest.raises(CommandError) as info:
        find(place, "abc")
    lines = str(info.value).splitlines()
    assert (len(lines), lines[-1]) == (12, "  and 2 more")


def test_copies_of_one_session_are_not_ambiguous(tmp_path: Path) -> None:
    place = SessionFolder(home=Path("/home/a"), agent_dir=tmp_path, cwd="/project")
    old, new = make(place, "abcd", 10), place.folder / "copy.jsonl"
    new.write_bytes(old.read_bytes())
    assert find(place, "ab") == find(place, "abcd") == new


def test_last_is_the_newest_session_unless_it_is_an_id(tmp_path: Path) -> None:
    place = SessionFolder(home=Path("/home/a"), agent_dir=tmp_path, cwd="/project")
    with pytest.raises(CommandError, match="no sessions yet"):
        find(place, "last")
    make(place, "older", 10)
    newer = make(place, "newer", 1)
    assert find(place, "last") == newer
    named = make(place, "last", 100)
    assert find(place, "last") == named


def test_short_ids_are_as_long_as_needed_and_at_least_8() -> None:
    assert short_ids(["0123456789-a", "0123456789-b", "f" * 20, "abc", "abcd"]) == {
        "0123456789-a": "0123456789-a",
        "0123456789-b": "0123456789-b",
        "f" * 20: "f" * 8,
        "abc": "abc",
        "abcd": "abcd",
    }


def test_a_path_is_taken_as_a_path(tmp_path: Path) -> None:
    place = SessionFolder(home=Path("/home/a"), agent_dir=tmp_path, cwd="/project")
    assert find(place, "sub/s") == Path("/project/sub/s")
    assert find(place, "s.jsonl") == Path("/project/s.jsonl")
    assert find(place, "/abs/s.jsonl") == Path("/abs/s.jsonl")
    assert find(place, "~/s.jsonl") == Path("/home/a/s.jsonl")


def test_a_session_of_another_project_is_named_but_not_opened(tmp_path: Path) -> None:
    elsewhere = SessionFolder(home=Path("/home/a"), agent_dir=tmp_path, cwd="/elsewhere")
    path = make(elsewhere, "abc", 1)
    with pytest.raises(SessionElsewhere, match="Session found in different project: /else") as info:
        find(SessionFolder(home=Path("/home/a"), agent_dir=tmp_path, cwd="/project"), "abc")
    assert info.value.path == path


def test_an_unknown_id_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"^No session found matching 'ffffffff'$"):
        find(SessionFolder(home=Path("/home/a"), agent_dir=tmp_path, cwd="/project"), "ffffffff")


def test_a_list_tells_name_count_times_and_first_words(tmp_path: Path) -> None:
    place = SessionFolder(home=Path("/home/a"), agent_dir=tmp_path, cwd="/project")
    session = new_session("/project", place.folder, no_warning, parent_session="/old.jsonl")
    session.append(MessageBody(message=UserMessage(content="first words", timestamp=1111)))
    session.append(MessageBody(message=UserMessage(content="more", timestamp=2222)))
    session.set_name("the name")
    session.close()
    (record,) = list_sessions(place)
    assert (record.path, record.id) == (str(session.path), session.id)
    assert (record.cwd, record.parent_session_path) == ("/project", "/old.jsonl")
    assert (record.name, record.first_message) == ("the name", "first words")
    assert (record.message_count, record.modified) == (2, 2222)


def test_a_session_without_messages_says_so(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    header = {"type": "session", "version": 3, "id": "s", "cwd": "/"}
    path.write_text(json.dumps({**header, "timestamp": "1970-01-01T00:00:05.000Z"}) + "\n")
    record = read_record(path)
    assert record is not None
    assert (record.first_message, record.modified) == ("(no messages)", 5000)


def test_a_missing_working_directory_is_refused(tmp_path: Path) -> None:
    gone = new_session(str(tmp_path / "gone"), None, no_warning)
    with pytest.raises(CommandError, match=r"^Stored session working directory does not exist: "):
        check_cwd(gone.header, None, "/")
    check_cwd(new_session(str(tmp_path), None, no_warning).header, None, "/")


def test_files_in_the_old_place_are_moved_to_their_project(tmp_path: Path) -> None:
    place = SessionFolder(home=Path("/home/a"), agent_dir=tmp_path, cwd="/project", custom=tmp_path)
    old = make(place, "abc", 1)
    other = tmp_path / "other.jsonl"
    other.write_text("not a session")
    ((before, moved),) = move_old_sessions(tmp_path)
    assert before == old
    assert moved == tmp_path / "sessions" / "--project--" / old.name
    assert moved.exists()
    assert other.exists()
    assert not old.exists()
