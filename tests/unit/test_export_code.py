"""Code, output and changes on the page: colours, folds, marked parts of lines."""

import re
import time

import pytest

from ludolf.session.export.code import folded
from ludolf.session.export.diff import edits_diff, numbered_diff
from ludolf.session.export.highlight import highlight_lines, language_of
from ludolf.tools.diff import Comparison
from tests.export_page import Reader

_LANGUAGES = "python js rust bash json yaml toml css html lua sql makefile"
_HOSTILE = [
    *"'-[\\",
    '"\\"',
    '"""',
    "/*",
    "<!--",
    "--[[",
    "`\\`",
    "- ",
    "${",
    "#[",
    "a:",
    "0.",
    " \t",
]


def _kinds(code: str, language: str) -> list[tuple[str, str]]:
    html = "\n".join(highlight_lines(code, language))
    return re.findall(r'<span class="t-(\w)">([^<]*)</span>', html)


@pytest.mark.parametrize(
    ("language", "code", "kinds"),
    [
        (
            "python",
            '@a.b\ndef f(x: Int) -> None:  # c\n    return f"{x}" + 0x1F',
            [
                ("a", "@a.b"), ("k", "def"), ("f", "f"), ("t", "Int"), ("k", "None"), ("c", "# c"),
                ("k", "return"), ("s", 'f"{x}"'), ("n", "0x1F"),
            ],
        ),
        ("js", "const a = `x` // c", [("k", "const"), ("s", "`x`"), ("c", "// c")]),
        ("go", "func a() { /* c */ }", [("k", "func"), ("f", "a"), ("c", "/* c */")]),
        ("rust", "fn a<'a>(b: &'a str)", [("k", "fn"), ("k", "str")]),
        ("bash", 'echo "$a" $b # c', [("k", "echo"), ("s", '"$a"'), ("a", "$b"), ("c", "# c")]),
        ("json", '{"a": "b", "c": 1}', [("a", '"a"'), ("s", '"b"'), ("a", '"c"'), ("n", "1")]),
        ("yaml", "a: 1\n- b: x # c", [("a", "a"), ("n", "1"), ("a", "- b"), ("c", "# c")]),
        ("toml", '[a]\nb = "c"', [("a", "[a]"), ("a", "b"), ("s", '"c"')]),
        ("sql", "SELECT a FROM b -- c", [("k", "SELECT"), ("k", "FROM"), ("c", "-- c")]),
        ("html", '<a href="b">', [("a", "&lt;a"), ("s", '"b"'), ("a", "&gt;")]),
        ("css", "a { color: #fff; }", [("a", "color"), ("a", "#fff")]),
        ("nothing", "def f", []),
    ],
)  # fmt: skip
def test_code_is_coloured(language: str, code: str, kinds: list[tuple[str, str]]) -> None:
    assert _kinds(code, language) == kinds


def test_colours_end_with_their_line() -> None:
    lines = highlight_lines('"""a\n\n<b>"""', "python")
    assert lines == [
        '<span class="t-s">"""a</span>',
        "",
        '<span class="t-s">&lt;b&gt;"""</span>',
    ]


def test_a_diff_in_a_message_is_coloured_by_line() -> None:
    assert highlight_lines("@@ 1\n-a\n+<b>\n c", "diff") == [
        '<span class="d-hunk">@@ 1</span>',
        '<span class="d-del">-a</span>',
        '<span class="d-add">+&lt;b&gt;</span>',
        " c",
    ]


@pytest.mark.parametrize(
    ("path", "language"),
    [("/a/b.py", "py"), ("Makefile", "makefile"), (".env", "env"), ("a.tar.GZ", "gz"), ("", "")],
)
def test_the_name_of_a_file_tells_its_language(path: str, language: str) -> None:
    assert language_of(path) == language


@pytest.mark.parametrize("language", _LANGUAGES.split())
def test_hostile_code_is_coloured_in_linear_time(language: str) -> None:
    for part in _HOSTILE:
        code = part * (2_000 // len(part))
        once = min(_seconds(code, language), _seconds(code, language))
        assert _seconds(code * 8, language) < 30 * once + 0.1, part


def _seconds(code: str, language: str) -> float:
    start = time.perf_counter()
    highlight_lines(code, language)
    return time.perf_counter() - start


# ---------------------------------------------------------------- folds


def test_a_short_output_is_shown_whole() -> None:
    assert folded(["a", "b"]) == "<pre>a\nb</pre>"


def test_a_long_output_shows_its_beginning() -> None:
    html = folded([str(number) for number in range(100)], shown=3)
    assert html.startswith("<pre>0\n1\n2</pre>")
    assert "<summary>97 more lines</summary><pre>3\n" in html


def test_a_long_run_shows_its_end() -> None:
    html = folded([str(number) for number in range(100)], shown=3, tail=True)
    assert html.endswith("</details><pre>97\n98\n99</pre>")
    assert "<summary>97 earlier lines</summary><pre>0\n" in html


def test_a_very_long_line_is_folded_too() -> None:
    html = folded(["x" * 100_000])
    assert html.startswith('<details class="more"><summary>1 more line</summary>')


def test_an_empty_first_line_survives() -> None:
    assert folded(["", "a"]) == "<pre>\n\na</pre>"


# ---------------------------------------------------------------- changes


def test_the_diff_of_an_edit_keeps_numbers_and_marks_what_changed() -> None:
    old = "".join(f"line {number}\n" for number in range(1, 30))
    compared = Comparison(old, old.replace("line 15\n", "line fifteen\n"))
    diff = numbered_diff(compared.numbered())
    assert (diff.added, diff.removed) == (1, 1)
    assert '<span class="d-del" data-n="15">line <mark>15</mark></span>' in diff.lines
    assert '<span class="d-add" data-n="15">line <mark>fifteen</mark></span>' in diff.lines
    assert diff.lines[0] == diff.lines[-1] == '<span class="d-gap" data-n="">…</span>'
    assert '<span class="d-same" data-n="14">line 14</span>' in diff.lines


def test_lines_with_little_in_common_are_not_marked() -> None:
    assert "<mark>" not in "".join(numbered_diff("-1 abc def\n+1 xyz").lines)


def test_a_call_without_result_shows_what_it_wanted() -> None:
    diff = edits_diff({"edits": [{"oldText": "a", "newText": "b\nc"}, "odd", {"oldText": 1}]})
    assert (diff.added, diff.removed) == (2, 1)


def test_a_hostile_diff_stays_text() -> None:
    html = "".join(numbered_diff('-1 <b>"\n+1 <img src=x>\n"><i>\n+99999999999 x').lines)
    assert Reader(html).wrong == []
