"""JSON of others: how deep it is nested, and what is read of arguments that are too deep."""

import pytest

from ludolf.ai.draft import PartialJson
from ludolf.base import MAX_NESTING, CommandError, check_path, is_nested_deeper, loads


@pytest.mark.parametrize(
    ("text", "deeper"),
    [
        (b"[" * 257, True),
        (b"[" * 256, False),
        (b'{"a":' * 257, True),
        (b"[]" * 5_000, False),
        (b'"' + b"[" * 5_000 + b'"', False),
        (b'["' + b'\\"[' * 5_000 + b'"]', False),
        (b'"\\\\"' + b"[" * 257, True),
        (b'"\\\\\\"' + b"[" * 257 + b'"', False),
        (b'"unfinished ' + b"[" * 257, False),
        (b"[" * 200 + b"]" * 100 + b"[" * 150, False),
        (b"[" * 200 + b"]" * 100 + b"[" * 157, True),
    ],
)
def test_nesting_is_counted_outside_of_strings(text: bytes, deeper: bool) -> None:
    assert is_nested_deeper(text, 256) is deeper


@pytest.mark.parametrize("text", [b"[" * 100_000, b"\xef\xbb\xbf" + b"[" * 100_000])
def test_what_is_nested_too_deeply_is_a_value_error(text: bytes) -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        loads(text)


@pytest.mark.parametrize("depth", [MAX_NESTING + 1, 600, 100_000])
def test_arguments_that_are_too_deep_are_not_whole(depth: int) -> None:
    arguments = PartialJson()
    arguments.feed('{"path":' + "[" * depth + "]" * depth + "}")
    with pytest.raises(ValueError, match="cut or no JSON"):
        arguments.whole()
    assert isinstance(arguments.best(), dict)


@pytest.mark.parametrize("path", ["", "a", "/a/b", "ä" * 127, "a/" * 2_000, "\udc80"])
def test_a_path_that_a_file_can_have_is_returned(path: str) -> None:
    assert check_path(path) == path


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("a\0b", "NUL"),
        ("\ud800", "surrogate"),
        ("ä" * 128, "too long"),
        ("a/" * 2_048, "too long"),
    ],
)
def test_a_path_that_no_file_can_have_is_refused(path: str, reason: str) -> None:
    with pytest.raises(CommandError, match=f"^Not a usable path: .*{reason}"):
        check_path(path)
