"""A client of the Agent Client Protocol on pipes of memory, with a scripted model behind it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

from ludolf.acp.server import AcpServer
from ludolf.agent.scope import Tasks
from ludolf.ai.builtin.scripted import Scripted, ScriptedReply
from ludolf.base import dumps
from ludolf.config.settings.options import Options
from ludolf.engine.bundles import Bundles
from ludolf.rpc.stdio import Stdio
from tests.acp_frames import check_request, check_result, updates_in
from tests.loop.laws import Record
from tests.loop.stage import MemoryStdio, home_with
from tests.loop.tools import Gates, stage_tools

WAIT_SECONDS = 15.0
NEVER = object()
Answer = Callable[[Record], Any]
EVERYTHING = {
    "fs": {"readTextFile": True, "writeTextFile": True},
    "elicitation": {"form": {}, "url": {}},
    "auth": {"terminal": True},
    "session": {"configOptions": {"boolean": {}}, "notices": {}, "compaction": {}},
}


class AcpClient:
    """`answers` holds what it answers to requests of the agent, by method.

    A method that is not there is refused; `NEVER` as an answer leaves the request open, a future
    answers it later, a `Refusal` with an error.
    """

    def __init__(
        self, root: Path, options: dict[str, Any], replies: Sequence[ScriptedReply]
    ) -> None:
        self.root = root
        self.work = root / "work"
        self.work.mkdir(exist_ok=True)
        self.script = Scripted(replies)
        self.gates = Gates()
        self.answers: dict[str, Answer] = {"session/request_permission": choosing("allow_once")}
        self.frames: list[Record] = []
        self._stdio = MemoryStdio(self._hear, iter(lambda: 0, 1))
        self._changed = asyncio.Event()
        self._numbers = iter(range(1, 1_000_000))
        self._asked: dict[int, str] = {}
        chosen = {"model": "ludolf/scripted", "no_context_files": True, **options}
        given = Options(cwd=root, **chosen)
        self.server = AcpServer(given, cast(Stdio, self._stdio), self._prepare)

    def _prepare(self, bundles: Bundles) -> None:
        bundles.models.providers.register(self.script)
        bundles.toolset.provide("stage", stage_tools(self.gates))

    # ------------------------------------------------------------ speaking

    def feed(self, *lines: bytes) -> None:
        """Send lines in one read, whatever they hold."""
        self._stdio.feed(list(lines))

    def start(self, method: str, /, **params: Any) -> int:
        """Send a request; returns its id."""
        number = next(self._numbers)
        self._asked[number] = method
        self.feed(dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}))
        return number

    def notify(self, method: str, /, **params: Any) -> None:
        self.feed(dumps({"jsonrpc": "2.0", "method": method, "params": params}))

    async def ask(self, method: str, /, **params: Any) -> Record:
        """Send a request that must succeed; its result."""
        response = await self.response(self.start(method, **params))
        assert "result" in response, response
        result: Record = response["result"]
        return result

    async def refusal(self, method: str, /, **params: Any) -> tuple[int, str]:
        """Send a request that must fail; the code and the text of its error."""
        error = (await self.response(self.start(method, **params)))["error"]
        return error["code"], error["message"]

    async def initialize(self, capabilities: Record | None = None) -> Record:
        offered = capabilities or {}
        return await self.ask("initialize", protocolVersion=1, clientCapabilities=offered)

    async def new(self, **params: Any) -> str:
        """Open a session; its id."""
        given = {"cwd": str(self.work), "mcpServers": [], **params}
        return str((await self.ask("session/new", **given))["sessionId"])

    def say(self, session: str, text: str, **params: Any) -> int:
        """Send a prompt; the id of the request."""
        blocks = [{"type": "text", "text": text}]
        return self.start("session/prompt", sessionId=session, prompt=blocks, **params)

    async def prompt(self, session: str, text: str, **params: Any) -> str:
        """Send a prompt and wait for its end; the stop reason."""
        response = await self.response(self.say(session, text, **params))
        assert "result" in response, response
        return str(response["result"]["stopReason"])

    def end(self) -> None:
        self._stdio.end()

    # ------------------------------------------------------------ hearing

    async def response(self, number: int | None) -> Record:
        return await self.until(lambda one: "method" not in one and one["id"] == number)

    async def until(self, test: Callable[[Record], bool]) -> Record:
        """The first frame that passes the test."""
        async with asyncio.timeout(WAIT_SECONDS):
            while not any(map(test, self.frames)):
                self._changed.clear()
                await self._changed.wait()
        return next(filter(test, self.frames))

    async def asked(self, method: str) -> Record:
        """The first request of the agent with this method."""
        return await self.until(lambda one: one.get("method") == method)

    def requests(self, method: str) -> list[Record]:
        return [one["params"] for one in self.frames if one.get("method") == method]

    def updates(self, kind: str, session: str | None = None) -> list[Record]:
        params = self.requests("session/update")
        chosen = (one for one in params if session in (None, one["sessionId"]))
        return [one["update"] for one in chosen if one["update"]["sessionUpdate"] == kind]

    def text(self, session: str | None = None, kind: str = "agent_message_chunk") -> str:
        return "".join(one["content"]["text"] for one in self.updates(kind, session))

    def statuses(self) -> list[str]:
        """The statuses of all calls, in order."""
        params = self.requests("session/update")
        calls = [one["update"] for one in params if "tool_call" in one["update"]["sessionUpdate"]]
        return [call["status"] for call in calls if "status" in call]

    def place(self, test: Callable[[Record], bool]) -> int:
        """The place of the first frame that passes the test."""
        return next(place for place, one in enumerate(self.frames) if test(one))

    def _hear(self, record: Record) -> None:
        assert record["jsonrpc"] == "2.0"
        if record.get("method") == "session/update":
            updates_in([dumps(record) + b"\n"], record["params"]["sessionId"])
        elif "method" in record and "id" in record:
            check_request(record["method"], record["params"])
        elif "result" in record:
            check_result(self._asked.get(record["id"], ""), record["result"])
        self.frames.append(record)
        self._changed.set()
        if "method" in record and "id" in record:
            asyncio.get_running_loop().call_soon(self._serve, record)

    def _serve(self, request: Record) -> None:
        answer = self.answers.get(request["method"])
        if answer is None:
            error = {"code": -32601, "message": "Method not found"}
            self.feed(dumps({"jsonrpc": "2.0", "id": request["id"], "error": error}))
            return
        result = answer(request["params"])
        if isinstance(result, asyncio.Future):
            result.add_done_callback(lambda done: self._answer(request, done.result()))
        elif result is not NEVER:
            self._answer(request, result)

    def _answer(self, request: Record, result: Any) -> None:
        value = {"error": result.error} if isinstance(result, Refusal) else {"result": result}
        self.feed(dumps({"jsonrpc": "2.0", "id": request["id"], **value}))


class Refusal:
    """An answer that is an error."""

    def __init__(self, text: str, code: int = -32603) -> None:
        self.error = {"code": code, "message": text}


def choosing(option: str) -> Answer:
    """Answer permission requests with this option."""
    return lambda params: {"outcome": {"outcome": "selected", "optionId": option}}


def silent(params: Record) -> Any:
    """Leave a request open."""
    return NEVER


@asynccontextmanager
async def acp(
    root: Path,
    *replies: ScriptedReply,
    settings: dict[str, Any] | None = None,
    options: dict[str, Any] | None = None,
) -> AsyncIterator[AcpClient]:
    """A client and its agent in a home of their own; at the end the input ends."""
    unexpected: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, each: unexpected.append(each))
    with home_with(root, settings or {}):
        client = AcpClient(root, options or {}, replies)
        serving = Tasks().start(client.server.serve())
        await asyncio.sleep(0)
        try:
            yield client
        finally:
            client.gates.open_all()
            client.end()
            await asyncio.wait_for(serving, WAIT_SECONDS)
    assert unexpected == []
