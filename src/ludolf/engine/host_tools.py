"""Tools that the host lends: the model calls them here, the host runs them, by its own id.

A call waits until the host answers it, the run is aborted, the host takes the tool away, its time
is up, or the host is gone. Whatever comes first settles it; what comes later is ignored.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from ludolf.agent.events import ToolUpdate
from ludolf.agent.tool import Tool, ToolContext, ToolError, ToolOutput
from ludolf.ai.messages import Part, text_of
from ludolf.base import CommandError, short_id
from ludolf.engine.parts import Parts
from ludolf.protocol.host_events import HostToolCall, HostToolCancel

FAILED = "Host tool execution failed"
GONE = "RPC client disconnected before host tool execution completed"
SOURCE = "host"


class Definition(msgspec.Struct, frozen=True, kw_only=True):
    """One tool as the host describes it, checked."""

    name: str
    label: str
    description: str
    parameters: dict[str, Any]
    hidden: bool = False
    timeout_ms: float | None = None


class _Call(msgspec.Struct):
    """One call that the host has not answered yet."""

    tool: str
    call_id: str
    args: Mapping[str, Any]
    answer: "asyncio.Future[ToolOutput]"


class HostTools:
    """The set of one host. It stays when the session changes."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._calls: dict[str, _Call] = {}
        self._gone = False

    def replace(self, tools: Sequence[Definition]) -> list[str]:
        """Offer these from the next request on, and no others of the host.

        Raises:
            CommandError: two have one name, or one has the name of another tool.
        """
        names = [tool.name for tool in tools]
        if len(set(names)) < len(names):
            raise CommandError("RPC host tool names must be unique")
        toolbox = self._parts.toolbox
        for name in names:
            if toolbox.source_of(name) not in (None, SOURCE):
                raise CommandError(f'RPC host tool "{name}" conflicts with an existing tool')
        for id, call in tuple(self._calls.items()):
            if call.tool not in names:
                self._cancel(id, call)
        hidden = frozenset(tool.name for tool in tools if tool.hidden)
        toolbox.provide(SOURCE, [_HostTool(self, tool) for tool in tools], hidden=hidden)
        return names

    def update(self, id: str, partial: ToolOutput) -> None:
        """The host tells how far it is."""
        call = self._calls.get(id)
        if call is not None and not call.answer.done():
            self._parts.hub.post(
                ToolUpdate(
                    tool_call_id=call.call_id,
                    tool_name=call.tool,
                    args=call.args,
                    partial_result=partial,
                )
            )

    def result(self, id: str, output: ToolOutput, *, failed: bool, is_error: bool) -> None:
        """The host is done. `failed`: only its words count; `is_error`: a whole result, but bad."""
        call = self._calls.get(id)
        if call is None or call.answer.done():
            return
        if failed:
            call.answer.set_exception(ToolError(text_of(output.content, "\n") or FAILED))
        elif is_error:
            call.answer.set_exception(ToolError(text_of(output.content, "\n"), output))
        else:
            call.answer.set_result(output)

    def disconnect(self) -> None:
        """The host is gone: nobody will answer any more."""
        self._gone = True
        for call in self._calls.values():
            if not call.answer.done():
                call.answer.set_exception(ToolError(GONE))

    async def run(self, tool: Definition, args: Mapping[str, Any], call_id: str) -> ToolOutput:
        """Raises:
        ToolError: the host said so, is gone, took the tool away, or was too slow.
        """
        if self._gone:
            raise ToolError(GONE)
        id = f"host_{short_id()}{short_id()}"
        answer: asyncio.Future[ToolOutput] = asyncio.get_running_loop().create_future()
        call = self._calls[id] = _Call(tool.name, call_id, args, answer)
        try:
            await self._parts.hub.emit(
                HostToolCall(id=id, tool_call_id=call_id, tool_name=tool.name, arguments=args)
            )
            limit = tool.timeout_ms
            async with asyncio.timeout(None if limit is None else limit / 1000):
                return await answer
        except asyncio.CancelledError:
            if self._gone:
                raise asyncio.CancelledError(GONE) from None
            self._tell_cancel(id)
            raise asyncio.CancelledError(aborted(tool.name)) from None
        except TimeoutError:
            self._tell_cancel(id)
            seconds = (tool.timeout_ms or 0) / 1000
            raise ToolError(f'Host tool "{tool.name}" gave no result in {seconds:g} s') from None
        finally:
            del self._calls[id]
            if call.answer.done() and not call.answer.cancelled():
                call.answer.exception()

    def _cancel(self, id: str, call: _Call) -> None:
        if not call.answer.done():
            self._tell_cancel(id)
            call.answer.set_exception(ToolError(aborted(call.tool)))

    def _tell_cancel(self, id: str) -> None:
        cancel_id = f"host_cancel_{short_id()}"
        self._parts.hub.post(HostToolCancel(id=cancel_id, target_id=id))


def aborted(name: str) -> str:
    return f'Host tool "{name}" was aborted'


class _HostTool:
    """One lent tool, as any other tool to the agent."""

    alone = False
    snippet = None
    guidelines: tuple[str, ...] = ()

    def __init__(self, host: HostTools, definition: Definition) -> None:
        self._host = host
        self._definition = definition
        self.name = definition.name
        self.label = definition.label
        self.description = definition.description
        self.parameters: Mapping[str, Any] = definition.parameters

    def prepare(self, args: Mapping[str, Any]) -> Mapping[str, Any]:
        return args

    async def execute(self, args: Mapping[str, Any], ctx: ToolContext) -> ToolOutput:
        return await self._host.run(self._definition, args, ctx.call_id)


def output(content: Sequence[Part], details: Any) -> ToolOutput:
    """A host's result; details are an empty object unless it gave some."""
    return ToolOutput(content=tuple(content), details={} if details is None else details)


if TYPE_CHECKING:

    def _proof(tool: _HostTool) -> Tool:
        return tool
