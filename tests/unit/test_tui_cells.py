"""Rows are measured, cut and wrapped in cells, and the text of others cannot reach the terminal."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wcwidth import iter_graphemes, wcwidth

from ludolf.tui.cells import (
    _NARROW,
    cluster_after,
    cluster_before,
    clusters,
    cut,
    plain,
    reflowed,
    unstyled,
    width,
    wrap,
)

FAMILY = "👨\u200d👩\u200d👧"
TEXTS = st.lists(
    st.sampled_from(["a", "b", " ", "日", "e\u0301", FAMILY, "🇩🇪", "❤\ufe0f", "-"])
).map("".join)


@pytest.mark.parametrize(
    ("text", "cells"),
    [
        ("", 0),
        ("abc", 3),
        ("日本", 4),
        ("e\u0301", 1),
        ("é", 1),
        (FAMILY, 2),
        ("🇩🇪", 2),
        ("👍🏽", 2),
        ("❤\ufe0f", 2),
        ("\x1b[1;38;2;1;2;3mab\x1b[0m", 2),
        ("\x1b]8;;https://example.org\x1b\\link\x1b]8;;\x1b\\", 4),
        ("\x1b[1m日\x1b[0m", 2),
    ],
)
def test_width_counts_cells_not_letters(text: str, cells: int) -> None:
    assert width(text) == cells


@given(text=st.one_of(TEXTS, st.text(st.characters(exclude_categories=("Cc", "Cs")))))
def test_the_width_of_a_text_is_that_of_its_clusters(text: str) -> None:
    assert width(text) == sum(map(width, clusters(text)))


def test_a_cluster_is_never_divided() -> None:
    assert cut(f"a{FAMILY}b", 2) == "a"
    assert cut(f"a{FAMILY}b", 3) == f"a{FAMILY}"
    assert cut("日本", 3) == "日"
    assert wrap(f"{FAMILY}{FAMILY}", 3, words=False) == [FAMILY, FAMILY]
    assert wrap("e\u0301e\u0301e\u0301", 2) == ["e\u0301e\u0301", "e\u0301"]


def test_a_cut_row_ends_its_styles() -> None:
    assert cut("\x1b[1mabcdef\x1b[0m", 3) == "\x1b[1mabc\x1b[0m"
    link = "\x1b]8;;u\x1b\\"
    assert cut(f"{link}abcdef", 2) == f"{link}ab\x1b]8;;\x1b\\"


def test_styles_continue_on_the_next_row() -> None:
    row = "\x1b[1mone \x1b[31mtwo\x1b[39m three\x1b[0m four"
    assert wrap(row, 5) == [
        "\x1b[1mone\x1b[0m",
        "\x1b[1m\x1b[31mtwo\x1b[39m\x1b[0m",
        "\x1b[1mthree\x1b[0m",
        "four",
    ]
    assert wrap("\x1b[38;2;1;2;3mab", 1)[1] == "\x1b[38;2;1;2;3mb\x1b[0m"
    assert wrap("\x1b[38;5;9;1mab", 1)[1] == "\x1b[38;5;9;1mb\x1b[0m"
    link = "\x1b]8;;u\x1b\\"
    assert wrap(f"{link}ab", 1) == [f"{link}a\x1b]8;;\x1b\\", f"{link}b\x1b]8;;\x1b\\"]


@pytest.mark.parametrize(
    ("row", "rows"),
    [
        ("one two three", ["one two", "three"]),
        ("one two  three", ["one two", "three"]),
        ("  indented text", ["  inden", "ted", "text"]),
        ("abcdefghij", ["abcdefg", "hij"]),
        ("a\nb", ["a", "b"]),
        ("one tw\n", ["one tw", ""]),
    ],
)
def test_rows_break_at_spaces(row: str, rows: list[str]) -> None:
    assert wrap(row, 7) == rows


@given(text=TEXTS, cells=st.integers(2, 12))
def test_wrapped_rows_fit_and_lose_only_spaces(text: str, cells: int) -> None:
    for words in (True, False):
        rows = wrap(text, cells, words=words)
        assert all(width(row) <= cells for row in rows)
        joined = "".join(rows)
        assert joined.replace(" ", "") == text.replace(" ", "")
        assert words or joined == text
    styled = "".join(f"\x1b[1m{each}" for each in clusters(text))
    assert [unstyled(row) for row in wrap(styled, cells)] == wrap(text, cells)


@given(text=TEXTS, columns=st.integers(2, 9))
def test_the_reflow_of_a_row_counts_wide_characters_whole(text: str, columns: int) -> None:
    assert reflowed(text, columns) == len(wrap(text, columns, words=False))


@given(text=TEXTS)
def test_steps_over_characters_lead_to_the_edges_of_clusters(text: str) -> None:
    edges = [0]
    for cluster in clusters(text):
        edges.append(edges[-1] + len(cluster))
    forward, backward = [0], [len(text)]
    while forward[-1] < len(text):
        forward.append(cluster_after(text, forward[-1]))
    while backward[-1]:
        backward.append(cluster_before(text, backward[-1]))
    assert forward == edges == backward[::-1]


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("a\x1b[31mb\x1b[0mc", "abc"),
        ("\x1b[2J\x1b[3J\x1b[Hx", "x"),
        ("\x1b]0;title\x07x", "x"),
        ("\x1b]52;c;aGk=\x1b\\x", "x"),
        ("\x1bP+q544e\x1b\\x", "x"),
        ("\x1b_Ga=T;AAAA\x1b\\x", "x"),
        ("\x1b^private\x1b\\\x1bXstring\x1b\\x", "x"),
        ("\x9b31mx\x9d0;t\x9cy\x90q\x9cz", "xyz"),
        ("\x1bcx\x1b(0y\x1b7\x1b8\x1b=z", "xyz"),
        ("x\x1b", "x␛"),
        ("x\x1b[12", "x␛[12"),
        ("x\x1b]0;never ends", "x␛]0;never ends"),
        ("\x1b\x1b[31mx", "␛x"),
        ("\x1b[3\x1b[1m1mx", "␛[31mx"),
        ("a\x07b\x00c\x7fd\x08", "a␇b␀c␡d␈"),
        ("a\r\nb\rc", "a\nb\nc"),
        ("a\tb\n日\tc", "a   b\n日  c"),
        ("a\u202eb\u2066c\u200bd", "a[U+202E]b[U+2066]c[U+200B]d"),
        ("a\x85b\x9bc", "a[U+0085]b"),
        ("\ud83d", "\ufffd"),
        (FAMILY, FAMILY),
    ],
)
def test_the_text_of_others_is_shown_and_not_obeyed(hostile: str, shown: str) -> None:
    assert plain(hostile) == shown


@given(
    st.text(
        st.sampled_from("\x1b[]P_\\^X0;1m~ \x07\x9b\x9c\x9d\x90\x08\r\n\ta\u202eé\x00\x7f\x1a(c")
    )
)
def test_nothing_a_terminal_would_obey_is_left(text: str) -> None:
    shown = plain(text)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", shown)
    assert plain(shown) == shown
    shown.encode()


def test_characters_that_need_no_table_have_the_width_of_the_table() -> None:
    narrow = [chr(code) for code in range(0x20, 0x3000) if _NARROW.fullmatch(chr(code))]
    assert len(narrow) > 1000
    assert [each for each in narrow if wcwidth(each) != 1] == []
    pairs = [first + second for first in narrow for second in ("a", first)]
    assert [each for each in pairs if list(iter_graphemes(each)) != list(each)] == []
