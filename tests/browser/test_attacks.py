"""Whatever a session holds: in a real browser no script of it runs and no request leaves.

`attacks.json` holds the texts; each is put at every place where a session can hold text.
"""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.browser.chrome import Page
from tests.browser.view import view
from tests.export_page import ATTACKS, Spec, hostile_lines, page_of

CORPUS: dict[str, str] = json.loads(Path(__file__).with_name("attacks.json").read_text())
CANARY = "CANARY"
_BATCH = 25
# What a page could be lured into by its reader: everything opened, touched and searched.
_PROVOKE = """
(() => {
    for (const fold of document.querySelectorAll("details")) fold.open = true;
    const ways = [...document.querySelectorAll(".fork a[data-go]")];
    for (const way of ways.filter((_, place) => place % 4 === 0)) way.click();
    const kinds = ["mouseover", "mouseenter", "focus", "toggle", "animationstart", "beforetoggle"];
    for (const element of document.querySelectorAll("*")) {
        for (const kind of kinds) element.dispatchEvent(new Event(kind));
    }
    for (const name of ["t", "o", "j", "n", "]", "d", "y"]) {
        document.body.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true }));
    }
    return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
})()
"""
_ALL = """
const inside = [...document.querySelectorAll("template")].map((one) => one.content);
const all = (what) => [document, ...inside].flatMap((one) => [...one.querySelectorAll(what)]);
"""
_COUNT = f"(() => {{ {_ALL} return all('article').length; }})()"
_STATE = f"""
(() => {{
    {_ALL}
    const told = all("article, article *, .summary *, .side *");
    const names = told.flatMap((one) => [...one.attributes]).map((one) => one.name);
    const away = all("a").map((one) => one.getAttribute("href"));
    const images = all("img").map((one) => one.getAttribute("src"));
    const traces = [window.pwned, {{}}.pwned, document.body.pwned];
    return {{
        pwned: traces.filter((value) => value !== undefined),
        handlers: names.filter((name) => /^on|^srcdoc$|^ping$/.test(name)),
        styles: all("article [style], .summary > [style]").length,
        links: away.filter((one) => !/^(#|https?:\\/\\/[^/]|mailto:)/i.test(one)),
        foreign: all("iframe, object, embed, form, base, video, audio, source, portal").length,
        images: images.filter((one) => !one.startsWith("data:image/")),
        scripts: all("script").length,
        bar: document.elementFromPoint(innerWidth / 2, 10)?.closest("#bar") !== null,
    }};
}})()
"""


class Canary:
    """A server that nobody has a reason to talk to."""

    def __init__(self) -> None:
        self.heard = 0
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.place = f"127.0.0.1:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self.heard += 1
            connection.close()

    def close(self) -> None:
        self._socket.close()


@pytest.fixture(scope="module")
def canary() -> Iterator[Canary]:
    server = Canary()
    yield server
    server.close()


@contextmanager
def _quiet(page: Page, canary: Canary) -> Iterator[None]:
    yield
    assert page.errors() == []
    assert canary.heard == 0


def _texts(canary: Canary) -> list[str]:
    own = [text.replace("127.0.0.1:9", canary.place) for text in ATTACKS]
    return own + [text.replace(CANARY, canary.place) for text in CORPUS.values()]


def _all_lines(texts: list[str]) -> list[dict[str, Any]]:
    """One session with all of them: each a branch of its own below one beginning."""
    lines: list[dict[str, Any]] = []
    for number, evil in enumerate(texts):
        first, *rest = hostile_lines(evil)
        if not lines:
            lines.append(first)
        lines += ({**line, **_renamed(line, number)} for line in rest)
    return lines


def _renamed(line: dict[str, Any], number: int) -> dict[str, Any]:
    parent = line["parentId"]
    return {
        "id": f"{line['id']}{number}",
        "parentId": f"{parent}{number}" if parent is not None else None,
    }


def _check(page: Page, scripts: int) -> None:
    page.js(_PROVOKE)
    assert page.js(_STATE) == {
        "pwned": [],
        "handlers": [],
        "styles": 0,
        "links": [],
        "foreign": 0,
        "images": [],
        "scripts": scripts,
        "bar": True,
    }


@pytest.mark.parametrize("start", range(0, len(ATTACKS) + len(CORPUS), _BATCH))
def test_nothing_runs_and_nothing_leaves(
    page: Page, canary: Canary, tmp_path: Path, start: int
) -> None:
    texts = _texts(canary)[start : start + _BATCH]
    lines = _all_lines(texts)
    page_of(tmp_path, *lines, system_prompt=texts[0], tools=[Spec(one) for one in texts])
    url = (tmp_path / "page.html").as_uri()
    with _quiet(page, canary):
        page.open(url)
        assert page.js(_COUNT) == len(lines) - 1
        _check(page, scripts=4)
        assert page.requests() == [url]


def test_nothing_runs_in_what_a_live_page_takes_in(
    page: Page, canary: Canary, tmp_path: Path
) -> None:
    lines = _all_lines(_texts(canary)[::5])
    half = len(lines) // 2
    source = tmp_path / "session.jsonl"
    source.write_text("".join(json.dumps(line) + "\n" for line in lines[:half]))
    with view(source, tmp_path) as url, _quiet(page, canary):
        page.open(url)
        page.wait("document.querySelector('#live[data-state=live]') !== null")
        with source.open("a") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines[half:])
        whole = f"of {len(lines) - 1:,}"
        page.wait(f"document.getElementById('count').textContent.endsWith('{whole}')")
        _check(page, scripts=4)
        assert [one for one in page.requests() if not one.startswith(url)] == []


def test_the_trap_catches_what_is_let_through(page: Page, tmp_path: Path) -> None:
    """So that the silence of the others means something."""
    alarm = Canary()
    evil = f"<script>window.pwned=1</script><img src=http://{alarm.place}/x onerror=pwned=2>"
    place = tmp_path / "page.html"
    place.write_text(f"<!doctype html><div id=bar></div><article>{evil}</article>")
    page.open(place.as_uri())
    page.until(lambda: alarm.heard > 0, "the request")
    state = page.js(_STATE)
    assert (state["pwned"], state["handlers"], len(state["images"])) == ([2], ["onerror"], 1)
    assert len(page.requests()) == 2
    alarm.close()
