"""The page put together from its template: one file, nothing loaded, nothing run but our script."""

import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path

import msgspec

from ludolf.base import dumps
from ludolf.session.entries import entry_json, time_ms
from ludolf.session.export.articles import article, fork_nav, guess_size, snippet
from ludolf.session.export.chart import Chart, chart_data, read_chart
from ludolf.session.export.story import Story, letter
from ludolf.session.export.summary import ToolSpecLike, prompt_html, summary_html, title
from ludolf.session.export.text import attribute, content, script_json

_ASSETS = Path(__file__).with_name("assets")
_STYLES = ("frame.css", "content.css")
_SCRIPTS = ("story.js", "tree.js", "find.js", "page.js")
_GROUP = 40
_SLOT = re.compile(r"\{\{(\w+)\}\}")


class Parts(msgspec.Struct, frozen=True):
    """The unchanging parts of the page; the same text is hashed for the policy."""

    frame: str
    style: str
    boot: str
    script: str


def render_page(
    story: Story, *, system_prompt: str | None = None, tools: Sequence[ToolSpecLike] = ()
) -> Iterator[str]:
    """The page in pieces, so that a long session is never in memory as one text."""
    parts = _parts()
    chart = read_chart(story)
    slots: dict[str, Iterable[str]] = {
        "policy": (attribute(_policy(parts)),),
        "title": (content(title(story)),),
        "style": (parts.style,),
        "boot": (parts.boot,),
        "summary": (summary_html(story, chart),),
        "prompt": (prompt_html(system_prompt, tools),),
        "outline": _outline(story),
        "roots": (fork_nav(story, story.roots) if len(story.roots) > 1 else "",),
        "conversation": _conversation(story),
        "branches": _branches(story),
        "data": (script_json(_tree_data(story, chart)),),
        "lines": _packed_lines(story),
        "script": (parts.script,),
    }
    # The template is cut up once; what fills a slot is never looked at again.
    for number, piece in enumerate(_SLOT.split(parts.frame)):
        if number % 2:
            yield from slots[piece]
        else:
            yield piece


@cache
def _parts() -> Parts:
    script = "\n".join(_asset(name) for name in _SCRIPTS)
    return Parts(
        frame=_asset("page.html"),
        style="".join(map(_asset, _STYLES)),
        boot=_asset("boot.js"),
        script=f'(() => {{\n"use strict";\n{script}}})();\n',
    )


def _asset(name: str) -> str:
    return (_ASSETS / name).read_text("utf-8")


def _policy(parts: Parts) -> str:
    return "; ".join(
        (
            "default-src 'none'",
            "img-src data:",
            f"style-src '{_digest(parts.style)}'",
            f"script-src '{_digest(parts.boot)}' '{_digest(parts.script)}'",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    )


def _digest(text: str) -> str:
    return "sha256-" + b64encode(sha256(text.encode()).digest()).decode()


def _outline(story: Story) -> Iterator[str]:
    """The prompts of the active branch, for a page whose script does not run."""
    for index in story.path:
        item = story.items[index]
        if item.kind == "user":
            text = content(snippet(story, item, 70))
            yield f'<li><a href="#entry-{attribute(item.id)}">{text}</a></li>\n'


def _conversation(story: Story) -> Iterator[str]:
    """The active branch in groups, since a browser passes over a group faster than its entries."""
    for start in range(0, len(story.path), _GROUP):
        group = [story.items[index] for index in story.path[start : start + _GROUP]]
        height = sum(30 * 2 ** guess_size(item) for item in group)
        size = min(8, max(1, (height // 1000).bit_length()))
        yield f'<div class="group g{size}">\n'
        for item in group:
            yield article(story, item)
        yield "</div>\n"


def _branches(story: Story) -> Iterator[str]:
    """The other branches: parsed by the browser but not shown until the script asks for them."""
    active = set(story.path)
    for item in story.items:
        if item.index not in active:
            yield f'<template id="t-{item.index}">{article(story, item)}</template>\n'


def _tree_data(story: Story, chart: Chart) -> dict[str, object]:
    items = story.items
    return {
        "ids": [item.id for item in items],
        "parents": [item.parent for item in items],
        "kinds": "".join(map(letter, items)),
        "texts": [snippet(story, item) for item in items],
        "labels": {str(item.index): item.label for item in items if item.label},
        "times": [time_ms(item.entry.timestamp) for item in items],
        "leaf": story.path[-1] if story.path else -1,
        "chart": chart_data(chart),
        "name": re.sub(r"[^\w.-]", "_", story.header.id)[:80],
    }


def _packed_lines(story: Story) -> Iterator[str]:
    """The session file itself, compressed, for the button that saves it."""
    import zlib

    packer = zlib.compressobj(6, zlib.DEFLATED, 31)
    waiting = packer.compress(dumps(story.header) + b"\n")
    for item in story.items:
        waiting += packer.compress(entry_json(item.entry) + b"\n")
        whole = len(waiting) - len(waiting) % 3
        if whole > 1 << 16:
            yield b64encode(waiting[:whole]).decode()
            waiting = waiting[whole:]
    yield b64encode(waiting + packer.flush()).decode()
