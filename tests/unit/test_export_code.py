"""Code, output and changes on the page: languages, folds, marked parts of lines."""

import random
import re
from itertools import accumulate

import pytest

from ludolf.page.code import block, code_block, code_box, folded, language_of
from ludolf.page.entries import edits_diff, numbered_diff
from ludolf.tools.diff import Comparison
from tests.export_page import Reader

_COPY = '<button class="copy" type="button">Copy</button>'


# ---------------------------------------------------------------- code


def test_code_is_plain_text_that_names_its_language() -> None:
    inside = "<pre><code>a &lt; b\n&amp; c</code></pre>"
    assert code_block("a < b\r\n& c", "Rust") == (
        f'<div class="code" data-lang="rust">{_COPY}{inside}</div>'
    )
    assert code_block("a < b\n& c", "") == f'<div class="code">{_COPY}{inside}</div>'


def test_the_name_of_a_language_cannot_leave_its_attribute() -> None:
    html = code_block("x", '"><script>' + "x" * 100) + "".join(block(["x"], "", "'\"><b onclick="))
    assert Reader(html).wrong == []
    names = [attrs["data-lang"] for attrs in Reader(html).having("div")]
    assert names == ['"><script>' + "x" * 14, "'\"><b onclick="]


def test_a_diff_in_a_message_is_coloured_by_line() -> None:
    html = code_block("@@ 1\n-a\n+<b>\n c", "diff")
    assert html.endswith(
        '<pre><code><span class="d-hunk">@@ 1</span>\n<span class="d-del">-a</span>\n'
        '<span class="d-add">+&lt;b&gt;</span>\n c</code></pre></div>'
    )


@pytest.mark.parametrize(
    ("path", "language"),
    [("/a/b.py", "py"), ("Makefile", "makefile"), (".env", "env"), ("a.tar.GZ", "gz"), ("", "")],
)
def test_the_name_of_a_file_tells_its_language(path: str, language: str) -> None:
    assert language_of(path) == language


def test_long_code_stands_in_parts_without_a_change_of_its_text() -> None:
    code = "\n".join(f"line <{number}>" for number in range(500))
    html = code_block(code, "python")
    assert len(Reader(html).having("span", "part")) == 9
    assert Reader(html).text == f"Copy{code}"
    assert Reader("".join(code_box(code, "python", shown=8))).text == "Copy" + "".join(
        (code[: code.index("line <8>") - 1], "492 more lines", code[code.index("line <8>") :])
    )


# ---------------------------------------------------------------- folds


def test_a_short_output_is_shown_whole() -> None:
    assert "".join(folded("a\nb")) == "<pre>a\nb</pre>"


def test_a_long_output_shows_its_beginning() -> None:
    html = "".join(folded("\n".join(map(str, range(100))), shown=3))
    assert html.startswith("<pre>0\n1\n2</pre>")
    assert "<summary>97 more lines</summary><pre>3\n" in html


def test_a_long_run_shows_its_end() -> None:
    html = "".join(folded("\n".join(map(str, range(100))), shown=3, tail=True))
    assert html.endswith("</details><pre>97\n98\n99</pre>")
    assert "<summary>97 earlier lines</summary><pre>0\n" in html


def test_a_very_long_line_is_folded_too() -> None:
    html = "".join(folded("x" * 100_000))
    assert html.startswith('<details class="more"><summary>1 more line</summary>')


def test_an_empty_first_line_survives() -> None:
    assert "".join(folded("\na")) == "<pre>\n\na</pre>"
    html = "".join(code_box("a\n" * 8 + "\nb" * 20, "python", shown=8))
    assert "<pre>a\na\na\na\na\na\na\na</pre>" in html
    assert "<pre>\n\nb\nb" in html


def test_a_fold_cuts_between_lines_and_loses_none() -> None:
    chance = random.Random(3)
    for _ in range(2000):
        lengths = chance.choices((0, 1, 30, 90, 500, 1300), k=chance.randint(1, 24))
        lines = ["x" * length for length in lengths]
        shown, tail = chance.choice((3, 8, 14)), chance.random() < 0.5
        near = lines[::-1] if tail else lines
        most = len(lines) if len(lines) <= shown + 5 else shown
        sizes = accumulate(map(len, near[:most]))
        visible = len([size for size in sizes if size <= 400 * shown])
        seen, hid = near[:visible], near[visible:]
        expected = [_pre(hid[:: -1 if tail else 1])] if hid else []
        if seen or not hid:
            expected.insert(0, _pre(seen[:: -1 if tail else 1]))
        html = "".join(folded("\n".join(lines), shown=shown, tail=tail))
        found = re.findall(r"<pre>[^<]*</pre>", html)
        assert found == (expected[::-1] if tail else expected)


def _pre(lines: list[str]) -> str:
    start = "" if lines[0] else "\n"
    return f"<pre>{start}{chr(10).join(lines)}</pre>"


# ---------------------------------------------------------------- changes


def test_the_diff_of_an_edit_keeps_numbers_and_marks_what_changed() -> None:
    old = "".join(f"line {number}\n" for number in range(1, 30))
    compared = Comparison(old, old.replace("line 15\n", "line fifteen\n"))
    diff = numbered_diff(compared.numbered())
    lines = diff.html.split("\n")
    assert (diff.added, diff.removed) == (1, 1)
    assert '<span class="d-del" data-n="15">line <mark>15</mark></span>' in lines
    assert '<span class="d-add" data-n="15">line <mark>fifteen</mark></span>' in lines
    assert lines[0] == lines[-1] == '<span class="d-gap" data-n="">…</span>'
    assert '<span class="d-same" data-n="14">line 14</span>' in lines


def test_lines_with_little_in_common_are_not_marked() -> None:
    assert "<mark>" not in numbered_diff("-1 abc def\n+1 xyz").html


def test_a_call_without_result_shows_what_it_wanted() -> None:
    diff = edits_diff({"edits": [{"oldText": "a", "newText": "b\nc"}, "odd", {"oldText": 1}]})
    assert (diff.added, diff.removed) == (2, 1)


def test_a_hostile_diff_stays_text() -> None:
    html = numbered_diff('-1 <b>"\n+1 <img src=x>\n"><i>\n+99999999999 x').html
    assert Reader(html).wrong == []
