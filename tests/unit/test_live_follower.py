"""Following a session file: new bytes only, whole lines only, whatever happens to the file."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from ludolf.page.live.watch import Follower, NewEntries
from ludolf.session.reader import NotASession
from tests.export_page import header, message, no_warning


def _line(name: str, parent: str | None = None) -> bytes:
    return json.dumps(message(name, parent, "user", content=name)).encode() + b"\n"


HEAD = json.dumps(header()).encode() + b"\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    place = tmp_path / "session.jsonl"
    place.write_bytes(HEAD + _line("u1"))
    return place


def _append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def _ids(batch: NewEntries | None) -> list[str]:
    return [entry.id for entry in batch.entries] if batch is not None else []


def test_the_first_reading_gives_everything_and_the_next_what_came_since(path: Path) -> None:
    with Follower(path, no_warning) as follower:
        first = follower.read()
        assert first is not None
        assert (first.header.id, _ids(first), first.from_start) == ("0199-sample", ["u1"], True)
        assert follower.read() is None
        _append(path, _line("u2") + _line("u3"))
        second = follower.read()
        assert second is not None
        assert (_ids(second), second.from_start) == (["u2", "u3"], False)
        assert follower.read() is None


@pytest.mark.parametrize("cut", [1, 20, 60])
def test_a_torn_line_waits_for_its_rest(path: Path, cut: int) -> None:
    line = _line("u2")
    with Follower(path, no_warning) as follower:
        follower.read()
        _append(path, line[:cut])
        assert follower.read() is None
        _append(path, line[cut:] + _line("u3")[:10])
        assert _ids(follower.read()) == ["u2"]


def test_a_line_torn_between_the_bytes_of_a_letter_is_whole_in_the_end(path: Path) -> None:
    line = json.dumps(message("u2", None, "user", content="é漢😀"), ensure_ascii=False).encode()
    with Follower(path, no_warning) as follower:
        follower.read()
        for byte in line:
            _append(path, bytes((byte,)))
            batch = follower.read()
        assert _ids(batch) == ["u2"]
        _append(path, b"\n" + _line("u3"))
        assert _ids(follower.read()) == ["u3"]


def test_a_whole_entry_needs_no_line_end_and_comes_once(path: Path) -> None:
    _append(path, _line("u2").rstrip())
    with Follower(path, no_warning) as follower:
        assert _ids(follower.read()) == ["u1", "u2"]
        _append(path, b"\n" + _line("u3"))
        assert _ids(follower.read()) == ["u3"]


def test_broken_lines_are_passed_over(path: Path) -> None:
    with Follower(path, no_warning) as follower:
        follower.read()
        _append(path, b'{"type":"mess\n\n[1]\nnull\n' + _line("u2"))
        assert _ids(follower.read()) == ["u2"]


def test_a_shortened_file_is_read_from_its_beginning(path: Path) -> None:
    with Follower(path, no_warning) as follower:
        follower.read()
        path.write_bytes(HEAD)
        batch = follower.read()
        assert batch is not None
        assert (_ids(batch), batch.from_start) == ([], True)


def test_a_file_rewritten_in_place_is_read_from_its_beginning(path: Path) -> None:
    with Follower(path, no_warning) as follower:
        follower.read()
        path.write_bytes(HEAD + _line("v1") + _line("v2"))
        batch = follower.read()
        assert batch is not None
        assert (_ids(batch), batch.from_start) == (["v1", "v2"], True)


def test_another_file_of_the_same_name_is_read_from_its_beginning(path: Path) -> None:
    with Follower(path, no_warning) as follower:
        follower.read()
        other = path.with_name("other")
        other.write_bytes(HEAD + _line("v1"))
        os.replace(other, path)
        batch = follower.read()
        assert batch is not None
        assert (_ids(batch), batch.from_start) == (["v1"], True)


def test_a_vanished_file_is_waited_for(path: Path) -> None:
    with Follower(path, no_warning) as follower:
        follower.read()
        path.unlink()
        assert follower.read() is None
        path.write_bytes(HEAD + _line("u1") + _line("u2"))
        assert _ids(follower.read()) == ["u1", "u2"]


def test_a_repeated_id_is_named_as_when_the_file_is_opened(path: Path) -> None:
    told: list[str] = []
    with Follower(path, told.append) as follower:
        follower.read()
        _append(path, _line("u2", "u1") + _line("u1", "u2"))
        batch = follower.read()
        assert batch is not None
        assert (_ids(batch), batch.from_start) == (["u1", "u2", "u1~2"], True)
    assert "repeated id(s) renamed" in told[0]


def test_an_old_file_is_brought_to_the_present_at_every_reading(path: Path) -> None:
    old: list[dict[str, Any]] = [
        {key: value for key, value in header().items() if key != "version"},
        {"type": "message", "timestamp": "", "message": {"role": "user", "content": "x"}},
    ]
    path.write_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in old))
    with Follower(path, no_warning) as follower:
        assert len(_ids(follower.read())) == 1
        _append(path, json.dumps(old[1]).encode() + b"\n")
        batch = follower.read()
        assert batch is not None
        assert (len(batch.entries), batch.from_start) == (2, True)
        assert batch.entries[1].parent_id == batch.entries[0].id


def test_what_is_no_session_is_refused(path: Path) -> None:
    path.write_bytes(b"just words\n")
    with Follower(path, no_warning) as follower, pytest.raises(NotASession):
        follower.read()
    path.unlink()
    os.mkfifo(path)
    with Follower(path, no_warning) as follower, pytest.raises(NotASession):
        follower.read()


def test_a_missing_file_is_an_error_at_first(tmp_path: Path) -> None:
    with Follower(tmp_path / "none", no_warning) as follower, pytest.raises(FileNotFoundError):
        follower.read()


def test_growth_costs_what_is_new_not_what_is_there(path: Path) -> None:
    """Counted by the kernel: bytes that this process has read."""
    with path.open("ab") as file:
        for number in range(2, 20_000):
            file.write(_line(f"u{number}", f"u{number - 1}"))
    with Follower(path, no_warning) as follower:
        follower.read()
        before = _bytes_read()
        for number in range(20):
            _append(path, _line(f"v{number}"))
            assert _ids(follower.read()) == [f"v{number}"]
        assert _bytes_read() - before < 100_000 < path.stat().st_size / 20


def _bytes_read() -> int:
    return int(Path("/proc/self/io").read_text().split()[1])


def test_a_path_that_becomes_a_link_keeps_the_file_that_was_opened(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(HEAD + _line("secret"))
    with Follower(path, no_warning) as follower:
        follower.read()
        path.unlink()
        path.symlink_to(other)
        with pytest.raises(NotASession, match="became a link"):
            follower.read()
        assert _bytes_of(follower) == HEAD + _line("u1")


def test_a_folder_that_becomes_a_link_is_not_followed_either(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "a", tmp_path / "b"
    for place in (folder, elsewhere):
        place.mkdir()
        (place / "s.jsonl").write_bytes(HEAD + _line(place.name))
    with Follower(folder / "s.jsonl", no_warning) as follower:
        follower.read()
        folder.rename(tmp_path / "c")
        folder.symlink_to(elsewhere)
        with pytest.raises(NotASession, match="became a link"):
            follower.read()
        assert _bytes_of(follower) == HEAD + _line("a")


def test_a_session_is_found_through_a_link_that_was_there_before(path: Path) -> None:
    link = path.with_name("link")
    link.symlink_to(path)
    with Follower(link, no_warning) as follower:
        assert _ids(follower.read()) == ["u1"]


def _bytes_of(follower: Follower) -> bytes:
    opened = follower.opened()
    assert opened is not None
    try:
        return os.pread(opened[0], opened[1], 0)
    finally:
        os.close(opened[0])
