"""Text for a terminal: control sequences are removed, and only those."""

import pytest

from ludolf.cli.terminal import plain


@pytest.mark.parametrize("start", ["\x1b]0;", "\x1bP", "\x1bX", "\x1b^", "\x1b_"])
def test_a_control_string_without_its_end_hides_only_the_rest_of_its_line(start: str) -> None:
    assert plain(f"one {start}hidden\ntwo\n") == "one \ntwo\n"
    assert plain(f"one {start}hidden\x1b\\two\n") == "one two\n"
