"""Tools that the host lends: the model calls them here, the host runs them, by its own id."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from ludolf.agent.tool import Tool, ToolContext, ToolError, ToolOutput
from ludolf.ai.messages import Part, text_of
from ludolf.base import CommandError, short_id
from ludolf.engine.host.host_calls import HostCalls, Question
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
    read_only: bool = False
    timeout_ms: float | None = None


class HostTools:
    """The set of one host. It stays when the session changes."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._calls: HostCalls[ToolContext, ToolOutput] = HostCalls(self._tell_cancel, GONE)

    def replace(self, tools: Sequence[Definition]) -> list[str]:
        """Offer these from the next request on, and no others of the host.

        What the host was asked before, it still answers.

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
        hidden = frozenset(tool.name for tool in tools if tool.hidden)
        toolbox.provide(SOURCE, [_HostTool(self, tool) for tool in tools], hidden=hidden)
        return names

    def update(self, id: str, partial: ToolOutput) -> None:
        """The host tells how far it is."""
        caller = self._calls.about(id)
        if caller is not None and caller.post is not None:
            caller.post(partial)

    def result(self, id: str, output: ToolOutput, *, failed: bool, is_error: bool) -> None:
        """The host is done. `failed`: only its words count; `is_error`: a whole result, but bad."""
        if failed:
            self._calls.fail(id, ToolError(text_of(output.content, "\n") or FAILED))
        elif is_error:
            self._calls.fail(id, ToolError(text_of(output.content, "\n"), output))
        else:
            self._calls.answer(id, output)

    def disconnect(self) -> None:
        """The host is gone: nobody will answer any more."""
        self._calls.disconnect()

    async def run(self, tool: Definition, args: Mapping[str, Any], ctx: ToolContext) -> ToolOutput:
        """The call goes to the host, whoever makes it; its progress to who hears of the caller.

        Raises:
            ToolError: the host said so, is gone, or was too slow.
        """

        async def send(id: str) -> None:
            await self._parts.hub.emit(
                HostToolCall(id=id, tool_call_id=ctx.call_id, tool_name=tool.name, arguments=args)
            )

        question = Question(f'Host tool "{tool.name}"', ctx, tool.timeout_ms)
        return await self._calls.ask(question, send)

    def _tell_cancel(self, id: str) -> None:
        cancel_id = f"host_cancel_{short_id()}"
        self._parts.hub.post(HostToolCancel(id=cancel_id, target_id=id))


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
        self.read_only = definition.read_only
        self.description = definition.description
        self.parameters: Mapping[str, Any] = definition.parameters

    def prepare(self, args: Mapping[str, Any]) -> Mapping[str, Any]:
        return args

    async def execute(self, args: Mapping[str, Any], ctx: ToolContext) -> ToolOutput:
        return await self._host.run(self._definition, args, ctx)


def output(content: Sequence[Part], details: Any) -> ToolOutput:
    """A host's result; details are an empty object unless it gave some."""
    return ToolOutput(content=tuple(content), details={} if details is None else details)


if TYPE_CHECKING:

    def _proof(tool: _HostTool) -> Tool:
        return tool
