"""From figures to verdicts: ratios to the base, budgets kept or not, peers ahead."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from bench.budgets import LINES, RULES, Line
from bench.programs import OURS, Program

Figures = Mapping[str, Mapping[str, float]]


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """`ratio` is to the base, or the figure itself; `ahead` names peers with less."""

    key: str
    what: str
    unit: str
    budget: float
    values: dict[str, float]
    base: str | None
    ratio: float | None
    ahead: tuple[str, ...] = ()
    is_rule: bool = False

    @property
    def over(self) -> bool:
        return self.ratio is not None and self.ratio > self.budget


def bases(programs: Sequence[Program]) -> dict[str, str | None]:
    """Which program is the base of each kind of line."""
    pis = [each for each in programs if each.kind == "pi"]
    return {
        "lean": next((each.name for each in pis if each.is_lean), None),
        "fat": next((each.name for each in pis if not each.is_lean), None),
        "omp": next((each.name for each in programs if each.kind == "omp"), None),
        "codex": next((each.name for each in programs if each.kind == "codex"), None),
        "goose": next((each.name for each in programs if each.kind == "goose"), None),
        "none": None,
    }


def judge(figures: Figures, base_of: Mapping[str, str | None]) -> list[Verdict]:
    """One verdict for each line and rule that ours has a figure on."""
    lines = [
        _judge(line, figures, base_of[line.base]) for line in LINES if line.figure in figures[OURS]
    ]
    rules = [
        Verdict(
            key=rule.key,
            what=rule.what,
            unit="×",
            budget=rule.limit,
            values={OURS: figures[OURS][rule.key]},
            base=None,
            ratio=figures[OURS][rule.key],
            is_rule=True,
        )
        for rule in RULES
        if rule.key in figures[OURS]
    ]
    return [*lines, *rules]


def _judge(line: Line, figures: Figures, base: str | None) -> Verdict:
    values = {name: each[line.figure] for name, each in figures.items() if line.figure in each}
    mine = values[OURS]
    ratio: float | None = None
    if line.base == "none":
        ratio = mine
    elif base is not None and values.get(base):
        ratio = mine / values[base]
    ahead = tuple(name for name, value in values.items() if name != OURS and value < mine)
    about: dict[str, Any] = {"key": line.key, "what": line.what, "unit": line.unit}
    return Verdict(**about, budget=line.budget, values=values, base=base, ratio=ratio, ahead=ahead)
