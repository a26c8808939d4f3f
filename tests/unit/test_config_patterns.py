"""Names of models: globs, order, and the search of lists; all as the real pi does it."""

import pytest

from ludolf.config.models.patterns import fits_search, id_order, matches_glob


@pytest.mark.parametrize(
    ("pattern", "name", "fits"),
    [
        ("other/*", "other/solo", True),
        ("other/*", "other/mock/weird", False),
        ("dir/*", "dir/sub/leaf", False),
        ("dir/**", "dir/sub/leaf", True),
        ("**/leaf", "dir/sub/leaf", True),
        ("**leaf", "dir/sub/leaf", False),
        ("*", "only", True),
        ("*", "mock/only", False),
        ("QQ*", "qqtwo", True),
        ("qqtw?", "QQTWO", True),
        ("a?b", "a/b", False),
        ("[ab].b", "a.b", True),
        ("[ab].b", "axb", False),
        ("[!a].b", "c.b", True),
        ("[^a].b", "a.b", False),
        ("a[1", "a[1", True),
        ("{only,qqtwo}*", "qqtwo", True),
        ("{only,qqtwo}*", "other", False),
        ("gpt-5.*", "gpt-5x1", False),
    ],
)
def test_a_glob_stops_at_slashes_and_knows_no_case(pattern: str, name: str, fits: bool) -> None:
    assert matches_glob(pattern, name) is fits


@pytest.mark.parametrize(
    ("search", "fits"),
    [
        ("", True),
        (" ", True),
        ("/", True),
        ("smll", True),
        ("SMALL", True),
        ("local sm", True),
        ("sm local", True),
        ("local/small", True),
        ("localsmall", True),
        ("llams", False),
        ("local:small", False),
        ("small52", True),
        ("52small", True),
        ("5small2", False),
    ],
)
def test_a_search_finds_the_letters_of_each_word_in_their_order(search: str, fits: bool) -> None:
    assert fits_search(search, "local small-5.2") is fits


def test_ids_are_ordered_as_in_a_dictionary() -> None:
    ids = ["Zed", "b-i-g", "~z", "a/b", "52codex", "big", "upper", "Upper"]
    assert sorted(ids, key=id_order) == [
        *("~z", "52codex", "a/b", "b-i-g", "big", "upper", "Upper", "Zed"),
    ]
