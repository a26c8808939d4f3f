"""Markdown in the terminal: golden rows, answers in any pieces, hostile text."""

import random
import sys
from itertools import pairwise
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ludolf.page.blocks import BlockScanner, parse_lines, parse_markdown
from ludolf.page.languages import code_rules, code_tokens
from ludolf.tui.code import CodeColours
from ludolf.tui.markdown import AnswerStream, markdown_rows
from ludolf.tui.theme import built_in_theme
from tests.terminal_text import HOSTILE, check_rows, texts

PLAIN = built_in_theme("none")
COLOURS = built_in_theme("16", links=True)
# Pieces that open, continue and close every kind of block and of emphasis.
PIECES = [
    *("a", "word ", "\n", "\n", "\n\n", "- ", "\n- ", "\n  - ", "* ", "\n1. ", "2) ", "> ", "\n> "),
    *(
        "\n```\n",
        "\n~~~",
        "```py\n",
        "# ",
        " ",
        "    ",
        "|",
        "a|b\n",
        "-|-\n",
        "|:-:|-:|\n",
        "---\n",
    ),
    *(
        "===\n",
        "**",
        "*",
        "_",
        "~~",
        "`",
        "[",
        "](http://x.y)",
        "![",
        "](z)",
        "<br>",
        "&#27;",
        "\\",
    ),
    *("[x] ", "\t", "\r", "\r\n", "日本", "e\u0301", "👩\u200d💻", "\x1b[31m", "\x1b", '"""', "/*"),
]
MARKDOWN = st.lists(st.sampled_from(PIECES), max_size=60).map("".join)


@pytest.mark.parametrize(
    ("source", "rows"),
    [
        ("# One\n## Two\n### Three", ["One", "", "Two", "", "### Three"]),
        ("a **b** `c`\nd  \ne", ["a b c d", "e"]),
        ("one two three four five six", ["one two three four", "five six"]),
        ("- a\n- b\n  1. c\n     - d\n  2. e", ["• a", "• b", "  1. c", "     • d", "  2. e"]),
        ("- a\n\n- b", ["• a", "", "• b"]),
        ("3. a\n4. long words that wrap", ["3. a", "4. long words that", "   wrap"]),
        ("- [ ] a\n- [x] b\n1. [x] c", ["☐ a", "☑ b", "", "1. ☑ c"]),
        ("> a\n> - b\n\nc", ["│ a", "│", "│ • b", "", "c"]),
        ("a\n\n---\nb", ["a", "", "─" * 20, "", "b"]),
        ("```py\nx = 1\n\n  y\n```\nz", ["```py", "  x = 1", "", "    y", "```", "", "z"]),
        ("    code\n\nx", ["```", "  code", "```", "", "x"]),
        ("[a](http://b.c) <http://d.e>", ["a (http://b.c)", "http://d.e"]),
        ("[a](src/b.py) ![p](http://b.c)", ["a (src/b.py) [image]", "p (http://b.c)"]),
        ("![p](data:image/png;base64,AAAA)", ["[image p]"]),
        (
            "|a|b|c|\n|-|:-:|-:|\n|1|2|3|\n|long|x|22 22|\nend",
            [
                *("a    │ b │     c", "─────┼───┼──────", "1    │ 2 │     3", "long │ x │ 22 22"),
                *("", "end"),
            ],
        ),
        (
            "|name|text|\n|-|-|\n|x|words that wrap in cells|",
            ["name │ text", "─────┼──────────────", "x    │ words that", "     │ wrap in cells"],
        ),
        (
            "|a|b|c|d|\n|-|-|-|-|\n|1|2|3|4|",
            ["a: 1", "b: 2", "c: 3", "d: 4", ""],
        ),
        ("", []),
        (" \n\n", []),
    ],
)  # fmt: skip
def test_blocks_become_rows(source: str, rows: list[str]) -> None:
    assert [row.rstrip() for row in texts(markdown_rows(source, 20, PLAIN))] == rows


def test_styles_are_ours_and_end_with_their_text() -> None:
    assert markdown_rows("a **b** *c* ~~d~~ `e`", 40, COLOURS) == [
        "a \x1b[1mb\x1b[22m \x1b[3mc\x1b[23m \x1b[9md\x1b[29m \x1b[96me\x1b[39m"
    ]
    assert markdown_rows("[a](http://b.c)", 40, COLOURS) == [
        "\x1b]8;;http://b.c\x1b\\\x1b[94m\x1b[4ma\x1b[24m\x1b[39m\x1b]8;;\x1b\\"
    ]
    assert markdown_rows("**a b c d**", 5, PLAIN) == ["\x1b[1ma b c\x1b[0m", "\x1b[1md\x1b[22m"]
    heading = COLOURS.style("mdHeading") + "\x1b[1m"
    assert markdown_rows("## a `b` c", 40, COLOURS) == [
        f"{heading}a \x1b[96mb\x1b[39m{heading} c\x1b[0m"
    ]


def test_code_is_coloured_and_strings_continue_on_the_next_line() -> None:
    colours = CodeColours("python", COLOURS)
    keyword, string = COLOURS.style("syntaxKeyword"), COLOURS.style("syntaxString")
    lines = ["def f():", '    """a', "  # b", '  """', "return"]
    assert [colours.line(line) for line in lines] == [
        f"{keyword}def\x1b[39m {COLOURS.style('syntaxFunction')}f\x1b[39m():",
        f'    {string}"""a\x1b[39m',
        f"{string}  # b\x1b[39m",
        f'{string}  """\x1b[39m',
        f"{keyword}return\x1b[39m",
    ]
    added = CodeColours("diff", COLOURS).line("+x")
    assert added == f"{COLOURS.style('toolDiffAdded')}+x\x1b[39m"


@pytest.mark.parametrize(
    ("language", "code", "kinds"),
    [
        ("py", "@a.b\nclass A(B): x = 0x1F  # c", "a@a.b kclass fA tB n0x1F c#_c"),
        (".js", "const a = `x\n${b}` // c", "kconst s`x_${b}` c//_c"),
        ("rust", "fn a<'a>(b: &'a str)", "kfn kstr"),
        ("SQL", "SELECT a FROM b -- c", "kSELECT kFROM c--_c"),
        ("yaml", "a: 1\n- b: x # c", "aa n1 a-_b c#_c"),
        ("html", '<!-- c --><a b="d"', 'c<!--_c_--> a<a s"d"'),
        ("bash", 'echo "$a" $b -x', 'kecho s"$a" a$b a-x'),
    ],
)
def test_the_terminal_finds_the_tokens_that_the_page_finds(
    language: str, code: str, kinds: str
) -> None:
    rules = code_rules(language)
    assert rules is not None
    found = [kind + code[start:end] for kind, start, end in code_tokens(code, rules)]
    assert " ".join("_".join(each.split()) for each in found) == kinds
    assert code_rules("nothing") is None


@given(MARKDOWN)
def test_blocks_between_starts_are_the_blocks_of_the_whole_text(text: str) -> None:
    lines = text.replace("\r\n", "\n").replace("\r", "\n").expandtabs(4).split("\n")
    scanner, groups = BlockScanner(), [[""]]
    for line in lines:
        if scanner.take(line):
            groups.append([])
        groups[-1].append(line)
    assert [block for group in groups for block in parse_lines(group)] == parse_lines(lines)
    assert parse_markdown("\n".join(lines)) == parse_lines(lines)


@settings(max_examples=300)
@given(MARKDOWN, st.integers(1, 40), st.randoms(use_true_random=False))
def test_any_pieces_of_a_text_give_the_rows_of_the_whole(
    text: str, cells: int, chance: random.Random
) -> None:
    stream = AnswerStream(cells, COLOURS)
    places = sorted(chance.randrange(len(text) + 1) for _ in range(chance.randrange(12)))
    rows: list[str] = []
    for start, end in pairwise([0, *places, len(text)]):
        rows += stream.feed(text[start:end])
        open_rows = stream.open_rows(7)
        assert len(open_rows) <= 7
        check_rows(open_rows, max(2, cells))
    rows += stream.end()
    assert rows == markdown_rows(text, cells, COLOURS)
    check_rows(rows, max(2, cells))


def test_rows_are_finished_as_soon_as_their_block_is() -> None:
    stream = AnswerStream(40, PLAIN)
    assert texts(stream.feed("# Title\nsome te")) == ["Title"]
    assert texts(stream.open_rows(5)) == ["", "some te"]
    assert stream.feed("xt\nmore") == []
    assert texts(stream.open_rows(5)) == ["", "some text more"]
    assert texts(stream.feed("\n\n- a\n\n")) == ["", "some text more"]
    assert stream.feed("- b\n\n") == []
    assert texts(stream.open_rows(2)) == ["", "• b"]
    assert texts(stream.feed("```py\nx = 1\ny =")) == ["", "• a", "", "• b", "", "```py", "  x = 1"]
    assert stream.open_rows(5) == ["  y ="]
    assert stream.feed(" 2\n") == ["  y = 2"]
    assert stream.feed("``") == []
    assert stream.open_rows(5) == []
    assert stream.feed("`\n") == ["```"]
    assert stream.feed("end") == []
    assert stream.end() == ["", "end"]


def test_a_long_table_is_shown_after_fifty_rows() -> None:
    stream = AnswerStream(40, PLAIN)
    body = "|word|x|\n" * 49
    assert stream.feed(f"|a|b|\n|-|-|\n{body}") == []
    rows = stream.feed("|word|x|\n")
    assert len(rows) == 52
    assert texts(stream.feed("|longer words|x|\n"))[0] == "long │ x"
    assert stream.open_rows(5) == []
    assert stream.feed("\nend\n\n") == ["", "end"]


def test_an_unfinished_fence_ends_with_the_answer() -> None:
    assert markdown_rows("```\na\n", 20, PLAIN) == ["```", "  a", "```"]


def test_hostile_text_leaves_no_control_sequence() -> None:
    for frame in (
        "{}",
        "# {}",
        "- {}",
        "> {}",
        "`{}`",
        "**{}**",
        "[{}](http://a.b)",
        "```\n{}\n```",
    ):
        check_rows(markdown_rows(frame.format(HOSTILE), 30, COLOURS), 30)
    address = f"[a](http://b.c/{HOSTILE.replace(' ', '')}) <http://x.y/\x9b\u202e>"
    check_rows(markdown_rows(address, 30, COLOURS), 30)
    table = f"```{HOSTILE}\nx\n```\n|{HOSTILE}|a|\n|-|-|\n|{HOSTILE}|b|"
    check_rows(markdown_rows(table, 30, COLOURS), 30)


def _calls(stream: AnswerStream, deltas: list[str]) -> int:
    """Count the Python and C calls that the deltas and their draws take."""
    count = 0

    def note(_frame: FrameType, event: str, _arg: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        for delta in deltas:
            stream.feed(delta)
            stream.open_rows(10)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize(
    "text",
    [
        "Some *words* of an answer, with `code`.\n\n- item\n- other\n\n```py\nx = 1\n```\n\n",
        "- one item of a list that never ends, with **words**\n",
        "> a quote that never ends\n",
        "one paragraph in one line, without an end. ",
        "|a row of|a table|\n",
    ],
)
def test_a_late_delta_costs_no_more_than_an_early_one(text: str) -> None:
    stream = AnswerStream(60, PLAIN)
    if text.startswith("|"):
        stream.feed("|a|b|\n|-|-|\n" + text * 60)
    letters = text * (20_000 * 8 // len(text) + 1)
    deltas = [letters[at : at + 8] for at in range(0, 20_000 * 8, 8)]
    for delta in deltas[:700]:
        stream.feed(delta)
    early = _calls(stream, deltas[700:1_000])
    for delta in deltas[1_000:19_700]:
        stream.feed(delta)
    assert _calls(stream, deltas[19_700:]) <= 1.2 * early
