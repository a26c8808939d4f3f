"""Assemble the page from its template: one file that loads nothing and runs only our script."""

import re
import sys
from binascii import b2a_base64
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import count
from pathlib import Path

import msgspec

from ludolf.page.chart import Chart, chart_data, read_chart
from ludolf.page.entries import article, fork_nav, snippet
from ludolf.page.page_model import Growth, Item, Story, letter
from ludolf.page.summary import ToolSpecLike, prompt_html, summary_html, title
from ludolf.page.text import attribute, content, script_json, visible

_ASSETS = Path(__file__).with_name("assets")
_STYLES = ("frame.css", "content.css")
_CODE_SCRIPTS = ("languages.js", "tokens.js", "colour.js")
_SCRIPTS = ("story.js", *_CODE_SCRIPTS, "tree.js", "find.js", "page.js")
_LIVE_STYLES = (*_STYLES, "live.css")
_LIVE_SCRIPTS = (*_SCRIPTS, "news.js", "live.js")
_COLOPHON = "Exported by Ludolf. This page loads nothing and sends nothing."
_LIVE_COLOPHON = "Live view by Ludolf. This page connects only to the program that serves it."
_LIVE_BUTTON = (
    '<button class="live" id="live" type="button" title="Go to the newest entry (G)">'
    '<i aria-hidden="true"></i><span role="status">Connecting</span></button>'
)
_LIVE_TAIL = '<p class="tail" id="tail"><i aria-hidden="true"></i><span></span></p>'
_GROUP = 40
# Pieces of the document: search, filter of the tree, keys.
_SHARED = ("find", "filter", "keys")
_SLOT = re.compile(r"\{\{(\w+)\}\}")


class Parts(msgspec.Struct, frozen=True):
    """The constant parts of the page; the same text is hashed for the policy."""

    frame: str
    style: str
    boot: str
    script: str


# Called with the number of written entries and the number of all entries.
OnProgress = Callable[[int, int], None]


def render_page(
    story: Story,
    *,
    system_prompt: str | None = None,
    tools: Sequence[ToolSpecLike] = (),
    mark: str | None = None,
    lines: Iterable[str] = (),
    on_progress: OnProgress | None = None,
) -> Iterator[str]:
    """Yield the page in pieces, so that a long session is never in memory as one text.

    With a mark it is a live page, which requests the entries after the mark from its server.
    `lines` is the session file, which a reader of the page can save: compressed, as Base64.
    """
    live = mark is not None
    parts = _parts(live)
    chart = read_chart(story)
    write = _writer(story, on_progress)
    slots: dict[str, Iterable[str]] = {
        "policy": (attribute(page_policy(live=live)),),
        "title": (content(title(story)),),
        "style": (parts.style,),
        "boot": (parts.boot,),
        "live": (_LIVE_BUTTON if live else "",),
        "summary": (summary_html(story, chart),),
        "prompt": (prompt_html(system_prompt, tools),),
        "outline": _outline(story),
        "roots": (roots_nav(story),),
        "conversation": _conversation(story, write),
        "tail": (_LIVE_TAIL if live else "",),
        "colophon": (_LIVE_COLOPHON if live else _COLOPHON,),
        "branches": _branches(story, write),
        "data": _data(story, chart, mark),
        "lines": lines,
        "script": (parts.script,),
    }
    yield from filled_frame(parts.frame, slots)


def filled_frame(frame: str, slots: Mapping[str, Iterable[str]]) -> Iterator[str]:
    """Yield a document with its slots filled; pieces that all pages share need no slot.

    The frame is split once, so that slots in inserted text are never expanded.
    """
    for number, piece in enumerate(_SLOT.split(frame)):
        if number % 2 == 0:
            yield piece
        elif piece in _SHARED:
            yield _shared_piece(piece)
        else:
            yield from slots[piece]


def _writer(story: Story, on_progress: OnProgress | None) -> Callable[[Item], str]:
    """Return a function that renders an entry and reports the number of entries so far."""
    numbers, whole = count(1), len(story.items)

    def write(item: Item) -> str:
        if on_progress is not None:
            on_progress(next(numbers), whole)
        html = article(story, item)
        # Here, while the message is in the cache of the processor.
        item.line = visible(snippet(story, item))
        return html

    return write


@cache
def page_policy(*, live: bool = False) -> str:
    """Return the content security policy of the page, which allows its own style and script.

    A live page may connect to the server that it came from, and to no other.
    """
    parts = _parts(live)
    return "; ".join(
        (
            "default-src 'none'",
            "img-src data:",
            f"style-src '{source_digest(parts.style)}'",
            f"script-src '{source_digest(parts.boot)}' '{source_digest(parts.script)}'",
            *(("connect-src 'self'",) if live else ()),
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    )


def story_style() -> str:
    """Return the style of a page that shows a session which grows."""
    return "".join(map(_asset, _LIVE_STYLES))


def story_script() -> str:
    """Return the script of such a page, without the part that connects it to a server."""
    return "\n".join(map(_asset, ("boot.js", *_SCRIPTS, "news.js")))


def empty_story_data() -> str:
    """Return the data for that script while the page shows no entry."""
    empty: dict[str, object] = {name: [] for name in ("ids", "parents", "texts", "times", "chart")}
    return script_json({**empty, "kinds": "", "labels": {}, "leaf": -1, "name": "", "mark": "-0"})


def roots_nav(story: Story) -> str:
    """Render links to the roots of the tree; "" if there is only one."""
    roots = story.roots
    return fork_nav(story, roots) if len(roots) > 1 else ""


@cache
def _parts(live: bool = False) -> Parts:
    script = "\n".join(_asset(name) for name in (_LIVE_SCRIPTS if live else _SCRIPTS))
    return Parts(
        frame=_asset("page.html"),
        style="".join(map(_asset, _LIVE_STYLES if live else _STYLES)),
        boot=_asset("boot.js"),
        script=f'(() => {{\n"use strict";\n{script}}})();\n',
    )


@cache
def _shared_piece(name: str) -> str:
    return _asset(f"{name}.html")


def _asset(name: str) -> str:
    return (_ASSETS / name).read_text("utf-8")


def source_digest(text: str) -> str:
    """Return the source of a policy that allows exactly this style or script."""
    return "sha256-" + b2a_base64(_sha256(text.encode()), newline=False).decode()


def _sha256(data: bytes) -> bytes:
    """Return a digest without `hashlib`, which loads OpenSSL in several milliseconds."""
    try:
        if sys.version_info >= (3, 12):
            from _sha2 import sha256
        else:
            from _sha256 import sha256  # type: ignore[import-not-found]
    except ImportError:
        from hashlib import sha256
    digest: bytes = sha256(data).digest()
    return digest


def _outline(story: Story) -> Iterator[str]:
    """Yield the prompts of the active branch, for a page whose script does not run."""
    for index in story.path:
        item = story.items[index]
        if item.kind == "user":
            text = content(snippet(story, item, 70))
            yield f'<li><a href="#entry-{item.anchor}">{text}</a></li>\n'


def _conversation(story: Story, write: Callable[[Item], str]) -> Iterator[str]:
    """Yield the active branch in groups, which a browser skips faster than single entries."""
    for start in range(0, len(story.path), _GROUP):
        group = [story.items[index] for index in story.path[start : start + _GROUP]]
        height = sum([30 << item.size for item in group])
        size = min(8, max(1, (height // 1000).bit_length()))
        yield f'<div class="group g{size}">\n'
        yield from map(write, group)
        yield "</div>\n"


def _branches(story: Story, write: Callable[[Item], str]) -> Iterator[str]:
    """Yield the other branches as templates, which the script shows on demand."""
    for item in story.items:
        if item.index not in story.active:
            yield f'<template id="t-{item.index}">{write(item)}</template>\n'


def _data(story: Story, chart: Chart, mark: str | None) -> Iterator[str]:
    yield script_json({**tree_data(story, story.items, chart), "mark": mark})


def tree_data(story: Story, items: Sequence[Item], chart: Chart) -> dict[str, object]:
    """Return the data of the page's script about these entries and the session."""
    return {
        "ids": [item.entry.id for item in items],
        "parents": [item.parent for item in items],
        "kinds": "".join(map(letter, items)),
        "texts": [item.line or visible(snippet(story, item)) for item in items],
        "labels": {str(item.index): visible(item.label) for item in items if item.label},
        "times": [item.moment for item in items],
        "leaf": story.path[-1] if story.path else -1,
        "chart": chart_data(chart),
        "name": re.sub(r"[^\w.-]", "_", story.header.id)[:80],
    }


def render_news(growth: Growth, after: int, mark: str) -> Iterator[str]:
    """Yield the new and the changed entries for a page that has the first `after` entries."""
    story = growth.story
    new = story.items[after:]
    changed = sorted(
        index for index, when in growth.touched.items() if when > after and index < after
    )
    chart = read_chart(story)
    labels = {
        str(index): visible(label) if (label := story.items[index].label) else None
        for index in changed
    }
    data = {**tree_data(story, new, chart), "from": after, "mark": mark, "changed": labels}
    yield f'<!doctype html><meta charset="utf-8"><title>{content(title(story))}</title>\n'
    yield f'<div id="summary">{summary_html(story, chart)}</div>\n'
    yield f'<div id="roots">{roots_nav(story)}</div>\n'
    for item in (*(story.items[index] for index in changed), *new):
        yield article(story, item)
    yield f'<script type="application/json" id="data">{script_json(data)}</script>\n'
