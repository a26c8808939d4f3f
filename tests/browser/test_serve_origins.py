"""Pages of other origins in a real browser cannot use the server, even with its token."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.browser.chrome import Page
from tests.serve.web_stage import WebStage, served

ATTEMPT = """
(async () => {
    const [url, token, session] = %s;
    const outcome = async (work) => { try { return await work(); } catch { return 'failed'; } };
    const headers = {Authorization: `Bearer ${token}`};
    const ping = '{"id":"1","type":"ping"}';
    const read = async (path, more) => {
        const answer = await fetch(url + path, more);
        if (answer.type === 'opaque') return 'opaque';
        return answer.status === 200 ? 'read' : answer.status;
    };
    const socket = () => new Promise((done) => {
        const ws = new WebSocket(url.replace('http', 'ws') + '/ws');
        ws.onopen = () => ws.send(JSON.stringify({type: 'hello', token}));
        ws.onmessage = () => { done('read'); ws.close(); };
        ws.onerror = () => done('failed');
        ws.onclose = () => done('failed');
    });
    const load = (name) => new Promise((done) => {
        const element = document.createElement(name);
        element.onload = () => done('read');
        element.onerror = () => done('failed');
        element.src = url + '/';
        document.body.append(element);
    });
    const source = () => new Promise((done) => {
        const events = new EventSource(`${url}/events?session=${session}`);
        events.onmessage = () => done('read');
        events.onerror = () => { events.close(); done('failed'); };
    });
    return {
        command: await outcome(() => read('/command', {method: 'POST', body: ping, headers})),
        simple: await outcome(() => read('/command', {method: 'POST', body: ping})),
        blind: await outcome(() => read('/command', {method: 'POST', body: ping, mode: 'no-cors'})),
        events: await outcome(() => read(`/events?session=${session}`, {headers})),
        health: await outcome(() => read('/healthz')),
        script: await outcome(() => load('script')),
        socket: await outcome(socket),
        source: await outcome(source),
    };
})()
"""


class _EmptyPage(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>Elsewhere</title><body></body>")

    def log_message(self, format: str, *args: Any) -> None:
        """Tests are silent."""


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[int]:
    """The port of another web server on this machine."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _EmptyPage)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()
    thread.join(30)


@contextmanager
def serving(folder: Path, **chosen: Any) -> Iterator[tuple[WebStage, str]]:
    """A server in a thread, with one session; gives its id."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def run(work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result(60)

    async def start() -> tuple[Any, WebStage, str]:
        context = served(folder, **chosen)
        stage = await context.__aenter__()
        return context, stage, await stage.open()

    context, stage, session = run(start())
    try:
        yield stage, session
    finally:
        run(context.__aexit__(None, None, None))
        loop.call_soon_threadsafe(loop.stop)
        thread.join(30)
        loop.close()


def _attempt(page: Page, stage: WebStage, session: str, url: str | None = None) -> dict[str, Any]:
    given = json.dumps([url or stage.url, stage.token, session])
    outcomes: dict[str, Any] = page.js(ATTEMPT % given)
    return outcomes


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "evil.example"])
def test_a_page_of_another_origin_gets_nothing(
    name: str, page: Page, elsewhere: int, tmp_path: Path
) -> None:
    with serving(tmp_path) as (stage, session):
        before = stage.server.figures.connections
        page.open(f"http://{name}:{elsewhere}/")
        outcomes = _attempt(page, stage, session)
        assert stage.server.figures.connections == before
    assert outcomes.pop("blind") == "opaque"
    if name == "127.0.0.1":
        outcomes.pop("script")  # of the same site: it may load the page, which holds no data
    assert set(outcomes.values()) == {"failed"}, outcomes


def test_a_page_whose_name_is_bound_to_the_server_gets_nothing(page: Page, tmp_path: Path) -> None:
    with serving(tmp_path) as (stage, session):
        before = stage.server.figures.connections
        page.ask("Page.setBypassCSP", enabled=True)
        url = f"http://evil.example:{stage.port}"
        page.open(f"{url}/")
        outcomes = _attempt(page, stage, session, url)
        page.ask("Page.setBypassCSP", enabled=False)
        assert stage.server.figures.connections == before
    assert set(outcomes.values()) == {403, "failed"}, outcomes
    assert outcomes["socket"] == outcomes["source"] == "failed"


def test_a_page_of_the_server_may_use_it(page: Page, tmp_path: Path) -> None:
    with serving(tmp_path) as (stage, session):
        page.ask("Page.setBypassCSP", enabled=True)
        page.open(f"{stage.url}/")
        outcomes = _attempt(page, stage, session)
        page.ask("Page.setBypassCSP", enabled=False)
    read = {name for name, outcome in outcomes.items() if outcome == "read"}
    assert read >= {"command", "events", "health", "socket"}
    assert (outcomes["simple"], outcomes["source"]) == (401, "failed")  # without the token


def test_a_page_of_an_allowed_origin_may_use_it(page: Page, elsewhere: int, tmp_path: Path) -> None:
    origin = f"http://localhost:{elsewhere}"
    with serving(tmp_path, origins=(origin,)) as (stage, session):
        page.open(f"{origin}/")
        outcomes = _attempt(page, stage, session)
    read = {name for name, outcome in outcomes.items() if outcome == "read"}
    assert read >= {"command", "events", "health", "socket"}
    assert (outcomes["simple"], outcomes["source"]) == (401, "failed")
