"""Render new entries for a live page as a small document."""

from collections.abc import Iterator

from ludolf.page.chart import read_chart
from ludolf.page.entries import article
from ludolf.page.incremental import Growth
from ludolf.page.page import roots_nav, tree_data
from ludolf.page.page_model import Item
from ludolf.page.summary import summary_html, title
from ludolf.page.text import content, script_json, visible


def render_news(growth: Growth, after: int, mark: str) -> Iterator[str]:
    """Yield the new and the changed entries for a page that has the first `after` entries."""
    story = growth.story
    new = story.items[after:]
    changed = sorted(
        index for index, when in growth.touched.items() if when > after and index < after
    )
    chart = read_chart(story)
    labels = {str(index): _label(story.items[index]) for index in changed}
    data = {**tree_data(story, new, chart), "from": after, "mark": mark, "changed": labels}
    yield f'<!doctype html><meta charset="utf-8"><title>{content(title(story))}</title>\n'
    yield f'<div id="summary">{summary_html(story, chart)}</div>\n'
    yield f'<div id="roots">{roots_nav(story)}</div>\n'
    for item in (*(story.items[index] for index in changed), *new):
        yield article(story, item)
    yield f'<script type="application/json" id="data">{script_json(data)}</script>\n'


def _label(item: Item) -> str | None:
    return None if item.label is None else visible(item.label)
