"""A real Chromium without a window, driven over its debugging protocol."""

import asyncio
import base64
import json
import os
import re
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

T = TypeVar("T")
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
SCREEN = (1360, 900)
START_SECONDS = 60.0
WAIT_SECONDS = 30.0
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-extensions",
    "--disable-sync",
    "--no-first-run",
    "--no-default-browser-check",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
    # A name that its owner has bound to this machine.
    "--host-resolver-rules=MAP evil.example 127.0.0.1",
)
# A mouse, as on a desk; a page tells this from a finger by its media queries.
_MOUSE = (
    "--blink-settings=primaryHoverType=2,availableHoverTypes=2,"
    "primaryPointerType=4,availablePointerTypes=4"
)
_KEYS = {"Enter": "\r", "Escape": "", "ArrowDown": "", "End": "", "Home": ""}


class NoChromium(Exception):
    """There is none, or it does not start; the text says why."""


def find_chromium() -> str:
    """Raises:
    NoChromium: none is on the path.
    """
    wanted = os.environ.get("CHROMIUM")
    for name in (wanted,) if wanted else NAMES:
        if found := shutil.which(name):
            return found
    raise NoChromium(f"no Chromium: none of {', '.join(NAMES)} is on the path")


class Chrome:
    """One browser, for as long as the `with` block lasts; give each test a page of its own."""

    def __init__(self, *, mouse: bool = True) -> None:
        self._program = find_chromium()
        self._flags = (*_FLAGS, _MOUSE) if mouse else _FLAGS
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._pages: list[Page] = []

    def __enter__(self) -> Self:
        self._home = tempfile.mkdtemp(prefix="ludolf-chromium-")
        self._errors = Path(self._home, "stderr")
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                [self._program, *self._flags, f"--user-data-dir={self._home}", "about:blank"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                env={**os.environ, "HOME": self._home},
            )
        self._thread.start()
        try:
            self._host = self._address()
            self.run(self._connect())
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for page in self._pages:
            self.run(page.leave())
        self.run(self._session.close())
        self._stop()

    def page(
        self, width: int = SCREEN[0], height: int = SCREEN[1], *, phone: bool = False
    ) -> "Page":
        """A new tab in a profile of its own, with nothing in it."""
        page: Page = self.run(self._open())
        self._pages.append(page)
        page.resize(width, height, phone=phone)
        return page

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(2 * WAIT_SECONDS)

    def _stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()
        shutil.rmtree(self._home, ignore_errors=True)

    def _address(self) -> str:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            told = self._errors.read_text("utf-8", "replace")
            if found := re.search(r"DevTools listening on ws://([^/\s]+)/", told):
                return found[1]
            if self._process.poll() is not None:
                break
            time.sleep(0.02)
        told = self._errors.read_text("utf-8", "replace").strip()
        raise NoChromium(f"{self._program} does not start: {told[-300:]}")

    async def _connect(self) -> None:
        import aiohttp

        self._session = aiohttp.ClientSession()
        async with self._session.get(f"http://{self._host}/json/version") as reply:
            url = (await reply.json())["webSocketDebuggerUrl"]
        self._wire = Wire(await self._session.ws_connect(url, max_msg_size=0))

    async def _open(self) -> "Page":
        context = await self._wire.ask("Target.createBrowserContext")
        target = await self._wire.ask(
            "Target.createTarget", url="about:blank", browserContextId=context["browserContextId"]
        )
        url = f"ws://{self._host}/devtools/page/{target['targetId']}"
        wire = Wire(await self._session.ws_connect(url, max_msg_size=0))
        for domain in ("Page", "Runtime", "Log", "Network"):
            await wire.ask(f"{domain}.enable")
        return Page(self, wire, context["browserContextId"])

    async def drop(self, page: "Page") -> None:
        """Close a tab together with its profile."""
        self._pages.remove(page)
        await self._wire.ask("Target.disposeBrowserContext", browserContextId=page.profile)
        await page.leave()


class Navigated(AssertionError):
    """The page was replaced by another one while an expression was evaluated."""


class Wire:
    """One connection: questions by number, and the events that came between."""

    def __init__(self, socket: Any) -> None:
        self._socket = socket
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._count = 0
        self.events: list[dict[str, Any]] = []
        self._reader = asyncio.get_running_loop().create_task(self._read())

    async def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._count += 1
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[self._count] = future
        await self._socket.send_json({"id": self._count, "method": method, "params": parameters})
        reply = await asyncio.wait_for(future, WAIT_SECONDS)
        if "error" in reply:
            kind = Navigated if "navigated" in reply["error"]["message"] else AssertionError
            raise kind(f"{method}: {reply['error']}")
        result: dict[str, Any] = reply["result"]
        return result

    async def close(self) -> None:
        await self._socket.close()
        self._reader.cancel()

    async def _read(self) -> None:
        async for message in self._socket:
            told = json.loads(message.data)
            if "id" in told:
                self._waiting.pop(told["id"]).set_result(told)
            else:
                self.events.append(told)


class Page:
    """One tab. Waiting is for conditions; none of its methods waits for time to pass."""

    def __init__(self, chrome: Chrome, wire: Wire, profile: str) -> None:
        self.profile = profile
        self._chrome = chrome
        self._wire = wire

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self._chrome.run(self._wire.ask(method, **parameters))

    async def leave(self) -> None:
        await self._wire.close()

    def close(self) -> None:
        self._chrome.run(self._chrome.drop(self))

    def reset(self) -> None:
        """As it was in the beginning: an empty page, a screen, nothing remembered."""
        self.ask("Emulation.setScriptExecutionDisabled", value=False)
        self.prefer()
        self.resize(*SCREEN)
        self.js("void localStorage.clear()")
        self.open("about:blank")

    def resize(self, width: int, height: int, *, phone: bool = False) -> None:
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=2 if phone else 1,
            mobile=phone,
        )

    def prefer(self, **features: str) -> None:
        """Media features, as in `color_scheme="dark"`."""
        names = {"color_scheme": "prefers-color-scheme", "motion": "prefers-reduced-motion"}
        listed = [{"name": names.get(name, name), "value": v} for name, v in features.items()]
        self.ask("Emulation.setEmulatedMedia", features=listed)

    def save_into(self, folder: Path) -> None:
        """Where downloads go."""
        self.ask(
            "Browser.setDownloadBehavior",
            behavior="allow",
            downloadPath=str(folder),
            browserContextId=self.profile,
        )

    def open(self, url: str) -> None:
        """Go there and wait until the page and its scripts are loaded."""
        self._wire.events.clear()
        self.ask("Page.navigate", url=url)
        self.until(lambda: bool(self.told("Page.loadEventFired")), f"{url} to load")

    def js(self, code: str) -> Any:
        """The value of an expression; promises are awaited."""
        reply = self.ask("Runtime.evaluate", expression=code, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in reply:
            raise AssertionError(reply["exceptionDetails"])
        return reply["result"].get("value")

    def wait(self, condition: str) -> Any:
        """Wait until an expression holds; gives its value."""
        found: list[Any] = []

        def holds() -> bool:
            try:
                found[:] = [self.js(condition)]
            except Navigated:  # the page loads again meanwhile
                return False
            return bool(found[0])

        self.until(holds, condition)
        return found[0]

    def until(self, holds: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while not holds():
            if time.monotonic() > deadline:
                raise AssertionError(f"waited too long for {what}; errors: {self.errors()}")
            time.sleep(0.01)

    def settle(self) -> None:
        """Wait until frames have been drawn, the scroll position rests and no transition runs."""
        self.js(
            """new Promise((done) => {
                let before = -1, still = 0;
                const look = () => {
                    const all = document.getAnimations();
                    const moves = all.some((one) => one instanceof CSSTransition);
                    still = scrollY === before && !moves ? still + 1 : 0;
                    before = scrollY;
                    if (still > 3) done(); else requestAnimationFrame(look);
                };
                look();
            })"""
        )

    def key(self, name: str, **more: Any) -> None:
        text = _KEYS.get(name, name)
        self.ask("Input.dispatchKeyEvent", type="keyDown", key=name, text=text, **more)
        self.ask("Input.dispatchKeyEvent", type="keyUp", key=name)

    def type(self, text: str) -> None:
        self.ask("Input.insertText", text=text)

    def click(self, selector: str) -> None:
        """A real click with the mouse, in the middle of an element."""
        place = self.js(
            f"""(() => {{
                const area = document.querySelector({json.dumps(selector)}).getBoundingClientRect();
                return [area.x + area.width / 2, area.y + area.height / 2];
            }})()"""
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.ask(
                "Input.dispatchMouseEvent",
                type=kind,
                x=place[0],
                y=place[1],
                button="left",
                clickCount=1,
            )

    def shot(self) -> bytes:
        data: str = self.ask("Page.captureScreenshot", format="png")["data"]
        return base64.b64decode(data)

    # ------------------------------------------------------------ what it noticed

    def told(self, method: str) -> list[dict[str, Any]]:
        """The events of one kind since the page was opened."""
        return [e["params"] for e in list(self._wire.events) if e["method"] == method]

    def errors(self) -> list[str]:
        """Everything that a developer would see in red, refusals by the policy included."""
        logged = [e["entry"] for e in self.told("Log.entryAdded")]
        return [
            *(e["text"] for e in logged if e["level"] == "error"),
            *(str(e["exceptionDetails"]) for e in self.told("Runtime.exceptionThrown")),
            *(str(e["args"]) for e in self.told("Runtime.consoleAPICalled")),
            *(f"dialog: {e['message']}" for e in self.told("Page.javascriptDialogOpening")),
        ]

    def requests(self) -> list[str]:
        """Every address that was asked for; images inside the page are none."""
        urls = [e["request"]["url"] for e in self.told("Network.requestWillBeSent")]
        return [url for url in urls if not url.startswith(("data:", "blob:"))]
