"""The page about conformance tells what the tests prove."""

from scripts.make_conformance import PAGE, render


def test_the_page_is_current() -> None:
    current = PAGE.read_text() == render()
    assert current, "run scripts/make_conformance.py"
