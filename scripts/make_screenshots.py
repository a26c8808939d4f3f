"""Makes docs/images/*.png: the page of a session as people see it, taken with a real Chromium.

Usage: python scripts/make_screenshots.py
"""

import io
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.browser.chrome import Chrome, Page

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
MOST_BYTES = 300_000
# The entry that a live view is caught at: a command that has no result yet.
_RUNNING = "python -m pytest tests -q"
_MAKEFILE = """\
test:
\t@for name in chart model; do echo "tests/test_$$name.py ........"; done; sleep 60
"""
_SCRIPT: list[dict[str, Any]] = [
    {
        "match": "upside down",
        "content": [
            {"thinking": "The scale takes the top as the span. I check it with the tests."},
            {
                "text": "The scale is wrong when the lowest tide is not zero:\n\n"
                "```python\ndef scale(self, heights: list[float]) -> list[int]:\n"
                "    top = max(heights)\n    span = top  # lowest is sea level\n"
                "    return [int((top - h) / span * self.size) for h in heights]\n```\n\n"
                "`span` has to be `top - min(heights)`. I run the tests first."
            },
            {"tool": "bash", "args": {"command": "make test"}},
        ],
        "usage": {"input": 42_000, "output": 800},
    },
    {
        "match": "Commit",
        "content": [
            {"text": "The chart is right now. I change the scale:"},
            {
                "tool": "edit",
                "args": {
                    "path": "tidewatch/chart.py",
                    "edits": [
                        {
                            "oldText": "        span = top  # lowest is sea level",
                            "newText": "        span = (top - min(heights)) or 1.0",
                        }
                    ],
                },
            },
        ],
        "usage": {"input": 44_200, "output": 160},
    },
]


def main() -> None:
    from tests.browser.chrome import Chrome

    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        url = _exported(Path(folder))
        with Chrome() as chrome:
            _desk(chrome, url)
            _live(chrome, Path(folder))
            _chat(chrome, Path(folder))
            _terminal(chrome, Path(folder))
        with Chrome(mouse=False) as chrome:
            _phone(chrome, url)
            _chat_phone(chrome, Path(folder))


def _exported(folder: Path) -> str:
    from ludolf.page.html import export_html
    from ludolf.session.tree import open_session
    from tests.browser.sample import CWD, sample_file

    source = folder / "session.jsonl"
    source.write_bytes(sample_file())
    session = open_session(source, CWD, sys.exit, write=False)
    return export_html(session, folder / "page.html").as_uri()


def _desk(chrome: "Chrome", url: str) -> None:
    page = chrome.page(1360, 900)
    page.open(url)
    _keep(page, "page-light")
    page.prefer(color_scheme="dark")
    _go_to(page, "Found it")
    _keep(page, "page-dark")
    page.prefer(color_scheme="light")
    page.key("/")
    page.type("scale")
    page.wait("document.getElementById('found').textContent")
    for _ in range(4):
        page.key("Enter")
    _keep(page, "page-search")
    page.close()


def _phone(chrome: "Chrome", url: str) -> None:
    page = chrome.page(390, 844, phone=True)
    page.open(url)
    _go_to(page, "What was wrong")
    _keep(page, "page-phone")
    page.close()


def _live(chrome: "Chrome", folder: Path) -> None:
    from ludolf.base import dumps

    source = folder / "live.jsonl"
    source.write_bytes(b"".join(dumps(line) + b"\n" for line in _lines_until_now()))
    with _served(source) as url:
        page = chrome.page(1360, 900)
        page.prefer(color_scheme="dark")
        page.open(url)
        page.wait("document.querySelector('#live[data-state=live]') !== null")
        _keep(page, "page-live")
        page.close()


def _chat(chrome: "Chrome", folder: Path) -> None:
    """The page of the server: a run with a queue in the light, a question in the dark."""
    with _web(folder / "desk") as url:
        page = chrome.page(1360, 900)
        page.open(url)
        page.wait("document.querySelectorAll('.one').length > 2")
        _ask(page, "Why is the tide chart upside down?")
        page.wait("document.activeElement.matches('.question')")
        page.key("1")
        page.wait("document.querySelector('.call.now pre')?.textContent.includes('test_model')")
        page.js("document.getElementById('message').focus()")
        for text, modifiers in (("keep the old name", 0), ("update the docs", 1)):
            page.type(text)
            page.key("Enter", modifiers=modifiers)
        page.wait("document.querySelectorAll('#queue li').length === 2")
        _keep(page, "web-light")
        page.key("Escape")
        page.wait("document.getElementById('stop').hidden")
        page.js("document.getElementById('message').select()")
        page.prefer(color_scheme="dark")
        _ask(page, "Commit it")
        page.wait("document.querySelectorAll('.question').length")
        _keep(page, "web-dark")
        page.close()


def _chat_phone(chrome: "Chrome", folder: Path) -> None:
    with _web(folder / "phone") as url:
        page = chrome.page(390, 844, phone=True)
        page.open(url)
        page.wait("document.querySelectorAll('.one').length > 2")
        _ask(page, "Commit it")
        page.wait("document.querySelectorAll('.question').length")
        _keep(page, "web-phone")
        page.close()


def _ask(page: "Page", text: str) -> None:
    page.js("document.getElementById('message').select()")
    page.type(text)
    page.key("Enter")


def _terminal(chrome: "Chrome", folder: Path) -> None:
    """`ludolf` at a terminal: an answer with code, a command, and a question about a change."""
    from scripts.terminal_shot import TerminalStage

    home = folder / "terminal"
    work, env = _project(home)
    (work / "tidewatch").mkdir()
    chart = (
        "class Chart:\n    def scale(self, heights):\n        span = top  # lowest is sea level\n"
    )
    (work / "tidewatch" / "chart.py").write_text(chart)
    (work / "Makefile").write_text(_MAKEFILE.replace("; sleep 60", ""))
    program = f"{sys.executable} -m ludolf --model ludolf/scripted --approval on-write"
    stage = TerminalStage(home, program, env, work)
    try:
        stage.wait("Type a task")
        stage.type("Why is the tide chart upside down?")
        stage.key("Enter")
        stage.wait("make test")
        stage.wait("Approve")
        stage.key("1")
        stage.wait("test_model")
        stage.wait("Type a task")
        stage.type("Commit it")
        stage.key("Enter")
        stage.wait("Allow edit")
        picture = home / "terminal.html"
        picture.write_text(stage.page())
    finally:
        stage.close()
    page = chrome.page(940, 740)
    page.open(picture.as_uri())
    _keep(page, "terminal")
    page.close()


def _project(home: Path) -> tuple[Path, dict[str, str]]:
    """Return a project folder, and an environment with a model that follows a script."""
    from ludolf.base import dumps

    work = home / "projects" / "tidewatch"
    work.mkdir(parents=True)
    (work / "Makefile").write_text(_MAKEFILE)
    script = home / "script.json"
    script.write_bytes(dumps(_SCRIPT))
    env = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(ROOT / "src"),
        "LUDOLF_SCRIPT": str(script),
    }
    return work, env


@contextmanager
def _web(home: Path) -> Iterator[str]:
    """`ludolf web` with stored sessions and a model that follows a script; gives the address."""
    from ludolf.base import dumps
    from tests.browser.sample import sample_lines

    work, env = _project(home)
    stored = home / ".pi" / "agent" / "sessions" / "tidewatch"
    stored.mkdir(parents=True)
    for number, name in enumerate(("Fix the flaky station test", "Release 2.4", "Faster charts")):
        first, *rest = sample_lines()
        first = {**first, "id": f"{number}1a1e366-0000-4000-8000-000000000000", "cwd": str(work)}
        last = {"type": "session_info", "id": f"n{number}", "parentId": rest[-1]["id"]}
        rest.append({**last, "timestamp": rest[-1]["timestamp"], "name": name})
        lines = b"".join(dumps(line) + b"\n" for line in (first, *rest))
        (stored / f"2026-11-0{number + 1}T08-00-00-000Z_{first['id']}.jsonl").write_bytes(lines)
    program = (sys.executable, "-m", "ludolf", "web", "--model", "ludolf/scripted")
    rules = ("--approval", "on-write")
    with subprocess.Popen(
        (*program, *rules), stdout=subprocess.PIPE, text=True, env=env, cwd=work
    ) as server:
        assert server.stdout is not None
        yield server.stdout.readline().strip()
        server.terminate()


def _lines_until_now() -> list[dict[str, Any]]:
    """The sample up to a running command, moved in time so that it has just been started."""
    from ludolf.base import iso_time, now_ms
    from ludolf.session.entries import time_ms
    from tests.browser.sample import sample_lines

    lines = sample_lines()
    last = next(
        place
        for place, line in enumerate(lines)
        for block in line.get("message", {}).get("content", ())
        if isinstance(block, dict) and block.get("arguments", {}).get("command") == _RUNNING
    )
    kept = lines[: last + 1]
    shift = now_ms() - time_ms(kept[-1]["timestamp"]) - 4000
    return [{**line, "timestamp": iso_time(time_ms(line["timestamp"]) + shift)} for line in kept]


@contextmanager
def _served(source: Path) -> Iterator[str]:
    program = (sys.executable, "-m", "ludolf", "view", str(source))
    path = os.pathsep.join((str(ROOT / "src"), os.environ.get("PYTHONPATH", "")))
    with subprocess.Popen(
        program, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path}
    ) as server:
        assert server.stdout is not None
        _name, url = server.stdout.readline(), server.stdout.readline().strip()
        yield url
        server.terminate()


def _go_to(page: "Page", words: str) -> None:
    page.js(
        f"""[...document.querySelectorAll("#conversation article")]
            .find((one) => one.textContent.includes({words!r}))
            .scrollIntoView()"""
    )


def _keep(page: "Page", name: str) -> None:
    """Store what is seen now, in few colours, since it is stored for good."""
    from PIL import Image

    page.settle()
    if page.errors():
        sys.exit(f"{name}: {page.errors()}")
    image = Image.open(io.BytesIO(page.shot())).convert("RGB")
    target = IMAGES / f"{name}.png"
    image.quantize(256, dither=Image.Dither.NONE).save(target, optimize=True)
    size = target.stat().st_size
    if size > MOST_BYTES:
        sys.exit(f"{target}: {size} bytes are too many")
    sys.stdout.write(f"{target.relative_to(ROOT)}: {size:,} bytes\n")


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
