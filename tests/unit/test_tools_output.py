"""Command output: cleaned however it is cut, counted, its tail kept, its whole spilled."""

import os
import random
import stat
from itertools import pairwise
from pathlib import Path

import pytest

from ludolf.tools.output import Cleaner, OutputTail, spill_folder

SAMPLES = [
    (b"plain\ttext\n", "plain\ttext\n"),
    (b"\x1b[1;31mred\x1b[0m\n", "red\n"),
    (b"\x1b]0;title\x07after", "after"),
    (b"\x1b]52;c;c2VjcmV0\x1b\\after", "after"),
    (b"\x1bPq payload \x1b\\x", "x"),
    (b"\xc2\x9b31mred\xc2\x9d0;t\xc2\x9cx", "redx"),
    (b"\x1b(Bx\x1b=y\x1b7", "xy"),
    (b"a\x00b\x08c\x7fd\r\n", "abcd\n"),
    (
        "gr\u00fc\u00dfe \u20ac \U0001f600 \u00a9\n".encode(),
        "gr\u00fc\u00dfe \u20ac \U0001f600 \u00a9\n",
    ),
    (b"bad \xff byte", "bad \ufffd byte"),
    (b"\x1b[31\nnext", "\nnext"),
    (b"\x1b]0;no end\nnext\n", "\nnext\n"),
    (b"\x1bPno end\nnext\n", "\nnext\n"),
    (b"\x1b_no end\nnext \xc2\x9eno end\nlast", "\nnext \nlast"),
    (b"\x1b]0;cancelled\x18seen \xc2\x9dcancelled\x1aseen", "seen seen"),
    (b"\x1b]0;no end\x1b[31mred", "red"),
    (b"\x1b\x1b[31m]0;text", "]0;text"),
    (b"\x1bX" + b"x" * 4096 + b"seen", "seen"),
    (b"\x1bX" + b"x" * 4095 + b"\xc2\x9cseen", "seen"),
    (b"\x1bX" + b"x" * 4096 + b"\xc2\xa9seen", "\u00a9seen"),
]


@pytest.mark.parametrize(("raw", "clean"), SAMPLES)
def test_terminal_control_is_removed_as_a_whole(raw: bytes, clean: str) -> None:
    cleaner = Cleaner()
    assert cleaner.feed(raw) + cleaner.finish() == clean


@pytest.mark.parametrize(("raw", "clean"), SAMPLES)
def test_pieces_of_one_byte_give_the_same_text(raw: bytes, clean: str) -> None:
    cleaner = Cleaner()
    pieces = [cleaner.feed(bytes([byte])) for byte in raw]
    assert "".join(pieces) + cleaner.finish() == clean


def test_a_string_sequence_that_never_ends_does_not_swallow_everything() -> None:
    cleaner = Cleaner()
    cleaner.feed(b"\x1b]never ends")
    for _ in range(20):
        cleaner.feed(b"x" * 100_000)
    assert cleaner.feed(b"seen") == "seen"


def test_any_cut_of_any_control_gives_the_same_text() -> None:
    chance = random.Random(1)
    words = [b"\x1b", b"\x1b]", b"\xc2\x9d", b"P", b"\xc2", b"\x9c", b"\x07", b"\n", b"\x18", b"ab"]
    words += [b"\x1b[31m", b"\x1b\\", b"\xe2\x82\xac", b"x" * 2000]
    for _ in range(300):
        raw = b"".join(chance.choices(words, k=12))
        whole, cut = Cleaner(), Cleaner()
        at = sorted(chance.choices(range(len(raw)), k=6))
        pieces = [raw[a:b] for a, b in pairwise([0, *at, len(raw)])]
        text = "".join(map(cut.feed, pieces)) + cut.finish()
        assert text == whole.feed(raw) + whole.finish(), (raw, at)


def test_small_output_makes_no_file(tmp_path: Path) -> None:
    with OutputTail(tmp_path) as tail:
        assert tail.feed(b"hello\n") == "hello\n"
        tail.finish()
    assert tail.tail().content == "hello\n"
    assert tail.full_output_path is None
    assert list(tmp_path.iterdir()) == []


def test_output_over_the_limit_is_spilled_raw_to_a_private_file(tmp_path: Path) -> None:
    raw = [b"\x1b[31mline %d\x1b[0m\n" % number for number in range(3000)]
    with OutputTail(tmp_path) as tail:
        for piece in raw:
            tail.feed(piece)
    path = tail.full_output_path
    assert path is not None
    assert Path(path).read_bytes() == b"".join(raw)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    shown = tail.tail()
    assert shown.content.startswith("line 1000\n")
    assert shown.content.endswith("line 2999")
    assert shown.total_lines == 3000


def test_the_last_line_is_measured_even_when_most_of_it_is_gone(tmp_path: Path) -> None:
    with OutputTail(tmp_path) as tail:
        tail.feed(b"first\n")
        for _ in range(100):
            tail.feed(b"x" * 10_000)
        open_size = tail.last_line_bytes
        tail.feed(b"\n")
    assert open_size == tail.last_line_bytes == 1_000_000
    shown = tail.tail()
    assert (shown.total_lines, shown.last_line_partial) == (2, True)
    assert shown.content == "x" * 51200


def test_counts_agree_with_the_text_for_any_cut(tmp_path: Path) -> None:
    text = "one\n\ntwo \u20ac\nthree" * 50
    data = text.encode()
    for step in (1, 3, 7, 1000):
        with OutputTail(tmp_path) as tail:
            for start in range(0, len(data), step):
                tail.feed(data[start : start + step])
        assert tail.totals.lines == len(text.split("\n"))
        assert tail.totals.bytes == len(data)
        assert tail.tail().content == text


def test_a_spill_that_cannot_be_made_is_told_and_ends_nothing(tmp_path: Path) -> None:
    with OutputTail(tmp_path / "missing") as tail:
        tail.feed(b"y\n" * 3000)
        tail.feed(b"last\n")
    assert tail.spill_error == "No such file or directory"
    assert tail.tail().content.endswith("last")


def test_the_spill_folder_is_private_and_loses_old_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = spill_folder()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    old, new = folder / "pi-bash-old.log", folder / "pi-bash-new.log"
    old.touch()
    new.touch()
    in_sandbox, unused = folder / "output-1", folder / "output-2"
    in_sandbox.mkdir()
    unused.mkdir()
    for path in (old, unused):
        os.utime(path, (0, 0))
    assert spill_folder() == folder
    assert not old.exists()
    assert not unused.exists()
    assert new.exists()
    assert in_sandbox.exists()


def test_a_spill_folder_open_to_others_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    spill_folder().chmod(0o755)
    other = spill_folder()
    assert stat.S_IMODE(other.stat().st_mode) == 0o700
