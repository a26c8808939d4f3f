"""The live view in a real browser: it follows, it reconnects, it leaves readers where they are."""

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ludolf.page.live.server import LiveServer, SessionRoutes
from ludolf.page.live.watch import Watch
from tests.browser.chrome import Page
from tests.browser.view import view
from tests.export_page import answer, call, entry, header, message, no_warning, result, text

STATE = "document.getElementById('live').dataset.state"
SAID = "document.getElementById('live').innerText"
TAIL = "document.getElementById('tail').innerText"
IDS = "[...document.querySelectorAll('#conversation article')].map((one) => one.id.slice(6))"
AT_END = "innerHeight + scrollY >= document.documentElement.scrollHeight - 2"
LONG = text("A long answer.\n\n" * 40)


class Growing:
    """A session file that somebody writes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.write_text(json.dumps(header()) + "\n")

    def add(self, *lines: dict[str, Any]) -> None:
        with self.path.open("a") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)


@pytest.fixture
def growing(tmp_path: Path) -> Growing:
    file = Growing(tmp_path / "session.jsonl")
    file.add(message("u1", None, "user", content="Begin"), answer("a1", "u1", text("Begun")))
    return file


@pytest.fixture
def live(page: Page, growing: Growing, tmp_path: Path) -> Iterator[Page]:
    """A page that follows the file."""
    with view(growing.path, tmp_path) as url:
        page.open(url)
        page.wait(f"{STATE} === 'live'")
        yield page
        assert page.errors() == []
        assert [one for one in page.requests() if not one.startswith(url)] == []


def test_what_is_written_appears_without_being_asked_for(live: Page, growing: Growing) -> None:
    assert live.js(IDS) == ["u1", "a1"]
    growing.add(message("u2", "a1", "user", content="Go **on**"))
    live.wait(f"{IDS}.length === 3")
    assert live.js("document.querySelector('#entry-u2 strong').textContent") == "on"
    growing.add(answer("a2", "u2", text("Gone on")))
    live.wait(f"{IDS}.length === 4")
    assert live.js("document.querySelector('.figures li:first-child').textContent").startswith("2")
    assert live.js("document.getElementById('count').textContent") == "4 of 4"


def test_a_tool_runs_until_its_result_comes(live: Page, growing: Growing) -> None:
    stamp = live.js("new Date().toISOString()")
    asked = answer("a2", "a1", text("Now"), call("bash", "c1", command="make"))
    growing.add({**asked, "timestamp": stamp})
    live.wait("document.querySelector('#entry-a2 .call.running') !== null")
    assert "running" in live.js("document.querySelector('#entry-a2 .call').textContent")
    live.wait(f"{TAIL}.startsWith('Running a command')")
    growing.add({**result("r1", "a2", "made"), "timestamp": stamp})
    live.wait("document.querySelector('#entry-r1 .call.done') !== null")
    assert live.js("document.querySelector('#entry-a2 .call')") is None
    live.wait(f"{TAIL}.startsWith('Waiting for the model')")


def test_another_branch_takes_the_place_of_the_shown_one(live: Page, growing: Growing) -> None:
    growing.add(message("u2", "a1", "user", content="This way"))
    live.wait(f"{IDS}.includes('u2')")
    growing.add(message("u3", "a1", "user", content="That way"))
    live.wait(f"{IDS}.includes('u3')")
    assert live.js(IDS) == ["u1", "a1", "u3"]
    assert live.js("document.querySelector('#entry-a1 .fork').textContent").count("way") == 2
    live.js("document.querySelector('.fork a:not([aria-current])').click()")
    live.wait(f"{IDS}.includes('u2')")
    growing.add(answer("a3", "u3", text("Elsewhere")))
    live.wait(f"{SAID}.includes('1 new')")
    assert live.js(IDS) == ["u1", "a1", "u2"]
    live.click("#live")
    live.wait(f"{IDS}.includes('a3')")


def test_names_and_labels_are_taken_over(live: Page, growing: Growing) -> None:
    growing.add(
        entry("l1", "a1", "label", targetId="u1", label="here"),
        entry("n1", "l1", "session_info", name="Named <b>now</b>"),
    )
    live.wait("document.title === 'Named <b>now</b>'")
    assert live.js("document.querySelector('#entry-u1 .label').textContent") == "here"
    assert live.js("document.querySelector('.row .label').textContent") == "here"
    growing.add(entry("l2", "n1", "label", targetId="u1"))
    live.wait("document.querySelector('.label') === null")


def test_it_stays_at_the_end_and_nowhere_else(live: Page, growing: Growing) -> None:
    growing.add(answer("a2", "a1", LONG))
    live.wait(f"{IDS}.includes('a2') && {AT_END}")
    live.js("scrollTo(0, 0)")
    live.settle()
    growing.add(answer("a3", "a2", LONG), answer("a4", "a3", LONG))
    live.wait(f"{SAID} === 'Live · 2 new'")
    assert live.js("scrollY") == 0
    live.click("#live")
    live.wait(AT_END)
    live.wait(f"{SAID} === 'Live'")


def test_what_the_reader_opened_stays_open(live: Page, growing: Growing) -> None:
    thought = {"type": "thinking", "thinking": "Hm"}
    growing.add(answer("a2", "a1", thought, call("bash", "c1", command="make")))
    live.wait("document.querySelector('#entry-a2 .thinking') !== null")
    live.js("document.querySelector('#entry-a2 .thinking').open = true")
    growing.add(result("r1", "a2", "made"))
    live.wait(f"{IDS}.includes('r1')")
    assert live.js("document.querySelector('#entry-a2 .thinking').open") is True


def test_search_finds_what_came_later(live: Page, growing: Growing) -> None:
    growing.add(message("u2", "a1", "user", content="A needle"))
    live.wait(f"{IDS}.includes('u2')")
    live.key("/")
    live.type("needle")
    live.wait("document.getElementById('found').textContent === '1'")


def test_a_file_put_in_its_place_is_shown_instead(live: Page, growing: Growing) -> None:
    other = Growing(growing.path.with_name("other"))
    other.add(message("v1", None, "user", content="Another story"))
    other.path.replace(growing.path)
    live.wait(f"{IDS}[0] === 'v1' && {STATE} === 'live'")
    growing.add(answer("w1", "v1", text("Indeed")))
    live.wait(f"{IDS}.length === 2")


def test_the_session_file_can_be_saved_from_a_live_page(
    live: Page, growing: Growing, tmp_path: Path
) -> None:
    folder = tmp_path / "saved"
    live.save_into(folder)
    live.click("#save")
    live.until(lambda: any(folder.glob("*.jsonl")), "the file to be saved")
    (saved,) = folder.glob("*.jsonl")
    assert saved.read_bytes() == growing.path.read_bytes()


def test_the_page_stays_when_the_program_ends(page: Page, growing: Growing, tmp_path: Path) -> None:
    with view(growing.path, tmp_path) as url:
        page.open(url)
        page.wait(f"{STATE} === 'live'")
    page.wait(f"{STATE} === 'ended'")
    assert page.js(IDS) == ["u1", "a1"]


class Served:
    """The server inside this process, so that its connections can be cut."""

    def __init__(self, path: Path) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        watch = Watch(path, no_warning)
        watch.load()
        self.server = LiveServer(SessionRoutes(watch))
        self._run(self._start(watch))

    async def _start(self, watch: Watch) -> None:
        await self.server.start(0)
        watch.start()

    def cut(self) -> int:
        """Break every connection; gives their number."""
        return int(self._run(self._cut()))

    async def _cut(self) -> int:
        runner = self.server._runner
        assert runner is not None
        assert runner.server is not None
        ends = [one.transport for one in runner.server.connections if one.transport is not None]
        for end in ends:
            end.abort()
        return len(ends)

    def close(self) -> None:
        self._run(self.server.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def _run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)


def test_a_lost_connection_is_made_again_and_nothing_is_missed(
    page: Page, growing: Growing
) -> None:
    served = Served(growing.path)
    try:
        page.open(served.server.url)
        page.wait(f"{STATE} === 'live'")
        growing.add(message("u2", "a1", "user", content="Before"))
        page.wait(f"{IDS}.includes('u2')")
        page.js("window.states = []; new MutationObserver(() => states.push(live.dataset.state))"
                ".observe(live, { attributes: true })")  # fmt: skip
        assert served.cut() >= 1
        growing.add(answer("a2", "u2", text("While away")))
        page.wait(f"{IDS}.includes('a2') && {STATE} === 'live'")
        assert "lost" in page.js("states")
        growing.add(answer("a3", "a2", text("After")))
        page.wait(f"{IDS}.includes('a3')")
        assert page.js(IDS) == ["u1", "a1", "u2", "a2", "a3"]
    finally:
        served.close()
