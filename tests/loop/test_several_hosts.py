"""Several hosts on one engine: whose tools and documents are called, and hosts that leave."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ludolf.agent.scope import Tasks
from ludolf.agent.tool import ToolContext, ToolFailure, ToolOutput
from ludolf.ai.messages import Text
from ludolf.base import CommandError
from ludolf.engine.engine import Engine
from ludolf.engine.host.host_link import HostLink
from ludolf.engine.host.host_tools import Definition
from ludolf.engine.host.host_uris import HostDocument, Scheme
from ludolf.protocol.host_events import HostToolCall, HostToolCancel, HostUriRequest
from tests.loop.stage import Stage, call, calls, say, stage, texts


class Host:
    """A client of the engine; `seen` is what reached it."""

    def __init__(self, engine: Engine, owner: str, wait_seconds: float = 30.0) -> None:
        self.seen: list[Any] = []
        self.heard = asyncio.Event()
        link = HostLink(self._emit, self._take, owner)
        self.side = engine.host_side(link, wait_seconds)

    async def _emit(self, event: Any) -> None:
        self._take(event)

    def _take(self, event: Any) -> None:
        self.seen.append(event)
        self.heard.set()

    async def next(self) -> Any:
        """The next event that this host has not looked at."""
        async with asyncio.timeout(30):
            await self.heard.wait()
        event = self.seen.pop(0)
        if not self.seen:
            self.heard.clear()
        return event

    def give(self, id: str, text: str) -> None:
        self.side.tools.result(id, _output(text), failed=False, is_error=False)


def _output(text: str) -> ToolOutput:
    return ToolOutput(content=(Text(text=text),))


def _tool(name: str) -> Definition:
    return Definition(name=name, label=name, description="x", parameters={"type": "object"})


async def _use(s: Stage, name: str) -> str:
    """Call a tool of the toolset, or say how it failed."""

    async def report(output: Any) -> None: ...

    tool = s.engine.toolset.find(name)
    assert tool is not None
    try:
        output = await tool.execute({}, ToolContext(call_id="c", cwd=s.root, report=report))
    except ToolFailure as failure:
        return str(failure)
    return "".join(part.text for part in output.content if isinstance(part, Text))


async def _read(s: Stage, address: str) -> str:
    assert s.engine.toolset.documents is not None
    try:
        return (await s.engine.toolset.documents.read(address)).content
    except ToolFailure as failure:
        return str(failure)


async def test_each_host_gets_the_calls_of_its_own_tools(tmp_path: Path) -> None:
    replies = (calls(call("peek", "c1"), call("poke", "c2"), call("own", "c3")), say("Done."))
    async with stage(tmp_path, *replies, lawful=False) as s:
        ann, bob = Host(s.engine, "ann"), Host(s.engine, "bob")
        own = {"name": "own", "description": "x", "parameters": {"type": "object"}}
        await s.data("set_host_tools", tools=[own])
        ann.side.tools.replace([_tool("peek"), _tool("other")])
        bob.side.tools.replace([_tool("poke")])
        ann.side.tools.replace([_tool("peek")])
        await s.data("prompt", message="Go")
        first, second = await ann.next(), await bob.next()
        third = await s.until("host_tool_call")
        assert [first.tool_name, second.tool_name, third["toolName"]] == ["peek", "poke", "own"]
        bob.give(first.id, "not bob's call")
        ann.give(first.id, "from ann")
        bob.give(second.id, "from bob")
        s.send("host_tool_result", id=third["id"], result={"content": [{"text": "from here"}]})
        await s.settled()
        assert s.engine.toolset.find("other") is None
    assert texts(s.frames, "toolResult") == ["from ann", "from bob", "from here"]
    assert len(s.of_type("host_tool_call")) == 1


async def test_tools_that_a_host_defines_when_it_is_gone_fail_at_once(tmp_path: Path) -> None:
    async with stage(tmp_path) as s:
        host = Host(s.engine, "a")
        host.side.disconnect()
        host.side.tools.replace([_tool("late")])
        assert "disconnected" in await _use(s, "late")
        assert host.seen == []


async def test_calls_of_tools_that_are_defined_while_the_host_is_away_wait_for_it(
    tmp_path: Path,
) -> None:
    async with stage(tmp_path) as s:
        host = Host(s.engine, "a")
        host.side.leave()
        host.side.tools.replace([_tool("late")])
        used = asyncio.ensure_future(_use(s, "late"))
        await asyncio.sleep(0)
        assert host.seen == []
        host.side.come_back()
        request = await host.next()
        host.give(request.id, "back")
        assert await used == "back"


async def test_a_name_of_another_host_is_refused(tmp_path: Path) -> None:
    async with stage(tmp_path) as s:
        ann, bob = Host(s.engine, "ann"), Host(s.engine, "bob")
        ann.side.tools.replace([_tool("peek")])
        ann.side.documents.replace([Scheme(name="wiki")])
        peek = {"name": "peek", "description": "x", "parameters": {"type": "object"}}
        refused = 'RPC host tool "peek" conflicts with a tool of the client "ann"'
        assert await s.refusal("set_host_tools", tools=[peek]) == refused
        with pytest.raises(CommandError, match=refused):
            bob.side.tools.replace([_tool("poke"), _tool("peek")])
        assert s.engine.toolset.find("poke") is None
        refused = 'Host URI scheme belongs to the client "ann": wiki://'
        assert await s.refusal("set_host_uri_schemes", schemes=[{"scheme": "WIKI"}]) == refused
        with pytest.raises(CommandError, match=refused):
            bob.side.documents.replace([Scheme(name="log"), Scheme(name="wiki")])
        await s.data("set_host_uri_schemes", schemes=[{"scheme": "own"}])
        with pytest.raises(CommandError, match="belongs to the host: own://"):
            bob.side.documents.replace([Scheme(name="own")])
        ann.side.close()
        bob.side.tools.replace([_tool("peek")])
        assert bob.side.documents.replace([Scheme(name="wiki")]) == ["wiki"]


async def test_documents_are_asked_of_the_host_that_has_them(tmp_path: Path) -> None:
    async with stage(tmp_path) as s:
        ann, bob = Host(s.engine, "ann"), Host(s.engine, "bob")
        ann.side.documents.replace([Scheme(name="wiki")])
        bob.side.documents.replace([Scheme(name="log")])
        tasks = Tasks()
        reads = [tasks.start(_read(s, address)) for address in ("wiki://a", "log://b")]
        for host, url in ((ann, "wiki://a"), (bob, "log://b")):
            asked = await host.next()
            assert (type(asked), asked.url) == (HostUriRequest, url)
            host.side.documents.result(asked.id, HostDocument(content=f"at {url}"))
        assert [await read for read in reads] == ["at wiki://a", "at log://b"]
        assert "- wiki://" in s.engine.resources.system_prompt()
        ann.side.close()
        assert (await _read(s, "wiki://a")).endswith("wiki://a. Known: log://.")
        assert "- wiki://" not in s.engine.resources.system_prompt()


async def test_a_host_that_comes_back_gets_its_open_calls_again(tmp_path: Path) -> None:
    async with stage(tmp_path) as s:
        ann = Host(s.engine, "ann")
        ann.side.tools.replace([_tool("peek")])
        ann.side.documents.replace([Scheme(name="wiki")])
        tasks = Tasks()
        ann.side.come_back()  # it was not away
        before, dropped = (tasks.start(_use(s, "peek")) for _ in range(2))
        first, unwanted = await ann.next(), await ann.next()
        ann.side.leave()
        meanwhile, page = tasks.start(_use(s, "peek")), tasks.start(_read(s, "wiki://a"))
        dropped.cancel()
        await asyncio.wait((dropped,))
        assert ann.seen == []
        ann.side.come_back()
        withdrawn, again, later, asked = [await ann.next() for _ in range(4)]
        assert isinstance(withdrawn, HostToolCancel)
        assert withdrawn.target_id == unwanted.id
        assert again == first
        assert isinstance(later, HostToolCall)
        ann.give(first.id, "one")
        ann.give(later.id, "two")
        ann.side.documents.result(asked.id, HostDocument(content="three"))
        assert [await before, await meanwhile, await page] == ["one", "two", "three"]
        assert ann.seen == []


async def test_calls_fail_when_the_host_stays_away(tmp_path: Path) -> None:
    async with stage(tmp_path) as s:
        ann = Host(s.engine, "ann", wait_seconds=0)
        ann.side.tools.replace([_tool("peek")])
        ann.side.documents.replace([Scheme(name="wiki")])
        peek = s.engine.toolset.find("peek")
        tasks = Tasks()
        call, page = tasks.start(_use(s, "peek")), tasks.start(_read(s, "wiki://a"))
        await ann.next()
        await ann.next()
        ann.side.leave()
        ann.side.leave()
        late = tasks.start(_use(s, "peek"))
        assert await call == 'Host tool "peek": its host has left'
        assert await late == 'Host tool "peek": its host has left'
        assert await page == "Host URI read for wiki://a: its host has left"
        assert s.engine.toolset.find("peek") is None
        assert s.engine.toolset.source_of("peek") is None
        # A subagent may still hold the tool.
        assert peek is not None
        with pytest.raises(ToolFailure, match="its host has left"):
            await peek.execute({}, ToolContext(call_id="c", cwd=s.root, report=_ignore))
        ann.side.come_back()
        assert ann.seen == []
        ann.side.tools.replace([_tool("peek")])
        again = tasks.start(_use(s, "peek"))
        ann.give((await ann.next()).id, "back")
        assert await again == "back"


async def _ignore(output: Any) -> None: ...


async def test_closing_ends_open_calls_at_once(tmp_path: Path) -> None:
    async with stage(tmp_path) as s:
        ann = Host(s.engine, "ann")
        ann.side.tools.replace([_tool("peek")])
        call = Tasks().start(_use(s, "peek"))
        await ann.next()
        ann.side.leave()
        ann.side.close()
        assert await call == 'Host tool "peek": its host has left'
        assert s.engine.toolset.find("peek") is None
