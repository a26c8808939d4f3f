"""How soon the page of a long session can be used, beside pi's own page of the same session.

Runs only where a pi is at hand: `LUDOLF_PEER_PI="node path/to/pi/dist/cli.js" make test-peers`.
"""

import json
import os
import shlex
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

from ludolf.page.html import export_html
from ludolf.session.tree import open_session
from tests.browser.chrome import Chrome
from tests.browser.sample import CWD, long_lines
from tests.export_page import no_warning

PEER = os.environ.get("LUDOLF_PEER_PI", "")
pytestmark = pytest.mark.skipif(not PEER, reason="LUDOLF_PEER_PI names no pi to compare with")
ENTRIES = 10_000
ROUNDS = 3
NEVER = float("inf")
# Loaded, drawn, and the script at rest: from here on the page answers.
_WATCH = """
addEventListener("load", () => requestAnimationFrame(() => requestAnimationFrame(() =>
    setTimeout(() => { window.usableAt = performance.now(); }))));
"""


@pytest.mark.timeout(600)
@pytest.mark.parametrize("branches", [1, 10])
def test_ten_thousand_entries_can_be_used_no_later_than_on_the_page_of_pi(
    chrome: Chrome, tmp_path: Path, capsys: pytest.CaptureFixture[str], branches: int
) -> None:
    source = tmp_path / "session.jsonl"
    with source.open("w") as file:
        file.writelines(json.dumps(line) + "\n" for line in long_lines(ENTRIES, branches))
    pages = {"pi": _export_by_pi(source), "ludolf": _export(source)}
    times: dict[str, list[float]] = {name: [] for name in pages}
    for _ in range(ROUNDS):
        for name, page in pages.items():
            times[name].append(_usable_after(chrome, page, _last_words(branches)))
    middle = {name: statistics.median(each) for name, each in times.items()}
    with capsys.disabled():
        sys.stdout.write(f"\n{ENTRIES} entries, {branches} branch(es), ms: {times}\n")
    assert middle["ludolf"] <= middle["pi"]
    assert middle["ludolf"] < NEVER


def _last_words(branches: int) -> str:
    """A text of the newest prompt, which a page that shows the session holds."""
    lines = list(long_lines(ENTRIES, branches))
    return next(
        str(line["message"]["content"])
        for line in reversed(lines)
        if line.get("message", {}).get("role") == "user"
    )


def _usable_after(chrome: Chrome, page: Path, words: str) -> float:
    """Milliseconds from the request; never, if the page does not show the newest prompt then."""
    tab = chrome.page()
    try:
        tab.ask("Page.addScriptToEvaluateOnNewDocument", source=_WATCH)
        tab.open(page.as_uri())
        after = float(tab.wait("window.usableAt"))
        shown = f"document.querySelector('main, #content').textContent.includes({words!r})"
        return after if tab.js(shown) else NEVER
    finally:
        tab.close()


def _export(source: Path) -> Path:
    session = open_session(source, CWD, no_warning, write=False)
    return export_html(session, source.with_name("ludolf.html"))


def _export_by_pi(source: Path) -> Path:
    target = source.with_name("pi.html")
    subprocess.run(
        [*shlex.split(PEER), "--export", str(source), str(target)],
        env={"PATH": os.environ["PATH"], "HOME": str(source.parent)},
        check=True,
        capture_output=True,
    )
    return target
