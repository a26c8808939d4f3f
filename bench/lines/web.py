"""The page of the server in Chromium: its size, a long answer and a long session."""

import json
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from bench.agent import Silent
from bench.programs import Home, Program
from bench.stage import Stage

if TYPE_CHECKING:
    from tests.browser.chrome import Chrome

_DELTAS = 20_000
_ENTRIES = 10_000
_TIMES = 3
_PATIENCE = 60.0
_ID = "00000000-0000-7000-8000-0000000000aa"
_LIVE = "document.getElementById('live').dataset.state === 'live'"
# The run has ended, the server's rendering has replaced the text under way, and it is drawn.
_DONE = """
document.getElementById('stop').hidden &&
document.getElementById('underway').children.length === 0 &&
document.querySelectorAll('#conversation article').length > 1
"""
# All entries are there, two frames are drawn, and the script is idle.
_WATCH = """
(() => {
    const look = () => {
        const count = document.getElementById("count")?.textContent ?? "";
        if (!count.endsWith("of %s")) return requestAnimationFrame(look);
        requestAnimationFrame(() => requestAnimationFrame(() =>
            setTimeout(() => { window.usableAt = performance.now(); })));
    };
    requestAnimationFrame(look);
})()
"""


def measure(stage: Stage) -> None:
    stage.attempt(stage.ours, "web.bytes", partial(_page, stage))


def _page(stage: Stage, program: Program) -> None:
    from tests.browser.chrome import Chrome, NoChromium

    home, entries = stage.home(program), stage.size(_ENTRIES, 1000)
    session = _long_session(home, entries)
    try:
        with _started(home, "web", "--model", "bench/bench") as page, Chrome() as chrome:
            base = page.partition("#")[0]
            with urllib.request.urlopen(base, timeout=_PATIENCE) as reply:
                stage.put(program, "web.bytes", len(reply.read()) / 1e3)
            stage.put(program, "web.deltas", _deltas(chrome, page, stage.size(_DELTAS, 2000)))
            with _started(home, "view", str(session)) as view:
                places = (f"{base}?again#session-{_ID}", view)
                ours, other = _usable(chrome, page, places, entries)
            stage.put(program, "web.entries", ours / other)
    except NoChromium as reason:
        raise Silent(str(reason)) from None
    finally:
        session.unlink()


def _long_session(home: Home, entries: int) -> Path:
    from tests.browser.sample import long_lines

    path = home.sessions / f"2026-01-01T00-00-00-000Z_{_ID}.jsonl"
    head, *lines = long_lines(entries)
    head |= {"id": _ID, "cwd": str(home.work)}
    path.write_text("".join(f"{json.dumps(line)}\n" for line in (head, *lines)))
    return path


@contextmanager
def _started(home: Home, *words: str) -> Iterator[str]:
    """Start a server of pages; yields the address that it prints."""
    more = ("--session-dir", str(home.sessions)) if words[0] == "web" else ()
    with subprocess.Popen(
        [*home.program.command, *words, *more],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=home.env(),
        cwd=home.work,
        text=True,
    ) as server:
        assert server.stdout is not None
        try:
            yield next((line.strip() for line in server.stdout if line.startswith("http")), "")
        finally:
            server.terminate()


def _deltas(chrome: "Chrome", address: str, count: int) -> float:
    """Return the seconds from a prompt to the rendered answer."""
    page = chrome.page()
    page.open(address)
    page.wait(_LIVE)
    page.js("document.getElementById('message').focus()")
    seconds = []
    for text in ("Bench text 5", f"Bench text {count}"):
        page.type(text)
        start = time.perf_counter()
        page.key("Enter")
        page.wait("!document.getElementById('stop').hidden")
        page.wait(_DONE)
        seconds.append(time.perf_counter() - start)
    page.close()
    return seconds[-1]


def _usable(
    chrome: "Chrome", address: str, places: tuple[str, str], entries: int
) -> tuple[float, float]:
    """Return the milliseconds until a long session can be used, at each of two places."""
    page = chrome.page()
    page.open(address)
    page.wait(_LIVE)
    page.ask("Page.addScriptToEvaluateOnNewDocument", source=_WATCH % f"{entries:,}")
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(_TIMES):
        for place, found in zip(places, times, strict=True):
            page.open("about:blank")
            page.open(place)
            found.append(float(page.wait("window.usableAt")))
    page.close()
    return median(times[0]), median(times[1])
