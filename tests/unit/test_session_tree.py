"""The tree: branches, labels, names, damaged parents, and what hosts see of it."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from ludolf.ai.messages import AssistantMessage, Text, Usage, UserMessage, text_of
from ludolf.base import CommandError
from ludolf.session.entries import LabelBody, MessageBody
from ludolf.session.tree import Session, new_session, open_session
from ludolf.session.views import fork_messages, last_assistant_text, tree_json
from tests.session_samples import no_warning, user

HEADER = {
    "type": "session",
    "version": 3,
    "id": "00000000-0000-7000-8000-000000000001",
    "timestamp": "2026-10-01T00:00:00.000Z",
    "cwd": "/project",
}


def answer(text: str, stop: Any = "stop") -> MessageBody:
    return MessageBody(
        message=AssistantMessage(
            content=(Text(text=text),) if text else (),
            api="a",
            provider="p",
            model="m",
            usage=Usage(),
            stop_reason=stop,
            timestamp=2,
        )
    )


def memory() -> Session:
    return new_session("/project", None, no_warning)


def texts(session: Session) -> list[str]:
    return [
        text_of(message.content)
        for message in session.context.messages()
        if isinstance(message, UserMessage | AssistantMessage)
    ]


def line(entry_id: str, parent: str | None, text: str) -> dict[str, Any]:
    return {
        "type": "message",
        "id": entry_id,
        "parentId": parent,
        "timestamp": "2026-10-01T00:00:01.000Z",
        "message": {"role": "user", "content": text, "timestamp": 1},
    }


def write(path: Path, entries: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(item) + "\n" for item in [HEADER, *entries]))
    return path


def test_an_append_after_going_back_makes_a_sibling_branch() -> None:
    session = memory()
    first = session.append(user("first"))
    session.append(answer("left"))
    session.branch_to(first.id)
    assert texts(session) == ["first"]
    session.append(answer("right"))
    assert texts(session) == ["first", "right"]
    assert [entry.parent_id for entry in session.entries()] == [None, first.id, first.id]


def test_going_back_before_everything_starts_a_new_root() -> None:
    session = memory()
    session.append(user("old"))
    session.branch_to(None)
    assert session.path_to_leaf() == []
    session.append(user("new"))
    assert texts(session) == ["new"]
    assert session.entries()[1].parent_id is None


def test_going_to_an_unknown_entry_is_refused_and_changes_nothing() -> None:
    session = memory()
    entry = session.append(user("one"))
    with pytest.raises(CommandError, match="Entry not found: ffff"):
        session.branch_to("ffff")
    assert session.leaf == entry.id


def test_the_leaf_after_loading_is_the_last_entry_of_the_file(tmp_path: Path) -> None:
    session = new_session("/project", tmp_path, no_warning)
    first = session.append(user("one"))
    session.append(answer("two"))
    session.branch_to(first.id)
    label = session.append(LabelBody(target_id=first.id, label="here"))
    session.close()
    assert session.path is not None
    again = open_session(session.path, "/project", no_warning)
    assert again.leaf == label.id
    assert texts(again) == ["one"]


def test_the_latest_label_of_an_entry_wins_and_an_empty_one_clears_it() -> None:
    session = memory()
    entry = session.append(user("one"))
    session.append(LabelBody(target_id=entry.id, label="a"))
    second = session.append(LabelBody(target_id=entry.id, label="b"))
    assert session.label(entry.id) == ("b", second.timestamp)
    session.append(LabelBody(target_id=entry.id))
    assert session.label(entry.id) is None


def test_a_name_is_one_line_the_latest_wins_and_it_survives_reloading(tmp_path: Path) -> None:
    session = new_session("/project", tmp_path, no_warning)
    session.append(user("one"))
    session.set_name("first")
    session.set_name("  two\r\n\nlines ")
    assert session.name == "two lines"
    session.close()
    assert session.path is not None
    again = open_session(session.path, "/project", no_warning)
    assert again.name == "two lines"
    again.set_name("")
    assert again.name is None


def test_the_path_costs_only_what_is_new() -> None:
    session = memory()
    path = session.path_to_leaf()
    for number in range(50):
        session.append(user(str(number)))
    assert session.path_to_leaf() is path
    assert len(path) == 50


def test_the_tree_shows_children_by_time_with_labels() -> None:
    session = memory()
    root = session.append(user("root"), timestamp="2026-01-01T00:00:00.000Z")
    late = session.append(answer("late"), timestamp="2026-01-03T00:00:00.000Z")
    session.branch_to(root.id)
    early = session.append(answer("early"), timestamp="2026-01-02T00:00:00.000Z")
    mark = session.append(LabelBody(target_id=late.id, label="keep"))
    (top,) = json.loads(tree_json(session))
    assert top["entry"]["id"] == root.id
    assert [child["entry"]["id"] for child in top["children"]] == [early.id, late.id]
    assert top["children"][1]["label"] == "keep"
    assert top["children"][1]["labelTimestamp"] == mark.timestamp
    assert "label" not in top["children"][0]
    assert top["children"][0]["children"][0]["entry"]["type"] == "label"


def test_a_long_conversation_is_no_problem_for_the_tree() -> None:
    session = memory()
    for number in range(3000):
        session.append(user(str(number)))
    assert tree_json(session).count(b'"children"') == 3000
    assert tree_json(memory()) == b"[]"


def test_fork_messages_are_all_user_messages_with_text() -> None:
    session = memory()
    first = session.append(user("first"))
    session.append(answer("one"))
    session.append(user(""))
    session.branch_to(first.id)
    second = session.append(user("second"))
    found = fork_messages(session)
    assert [(item.entry_id, item.text) for item in found] == [
        (first.id, "first"),
        (second.id, "second"),
    ]


def test_the_last_answer_passes_over_an_empty_aborted_one() -> None:
    session = memory()
    assert last_assistant_text(session) is None
    session.append(user("q"))
    session.append(answer(" text "))
    session.append(answer("", "aborted"))
    assert last_assistant_text(session) == "text"


def test_a_circle_of_parents_is_cut_where_it_closes(tmp_path: Path) -> None:
    path = write(
        tmp_path / "s.jsonl",
        [line("a", "d", "1"), line("b", "a", "2"), line("c", "b", "3"), line("d", "c", "4")],
    )
    warnings: list[str] = []
    session = open_session(path, "/project", warnings.append)
    assert texts(session) == ["1", "2", "3", "4"]
    assert warnings == [f"Session file is damaged: {path}: 1 circle(s) of parents cut"]
    roots = json.loads(tree_json(session))
    assert [root["entry"]["parentId"] for root in roots] == [None]


def test_an_entry_that_is_its_own_parent_is_a_root(tmp_path: Path) -> None:
    path = write(tmp_path / "s.jsonl", [line("a", "a", "1"), line("b", "a", "2")])
    session = open_session(path, "/project", no_warning)
    assert texts(session) == ["1", "2"]


def test_a_repeated_id_gets_a_second_name_that_lasts(tmp_path: Path) -> None:
    path = write(
        tmp_path / "s.jsonl",
        [line("a", None, "1"), line("b", "a", "2"), line("a", "b", "3"), line("c", "a", "4")],
    )
    warnings: list[str] = []
    session = open_session(path, "/project", warnings.append)
    assert texts(session) == ["1", "2", "3", "4"]
    assert "1 repeated id(s) renamed" in warnings[0]
    session.branch_to("a~2")
    session.append(user("5"))
    session.close()
    again = open_session(path, "/project", warnings.append)
    assert texts(again) == ["1", "2", "3", "5"]


def test_an_entry_without_its_parent_is_a_root(tmp_path: Path) -> None:
    path = write(
        tmp_path / "s.jsonl", [line("a", None, "1"), line("c", "gone", "3"), line("d", "c", "4")]
    )
    warnings: list[str] = []
    session = open_session(path, "/project", warnings.append)
    assert texts(session) == ["3", "4"]
    assert len(json.loads(tree_json(session))) == 2
    assert "1 entry(ies) without their parent" in warnings[0]


def test_damage_of_any_size_is_repaired_in_linear_time(tmp_path: Path) -> None:
    count = 20_000
    cycle = [line(str(n), str((n + 1) % count), "x") for n in range(count)]
    same = [line("same", "same", "x") for _ in range(count)]
    for entries in (cycle, same):
        path = write(tmp_path / "s.jsonl", entries)
        begun = time.process_time()
        session = open_session(path, "/project", lambda text: None)
        assert len(session.entries()) == count
        session.path_to_leaf()
        assert time.process_time() - begun < 10
        session.close()
