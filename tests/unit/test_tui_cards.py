"""Cards of tools in the terminal: heads, first and last lines, diffs, errors, images."""

import struct
from base64 import b64encode
from typing import Any

import pytest

from ludolf.ai.messages import Image
from ludolf.page.diffs import edit_changes, numbered_changes
from ludolf.tui.cards import ToolRun, running_tool, spent_time, tool_card
from ludolf.tui.diffs import diff_rows
from ludolf.tui.images import image_protocol, image_rows, image_size
from ludolf.tui.theme import built_in_theme
from tests.terminal_text import HOSTILE, check_rows, texts

PLAIN = built_in_theme("none")
COLOURS = built_in_theme("16")
PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + struct.pack(">II", 640, 480) + bytes(60)


def _card(name: str, args: Any, text: str = "", **more: Any) -> list[str]:
    return texts(tool_card(ToolRun(name=name, args=args, text=text, **more), 50, PLAIN))


def _picture(data: bytes, mime_type: str = "image/png") -> Image:
    return Image(data=b64encode(data).decode(), mime_type=mime_type)


def test_a_long_output_is_shown_by_its_first_and_last_lines() -> None:
    output = "\n".join(f"line {number}" for number in range(250))
    text = f"{output}\n\nCommand exited with code 2"
    rows = _card("bash", {"command": "make test\nmore"}, text, is_error=True, seconds=12.3)
    assert rows == [
        "✗ bash  make test …  exit 2 · 12 s",
        *(f"  line {number}" for number in range(5)),
        "  … 240 more lines (Ctrl+O)",
        *(f"  line {number}" for number in range(245, 250)),
    ]
    eleven = "\n".join("abcdefghijk")
    assert len(_card("bash", {"command": "x"}, eleven)) == 12


@pytest.mark.parametrize(
    ("name", "args", "head"),
    [
        ("read", {"path": "/p/a.py", "offset": 3, "limit": 4}, "● read  a.py:3–6"),
        ("read", {"file_path": "/q/a.py", "offset": 3}, "● read  /q/a.py:3–"),
        ("grep", {"pattern": "x", "path": "src", "glob": "*.py"}, "● grep  x in src (*.py)"),
        ("ls", {}, "● ls  ."),
        ("other", {"a": 1, "b": "c d", "e": [1]}, "● other  a: 1, b: c d"),
        ("other", [1], "● other"),
        ("read", None, "● read"),
    ],
)
def test_a_head_shows_the_main_argument(name: str, args: Any, head: str) -> None:
    assert _card(name, args, cwd="/p") == [head]


def test_a_long_title_leaves_room_for_result_and_time() -> None:
    run = ToolRun(name="bash", args={"command": "words " * 90}, text="", seconds=61, is_error=True)
    (head,) = texts(tool_card(run, 40, PLAIN))
    assert head == "✗ bash  words word…  failed · 1 min 01 s"


def test_an_edit_is_a_diff_with_numbers_counts_and_marked_words() -> None:
    diff = "  9 same\n-10 x = old_name(1)\n+10 x = new_name(1)\n    ...\n+99 more"
    run = ToolRun(name="edit", args={"path": "a.py"}, details={"diff": diff})
    rows = tool_card(run, 50, COLOURS)
    assert texts(rows) == [
        "● edit  a.py  +2 −1",
        "   9   same",
        "  10 - x = old_name(1)",
        "  10 + x = new_name(1)",
        "       …",
        "  99 + more",
    ]
    assert "\x1b[7mold\x1b[27m_name" in rows[2]
    assert rows[3].startswith(f"  \x1b[90m10\x1b[39m{COLOURS.style('toolDiffAdded')} + ")


def test_changes_without_a_result_and_written_files_are_diffs_too() -> None:
    edits = {"path": "a", "edits": [{"oldText": "a", "newText": "b"}]}
    assert _card("edit", edits) == ["● edit  a  +1 −1", "  - a", "  + b"]
    assert _card("write", {"path": "a", "content": "x\ny\n"}) == [
        "● write  a  +2",
        "  1 + x",
        "  2 + y",
    ]
    long = _card("write", {"path": "a", "content": "x\n" * 300})
    assert long[16] == "  … 280 more lines (Ctrl+O)"
    assert len(long) == 22


def test_a_long_line_of_a_diff_wraps_below_its_start() -> None:
    rows = diff_rows(numbered_changes("+12 abcdefgh"), 9, PLAIN)
    assert texts(rows) == ["12 + abcd", "     efgh"]
    assert diff_rows(edit_changes({}), 9, PLAIN) == []


def test_errors_are_red() -> None:
    run = ToolRun(name="edit", args={"path": "a"}, text="No such file", is_error=True)
    rows = tool_card(run, 50, COLOURS)
    assert texts(rows) == ["✗ edit  a  failed", "  No such file"]
    assert rows[1] == f"  {COLOURS.style('error')}No such file\x1b[39m"


def test_a_running_tool_shows_its_last_lines_and_the_last_state_of_each() -> None:
    text = "\n".join(map(str, range(9))) + "\r\n10 %\r20 %\r"
    run = ToolRun(name="bash", args={"command": "make"}, text=text, seconds=3)
    assert texts(running_tool(run, 50, PLAIN)) == [
        "⠿ bash  make  3.0 s",
        *("  5", "  6", "  7", "  8", "  20 %"),
    ]


def test_code_that_was_read_is_coloured() -> None:
    rows = tool_card(ToolRun(name="read", args={"path": "a.py"}, text="return 1"), 50, COLOURS)
    assert rows[1].startswith(f"  {COLOURS.style('syntaxKeyword')}return\x1b[39m")


def test_a_result_of_the_wire_is_taken_as_it_is_whatever_its_shape() -> None:
    run = ToolRun(name="x")
    image = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
    run.take({"content": [{"type": "text", "text": "a"}, image, 3, {"type": "text"}]})
    assert (run.text, len(run.images)) == ("a", 1)
    assert texts(tool_card(run, 50, PLAIN))[-1] == "  [image, 3 B]"
    odd_shapes: list[Any] = [None, [], {"content": None}, {"content": {"a": 1}}, {"content": "b"}]
    for odd in odd_shapes:
        run.take(odd)
        assert run.images == ()


@pytest.mark.parametrize("cells", [1, 2, 7, 30])
def test_hostile_arguments_and_results_leave_no_control_sequence(cells: int) -> None:
    diff = {"diff": f"+1 {HOSTILE}\n-{HOSTILE}\n+{HOSTILE}x"}
    args = {
        **dict.fromkeys(("path", "command", "pattern", "content", HOSTILE), HOSTILE),
        "edits": [{"oldText": HOSTILE, "newText": "x"}],
    }
    for name in ("bash", "read", "write", "edit", "grep", HOSTILE):
        for failed in (False, True):
            run = ToolRun(name=name, args=args, text=HOSTILE, is_error=failed, details=diff)
            run.images = (Image(data=HOSTILE, mime_type=HOSTILE),)
            check_rows(tool_card(run, cells, COLOURS, "kitty"), max(3, cells))
            check_rows(running_tool(run, cells, COLOURS), max(3, cells))


def test_times_are_short() -> None:
    shown = [spent_time(seconds) for seconds in (0, 0.44, 9.96, 59.6, 200, 3_900)]
    assert shown == ["0.0 s", "0.4 s", "10 s", "1 min 00 s", "3 min 20 s", "1 h 05 min"]


# ---------------------------------------------------------------- images


@pytest.mark.parametrize(
    ("data", "size"),
    [
        (PNG, (640, 480)),
        (b"GIF89a" + struct.pack("<HH", 3, 2) + bytes(9), (3, 2)),
        (b"\xff\xd8\xff\xe0\x00\x04ab\xff\xc0\x00\x11\x08\x00\x05\x00\x07" + bytes(9), (7, 5)),
        (b"RIFF\0\0\0\0WEBPVP8X" + bytes(8) + b"\x09\0\0\x04\0\0", (10, 5)),
        (b"RIFF\0\0\0\0WEBPVP8L" + bytes(4) + b"\x2f\x09\x00\x01\x00", (10, 5)),
        (b"\xff\xd8\xff\xc0", None),
        (PNG[:18], None),
        (b"text", None),
    ],
)
def test_the_size_of_an_image_is_read_from_its_head(
    data: bytes, size: tuple[int, int] | None
) -> None:
    assert image_size(b64encode(data).decode()) == size


def test_without_a_protocol_an_image_is_a_label() -> None:
    assert image_rows(_picture(PNG + bytes(34_000)), 60, PLAIN) == ["[image 640×480, 34 kB]"]
    assert image_rows(_picture(b"x", "text/x"), 60, PLAIN) == ["[image text/x, 3 B]"]


def test_kitty_and_iterm_get_the_image_in_rows_of_its_height() -> None:
    picture = _picture(PNG + bytes(6_000))
    first, *rest = image_rows(picture, 40, PLAIN, "kitty")
    assert first.startswith("\x1b_Ga=T,f=100,C=1,q=2,c=40,r=15,m=1;")
    assert first.count("\x1b_G") == 2
    assert rest == [""] * 14
    (row,) = image_rows(picture, 40, PLAIN, "iterm2")
    assert row.startswith("\x1b]1337;File=inline=1;width=40;height=15;")
    jpeg = Image(data=picture.data, mime_type="image/jpeg")
    assert image_rows(jpeg, 40, PLAIN, "kitty") == ["[image 640×480, 6 kB]"]
    hostile = Image(data=picture.data + "\x1b", mime_type="image/png")
    assert image_rows(hostile, 40, PLAIN, "iterm2")[0].startswith("[image")


def test_the_environment_says_how_images_are_shown() -> None:
    assert image_protocol({"TERM": "xterm-kitty"}) == "kitty"
    assert image_protocol({"TERM": "xterm-ghostty"}) == "kitty"
    assert image_protocol({"TERM": "xterm-256color", "TERM_PROGRAM": "iTerm.app"}) == "iterm2"
    assert image_protocol({"TERM": "tmux-256color", "TERM_PROGRAM": "iTerm.app"}) is None
    assert image_protocol({"TERM": "xterm"}) is None
