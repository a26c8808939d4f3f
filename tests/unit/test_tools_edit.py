"""The edit tool: exact and near matches, byte-true files, errors, diffs."""

import asyncio
import os
import stat
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ludolf.agent.tool import ToolContext, ToolFailure, ToolOutput
from ludolf.ai.messages import text_of
from ludolf.tools.diff import Comparison
from ludolf.tools.edit import EditTool
from ludolf.tools.replacements import Span, splice
from tests.samples import ignore, run_tool


def edit(cwd: Path, *pairs: tuple[str, str], path: str = "f.txt") -> ToolOutput:
    tool = EditTool()
    ctx = ToolContext(call_id="c", cwd=cwd, report=ignore)
    edits = [{"oldText": old, "newText": new} for old, new in pairs]
    return asyncio.run(run_tool(tool, {"path": path, "edits": edits}, ctx))


def edited(cwd: Path, data: bytes, *pairs: tuple[str, str]) -> bytes:
    (cwd / "f.txt").write_bytes(data)
    edit(cwd, *pairs)
    return (cwd / "f.txt").read_bytes()


def failure(cwd: Path, data: bytes, *pairs: tuple[str, str]) -> str:
    (cwd / "f.txt").write_bytes(data)
    with pytest.raises(ToolFailure) as error:
        edit(cwd, *pairs)
    assert (cwd / "f.txt").read_bytes() == data
    return str(error.value)


def test_several_texts_are_replaced_at_once(tmp_path: Path) -> None:
    (tmp_path / "f.txt").write_text("one\ntwo\nthree\n")
    (tmp_path / "f.txt").chmod(0o600)
    result = edit(tmp_path, ("three", "3"), ("one", "two"), ("two\n", ""))
    assert text_of(result.content) == "Successfully replaced 3 block(s) in f.txt."
    assert (tmp_path / "f.txt").read_text() == "two\n3\n"
    assert stat.S_IMODE((tmp_path / "f.txt").stat().st_mode) == 0o600
    assert result.details["firstChangedLine"] == 1


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"one\r\nhello\r\nthree\r\n", b"one\r\nHI\r\nHO\r\nthree\r\n"),
        (b"\xef\xbb\xbfhello\nx\n", b"\xef\xbb\xbfHI\nHO\nx\n"),
        (b"a\x00b\nhello\n", b"a\x00b\nHI\nHO\n"),
        (b"lf\nhello\nmixed\r\n\rend", b"lf\nHI\nHO\nmixed\r\n\rend"),
        (b"crlf\r\nlf\nhello\nx\r\n", b"crlf\r\nlf\nHI\r\nHO\nx\r\n"),
    ],
)
def test_every_other_byte_stays(before: bytes, after: bytes, tmp_path: Path) -> None:
    assert edited(tmp_path, before, ("hello", "HI\nHO")) == after


def test_an_old_text_with_crlf_fits_too(tmp_path: Path) -> None:
    assert edited(tmp_path, b"a\r\nb\r\nc\r\n", ("a\r\nb", "x\r\ny")) == b"x\r\ny\r\nc\r\n"


def test_look_alikes_match_and_untouched_lines_keep_their_bytes(tmp_path: Path) -> None:
    before = "\u201ckeep\u201d  \nsay \u2018hi\u2019 \u2013 now   \n\u00a0keep\n"
    after = edited(tmp_path, before.encode(), ("say 'hi' - now\n", "bye\n"))
    assert after == "\u201ckeep\u201d  \nbye\n\u00a0keep\n".encode()


def test_near_and_exact_matches_on_shared_lines_go_together(tmp_path: Path) -> None:
    before = "first\u2019s line  \nmiddle one two\nlast\u00a0line \n"
    after = edited(tmp_path, before.encode(), ("one", "1"), ("two", "2"), ("first's", "1st"))
    assert after == "1st line  \nmiddle 1 2\nlast\u00a0line \n".encode()


@pytest.mark.parametrize(
    ("before", "old", "after"),
    [
        ("s = \u201cq\u201d; x\u00b2 \u2212 1   \n", 's = "q"', "NEW; x\u00b2 \u2212 1   \n"),
        (
            "\u00bd \u2460 \ufb01 \u201cq\u201d \uff21 \u00bd  \n",
            '"q"',
            "\u00bd \u2460 \ufb01 NEW \uff21 \u00bd  \n",
        ),
        ("caf\u00e9 \u00a0 \u00bd\t\n", "cafe\u0301", "NEW \u00a0 \u00bd\t\n"),
        ("cafe\u0301 \u00a0 \u00bd\t\n", "caf\u00e9", "NEW \u00a0 \u00bd\t\n"),
        ("\u1100\u1161\u11a8 \u2013 \u00bd\n", "\uac01 -", "NEW \u00bd\n"),
        ("a \r\n\u2019b \r\n\u00bd \r\n", "a\n'b", "NEW \r\n\u00bd \r\n"),
        ("one \r\ntwo\n\u00bd\r\n", "one\ntwo\n", "NEW\u00bd\r\n"),
        ("\u00bd  \n\u2018x\u2019\n", "\n'x'", "\u00bd  NEW\n"),
        ("\u00bd\u3000\u2018x\u2019\u3000", "'x'", "\u00bd\u3000NEW\u3000"),
        ("\ufeff\u2018x\u2019 \u00bd", "'x'", "\ufeffNEW \u00bd"),
    ],
)
def test_a_near_match_changes_the_matched_text_only(
    before: str, old: str, after: str, tmp_path: Path
) -> None:
    assert edited(tmp_path, before.encode(), (old, "NEW")).decode() == after


@pytest.mark.parametrize(("text", "old"), [("\ufb01le\n", "ile"), ("\u00bd cup\n", "2 cup")])
def test_half_a_character_cannot_be_replaced(text: str, old: str, tmp_path: Path) -> None:
    assert failure(tmp_path, text.encode(), (old, "NEW")).startswith("Could not find the exact")


@pytest.mark.parametrize(
    ("text", "old"), [("aaa", "aa"), ("ababab", "abab"), ("\u2019\u2019'", "''"), ("   ", "  ")]
)
def test_occurrences_that_overlap_are_ambiguous(text: str, old: str, tmp_path: Path) -> None:
    assert failure(tmp_path, text.encode(), (old, "b")).startswith(
        "Found 2 occurrences of the text"
    )


def test_a_letter_that_is_also_the_base_of_an_accent_is_ambiguous(tmp_path: Path) -> None:
    assert failure(tmp_path, b"e\xcc\x81 e", ("e", "i")).startswith("Found 2 occurrences")


@pytest.mark.parametrize("place", [0, 65_530, 65_536, 1_048_570, 3_000_000])
@pytest.mark.parametrize("filler", ["ab \n", "\u4e2d", "a", " ", "\u0315\u0323", "\U0001f600"])
def test_a_near_match_is_found_wherever_a_large_file_is_cut(
    filler: str, place: int, tmp_path: Path
) -> None:
    before = filler * (place // len(filler.encode()))
    after = filler * 100
    data = f"{before}x\u201cq\u201d \u2013 z\u00bd{after}".encode()
    changed = edited(tmp_path, data, ('x"q" - z', "NEW"))
    assert changed == f"{before}NEW\u00bd{after}".encode()


def test_a_large_file_of_short_lines_costs_little(tmp_path: Path) -> None:
    import tracemalloc

    data = b"ab\n" * 1_000_000 + b"needle\n" + b"ab\n" * 1_000_000
    (tmp_path / "f.txt").write_bytes(data)
    tracemalloc.start()
    try:
        edit(tmp_path, ("needle", "pin"))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 5 * len(data)
    assert (tmp_path / "f.txt").read_bytes() == data.replace(b"needle", b"pin")


def test_long_lines_are_cut_in_the_diff_and_the_patch(tmp_path: Path) -> None:
    (tmp_path / "f.txt").write_text("x" * 1_000_000 + "needle\n")
    details = edit(tmp_path, ("needle", "pin")).details
    assert len(details["diff"]) + len(details["patch"]) < 300_000
    assert "... [truncated]\n" in details["diff"]


def test_text_that_is_not_utf8_is_refused_untouched(tmp_path: Path) -> None:
    text = failure(tmp_path, b"caf\xe9 line\nhello\n", ("hello", "HELLO"))
    assert text.startswith(
        "Could not edit file: f.txt. It is not UTF-8 text (byte 0xe9 at offset 3)"
    )


@pytest.mark.parametrize(
    ("pairs", "text"),
    [
        ([], "Edit tool input is invalid. edits must contain at least one replacement."),
        ([("", "x")], "oldText must not be empty in f.txt."),
        ([("a", "b"), ("", "x")], "edits[1].oldText must not be empty in f.txt."),
        (
            [("zzz", "x")],
            "Could not find the exact text in f.txt. "
            "The old text must match exactly including all whitespace and newlines.",
        ),
        (
            [("alpha", "b"), ("zzz", "x")],
            "Could not find edits[1] in f.txt. "
            "The oldText must match exactly including all whitespace and newlines.",
        ),
        (
            [("beta", "x")],
            "Found 2 occurrences of the text in f.txt. The text must be unique. "
            "Please provide more context to make it unique.",
        ),
        (
            [("alpha", "b"), ("beta", "x")],
            "Found 2 occurrences of edits[1] in f.txt. Each oldText must be unique. "
            "Please provide more context to make it unique.",
        ),
        (
            [("alpha\nbeta", "x"), ("alpha", "y")],
            "edits[0] and edits[1] overlap in f.txt. "
            "Merge them into one edit or target disjoint regions.",
        ),
    ],
)
def test_impossible_edits_are_refused_untouched(
    pairs: list[tuple[str, str]], text: str, tmp_path: Path
) -> None:
    assert failure(tmp_path, b"alpha\nbeta\nbeta\n", *pairs) == text


def test_an_edit_that_changes_nothing_is_refused(tmp_path: Path) -> None:
    assert failure(tmp_path, b"same\n", ("same", "same")).startswith("No changes made to f.txt. ")


def test_files_that_cannot_be_edited_are_named_with_the_code(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    for path, text in (
        ("missing", "Could not edit file: missing. Error code: ENOENT."),
        ("folder", "Could not edit file: folder. Error code: EISDIR."),
        ("fifo", f"Not a regular file: {tmp_path}/fifo is a named pipe."),
    ):
        with pytest.raises(ToolFailure) as error:
            edit(tmp_path, ("a", "b"), path=path)
        assert str(error.value).startswith(text)


@pytest.mark.parametrize(
    "given",
    [
        {"edits": '[{"oldText": "a", "newText": "b"}]'},
        {"edits": {"oldText": "a", "newText": "b"}},
        {"oldText": "a", "newText": "b"},
        {"edits": [], "oldText": "a", "newText": "b"},
    ],
)
def test_other_spellings_of_the_arguments_are_understood(given: dict[str, Any]) -> None:
    prepared = asyncio.run(EditTool().prepare({"path": "p", **given}))
    assert prepared == {"path": "p", "edits": [{"oldText": "a", "newText": "b"}]}


def test_the_arguments_of_the_caller_are_left_alone() -> None:
    given = {"path": "p", "oldText": "a", "newText": "b"}
    asyncio.run(EditTool().prepare(given))
    assert given == {"path": "p", "oldText": "a", "newText": "b"}


def lines(*numbers: int) -> str:
    return "".join(f"line {number}\n" for number in numbers)


def test_the_numbered_diff_shows_four_lines_around_each_change() -> None:
    old = lines(*range(1, 31))
    new = old.replace("line 10\n", "ten\nand more\n").replace("line 25\n", "")
    assert Comparison(old, new).numbered().split("\n") == [
        "    ...",
        "  6 line 6",
        "  7 line 7",
        "  8 line 8",
        "  9 line 9",
        "-10 line 10",
        "+10 ten",
        "+11 and more",
        " 11 line 11",
        " 12 line 12",
        " 13 line 13",
        " 14 line 14",
        "    ...",
        " 21 line 21",
        " 22 line 22",
        " 23 line 23",
        " 24 line 24",
        "-25 line 25",
        " 26 line 26",
        " 27 line 27",
        " 28 line 28",
        " 29 line 29",
        "    ...",
    ]
    assert Comparison(old, new).first_changed_line == 10


def test_the_patch_is_a_unified_diff() -> None:
    old = lines(*range(1, 12)) + "end"
    new = old.replace("line 11\nend", "eleven\nend\n")
    assert Comparison(old, new).patch("a/b.txt") == (
        "--- a/b.txt\n+++ a/b.txt\n@@ -7,6 +7,6 @@\n"
        " line 7\n line 8\n line 9\n line 10\n"
        "-line 11\n-end\n\\ No newline at end of file\n+eleven\n+end\n"
    )


def test_an_insertion_into_an_empty_text_has_a_patch_too() -> None:
    compared = Comparison("", "new\n")
    assert compared.patch("f") == "--- f\n+++ f\n@@ -0,0 +1,1 @@\n+new\n"
    assert compared.numbered() == "+1 new"


@pytest.mark.parametrize("seed", range(200))
def test_the_patch_of_any_edits_leads_from_the_old_text_to_the_new(seed: int) -> None:
    chance = Random(seed)
    old = "".join(chance.choices("ab\ncd\n", k=chance.randrange(1, 60))).encode()
    places = sorted(chance.sample(range(len(old) + 1), k=min(len(old) + 1, 6)))
    texts = ("".join(chance.choices("ab\nc", k=chance.randrange(4))).encode() for _ in places)
    ends = zip(places[::2], places[1::2], texts, strict=False)
    spans = [Span(start, end, text) for start, end, text in ends]
    new = splice(old, spans)
    at, result, is_added = 0, "", False
    kept = old.decode().splitlines(keepends=True)
    for line in Comparison(old, new, spans).patch("f").splitlines(keepends=True)[2:]:
        if line.startswith("@@"):
            start, count = map(int, line.split()[1][1:].split(","))
            begin = start - 1 if count else start
            result += "".join(kept[at:begin])
            at = begin
        elif line.startswith("\\"):
            result = result.removesuffix("\n") if is_added else result
        else:
            is_added = line[0] in "+ "
            at += line[0] != "+"
            result += line[1:] if is_added else ""
    assert result + "".join(kept[at:]) == new.decode()


def test_edits_that_touch_each_other_are_both_made(tmp_path: Path) -> None:
    assert edited(tmp_path, b"abcdef", ("abc", "1"), ("def", "2")) == b"12"
    assert edited(tmp_path, b"a\nb\nc\n", ("a\n", ""), ("b\n", "B")) == b"Bc\n"
