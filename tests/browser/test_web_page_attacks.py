"""Whatever frames hold: the page shows it as text, runs none of it and sends nothing elsewhere."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.chrome import Page
from tests.browser.test_attacks import CANARY, CORPUS, Canary
from tests.browser.web_page import QUESTIONS, UNDERWAY, PageServer, page_server, send
from tests.export_page import ATTACKS

_PLACES = "#underway, .side, .dock, .bar"
_FOUND = f"""
(() => {{
    for (const fold of document.querySelectorAll("details")) fold.open = true;
    const parts = [...document.querySelectorAll("{_PLACES}")];
    const all = parts.flatMap((part) => [...part.querySelectorAll("*")]);
    for (const element of all) {{
        for (const kind of ["mouseover", "focus", "toggle"]) element.dispatchEvent(new Event(kind));
    }}
    const names = all.flatMap((one) => [...one.attributes]).map((one) => one.name);
    return {{
        pwned: [window.pwned, {{}}.pwned, document.body.pwned].filter((one) => one !== undefined),
        handlers: names.filter((name) => /^on|^srcdoc$|^ping$/.test(name)),
        foreign: parts.map((part) => part.querySelectorAll(
            "script, style, iframe, object, embed, base, video, audio, img, math, link, meta"
        ).length).reduce((sum, one) => sum + one, 0),
        links: all.filter((one) => one.localName === "a").length,
    }};
}})()
"""


@pytest.fixture(scope="module")
def canary() -> Iterator[Canary]:
    server = Canary()
    yield server
    server.close()


def _texts(canary: Canary) -> list[str]:
    own = [text.replace("127.0.0.1:9", canary.place) for text in ATTACKS]
    return own + [text.replace(CANARY, canary.place) for text in CORPUS.values()]


def _script(evil: str) -> list[dict[str, object]]:
    command = f"cat evil.txt # {evil[:3000]}"
    return [
        {"match": "stay", "content": [{"thinking": evil}, {"text": evil}], "hang": True},
        {
            "match": "act",
            "content": [{"text": evil}, {"tool": "bash", "args": {"command": command}}],
        },
        {"match": "act", "text": evil, "hang": True},
    ]


async def _join(server: PageServer, session: str, name: str) -> None:
    """Attach as a client with this name, and stay."""
    socket = await server.stage.web.ws_connect(
        f"{server.stage.url}/ws", headers=server.stage.bearer
    )
    await socket.send_str(json.dumps({"type": "hello", "client": name[:100], "name": name}))
    await socket.send_str(json.dumps({"type": "attach", "session": session}))


def test_nothing_in_a_frame_runs_or_leaves(page: Page, canary: Canary, tmp_path: Path) -> None:
    texts = _texts(canary)
    evil = "\n\n".join(texts)
    with page_server(tmp_path, _script(evil)) as server:
        (tmp_path / "work" / "evil.txt").write_text(evil, "utf-8", "replace")
        for number, text in enumerate(texts):
            if number % 10 == 0:
                other = server.post(type="open", options={"noSession": True})["session"]
                name = text.replace("\0", "")
                server.post(type="set_session_name", session=other, name=name)
        session = server.new(page)
        for text in texts[::20]:
            server.run(_join(server, session, text))
        send(page, "act")
        page.wait(f"{QUESTIONS} === 1")
        assert page.js(_FOUND) == {"pwned": [], "handlers": [], "foreign": 0, "links": 0}
        page.js("document.querySelector('.question button').click()")
        page.wait("document.querySelector('#underway article')?.textContent.length > 500")
        server.post(type="steer", session=session, message=evil)
        server.post(type="follow_up", session=session, message=texts[0])
        page.wait("document.querySelectorAll('#queue li').length === 2")
        page.wait("document.querySelectorAll('.one').length > 5")
        assert "<script>" in page.js(UNDERWAY)
        assert page.js(_FOUND) == {"pwned": [], "handlers": [], "foreign": 0, "links": 0}
        page.js("document.getElementById('message').focus()")
        page.key("Escape")
        page.wait("document.getElementById('stop').hidden")
        page.wait("document.querySelectorAll('#conversation article').length > 3")
        assert page.js("window.pwned") is None
        assert page.errors() == []
        ours = (server.stage.url, server.stage.url.replace("http", "ws"))
        assert [one for one in page.requests() if not one.startswith(ours)] == []
    assert canary.heard == 0
