"""The session file survives torn lines, damage, full disks and vanished folders."""

import json
import os
import stat
from pathlib import Path

import pytest

from ludolf.ai.messages import OpaqueMessage, UserMessage
from ludolf.session.entries import (
    CustomBody,
    MessageBody,
    ModelChangeBody,
    ThinkingLevelChangeBody,
    entry_json,
    entry_line,
    message_json,
    message_of,
)
from ludolf.session.reader import NotASession
from ludolf.session.tree import SessionReadOnly, new_session, open_session
from ludolf.session.views import entries_since
from tests.session_samples import answer, is_json, no_warning, stored, texts, user


def small_session(folder: Path) -> Path:
    session = new_session("/project", folder, no_warning)
    session.append(ModelChangeBody(provider="mock", model_id="large"))
    session.append(user("Frage eins: 漢字"))
    session.append(answer("answer one"))
    session.append(user("question two"))
    session.close()
    assert session.path is not None
    return session.path


def test_nothing_is_on_disk_until_the_first_message(tmp_path: Path) -> None:
    session = new_session("/project", tmp_path / "deep" / "folder", no_warning)
    session.append(ModelChangeBody(provider="mock", model_id="large"))
    session.append(ThinkingLevelChangeBody(thinking_level="off"))
    assert session.path is not None
    assert not session.path.parent.exists()

    session.append(user("hello"))

    lines = stored(session.path)
    kinds = [line["type"] for line in lines]
    assert kinds == ["session", "model_change", "thinking_level_change", "message"]
    assert list(lines[0]) == ["type", "version", "id", "timestamp", "cwd"]
    assert list(lines[3]) == ["type", "id", "parentId", "timestamp", "message"]
    assert [line["parentId"] for line in lines[1:]] == [None, lines[1]["id"], lines[2]["id"]]
    assert lines[3]["message"] == {
        "role": "user",
        "content": [{"type": "text", "text": "hello"}],
        "timestamp": 1,
    }
    stamp = lines[0]["timestamp"].replace(":", "-").replace(".", "-")
    assert session.path.name == f"{stamp}_{session.id}.jsonl"


@pytest.mark.parametrize("mask", [0, 0o177, 0o377])
def test_files_and_new_folders_are_for_the_owner_only(tmp_path: Path, mask: int) -> None:
    tmp_path.chmod(0o755)
    before = os.umask(mask)
    try:
        path = small_session(tmp_path / "sessions" / "project")
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(path.parent.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755


def test_a_session_without_a_folder_leaves_no_trace() -> None:
    session = new_session("/project", None, no_warning)
    session.append(user("hello"))
    session.flush()
    session.close()
    assert session.path is None
    assert texts(session) == ["hello"]


def test_what_was_appended_is_read_again(tmp_path: Path) -> None:
    path = small_session(tmp_path)
    session = open_session(path, "/elsewhere", no_warning)
    assert session.header.cwd == "/project"
    assert texts(session) == ["Frage eins: 漢字", "answer one", "question two"]
    assert session.context.model == ("mock", "large")
    session.append(answer("answer two"))
    session.close()
    again = open_session(path, "/elsewhere", no_warning)
    assert texts(again) == ["Frage eins: 漢字", "answer one", "question two", "answer two"]


def test_a_new_entry_keeps_its_message_and_its_json(tmp_path: Path) -> None:
    session = new_session("/project", tmp_path, no_warning)
    message = UserMessage(content="hi", timestamp=1)
    entry = session.append(MessageBody(message=message))
    assert session.path is not None
    assert b'"message":' + bytes(message_json(entry)) + b"}\n" in session.path.read_bytes()
    assert message_of(entry) is message


def test_the_decoded_message_stays_the_same_object(tmp_path: Path) -> None:
    session = open_session(small_session(tmp_path), "/project", no_warning)
    first = tuple(session.context.messages())
    session.append(answer("answer two"))
    second = tuple(session.context.messages())
    assert all(old is new for old, new in zip(first, second, strict=False))
    assert len(second) == len(first) + 1


def test_a_file_cut_at_any_byte_opens_and_goes_on(tmp_path: Path) -> None:
    whole = small_session(tmp_path / "made").read_bytes()
    header_end = whole.index(b"\n")
    cut_file = tmp_path / "cut.jsonl"
    for cut in range(header_end, len(whole) + 1):
        cut_file.write_bytes(whole[:cut])
        warnings: list[str] = []
        session = open_session(cut_file, "/project", warnings.append)
        complete = len([line for line in whole[:cut].split(b"\n")[1:] if is_json(line)])
        assert len(session.entries()) == complete, cut
        session.append(user("after the crash"))
        session.close()
        assert cut_file.read_bytes().startswith(whole[:cut])
        again = open_session(cut_file, "/project", warnings.append)
        assert len(again.entries()) == complete + 1, cut
        assert texts(again)[-1] == "after the crash"
        torn = not is_json(whole[:cut].split(b"\n")[-1] or b"{}")
        assert bool(warnings) == torn, (cut, warnings)
        again.close()


def test_a_cut_header_is_no_session_and_stays_untouched(tmp_path: Path) -> None:
    whole = small_session(tmp_path / "made").read_bytes()
    path = tmp_path / "cut.jsonl"
    for cut in range(1, whole.index(b"\n")):
        path.write_bytes(whole[:cut])
        with pytest.raises(NotASession):
            open_session(path, "/project", no_warning)
        assert path.read_bytes() == whole[:cut]


def test_garbage_is_skipped_counted_and_kept(tmp_path: Path) -> None:
    path = small_session(tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    damaged = (
        b"\n".join(
            [
                lines[0],
                b"\x00\x00garbage{{{",
                lines[1],
                b"   ",
                lines[2],
                b"[1]",
                lines[3],
                lines[4],
            ]
        ).replace(b"\n\n", b"\n")
        + b"\x00" * 4096
    )
    path.write_bytes(damaged)
    warnings: list[str] = []
    session = open_session(path, "/project", warnings.append)
    assert texts(session) == ["Frage eins: 漢字", "answer one", "question two"]
    assert warnings == [f"Session file is damaged: {path}: 3 unreadable line(s) skipped"]
    session.append(user("on"))
    session.close()
    assert path.read_bytes().startswith(damaged + b"\n{")


def test_broken_utf8_and_lone_surrogates_are_read_and_spoken_as_valid_json(tmp_path: Path) -> None:
    path = small_session(tmp_path)
    data = path.read_bytes()
    data = data.replace(b"answer one", b"answer \xff\xfe one").replace(b"question two", b"\\ud83d?")
    path.write_bytes(data)
    session = open_session(path, "/project", no_warning)
    assert texts(session)[1:] == ["answer \ufffd\ufffd one", "\ud83d?"]
    for entry in session.entries():
        json.loads(entry_json(entry).decode())
        assert entry_line(entry) == entry_json(entry) + b"\n"
    for raw in session.context.messages_json():
        json.loads(bytes(raw).decode())
    assert path.read_bytes() == data


def test_unknown_entries_and_roles_are_kept_as_they_are(tmp_path: Path) -> None:
    path = small_session(tmp_path)
    strange = b'{"type":"mcp_tool_selection","id":"zz","parentId":null,"timestamp":"t","x":[1, 2]}'
    other = (
        b'{"type":"message","id":"yy","parentId":"zz","timestamp":"t",'
        b'"message":{"role":"fileMention","path":"a"}}'
    )
    path.write_bytes(path.read_bytes() + strange + b"\n" + other + b"\n")
    session = open_session(path, "/project", no_warning)
    kept = session.get("zz")
    assert kept is not None
    assert entry_json(kept) == strange
    (message,) = session.context.messages()
    assert isinstance(message, OpaqueMessage)
    assert message.role == "fileMention"


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n", b" \t\n"])
def test_an_entry_is_a_line_with_one_line_end_however_it_was_stored(
    tmp_path: Path, end: bytes
) -> None:
    path = small_session(tmp_path)
    entry = b'{"type":"custom","id":"zz","parentId":null,"timestamp":"t"}'
    path.write_bytes(path.read_bytes() + entry + end)
    kept = open_session(path, "/project", no_warning, write=False).get("zz")
    assert kept is not None
    assert entry_line(kept) == entry + b"\n"


@pytest.mark.parametrize("content", [b"precious notes\nline two\n", b'{"a":1}\n', b"\xff" * 4096])
def test_other_files_are_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "other.dat"
    path.write_bytes(content)
    with pytest.raises(
        NotASession, match=r"^Session file is not a valid pi session: .*other\.dat$"
    ):
        open_session(path, "/project", no_warning)
    assert path.read_bytes() == content


def test_pipes_devices_and_folders_are_refused_at_once(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, Path("/dev/zero"), tmp_path):
        with pytest.raises(NotASession):
            open_session(path, "/project", no_warning)


@pytest.mark.parametrize("exists", [True, False])
def test_an_empty_or_missing_file_becomes_a_session(tmp_path: Path, exists: bool) -> None:
    path = tmp_path / "mine.jsonl"
    if exists:
        path.touch()
    session = open_session(path, "/project", no_warning)
    session.append(user("hello"))
    session.close()
    assert session.path == path
    assert [line["type"] for line in stored(path)] == ["session", "message"]


def test_a_newer_version_can_only_be_read(tmp_path: Path) -> None:
    path = small_session(tmp_path)
    data = path.read_bytes().replace(b'"version":3', b'"version":99')
    path.write_bytes(data)
    session = open_session(path, "/project", no_warning)
    assert texts(session)[0] == "Frage eins: 漢字"
    with pytest.raises(SessionReadOnly, match="version 99"):
        session.append(user("no"))
    assert path.read_bytes() == data


def test_entries_since_one_are_those_after_it(tmp_path: Path) -> None:
    session = open_session(small_session(tmp_path), "/project", no_warning)
    entries = session.entries()
    assert entries_since(session, None) == entries
    assert entries_since(session, entries[1].id) == entries[2:]
    with pytest.raises(Exception, match="Entry not found: nope"):
        entries_since(session, "nope")


def test_custom_data_is_stored_but_never_in_the_context(tmp_path: Path) -> None:
    session = new_session("/project", tmp_path, no_warning)
    session.append(user("one"))
    session.append(CustomBody(custom_type="ludolf:note", data={"a": None}))
    session.close()
    assert session.path is not None
    last = stored(session.path)[-1]
    assert (last["customType"], last["data"]) == ("ludolf:note", {"a": None})
    assert texts(open_session(session.path, "/project", no_warning)) == ["one"]
