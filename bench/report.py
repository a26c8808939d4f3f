"""Render the results of a run: table, bars, chart and remarks."""

import math
from collections.abc import Mapping, Sequence

from bench.verdicts import Verdict

_BAR = 40
# Range of the bars: from a thousandth of the base's cost to ten times it.
_LEAST, _MOST = -3.0, 1.0


def table(verdicts: Sequence[Verdict], names: Sequence[str], *, markdown: bool = False) -> str:
    heads = ["line", "unit", *names, "ratio", "budget", ""]
    rows = [_row(each, names) for each in verdicts]
    if markdown:
        lines = [heads, ["---"] * len(heads), *rows]
        return "\n".join("| " + " | ".join(row) + " |" for row in lines)
    widths = [max(len(row[n]) for row in (heads, *rows)) for n in range(len(heads))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if n < 2 else cell.rjust(width)
            for n, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in (heads, *rows)
    )


def _row(verdict: Verdict, names: Sequence[str]) -> list[str]:
    values = [_number(verdict.values.get(name)) for name in names]
    absolute = verdict.base is None and verdict.ratio is not None
    ratio = "" if absolute else _number(verdict.ratio)
    return [verdict.what, verdict.unit, *values, ratio, f"{verdict.budget:g}", word(verdict)]


def word(verdict: Verdict) -> str:
    if verdict.over:
        return "OVER"
    if verdict.ahead:
        return f"behind {', '.join(verdict.ahead)}"
    return "ok" if verdict.ratio is not None else "no base"


def _number(value: float | None) -> str:
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


def drawing(verdicts: Sequence[Verdict]) -> str:
    """Render the ratios as an SVG chart."""
    judged = [each for each in verdicts if each.base is not None and each.ratio]
    left, scale, step = 330, 110, 16
    wide, high = left + int(scale * (_MOST - _LEAST)) + 70, step * len(judged) + 40

    def x(ratio: float) -> float:
        return left + scale * (min(_MOST, max(_LEAST, math.log10(ratio))) - _LEAST)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" '
        'font-family="sans-serif" font-size="11" fill="#333">',
        f'<rect width="{wide}" height="{high}" fill="#fff"/>',
    ]
    for power in range(int(_LEAST), int(_MOST) + 1):
        at = x(10.0**power)
        parts.append(f'<line x1="{at}" x2="{at}" y1="20" y2="{high - 14}" stroke="#ccc"/>')
        parts.append(f'<text x="{at}" y="14" text-anchor="middle">{10.0**power:g}</text>')
    for place, each in enumerate(judged):
        assert each.ratio
        parts.append(
            _drawn(each, each.ratio, 24 + step * place, (left, x(each.ratio), x(each.budget)))
        )
    return "\n".join([*parts, "</svg>", ""])


def _drawn(verdict: Verdict, ratio: float, top: int, at: tuple[float, float, float]) -> str:
    left, end, budget = at
    colour = "#c33" if verdict.over else "#2a7"
    what = verdict.what.replace("`", "").replace("&", "&amp;").replace("<", "&lt;")
    return (
        f'<text x="{left - 8}" y="{top + 10}" text-anchor="end">{what}</text>'
        f'<rect x="{left}" y="{top + 1}" width="{end - left:.1f}" height="11" fill="{colour}"/>'
        f'<line x1="{budget:.1f}" x2="{budget:.1f}" y1="{top}" y2="{top + 13}" '
        'stroke="#000" stroke-width="2"/>'
        f'<text x="{max(end, budget) + 5:.1f}" y="{top + 10}">{ratio:.3g}</text>'
    )


def remarks(verdicts: Sequence[Verdict], notes: Mapping[str, Mapping[str, str]]) -> str:
    """List lines over budget or behind a peer, and the reasons for missing figures."""
    lines = [f"{each.what}: {word(each)}" for each in verdicts if each.over or each.ahead]
    lines += [
        f"{name}, {key}: {text}" for name, each in notes.items() for key, text in each.items()
    ]
    return "\n".join(lines)
