"""Truncation: what is kept of long text, and how its size is told."""

import pytest

from ludolf.tools.truncate import (
    MAX_BYTES,
    NO_LINE_LIMIT,
    Totals,
    count_lines,
    keep_head,
    keep_tail,
    size_words,
)


def test_short_text_is_kept_byte_for_byte() -> None:
    shown = keep_tail("one\ntwo\n")
    assert shown.content == "one\ntwo\n"
    assert not shown.truncated
    assert shown.as_json() == {
        "content": "one\ntwo\n",
        "truncated": False,
        "truncatedBy": None,
        "totalLines": 2,
        "totalBytes": 8,
        "outputLines": 2,
        "outputBytes": 8,
        "lastLinePartial": False,
        "firstLineExceedsLimit": False,
        "maxLines": 2000,
        "maxBytes": 51200,
    }


def test_tail_keeps_the_last_two_thousand_lines_without_the_final_newline() -> None:
    text = "".join(f"{number}\n" for number in range(1, 5001))
    shown = keep_tail(text)
    assert shown.content == "\n".join(str(number) for number in range(3001, 5001))
    assert (shown.truncated_by, shown.total_lines, shown.total_bytes) == ("lines", 5000, 23893)
    assert (shown.output_lines, shown.output_bytes) == (2000, 9999)


def test_tail_keeps_whole_lines_when_bytes_run_out_first() -> None:
    shown = keep_tail("a" * 100 + "\n" + ("b" * 999 + "\n") * 60)
    assert shown.truncated_by == "bytes"
    assert set(shown.content.split("\n")) == {"b" * 999}
    assert shown.output_bytes == 51 * 1000 - 1


def test_tail_of_one_huge_line_is_its_end() -> None:
    shown = keep_tail("x" * 200_000)
    assert shown.content == "x" * MAX_BYTES
    assert (shown.last_line_partial, shown.output_lines, shown.total_lines) == (True, 1, 1)


def test_tail_of_a_huge_line_starts_at_a_whole_character() -> None:
    shown = keep_tail("a" + "\u20ac" * 40_000)
    assert set(shown.content) == {"\u20ac"}
    assert shown.output_bytes == len(shown.content.encode()) <= MAX_BYTES


def test_tail_of_a_part_reports_the_size_of_the_whole() -> None:
    shown = keep_tail("y" * 60_000, totals=Totals(lines=7, bytes=10_000_000))
    assert (shown.total_lines, shown.total_bytes) == (7, 10_000_000)


def test_head_keeps_whole_lines_only() -> None:
    shown = keep_head("a line of text\n" * 3000)
    assert shown.content == "\n".join(["a line of text"] * 2000)
    assert (shown.truncated_by, shown.total_lines, shown.output_bytes) == ("lines", 3000, 29999)


def test_head_without_room_for_the_first_line_is_empty() -> None:
    shown = keep_head("w" * 120_000)
    assert (shown.content, shown.output_lines, shown.first_line_exceeds_limit) == ("", 0, True)
    assert shown.truncated_by == "bytes"


def test_head_takes_a_line_that_fits_to_the_last_byte() -> None:
    exact = "z" * MAX_BYTES
    assert keep_head(exact).content == exact
    assert keep_head(exact + "\nmore").content == exact
    assert keep_head("z" + exact).content == ""


def test_head_without_a_line_limit_is_cut_by_bytes_alone() -> None:
    assert not keep_head("x\n" * 5000, max_lines=NO_LINE_LIMIT).truncated


@pytest.mark.parametrize(
    ("text", "lines"), [("", 0), ("a", 1), ("a\n", 1), ("a\n\n", 2), ("\n\n", 2), ("a\nb", 2)]
)
def test_a_newline_at_the_end_opens_no_line(text: str, lines: int) -> None:
    assert count_lines(text) == lines


@pytest.mark.parametrize(
    ("size", "words"), [(512, "512B"), (1536, "1.5KB"), (51200, "50.0KB"), (2097152, "2.0MB")]
)
def test_sizes_are_told_in_words(size: int, words: str) -> None:
    assert size_words(size) == words
