"""Tools whose end a test decides."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from ludolf.agent.tool import Tool, ToolContext, ToolFailure, ToolOutput, text_output
from ludolf.ai.sampling import Sampling

Act = Callable[[str, ToolContext], Awaitable[ToolOutput]]
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}},
    "required": ["name"],
}


class Gates:
    """Named points at which a tool waits until the test opens them."""

    def __init__(self) -> None:
        self._open: dict[str, asyncio.Event] = {}
        self._reached: dict[str, asyncio.Event] = {}
        self._all = False

    def open(self, name: str) -> None:
        self._open.setdefault(name, asyncio.Event()).set()

    def open_all(self) -> None:
        self._all = True
        for event in self._open.values():
            event.set()

    async def reached(self, name: str) -> None:
        async with asyncio.timeout(30):
            await self._reached.setdefault(name, asyncio.Event()).wait()

    def is_reached(self, name: str) -> bool:
        return name in self._reached and self._reached[name].is_set()

    async def pass_through(self, name: str) -> None:
        self._reached.setdefault(name, asyncio.Event()).set()
        if not self._all:
            await self._open.setdefault(name, asyncio.Event()).wait()


class StageTool(msgspec.Struct, frozen=True):
    name: str
    act: Act
    alone: bool = False
    label: str = "Stage"
    description: str = "A tool for tests."
    read_only: bool = False
    version: str = ""
    sampling: Sampling | None = None
    snippet: str | None = None
    guidelines: tuple[str, ...] = ()

    @property
    def parameters(self) -> Mapping[str, Any]:
        return SCHEMA

    async def prepare(self, args: Mapping[str, Any]) -> Mapping[str, Any]:
        if self.name == "odd":
            raise KeyError("not prepared")
        return args

    async def execute(self, args: Mapping[str, Any], ctx: ToolContext) -> ToolOutput:
        return await self.act(args["name"], ctx)


class BrokenTool(StageTool, frozen=True):
    """A tool with a bug: it cannot be described."""

    @property
    def parameters(self) -> Mapping[str, Any]:
        raise RuntimeError("the tool is broken")


async def nothing(name: str, ctx: ToolContext) -> ToolOutput:
    return text_output("")


def stage_tools(gates: Gates) -> tuple[Tool, ...]:
    async def echo(name: str, ctx: ToolContext) -> ToolOutput:
        await ctx.update(text_output(f"{name} so far"))
        return text_output(name)

    async def hold(name: str, ctx: ToolContext) -> ToolOutput:
        await gates.pass_through(name)
        return text_output(name)

    async def fail(name: str, ctx: ToolContext) -> ToolOutput:
        raise ToolFailure(f"{name} cannot be done")

    async def crash(name: str, ctx: ToolContext) -> ToolOutput:
        raise RuntimeError(f"{name} is broken")

    async def last(name: str, ctx: ToolContext) -> ToolOutput:
        return ToolOutput(content=(), ends_run=True)

    return (
        StageTool("echo", echo),
        StageTool("hold", hold),
        StageTool("fail", fail),
        StageTool("crash", crash),
        StageTool("last", last),
        StageTool("solo", hold, alone=True),
        StageTool("odd", echo),
    )
