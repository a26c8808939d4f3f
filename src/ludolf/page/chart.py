"""Chart of context size and cost over the answers of a branch."""

from collections.abc import Sequence
from math import isfinite

import msgspec

from ludolf.ai.messages import AssistantMessage
from ludolf.page.formatting import dollars, tokens
from ludolf.page.page_model import Story

_WIDTH = 1000
_HEIGHT = 120
_MOST_POINTS = 400


class Point(msgspec.Struct, frozen=True):
    """One answer: the entry, the tokens of its context, the cost of the branch so far."""

    index: int
    context: int
    cost: float


class Chart(msgspec.Struct, frozen=True):
    """Points of the chart; `cuts` are the indexes at which the context was compacted."""

    points: tuple[Point, ...]
    cuts: tuple[int, ...]


def read_chart(story: Story) -> Chart:
    """Return the answers of the active branch, thinned to at most a few hundred."""
    points: list[Point] = []
    cuts: list[int] = []
    cost = 0.0
    for index in story.path:
        item = story.items[index]
        if item.kind == "compaction" and points:
            cuts.append(len(points))
        usage = item.usage
        if usage is None:
            continue
        if isfinite(usage.cost.total):
            cost += max(0.0, usage.cost.total)
        if isinstance(item.message, AssistantMessage) and (context := usage.context) > 0:
            points.append(Point(index, context, cost))
    return _thinned(points, cuts)


def chart_html(chart: Chart) -> str:
    """Render the chart as inline SVG; "" for fewer than two answers."""
    points = chart.points
    if len(points) < 2:
        return ""
    most = max(point.context for point in points)
    dearest = points[-1].cost
    top = [f'<span class="key context">Context, up to {tokens(most)}</span>']
    if dearest > 0:
        top.append(f'<span class="key cost">Cost, {dollars(dearest)}</span>')
    if chart.cuts:
        top.append('<span class="key cut">Compaction</span>')
    title = "Context and cost over the answers of this branch"
    return (
        f'<figure class="chart" id="chart"><figcaption>{"".join(top)}</figcaption>'
        f'<div class="plot"><svg viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none" '
        f'role="img" aria-label="{title}">{_drawing(chart, most, dearest)}</svg></div></figure>'
    )


def chart_data(chart: Chart) -> list[tuple[int, int, float]]:
    return [(point.index, point.context, round(point.cost, 6)) for point in chart.points]


def _drawing(chart: Chart, most: int, dearest: float) -> str:
    context = _line([point.context / most for point in chart.points])
    out = [f'<path class="area" d="M0 {_HEIGHT}L{context}L{_WIDTH} {_HEIGHT}Z"/>']
    out.append(f'<path class="context" d="M{context}"/>')
    if dearest > 0:
        line = _line([point.cost / dearest for point in chart.points])
        out.append(f'<path class="cost" d="M{line}"/>')
    for cut in chart.cuts:
        x = round(_x(cut - 0.5, len(chart.points)), 1)
        out.append(f'<path class="cut" d="M{x} 0V{_HEIGHT}"/>')
    return "".join(out)


def _line(values: Sequence[float]) -> str:
    room = _HEIGHT - 8
    return "L".join(
        f"{_x(index, len(values)):.1f} {_HEIGHT - 2 - value * room:.1f}"
        for index, value in enumerate(values)
    )


def _x(index: float, count: int) -> float:
    return index / (count - 1) * _WIDTH


def _thinned(points: list[Point], cuts: list[int]) -> Chart:
    """Keep the largest context of each stretch of answers, and the cost at its end."""
    step = -(-len(points) // _MOST_POINTS)
    if step <= 1:
        return Chart(points=tuple(points), cuts=tuple(cut for cut in cuts if cut < len(points)))
    kept = []
    for start in range(0, len(points), step):
        stretch = points[start : start + step]
        fullest = max(stretch, key=lambda point: point.context)
        kept.append(Point(fullest.index, fullest.context, stretch[-1].cost))
    places = dict.fromkeys(cut // step for cut in cuts)
    return Chart(points=tuple(kept), cuts=tuple(place for place in places if 0 < place < len(kept)))
