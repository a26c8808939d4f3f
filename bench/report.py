"""Render the results of a run for a terminal: table, bars and remarks."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from bench.verdicts import Verdict

_BAR = 40
# Range of the bars: from a thousandth of the base's cost to ten times it.
_LEAST, _MOST = -3.0, 1.0


def table(verdicts: Sequence[Verdict], names: Sequence[str]) -> str:
    heads = ["line", "unit", *names, "ratio", "budget", ""]
    rows = [row(each, names) for each in verdicts]
    widths = [max(len(row[n]) for row in (heads, *rows)) for n in range(len(heads))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if n < 2 else cell.rjust(width)
            for n, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in (heads, *rows)
    )


def caption(result: Mapping[str, Any]) -> str:
    """Describe the run: rounds, date, interpreter, machine, load."""
    machine, rounds = result["machine"], result["rounds"]
    how = "One round" if rounds == 1 else f"The median of {rounds} rounds"
    size = " with small sizes" if result["quick"] else ""
    build = machine.get("build", "build not recorded")
    return (
        f"{how}{size} on {result['date'][:10]}; Python {machine['python']} ({build}), "
        f"{machine['processors']} processors, load {result['load']:.1f} before it."
    )


def row(verdict: Verdict, names: Sequence[str]) -> list[str]:
    """Return the cells of a line: name, unit, figures, ratio, budget, verdict."""
    values = [number(verdict.values.get(name)) for name in names]
    absolute = verdict.base is None and verdict.ratio is not None
    ratio = "" if absolute else number(verdict.ratio)
    return [verdict.what, verdict.unit, *values, ratio, f"{verdict.budget:g}", word(verdict)]


def word(verdict: Verdict) -> str:
    if verdict.over:
        return "OVER"
    if verdict.ahead:
        return f"behind {', '.join(verdict.ahead)}"
    return "ok" if verdict.ratio is not None else "no base"


def number(value: float | None) -> str:
    """Return three digits, or a dash."""
    if value is None:
        return "–"
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def bars(verdicts: Sequence[Verdict]) -> str:
    """Render the ratios on a logarithmic scale; `|` is the budget, `:` the cost of the base."""
    judged = [each for each in verdicts if each.base is not None and each.ratio]
    width = max((len(each.what) for each in judged), default=0)
    return "\n".join(f"{each.what.ljust(width)}  {_bar(each)} {each.ratio:.3g}" for each in judged)


def _bar(verdict: Verdict) -> str:
    assert verdict.ratio
    length = _place(verdict.ratio)
    cells = ["#" if n < length else " " for n in range(_BAR + 1)]
    cells[_place(1.0)] = ":"
    cells[_place(verdict.budget)] = "|"
    return "".join(cells)


def _place(ratio: float) -> int:
    share = (math.log10(ratio) - _LEAST) / (_MOST - _LEAST)
    return round(_BAR * min(1.0, max(0.0, share)))


def remarks(verdicts: Sequence[Verdict], notes: Mapping[str, Mapping[str, str]]) -> str:
    """List lines over budget or behind a peer, and the reasons for missing figures."""
    lines = [f"{each.what}: {word(each)}" for each in verdicts if each.over or each.ahead]
    lines += [
        f"{name}, {key}: {text}" for name, each in notes.items() for key, text in each.items()
    ]
    return "\n".join(lines)
