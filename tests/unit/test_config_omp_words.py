"""omp's and xcsh's flags in our words: kept, renamed, or left out with a word."""

from pathlib import Path

import pytest

from ludolf.base import ConfigError
from ludolf.config.settings.omp_arguments import in_our_words


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("--mode rpc --model a/b --session-dir d", "--mode rpc --model a/b --session-dir d"),
        ("--resume abc -c", "--session abc -c"),
        ("--resume=abc", "--session abc"),
        ("--session abc", "--session abc"),
        ("-r --no-tools", "--continue --no-tools"),
        ("--resume", "--continue"),
        ("--hook h.py --trusted-extension=e.py", "--extension h.py --extension e.py"),
        ("--thinking=low hello=you", "--thinking=low hello=you"),
        ("--no-lsp --no-title hi", "hi"),
        ("--yolo --auto-approve=1 hi", "--approval never --approval never hi"),
        ("--approval-mode always-ask hi", "--approval always hi"),
        ("--approval-mode=write hi", "--approval on-command hi"),
        ("--approval-mode yolo hi", "--approval never hi"),
        ("--approval-mode sometimes", "--approval sometimes"),
        ("--no-pty=1 hi", "hi"),
        ("-- --no-lsp --profile", "-- --no-lsp --profile"),
        ("--plan-of-mine x", "--plan-of-mine x"),
    ],
)
def test_words_are_put_into_ours_without_a_warning(theirs: str, ours: str) -> None:
    told = in_our_words(theirs.split())
    assert (told.words, told.warnings, told.cwd) == (ours.split(), [], None)


def test_a_folder_to_work_in_is_set_apart() -> None:
    assert in_our_words(["--cwd", "/srv/x", "hi"]).cwd == Path("/srv/x")
    assert in_our_words(["--cwd=y"]).cwd == Path("y")


def test_what_has_no_counterpart_is_left_out_with_its_value_and_named() -> None:
    told = in_our_words(["--profile", "work", "--smol=m", "--advisor", "--max-time", "5m", "go"])
    assert told.words == ["go"]
    assert told.warnings == [
        f"{flag} has no effect here" for flag in ("--profile", "--smol", "--advisor", "--max-time")
    ]


@pytest.mark.parametrize("flag", ["--cwd", "--hook", "--profile"])
def test_a_missing_value_is_an_error(flag: str) -> None:
    with pytest.raises(ConfigError, match=f"{flag} needs a value"):
        in_our_words(["hi", flag])
