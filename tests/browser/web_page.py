"""The server with its page beside a test, with a model that follows a script."""

import asyncio
import json
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ludolf.config.settings.options import Options
from tests.browser.chrome import Page
from tests.serve.web_stage import WebStage, served

LIVE = "document.getElementById('live').dataset.state === 'live'"
IDLE = "document.getElementById('stop').hidden"
TALK = "document.getElementById('conversation').innerText"
UNDERWAY = "document.getElementById('underway').innerText"
QUESTIONS = "document.querySelectorAll('.question').length"
NUMBERS = " ".join(map(str, range(1, 201)))
SCRIPT: list[dict[str, Any]] = [
    {"match": "hello", "text": "Hello from **the model**.\n\n```python\nx = 1\n```", "chunk": 4},
    {
        "match": "make it",
        "content": [{"text": "I make it."}, {"tool": "bash", "args": {"command": "echo made"}}],
    },
    {"match": "make it", "text": "It is made."},
    {"match": "stay", "text": "I stay", "hang": True},
    {"match": "steered", "text": "I was steered."},
    {"match": "count", "text": NUMBERS, "chunk": 3, "pauseMs": 1, "hang": True},
    {"match": "picture", "text": "I see it."},
]


class PageServer:
    """The stage of a server in a thread."""

    def __init__(self, stage: WebStage, folder: Path, run: Callable[..., Any]) -> None:
        self.stage = stage
        self.folder = folder
        self._run = run

    @property
    def entry(self) -> str:
        return f"{self.stage.url}/#token={self.stage.token}"

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self._run(work)

    def post(self, **command: Any) -> dict[str, Any]:
        reply: dict[str, Any] = self.run(self.stage.post(command))
        assert reply["success"], reply
        data: dict[str, Any] = reply.get("data", {})
        return data

    def cut(self) -> None:
        """Cut all connections, as a network does."""

        async def abort() -> None:
            for gate in tuple(self.stage.door._gates.gates):
                gate.abort()

        self.run(abort())

    def new(self, page: Page) -> str:
        """Open the page with a new session; gives its id."""
        data = self.post(type="open")
        session: str = data["session"]
        page.open(f"{self.stage.url}/#token={self.stage.token}")
        page.wait(LIVE)
        page.js(f"void (location.hash = '#session-{session}')")
        page.wait("!document.getElementById('model').disabled")
        return session


@contextmanager
def page_server(folder: Path, script: list[dict[str, Any]] = SCRIPT) -> Iterator[PageServer]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def run(work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result(60)

    (folder / "work").mkdir()
    (folder / "script.json").write_text(json.dumps(script))
    environ = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(folder),
        "MISTRAL_API_KEY": "a key, so that there are other models",
        "LUDOLF_SCRIPT": str(folder / "script.json"),
    }
    options = Options(
        cwd=folder / "work",
        model="ludolf/scripted",
        no_context_files=True,
        approval="on-command",
        environ=environ,
        agent_dir=folder / "agent",
    )

    async def start() -> tuple[Any, WebStage]:
        context = served(folder, options=options)
        return context, await context.__aenter__()

    context, stage = run(start())
    try:
        yield PageServer(stage, folder, run)
    finally:
        run(context.__aexit__(None, None, None))
        loop.call_soon_threadsafe(loop.stop)
        thread.join(30)
        loop.close()


def send(page: Page, text: str, **more: Any) -> None:
    """Write a message and press Enter."""
    page.js("document.getElementById('message').focus()")
    page.type(text)
    page.key("Enter", **more)
