"""Tools of the host: the model calls them, the host runs them."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ludolf.agent.tool import ToolContext, ToolDefaults, ToolFailure, ToolOutput
from ludolf.ai.messages import Part, text_of
from ludolf.base import CommandError
from ludolf.engine.host.host_calls import HostCall, HostCalls, new_call_id
from ludolf.engine.host.host_link import HostLink, title_of
from ludolf.engine.toolset import Toolset
from ludolf.protocol.host_events import HostToolCall, HostToolCancel

FAILED = "Host tool execution failed"
GONE = "RPC client disconnected before host tool execution completed"


class Definition(msgspec.Struct, frozen=True, kw_only=True):
    """One tool as the host describes it, checked."""

    name: str
    label: str
    description: str
    parameters: dict[str, Any]
    hidden: bool = False
    read_only: bool = False
    timeout_ms: float | None = None


class HostTools:
    """The tools of one host. They stay when the session changes."""

    def __init__(self, link: HostLink, toolset: Toolset) -> None:
        self._source = link.source
        self._toolset = toolset
        self._count = 0
        self.calls: HostCalls[ToolContext, ToolOutput] = HostCalls(link, HostToolCancel)

    @property
    def is_used(self) -> bool:
        """Return whether there are tools, or calls without a result."""
        return self._count > 0 or any(True for _ in self.calls.waiting())

    def replace(self, tools: Sequence[Definition]) -> list[str]:
        """Replace the tools of the host, from the next request on.

        Calls that are under way can still be answered.

        Raises:
            CommandError: two have one name, or one has the name of another tool.
        """
        names = [tool.name for tool in tools]
        if len(set(names)) < len(names):
            raise CommandError("RPC host tool names must be unique")
        for name in names:
            taken = self._toolset.source_of(name)
            if taken not in (None, self._source):
                owner = title_of(taken)
                other = "an existing tool" if owner is None else f"a tool of {owner}"
                raise CommandError(f'RPC host tool "{name}" conflicts with {other}')
        hidden = frozenset(tool.name for tool in tools if tool.hidden)
        made = [_HostTool(self, tool) for tool in tools]
        self._toolset.provide(self._source, made, hidden=hidden)
        self._count = len(made)
        return names

    def update(self, id: str, partial: ToolOutput) -> None:
        """Show the progress of a call."""
        call = self.calls.about(id)
        if call is not None and call.about.post is not None:
            call.about.post(partial)

    def result(self, id: str, output: ToolOutput, *, failed: bool, is_error: bool) -> None:
        """Finish a call. `failed`: only the text counts; `is_error`: a complete error result."""
        if failed:
            self.calls.fail(id, ToolFailure(text_of(output.content, "\n") or FAILED))
        elif is_error:
            self.calls.fail(id, ToolFailure(text_of(output.content, "\n"), output))
        else:
            self.calls.answer(id, output)

    def disconnect(self) -> None:
        """Fail all calls: the host is gone."""
        self.calls.end(GONE)

    def remove(self, gone: str) -> None:
        """Remove the tools; open and later calls fail with this text."""
        self._toolset.remove_source(self._source)
        self._count = 0
        self.calls.end(gone)

    async def run(self, tool: Definition, args: Mapping[str, Any], ctx: ToolContext) -> ToolOutput:
        """Send a call to the host and wait for its result.

        Raises:
            ToolFailure: the host reported an error, is gone, or was too slow.
        """
        trace = ctx.trace()
        request = HostToolCall(
            id=new_call_id(),
            tool_call_id=ctx.call_id,
            tool_name=tool.name,
            arguments=args,
            traceparent=trace.get("traceparent"),
            tracestate=trace.get("tracestate"),
        )
        what = f'Host tool "{tool.name}"'
        return await self.calls.run(HostCall(what, ctx, tool.timeout_ms, request))


class _HostTool(ToolDefaults):
    """One tool of the host."""

    def __init__(self, host: HostTools, definition: Definition) -> None:
        self._host = host
        self._definition = definition
        self.name = definition.name
        self.label = definition.label
        self.read_only = definition.read_only
        self.description = definition.description
        self.parameters: Mapping[str, Any] = definition.parameters

    async def execute(self, args: Mapping[str, Any], ctx: ToolContext) -> ToolOutput:
        return await self._host.run(self._definition, args, ctx)


def output(content: Sequence[Part], details: Any) -> ToolOutput:
    """Make a tool output of a host's result; details default to an empty object."""
    return ToolOutput(content=tuple(content), details={} if details is None else details)
