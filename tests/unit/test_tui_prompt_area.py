"""The editor with history, completion and images; pickers and the pager."""

from pathlib import Path
from typing import Any

from ludolf.tui.bindings import Bindings
from ludolf.tui.cells import unstyled
from ludolf.tui.complete import (
    argument_suggestions,
    file_suggestions,
    path_suggestions,
    query_at,
)
from ludolf.tui.drawing import Drawing
from ludolf.tui.keys import KeyPress, Paste
from ludolf.tui.pager import EntryTree, Pager
from ludolf.tui.pickers import Picker, PickerItem
from ludolf.tui.prompt_area import PromptArea
from ludolf.tui.prompt_history import PromptHistory
from ludolf.tui.theme import built_in_theme
from ludolf.tui.whole_entries import WholeEntries

DRAWING = Drawing(built_in_theme("none"), 60)


def _area(folder: Path) -> PromptArea:
    area = PromptArea(Bindings(), PromptHistory(folder / "history"), str(folder), str(folder))
    area.commands = [("new", "Begin"), ("name", "Name it"), ("model", "Choose")]
    return area


def _type(area: PromptArea, text: str) -> None:
    for sign in text:
        area.handle(KeyPress("space" if sign == " " else sign, sign))


def _shown(area: PromptArea) -> list[str]:
    return [unstyled(row) for row in area.rows(DRAWING, 10)[0]]


def test_a_command_is_completed_by_tab_and_sent_by_enter(tmp_path: Path) -> None:
    area = _area(tmp_path)
    _type(area, "/na")
    assert _shown(area)[1:] == ["❯ /name  Name it"]
    assert area.handle(KeyPress("tab"))
    assert area.editor.text == "/name "
    area.clear()
    _type(area, "/m")
    assert not area.handle(KeyPress("enter"))
    assert area.take()[0] == "/model "
    _type(area, "/n")
    area.handle(KeyPress("escape"))
    assert area.menu is None
    _type(area, "e")
    assert area.menu is None, "a menu that was closed stays closed"


def test_files_are_asked_for_and_an_old_answer_is_passed_over(tmp_path: Path) -> None:
    area = _area(tmp_path)
    _type(area, "see @ma")
    query = area.wanted()
    assert query is not None
    assert (query.query, query.start) == ("ma", 4)
    _type(area, "i")
    area.offer(query, file_suggestions([("src/main.py", False)]))
    assert area.menu is None
    query = area.wanted()
    assert query is not None
    area.offer(query, file_suggestions([("a b/", True), ("src/main.py", False)]))
    area.handle(KeyPress("down"))
    assert area.handle(KeyPress("enter"))
    assert area.editor.text == "see @src/main.py "
    assert area.wanted() is None
    assert query_at("mail@host", 9) is None


def test_arguments_of_a_command_that_completes_them_are_asked_for(tmp_path: Path) -> None:
    area = _area(tmp_path)
    area.completing = {"deploy"}
    _type(area, "/name st")
    assert area.wanted() is None
    area.clear()
    _type(area, "/deploy st")
    query = area.wanted()
    assert query is not None
    assert (query.command, query.query, query.start) == ("deploy", "st", 8)
    area.offer(query, argument_suggestions([{"value": "staging", "label": "Staging"}]))
    assert _shown(area)[1:] == ["❯ Staging"]
    assert area.handle(KeyPress("enter"))
    assert area.editor.text == "/deploy staging"
    query = area.wanted()
    assert query is not None
    area.offer(query, argument_suggestions([{"value": "staging", "label": "Staging"}]))
    assert area.menu is None, "Enter sends the command now"


def test_tab_completes_paths(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "one.md").touch()
    (tmp_path / "docs" / "once.md").touch()
    area = _area(tmp_path)
    _type(area, "read do")
    area.handle(KeyPress("tab"))
    area.handle(KeyPress("tab"))
    assert area.editor.text == "read docs/on"
    area.handle(KeyPress("tab"))
    assert len(_shown(area)) == 3
    assert path_suggestions("~/do", 4, "/", str(tmp_path))[1][0].text == "~/docs/"
    assert path_suggestions("no/such/", 8, str(tmp_path), "")[1] == []


def test_history_is_walked_and_a_draft_returns(tmp_path: Path) -> None:
    area = _area(tmp_path)
    for text in ("first", "second"):
        area.remember(text)
    _type(area, "draft")
    for wanted in ("second", "first", "first"):
        area.handle(KeyPress("up"))
        assert area.editor.text == wanted
    for wanted in ("second", "draft"):
        area.handle(KeyPress("down"))
        assert area.editor.text == wanted
    area.handle(KeyPress("ctrl+r"))
    _type(area, "fir")
    assert "first" in _shown(area)[1]
    area.handle(KeyPress("tab"))
    assert area.editor.text == "first"
    area.handle(KeyPress("ctrl+r"))
    _type(area, "nothing like it")
    assert area.handle(KeyPress("enter"))
    assert area.editor.text == "first"


def test_dropped_files_are_mentions_and_images_are_attached(tmp_path: Path) -> None:
    (tmp_path / "a b.txt").touch()
    (tmp_path / "shot.png").write_bytes(b"\x89PNG")
    area = _area(tmp_path)
    area.handle(Paste(f"'{tmp_path}/a b.txt'"))
    area.handle(Paste(f"file://{tmp_path}/shot.png"))
    area.handle(Paste("/no/such/file"))
    text, images = area.take()
    assert text == '@"a b.txt" [image 1] /no/such/file'
    assert [image["mimeType"] for image in images] == ["image/png"]
    area.add_image("AAAA", "image/png")
    area.editor.text = "without it"
    assert area.take() == ("without it", [])


def test_a_picker_searches_and_hands_back_what_was_chosen() -> None:
    items = [PickerItem(n, f"item {n}", is_current=n == 3) for n in range(100)]
    picker = Picker("Numbers", items, Bindings(), DRAWING.styled, {"ctrl+d": "delete"})
    rows, _ = picker.rows(40, 12)
    assert len(rows) == 12
    assert any(row.startswith("> item 3") for row in rows)
    assert picker.handle(KeyPress("down")) is None
    deleted = picker.handle(KeyPress("ctrl+d"))
    assert deleted is not None
    assert deleted.item is not None
    assert (deleted.item.value, deleted.action) == (4, "delete")
    picker.handle(Paste("item 42"))
    chosen = picker.handle(KeyPress("enter"))
    assert chosen is not None
    assert chosen.item is not None
    assert chosen.item.value == 42
    for _ in range(3):
        picker.handle(KeyPress("x", "x"))
    assert picker.handle(KeyPress("enter")) is None
    left = picker.handle(KeyPress("escape"))
    assert left is not None
    assert left.item is None


def _entry(id: str, parent: str | None, text: str) -> dict[str, Any]:
    message = {"role": "user", "content": [{"type": "text", "text": text}], "timestamp": 1}
    return {"type": "message", "id": id, "parentId": parent, "message": message}


def _pager(entries: list[dict[str, Any]], leaf: str, copied: list[str]) -> Pager:
    rows = WholeEntries(DRAWING, entries).rows
    return Pager(EntryTree(entries, leaf), rows, DRAWING.styled, copied.append)


def _screen(pager: Pager) -> str:
    return "\n".join(map(unstyled, pager.rows(60, 10)[0]))


def test_the_pager_searches_everything_and_turns_to_branches() -> None:
    entries = [_entry("0", None, "the very first")]
    entries += [_entry(str(n), str(n - 1), f"number {n}") for n in range(1, 500)]
    entries += [_entry("b1", "498", "other branch"), _entry("b2", "b1", "its end")]
    copied: list[str] = []
    pager = _pager(entries, "499", copied)
    assert "number 499" in _screen(pager)
    assert "other branch" not in _screen(pager)
    for key in "/very":
        pager.handle(KeyPress(key, key))
    pager.handle(KeyPress("enter"))
    assert "the very first" in _screen(pager)
    pager.handle(KeyPress("y", "y"))
    assert copied == ["the very first"]
    pager.handle(KeyPress("end"))
    pager.handle(KeyPress("]", "]"))
    assert "other branch" in _screen(pager)
    assert "Branch 2 of 2" in _screen(pager)
    assert pager.handle(KeyPress("q", "q"))


def test_long_entries_are_folded() -> None:
    entries = [_entry("0", None, "\n".join(f"row {n}" for n in range(100)))]
    pager = _pager(entries, "0", [])
    assert "more rows (Enter)" in _screen(pager)
    pager.handle(KeyPress("enter"))
    assert "more rows (Enter)" not in _screen(pager)
    pager.handle(KeyPress("end"))
    assert "row 99" in _screen(pager)


def test_an_empty_session_and_a_ring_of_entries_are_harmless() -> None:
    assert "q back" in _screen(_pager([], "x", []))
    ring = [_entry("a", "b", "one"), _entry("b", "a", "two")]
    pager = _pager(ring, "a", [])
    assert "one" in _screen(pager)
    for key in ("]", "[", "enter", "home", "pageup", "n", "y"):
        pager.handle(KeyPress(key, key if len(key) == 1 else ""))
        _screen(pager)
