"""Forks, clones, copies, imports and exports give sessions of their own."""

import json
from pathlib import Path
from typing import Any

import pytest

from ludolf.ai.messages import AssistantMessage, Text, Usage, UserMessage, text_of
from ludolf.base import CommandError
from ludolf.session.branching import clone, export_jsonl, fork, fork_file, import_file
from ludolf.session.entries import CompactionBody, LabelBody, MessageBody, ModelChangeBody
from ludolf.session.reader import NotASession
from ludolf.session.tree import Session, new_session, open_session
from tests.session_samples import no_warning, user


def answer(text: str) -> MessageBody:
    return MessageBody(
        message=AssistantMessage(
            content=(Text(text=text),),
            api="a",
            provider="p",
            model="m",
            usage=Usage(),
            stop_reason="stop",
            timestamp=2,
        )
    )


def texts(session: Session) -> list[str]:
    return [
        text_of(message.content)
        for message in session.context.messages()
        if isinstance(message, UserMessage | AssistantMessage)
    ]


def stored(path: Path | None) -> list[dict[str, Any]]:
    assert path is not None
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def talk(folder: Path | None) -> Session:
    session = new_session("/project", folder, no_warning)
    session.append(ModelChangeBody(provider="p", model_id="m"))
    for number in range(2):
        session.append(user(f"question {number}"))
        session.append(answer(f"answer {number}"))
    return session


def test_a_fork_ends_before_the_message_and_gives_its_text(tmp_path: Path) -> None:
    session = talk(tmp_path)
    copy, text = fork(session, session.entries()[3].id, tmp_path, no_warning)
    assert text == "question 1"
    assert texts(copy) == ["question 0", "answer 0"]
    assert copy.id != session.id
    lines = stored(copy.path)
    assert lines[0]["parentSession"] == str(session.path)
    assert lines[1:] == stored(session.path)[1:4]
    assert texts(session) == ["question 0", "answer 0", "question 1", "answer 1"]


def test_a_fork_before_the_first_message_is_stored_with_its_first_own_message(
    tmp_path: Path,
) -> None:
    session = talk(tmp_path)
    copy, _ = fork(session, session.entries()[1].id, tmp_path, no_warning)
    assert copy.path is not None
    assert not copy.path.exists()
    copy.append(user("again"))
    assert [line["type"] for line in stored(copy.path)] == ["session", "model_change", "message"]


def test_a_fork_at_a_root_is_an_empty_session_with_a_parent(tmp_path: Path) -> None:
    session = new_session("/project", tmp_path, no_warning)
    root = session.append(user("root"))
    copy, text = fork(session, root.id, tmp_path, no_warning)
    assert (text, copy.entries(), copy.leaf) == ("root", [], None)
    assert copy.header.parent_session == str(session.path)


def test_only_user_messages_can_be_forked_from(tmp_path: Path) -> None:
    session = talk(tmp_path)
    for entry_id in (session.entries()[0].id, session.entries()[2].id, "nope"):
        with pytest.raises(CommandError, match=r"^Invalid entry ID for forking$"):
            fork(session, entry_id, tmp_path, no_warning)


def test_a_clone_holds_the_active_branch_only(tmp_path: Path) -> None:
    session = talk(tmp_path)
    session.branch_to(session.entries()[2].id)
    session.append(user("other"))
    copy = clone(session, tmp_path, no_warning)
    assert texts(copy) == ["question 0", "answer 0", "other"]
    assert len(stored(copy.path)) == 5
    copy.append(answer("goes on"))
    assert len(stored(copy.path)) == 6
    assert session.path is not None
    copy.close()
    assert copy.path is not None
    assert texts(open_session(copy.path, "/", no_warning))[-1] == "goes on"


def test_a_clone_in_memory_stays_in_memory() -> None:
    copy = clone(talk(None), None, no_warning)
    assert copy.path is None
    assert len(texts(copy)) == 4
    assert copy.header.parent_session is None


def test_a_session_without_entries_or_file_cannot_be_cloned(tmp_path: Path) -> None:
    session = new_session("/project", tmp_path, no_warning)
    with pytest.raises(CommandError, match="no current entry selected"):
        clone(session, tmp_path, no_warning)
    session.append(ModelChangeBody(provider="p", model_id="m"))
    with pytest.raises(CommandError, match="has not been saved yet"):
        clone(session, tmp_path, no_warning)


def test_labels_move_to_the_end_and_marks_on_them_to_the_next_entry(tmp_path: Path) -> None:
    session = talk(tmp_path)
    target = session.entries()[1].id
    label = session.append(
        LabelBody(target_id=target, label="start"), timestamp="2026-01-01T00:00:00Z"
    )
    kept = session.append(user("kept"))
    session.append(
        CompactionBody(summary="s", first_kept_entry_id=label.id, tokens_before=1, from_hook=False)
    )
    session.append(user("last"))
    copy = clone(session, tmp_path, no_warning)
    lines = stored(copy.path)[1:]
    kinds = [line["type"] for line in lines]
    assert kinds == ["model_change", *["message"] * 5, "compaction", "message", "label"]
    parents = [line["parentId"] for line in lines]
    assert parents == [None, *(line["id"] for line in lines[:-1])]
    assert lines[6]["firstKeptEntryId"] == kept.id
    assert lines[8]["targetId"] == target
    assert lines[8]["timestamp"] == "2026-01-01T00:00:00Z"
    assert copy.label(target) == ("start", "2026-01-01T00:00:00Z")
    assert texts(copy) == ["kept", "last"]


def test_what_was_omitted_stays_omitted_in_a_clone() -> None:
    session = talk(None)
    session.omit(session.entries()[2].id)
    assert texts(clone(session, None, no_warning)) == ["question 0", "question 1", "answer 1"]


def test_a_copy_for_another_project_holds_all_branches(tmp_path: Path) -> None:
    session = talk(tmp_path)
    session.branch_to(session.entries()[2].id)
    session.append(user("other"))
    assert session.path is not None
    before = session.path.read_bytes()
    copy = fork_file(session.path, "/elsewhere", tmp_path / "new", no_warning)
    assert texts(copy) == ["question 0", "answer 0", "other"]
    lines = stored(copy.path)
    assert (lines[0]["cwd"], lines[0]["parentSession"]) == ("/elsewhere", str(session.path))
    assert lines[1:] == stored(session.path)[1:]
    assert session.path.read_bytes() == before


def test_an_import_never_overwrites(tmp_path: Path) -> None:
    source, other = talk(tmp_path / "a").path, talk(tmp_path / "c").path
    assert source is not None
    assert other is not None
    other = other.rename(other.with_name(source.name))
    first = import_file(source, tmp_path / "b")
    second = import_file(other, tmp_path / "b")
    assert first.name == source.name
    assert second.name == f"{source.stem}-1.jsonl"
    assert first.read_bytes() == source.read_bytes()
    assert second.read_bytes() == other.read_bytes()
    assert import_file(source, tmp_path / "b") == first


def test_an_import_of_nothing_or_of_something_else_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "notes.jsonl"
    with pytest.raises(CommandError, match=r"^File not found: "):
        import_file(other, tmp_path)
    other.write_text("notes")
    with pytest.raises(NotASession):
        import_file(other, tmp_path / "b")


def test_an_export_is_the_active_branch_as_one_line_of_entries(tmp_path: Path) -> None:
    session = talk(None)
    session.branch_to(session.entries()[2].id)
    session.append(user("other"))
    target = export_jsonl(session, tmp_path / "copy.jsonl")
    lines = stored(target)
    assert lines[0]["id"] == session.id
    assert [line["parentId"] for line in lines[1:]] == [
        None,
        *(line["id"] for line in lines[1:-1]),
    ]
    assert texts(open_session(target, "/", no_warning)) == ["question 0", "answer 0", "other"]
    target.write_text("mine")
    with pytest.raises(CommandError, match=r"^File exists: "):
        export_jsonl(session, target)
    assert target.read_text() == "mine"
    export_jsonl(session, target, overwrite=True)
    assert stored(target)[0]["id"] == session.id
    assert list(tmp_path.iterdir()) == [target]


def test_an_export_that_cannot_be_written_says_where(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"^Cannot write .*gone/copy\.jsonl: No such file"):
        export_jsonl(talk(None), tmp_path / "gone" / "copy.jsonl")
