"""The bench and the page about performance tell the same lines and budgets."""

import re

import pytest

from bench.budgets import LINES, RULES
from tests.house.source import ROOT

PAGE = ROOT / "docs" / "performance.md"
RESULTS = ROOT / "bench" / "results.jsonl"
_ROW = re.compile(r"^\| (?P<what>[^|]+) \|.*\| (?P<budget>[\d.,]+) \|", re.MULTILINE)


def _documented() -> dict[str, float]:
    return {
        row["what"].strip(): float(row["budget"].replace(",", ""))
        for row in _ROW.finditer(PAGE.read_text())
    }


def test_the_page_names_every_line_with_its_budget() -> None:
    wanted = {line.what: line.budget for line in LINES} | {rule.what: rule.limit for rule in RULES}
    assert _documented() == wanted


def test_no_two_lines_have_the_same_key_or_name() -> None:
    every = [(line.key, line.what) for line in LINES] + [(rule.key, rule.what) for rule in RULES]
    assert len({key for key, _ in every}) == len(every)
    assert len({what for _, what in every}) == len(every)


@pytest.mark.skipif(not RESULTS.exists(), reason="no whole run of the bench is stored yet")
def test_stored_results_do_not_tell_whose_machine_they_are_from() -> None:
    text = RESULTS.read_text()
    assert text
    assert not re.search(r"/home/|/root|/tmp|hostname|node[-_]?name", text)
