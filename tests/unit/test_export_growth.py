"""A story that grows entry by entry is the story that is read at once, and its news are enough."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from ludolf.page.page import _parts, page_policy, render_news, render_page
from ludolf.page.page_model import Growth, story_of
from ludolf.session.tree import Session
from tests.export_page import (
    Reader,
    answer,
    call,
    entry,
    hostile_lines,
    message,
    result,
    session_of,
    text,
)

LINES = (
    message("u1", None, "user", content="Begin"),
    answer("a1", "u1", text("Now"), call("bash", "c1", command="x"), call("bash", "c2")),
    result("r1", "a1", "one", call_id="c1"),
    result("r2", "r1", "two", call_id="c2"),
    entry("l1", "r2", "label", targetId="u1", label="first"),
    answer("a2", "l1", text("Done")),
    message("u2", "r2", "user", content="Another way"),
    entry("l2", "u2", "label", targetId="u1"),
    entry("n1", "l2", "session_info", name="Named"),
    message("u9", None, "user", content="Another root"),
)


def _grown(session: Session) -> Growth:
    growth = Growth(session.header)
    for one in session.entries():
        growth.add((one,))
    return growth


@pytest.mark.parametrize("lines", [LINES, hostile_lines("<b>x</b>")], ids=["plain", "hostile"])
def test_a_page_of_a_grown_story_is_that_of_a_read_one(
    tmp_path: Path, lines: tuple[dict[str, Any], ...]
) -> None:
    session = session_of(tmp_path, *lines)
    grown = "".join(render_page(_grown(session).story))
    assert grown == "".join(render_page(story_of(session.header, session.entries(), session.leaf)))


def test_a_parent_may_follow_its_child(tmp_path: Path) -> None:
    session = session_of(
        tmp_path, message("u1", None, "user", content="x"), answer("a1", "u1", text("y"))
    )
    child, parent = reversed(session.entries())
    growth = Growth(session.header)
    growth.add((child,))
    assert not growth.relinked
    growth.add((parent,))
    assert growth.relinked
    assert [item.parent for item in growth.story.items] == [1, -1]
    growth.lead_to("a1")
    assert growth.story.path == [1, 0]


def _news(growth: Growth, after: int) -> tuple[list[str], dict[str, Any]]:
    page = "".join(render_news(growth, after, "r-9"))
    articles = re.findall(r'<article [^>]*id="entry-(\w+)"', page)
    data: dict[str, Any] = json.loads(Reader(page).scripts[0])
    return articles, data


def test_news_hold_what_is_new_and_what_it_changed(tmp_path: Path) -> None:
    session = session_of(tmp_path, *LINES)
    growth = Growth(session.header)
    entries = session.entries()
    growth.add(entries[:2])
    growth.add(entries[2:3])
    assert _news(growth, 2)[0] == ["a1", "r1"]  # a1 no longer shows the call as pending
    growth.add(entries[3:6])
    articles, data = _news(growth, 4)
    assert articles == ["u1", "l1", "a2"]
    assert (data["from"], data["ids"], data["parents"]) == (4, ["l1", "a2"], [3, 4])
    assert data["changed"] == {"0": "first"}
    growth.add(entries[6:])
    articles, data = _news(growth, 6)
    assert articles == ["u1", "r2", "u2", "l2", "n1", "u9"]  # r2 is a fork now
    assert data["changed"] == {"0": None, "3": None}
    assert (data["leaf"], data["mark"]) == (9, "r-9")


def test_who_knows_everything_gets_nothing_but_the_head(tmp_path: Path) -> None:
    growth = _grown(session_of(tmp_path, *LINES))
    articles, data = _news(growth, len(LINES))
    assert (articles, data["ids"], data["changed"]) == ([], [], {})


def test_news_of_a_hostile_session_are_inert(tmp_path: Path) -> None:
    evil = "</script></template><img src=x onerror=window.pwned=1>"
    session = session_of(tmp_path, *hostile_lines(evil))
    reader = Reader("".join(render_news(_grown(session), 0, "r-1")))
    assert reader.wrong == []
    assert len(reader.having("article")) == len(hostile_lines(evil)) - 1


def test_a_live_page_may_talk_to_its_server_and_that_is_all() -> None:
    plain, live = page_policy().split("; "), page_policy(live=True).split("; ")
    added = [rule for rule in live if rule not in plain]
    assert added[2:] == ["connect-src 'self'"]
    assert [rule.split()[0] for rule in added[:2]] == ["style-src", "script-src"]
    script = _parts(live=True).script
    assert re.findall(r"innerHTML|outerHTML|insertAdjacent|DOMParser|\beval\(", script) == []
    assert re.findall(r"https?:|WebSocket|sendBeacon|fetch\(|import\(", script) == []
