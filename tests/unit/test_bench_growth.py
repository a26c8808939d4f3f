"""The growth rules of the bench, in a quick run without peers: no cost grows with the square."""

from collections.abc import Iterator

import pytest

from bench.budgets import RULES, Rule
from bench.lines import growth
from bench.programs import ours
from bench.stage import Stage, open_stage

# CPU times of a busy machine vary; work that grows with the square is beyond this by far.
SLACK = 1.7


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with open_stage([ours()], quick=True) as stage:
        yield stage


@pytest.mark.timeout(60)
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.key)
def test_cost_grows_with_size_and_not_with_its_square(stage: Stage, rule: Rule) -> None:
    grown = growth.MEASURES[rule.key](stage, stage.ours)
    assert 0 < grown <= rule.limit * SLACK
