"""A plot of one run as SVG: the cost of each program relative to Ludolf, in a panel per line."""

import math
from collections.abc import Sequence
from html import escape

from bench import report
from bench.programs import OURS, Program
from bench.verdicts import Verdict

# The lines of the plot; a panel without figures of others is left out.
PLOTTED = (
    *("start", "ready", "delta", "first", "lean.5k", "lean.20k"),
    *("paced", "loop", "rss.idle", "rss.after", "eight.pss", "overhead"),
)
_COLUMNS = 3
_WIDTH, _GAP, _MARGIN = 320, 28, 20
_TITLE, _STEP, _BAR = 46, 16, 10
_NAMES, _NUMBERS = 92, 48
_HEAD = 58
_STYLE = """
svg { font-family: system-ui, sans-serif; font-size: 12px; }
.back { fill: #ffffff; } .text { fill: #1f2328; } .soft { fill: #59636e; }
.one { stroke: #59636e; } .more { fill: #8c959f; } .less { fill: #bc4c00; }
.title { font-weight: 600; } .number { font-variant-numeric: tabular-nums; }
@media (prefers-color-scheme: dark) {
  .back { fill: #0d1117; } .text { fill: #e6edf3; } .soft { fill: #9198a1; }
  .one { stroke: #9198a1; } .more { fill: #6e7681; } .less { fill: #f0883e; }
}
"""


def drawing(judged: Sequence[Verdict], programs: Sequence[Program], about: str) -> str:
    """Return the plot; `about` describes the run."""
    by_key = {each.key: each for each in judged}
    panels = [by_key[key] for key in PLOTTED if key in by_key and len(by_key[key].values) > 1]
    names = {each.name: f"{each.kind} {each.version}" for each in programs if each.name != OURS}
    names = {key: text for key, text in names.items() if any(key in p.values for p in panels)}
    scale = _Scale(panels)
    tall = _TITLE + _STEP * len(names) + _GAP
    rows = math.ceil(len(panels) / _COLUMNS)
    wide = 2 * _MARGIN + _COLUMNS * _WIDTH + (_COLUMNS - 1) * _GAP
    high = _HEAD + rows * tall
    drawn = [
        _panel(panel, names, scale, _place(number, tall)) for number, panel in enumerate(panels)
    ]
    title = "Cost relative to Ludolf"
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" '
            f'width="{wide}" height="{high}" role="img" aria-label="{title}">',
            f"<title>{title}</title><style>{_STYLE}</style>",
            f'<rect class="back" width="{wide}" height="{high}"/>',
            f'<text class="text title" x="{_MARGIN}" y="26" font-size="15">{title}</text>',
            f'<text class="soft" x="{_MARGIN}" y="44">'
            "The vertical line is Ludolf. Bars to the right cost more, bars to the left less; the "
            f"scale is logarithmic. {escape(about)}</text>",
            *drawn,
            "</svg>\n",
        )
    )


class _Scale:
    """From a ratio to a place: logarithmic, the same in all panels."""

    def __init__(self, panels: Sequence[Verdict]) -> None:
        powers = [
            math.log10(value / panel.values[OURS])
            for panel in panels
            for value in panel.values.values()
            if value > 0
        ]
        self._least = min(-0.1, *powers) if powers else -0.1
        self._most = max(0.1, *powers) if powers else 0.1

    def x(self, ratio: float) -> float:
        # Numbers stand beyond the ends of bars, to the left only where a bar points there.
        room = _NUMBERS if self._least < -0.1 else 0
        width = _WIDTH - _NAMES - _NUMBERS - room
        share = (math.log10(ratio) - self._least) / (self._most - self._least)
        return _NAMES + room + width * share


def _place(number: int, tall: int) -> tuple[int, int]:
    row, column = divmod(number, _COLUMNS)
    return _MARGIN + column * (_WIDTH + _GAP), _HEAD + row * tall


def _panel(panel: Verdict, names: dict[str, str], scale: _Scale, at: tuple[int, int]) -> str:
    mine, one = panel.values[OURS], scale.x(1)
    what = escape(panel.what.replace("`", "").removesuffix(" (pi-delta)"))
    end = _TITLE - 8 + _STEP * len(names)
    parts = [
        f'<g transform="translate({at[0]} {at[1]})">',
        f'<text class="text title" y="14">{what}</text>',
        f'<text class="soft" y="30">Ludolf: {report.number(mine)} {escape(panel.unit)}</text>',
        *(
            _bar(name, panel.values.get(key), mine, scale, _TITLE - 8 + _STEP * number)
            for number, (key, name) in enumerate(names.items())
        ),
        f'<line class="one" x1="{one:.1f}" x2="{one:.1f}" y1="{_TITLE - 10}" y2="{end}"/>',
        "</g>",
    ]
    return "\n".join(parts)


def _bar(name: str, value: float | None, mine: float, scale: _Scale, top: int) -> str:
    base = top + _BAR
    label = f'<text class="soft" x="0" y="{base}">{escape(name)}</text>'
    if not value:
        return f'{label}<text class="soft" x="{scale.x(1) + 6:.1f}" y="{base}">–</text>'
    ratio = value / mine
    one, end = scale.x(1), scale.x(ratio)
    kind, anchor, text = ("more", "start", end + 5) if ratio >= 1 else ("less", "end", end - 5)
    return (
        f'{label}<rect class="{kind}" x="{min(one, end):.1f}" y="{top}" '
        f'width="{abs(end - one):.1f}" height="{_BAR}"/>'
        f'<text class="text number" x="{text:.1f}" y="{base}" text-anchor="{anchor}">'
        f"{_times(ratio)}</text>"
    )


def _times(ratio: float) -> str:
    return f"{ratio:.0f}×" if ratio >= 10 else f"{ratio:.2g}×"
