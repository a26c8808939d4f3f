"""One writer per session file, across processes and within one."""

import subprocess
import sys
from pathlib import Path

import pytest

from ludolf.ai.messages import UserMessage
from ludolf.session.entries import MessageBody, make_entry
from ludolf.session.tree import SessionReadOnly, new_session, open_session
from ludolf.session.views import user_text
from tests.session_samples import no_warning

HOLDER = """
import sys
from pathlib import Path
from ludolf.session.tree import open_session
session = open_session(Path(sys.argv[1]), "/", print)
print(session.read_only or "holding", flush=True)
sys.stdin.read()
"""


def user(text: str) -> MessageBody:
    return MessageBody(message=UserMessage(content=text, timestamp=1))


def made(folder: Path) -> Path:
    session = new_session("/project", folder, no_warning)
    session.append(user("one"))
    session.close()
    assert session.path is not None
    return session.path


def start_holder(path: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def said(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_a_second_process_may_only_read_until_the_first_is_dead(tmp_path: Path) -> None:
    path = made(tmp_path)
    before = path.read_bytes()
    with start_holder(path) as holder:
        assert said(holder) == "holding"
        session = open_session(path, "/project", no_warning)
        assert session.read_only is not None
        assert len(session.entries()) == 1
        with pytest.raises(SessionReadOnly, match="in use by another process"):
            session.append(user("two"))
        session.close()
        holder.kill()
    assert path.read_bytes() == before
    session = open_session(path, "/project", no_warning)
    session.append(user("two"))
    session.close()
    assert path.read_bytes() != before


def test_a_new_session_is_held_from_its_first_message_to_its_close(tmp_path: Path) -> None:
    session = new_session("/project", tmp_path, no_warning)
    session.append(user("one"))
    assert session.path is not None
    with start_holder(session.path) as other:
        assert "in use by another process" in said(other)
        other.kill()
    session.close()
    with start_holder(session.path) as other:
        assert said(other) == "holding"
        other.kill()


def test_a_process_may_open_its_own_session_again(tmp_path: Path) -> None:
    path = made(tmp_path)
    first = open_session(path, "/project", no_warning)
    second = open_session(path, "/project", no_warning)
    assert second.read_only is None
    first.close()
    with start_holder(path) as other:
        assert "in use by another process" in said(other)
        other.kill()
    second.append(user("two"))
    second.close()
    assert len(path.read_bytes().splitlines()) == 3


def test_looking_takes_no_lock(tmp_path: Path) -> None:
    path = made(tmp_path)
    session = open_session(path, "/project", no_warning, write=False)
    with start_holder(path) as other:
        assert said(other) == "holding"
        other.kill()
    with pytest.raises(SessionReadOnly, match="for reading only"):
        session.append(user("two"))


def test_an_old_version_in_use_is_not_rewritten(tmp_path: Path) -> None:
    path = made(tmp_path)
    with start_holder(path) as holder:
        assert said(holder) == "holding"
        old = path.read_bytes().replace(b'"version":3', b'"version":2')
        with path.open("r+b") as file:
            file.write(old)
        session = open_session(path, "/project", no_warning)
        assert session.read_only is not None
        assert path.read_bytes() == old
        holder.kill()


def test_a_session_is_taken_over_with_its_new_entries_when_the_writer_is_gone(
    tmp_path: Path,
) -> None:
    path = made(tmp_path)
    with start_holder(path) as holder:
        assert said(holder) == "holding"
        session = open_session(path, "/project", no_warning)
        writer = open_session(path, "/project", no_warning, write=False)
        entry = make_entry(user("two"), entry_id="0000beef", parent_id=writer.leaf, timestamp="t")
        with path.open("ab") as file:
            file.write(entry.line)
        assert "in use by another process" in (session.refusal() or "")
        holder.kill()
    session.append(user("three"))
    session.close()
    stored = open_session(path, "/project", no_warning, write=False)
    assert [user_text(entry) for entry in stored.path_to_leaf()] == ["one", "two", "three"]
    assert [user_text(entry) for entry in session.path_to_leaf()] == ["one", "two", "three"]


def test_another_leaf_is_kept_when_a_session_is_taken_over(tmp_path: Path) -> None:
    path = made(tmp_path)
    with start_holder(path) as holder:
        assert said(holder) == "holding"
        session = open_session(path, "/project", no_warning)
        session.branch_to(None)
        holder.kill()
    session.append(user("other"))
    session.close()
    assert [user_text(entry) for entry in session.path_to_leaf()] == ["other"]
    assert len(path.read_bytes().splitlines()) == 3


def test_a_file_that_became_another_session_is_not_taken_over(tmp_path: Path) -> None:
    path, other = made(tmp_path), made(tmp_path)
    with start_holder(path) as holder:
        assert said(holder) == "holding"
        session = open_session(path, "/project", no_warning)
        holder.kill()
    other.replace(path)
    before = path.read_bytes()
    with pytest.raises(SessionReadOnly, match="replaced by another session"):
        session.append(user("two"))
    assert path.read_bytes() == before
