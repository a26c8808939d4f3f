"""The editor does what a simple model of a text with a cursor does, whatever keys come."""

import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ludolf.tui.bindings import Bindings, key_name, load_bindings
from ludolf.tui.cells import width
from ludolf.tui.editor import LineEditor
from ludolf.tui.keys import KeyPress, Paste, TerminalReply
from ludolf.tui.prompt_history import HistorySearch, PromptHistory, history_path

FAMILY = "👨\u200d👩\u200d👧"
LETTERS = ["a", "b", " ", "_", ".", "日", "e\u0301", FAMILY, "\n"]
MOVES = ["left", "right", "home", "end", "backspace", "delete", "ctrl+k", "ctrl+u", "ctrl+y"]


class Model:
    """A list of characters and a cursor."""

    def __init__(self) -> None:
        self.signs: list[str] = []
        self.at = 0
        self.killed: list[str] | None = None
        self.joins = False

    def do(self, name: str) -> None:
        start = self.at
        while start and self.signs[start - 1] != "\n":
            start -= 1
        end = self.at
        while end < len(self.signs) and self.signs[end] != "\n":
            end += 1
        joins, self.joins = self.joins, False
        if name == "left":
            self.at = max(0, self.at - 1)
        elif name == "right":
            self.at = min(len(self.signs), self.at + 1)
        elif name in ("home", "end"):
            self.at = start if name == "home" else end
        elif name in ("backspace", "delete"):
            first = self.at - 1 if name == "backspace" else self.at
            if 0 <= first < len(self.signs):
                del self.signs[first]
                self.at = first
        elif name in ("ctrl+k", "ctrl+u"):
            self._kill(name, start, end, joins)
        elif name == "ctrl+y":
            self.write(self.killed or [])
        else:
            self.write([name])

    def _kill(self, name: str, start: int, end: int, joins: bool) -> None:
        if name == "ctrl+k":
            first, last = self.at, end if end > self.at else min(len(self.signs), end + 1)
        else:
            first, last = start if start < self.at else max(0, start - 1), self.at
        taken = self.signs[first:last]
        if not taken:
            self.joins = joins
            return
        if joins and self.killed is not None:
            taken = self.killed + taken if name == "ctrl+k" else taken + self.killed
        self.killed, self.joins = taken, True
        del self.signs[first:last]
        self.at = first

    def write(self, signs: list[str]) -> None:
        self.signs[self.at : self.at] = signs
        self.at += len(signs)


def _press(editor: LineEditor, *names: str) -> list[bool]:
    return [editor.handle(KeyPress(name)) for name in names]


def _type(editor: LineEditor, text: str) -> None:
    for sign in text:
        if sign == "\n":
            editor.handle(KeyPress("ctrl+j"))
        else:
            editor.handle(KeyPress(sign, sign))


@given(st.lists(st.sampled_from([*LETTERS, *MOVES]), max_size=60))
def test_any_keys_do_what_the_model_does(names: list[str]) -> None:
    editor, model = LineEditor(), Model()
    for name in names:
        model.do(name)
        if name in MOVES:
            _press(editor, name)
        else:
            _type(editor, name)
        assert editor.text == "".join(model.signs)
        assert editor.cursor == len("".join(model.signs[: model.at]))


@given(st.lists(st.sampled_from([*LETTERS, *MOVES, "ctrl+w", "alt+d", "up", "down"]), max_size=60))
def test_undo_returns_to_each_earlier_state_and_to_the_empty_text(names: list[str]) -> None:
    editor = LineEditor()
    states = [""]
    for name in names:
        _press(editor, name) if len(name) > 2 and name != FAMILY else _type(editor, name)
        states.append(editor.text)
        assert 0 <= editor.cursor <= len(editor.text)
    for _ in range(len(names) + 1):
        _press(editor, "ctrl+-")
        assert editor.text in states
    assert editor.text == ""


@given(
    text=st.lists(st.sampled_from([*LETTERS, "\t"])).map("".join),
    keys=st.lists(st.sampled_from(["up", "down", "left", "right", "pageup"]), max_size=20),
    cells=st.integers(2, 12),
    most=st.integers(1, 5),
)
def test_rows_fit_and_show_the_cursor(text: str, keys: list[str], cells: int, most: int) -> None:
    editor = LineEditor()
    editor.insert(text)
    for key in ["", *keys]:
        _press(editor, *([key] if key else []))
        rows, (row, column) = editor.rows(cells, most)
        assert 1 <= len(rows) <= most
        assert all(width(each) <= max(cells, 4) for each in rows)
        assert 0 <= row < len(rows)
        assert column <= max(cells, 4)
        all_rows, _ = editor.rows(cells, 10_000)
        assert "".join(all_rows) == text.replace("\n", "").replace("\t", "    ")


def test_words_are_left_and_deleted_whole() -> None:
    editor = LineEditor()
    editor.insert("git commit --amend\nnext")
    _press(editor, "alt+b", "alt+b")
    assert editor.cursor == len("git commit --amend")
    _press(editor, "ctrl+w", "ctrl+w")
    assert editor.text == "git commit \nnext"
    _press(editor, "ctrl+w", "alt+b", "alt+d")
    assert editor.text == " \nnext"
    _press(editor, "ctrl+y")
    assert editor.text == "git \nnext"
    _press(editor, "alt+y")
    assert editor.text == "commit --amend \nnext"


def test_a_typed_word_is_undone_at_once() -> None:
    editor = LineEditor()
    _type(editor, "one two")
    _press(editor, "ctrl+-")
    assert editor.text == "one"
    _press(editor, "ctrl+-")
    assert editor.text == ""


def test_up_and_down_keep_their_column_and_leave_at_the_edges() -> None:
    editor = LineEditor()
    editor.insert("a long line\nx\nanother line")
    assert _press(editor, "down") == [False]
    assert _press(editor, "up", "up") == [True, True]
    assert editor.cursor == len("a long line")
    assert _press(editor, "up") == [False]
    _press(editor, "left", "left", "down", "down")
    assert editor.text[editor.cursor :] == "ine"


def test_up_moves_through_the_rows_of_a_wrapped_line() -> None:
    editor = LineEditor()
    editor.insert("one two three four")
    assert editor.rows(8, 5) == (["one two ", "three ", "four"], (2, 4))
    _press(editor, "up")
    assert editor.rows(8, 5)[1] == (1, 4)
    _press(editor, "end", "home", "up")
    assert editor.rows(8, 5)[1] == (0, 0)


def test_long_pastes_become_markers_that_move_and_vanish_whole() -> None:
    editor = LineEditor()
    lines = "".join(f"line {number}\n" for number in range(240))
    editor.handle(Paste(lines))
    editor.handle(KeyPress("x", "x"))
    editor.paste("y" * 1001)
    assert editor.text == "[paste 1: 240 lines]x[paste 2: 1001 letters]"
    assert editor.expanded() == f"{lines}x{'y' * 1001}"
    _press(editor, "left", "left", "left")
    assert editor.cursor == 0
    _press(editor, "right", "alt+d")
    assert editor.text == "[paste 1: 240 lines][paste 2: 1001 letters]"
    _press(editor, "backspace")
    assert editor.text == "[paste 2: 1001 letters]"
    _press(editor, "ctrl+-", "end", "ctrl+w")
    assert editor.text == "[paste 1: 240 lines]"
    editor.insert(" [paste 7: 3 lines]")
    assert editor.take() == f"{lines} [paste 7: 3 lines]"
    assert editor.text == editor.expanded() == ""


def test_short_pastes_are_text_without_control_characters() -> None:
    editor = LineEditor()
    editor.paste("a\x1b[31mb\r\n\tc\x00\u202ed\n" + "\n" * 8)
    assert editor.text == "a[31mb\n\tc\u202ed\n" + "\n" * 8
    assert editor.rows(40, 20)[0][:2] == ["a[31mb", "    c[U+202E]d"]


def test_enter_is_for_the_caller_except_behind_a_backslash() -> None:
    editor = LineEditor()
    _type(editor, "one\\")
    assert _press(editor, "enter") == [True]
    assert editor.text == "one\n"
    assert _press(editor, "enter", "escape", "alt+enter", "ctrl+c", "tab") == [False] * 5
    assert _press(editor, "shift+enter") == [True]
    assert editor.text == "one\n\n"
    assert editor.handle(TerminalReply("csi", "?1c")) is False


def test_ctrl_d_in_an_empty_text_and_page_keys_of_a_short_one_are_for_the_caller() -> None:
    editor = LineEditor()
    assert _press(editor, "ctrl+d", "pageup") == [False, False]
    _type(editor, "x")
    assert _press(editor, "ctrl+d") == [True]
    editor.insert("\n" * 30)
    editor.rows(20, 10)
    assert _press(editor, "pageup") == [True]
    assert editor.cursor == len(editor.text) - 10


def test_a_jump_goes_to_the_next_letter_of_that_kind() -> None:
    editor = LineEditor()
    editor.insert("abcabc")
    _press(editor, "ctrl+alt+]")
    _type(editor, "b")
    assert editor.cursor == 4
    _press(editor, "home", "ctrl+]")
    _type(editor, "c")
    assert editor.cursor == 2
    _press(editor, "ctrl+]", "left")
    _type(editor, "x")
    assert editor.text == "axbcabc"


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("ctrl+c", "ctrl+c"),
        ("shift+ctrl+p", "ctrl+shift+p"),
        ("Alt+Enter", "alt+enter"),
        ("pageUp", "pageup"),
        ("esc", "escape"),
        ("ctrl+return", "ctrl+enter"),
        ("shift+l", "L"),
        ("ctrl+_", "ctrl+-"),
        ("ctrl++", "ctrl++"),
        ("+", "+"),
        ("_", "_"),
        ("?", "?"),
        ("f12", "f12"),
        ("ctrl+nokey", None),
        ("hyper+a", None),
        ("", None),
    ],
)
def test_keys_are_written_as_in_pi(written: str, name: str | None) -> None:
    assert key_name(written) == name


def test_the_file_of_the_agent_folder_replaces_default_keys(tmp_path: Path) -> None:
    (tmp_path / "keybindings.json").write_text(
        '{"tui.editor.cursorUp": ["up", "ctrl+p"], "expandTools": "ctrl+q", "newLine": [],'
        ' "app.models.save": "ctrl+s", "app.clear": "nokey", "app.exit": 3, "what": "ctrl+x"}'
    )
    bindings, wrong = load_bindings(tmp_path)
    assert bindings.matches(KeyPress("ctrl+p"), "tui.editor.cursorUp")
    assert bindings.keys("app.tools.expand") == ("ctrl+q",)
    assert bindings.keys("tui.input.newLine") == bindings.keys("app.clear") == ()
    assert bindings.action(KeyPress("ctrl+q"), "app.") == "app.tools.expand"
    assert bindings.action(KeyPress("ctrl+d"), "app.") == "app.exit"
    assert [line.partition(": ")[2] for line in wrong] == [
        "'app.clear' has 'nokey', which is not a key. Write keys as in 'ctrl+k'.",
        "'app.exit' must be a key or a list of keys.",
        "'what' is not an action of Ludolf.",
    ]
    assert LineEditor(bindings).handle(KeyPress("ctrl+j")) is False


@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff", b"[" * 100_000, b" " * 1_100_000])
def test_a_broken_file_of_keys_leaves_the_defaults(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "keybindings.json").write_bytes(content)
    bindings, wrong = load_bindings(tmp_path)
    assert len(wrong) == 1
    assert bindings.keys("app.interrupt") == ("escape",)
    assert load_bindings(tmp_path / "missing")[1] == []


def test_prompts_are_kept_by_folder_in_a_private_file(tmp_path: Path) -> None:
    path = history_path(tmp_path / "agent", "/home/demo")
    assert path != history_path(tmp_path / "agent", "/home/other")
    history = PromptHistory(path)
    for prompt in ["one", "two\nlines", "two\nlines", " secret", "", "  \n", "é\ud800"]:
        history.add(prompt)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with path.open("ab") as file:
        file.write(b'\n{"not": "a prompt"}\n"cut of')
    again = PromptHistory(path)
    assert again.prompts == ["one", "two\nlines", "é?"]
    again.add("three")
    assert PromptHistory(path).prompts == ["one", "two\nlines", "é?", "three"]


def test_a_thousand_prompts_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text("".join(f'"prompt {number}"\n' for number in range(2500)))
    history = PromptHistory(path)
    assert (len(history.prompts), history.prompts[0]) == (1000, "prompt 1500")
    assert path.read_text().count("\n") == 1000
    history.add("last")
    assert (len(history.prompts), history.prompts[-1]) == (1000, "last")


def test_a_history_that_cannot_be_stored_lasts_for_the_run(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    history = PromptHistory(tmp_path / "file" / "history.jsonl")
    history.add("one")
    assert history.older("") == "one"


def test_a_walk_through_the_prompts_ends_at_the_draft(tmp_path: Path) -> None:
    history = PromptHistory(tmp_path / "history.jsonl")
    for prompt in ("one", "two"):
        history.add(prompt)
    assert history.newer() is None
    assert [history.older("draft") for _ in range(3)] == ["two", "one", None]
    assert [history.newer() for _ in range(3)] == ["two", "draft", None]


def test_a_search_finds_earlier_prompts_step_by_step(tmp_path: Path) -> None:
    history = PromptHistory(tmp_path / "history.jsonl")
    for prompt in ("fix the test", "write docs", "Test again", "other"):
        history.add(prompt)
    search = HistorySearch(history)
    for sign in "test":
        assert search.handle(KeyPress(sign, sign))
    assert (search.match, search.found) == ("Test again", True)
    assert search.handle(KeyPress("ctrl+r"))
    assert search.match == "fix the test"
    assert search.handle(KeyPress("ctrl+r"))
    assert (search.match, search.found) == ("fix the test", False)
    assert search.handle(KeyPress("backspace"))
    assert (search.query, search.match, search.found) == ("tes", "Test again", True)
    assert not search.handle(KeyPress("enter"))


def test_other_bindings_than_pi_has_can_be_given() -> None:
    editor = LineEditor(Bindings({"tui.editor.undo": ["ctrl+z"]}))
    _type(editor, "x")
    assert _press(editor, "ctrl+-", "ctrl+z") == [False, True]
    assert editor.text == ""
