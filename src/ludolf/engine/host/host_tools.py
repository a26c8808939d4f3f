"""Tools of the host: the model calls them, the host runs them.

A call waits until the host answers, the run is aborted, the host withdraws what is called, its
time is up, or the host is gone. Documents of the host are called in the same way.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Generic

import msgspec

from ludolf.agent.questions import AnswerT, Questions, QuestionT
from ludolf.agent.tool import ToolContext, ToolDefaults, ToolFailure, ToolOutput
from ludolf.ai.messages import Part, text_of
from ludolf.base import CommandError, short_id
from ludolf.engine.hub import Hub
from ludolf.engine.toolset import Toolset
from ludolf.protocol.host_events import HostToolCall, HostToolCancel, HostUriCancel

FAILED = "Host tool execution failed"
GONE = "RPC client disconnected before host tool execution completed"
SOURCE = "host"


class HostCall(msgspec.Struct, Generic[QuestionT], frozen=True):
    """`what` names the call in errors."""

    what: str
    about: QuestionT
    timeout_ms: float | None


class HostCalls(Questions[HostCall[QuestionT], AnswerT]):
    """`cancelled` withdraws a call at the host; `gone` is the error after the host has left."""

    def __init__(
        self, hub: Hub, cancelled: type[HostToolCancel] | type[HostUriCancel], gone: str
    ) -> None:
        super().__init__()
        self._hub = hub
        self._cancelled = cancelled
        self._gone = gone
        self._is_gone = False

    async def run(
        self, call: HostCall[QuestionT], send: Callable[[str], Awaitable[None]]
    ) -> AnswerT:
        """Send the call under an id of its own, and wait for its answer.

        Raises:
            ToolFailure: the host reported an error, is gone, withdrew the tool or was too slow.
        """
        if self._is_gone:
            raise ToolFailure(self._gone)
        id = f"host_{short_id()}{short_id()}"
        limit = None if call.timeout_ms is None else call.timeout_ms / 1000
        try:
            return await self.ask(id, call, lambda: send(id), limit)
        except asyncio.CancelledError:
            if self._is_gone:
                raise asyncio.CancelledError(self._gone) from None
            self._cancel(id)
            raise asyncio.CancelledError(f"{call.what} was aborted") from None
        except TimeoutError:
            self._cancel(id)
            raise ToolFailure(f"{call.what} gave no result in {limit:g} s") from None

    def withdraw(self, is_withdrawn: Callable[[QuestionT], bool]) -> None:
        """Fail the calls that can no longer be answered; the host receives a cancellation."""
        for id, call in self.waiting():
            if is_withdrawn(call.about):
                self._cancel(id)
                self.fail(id, ToolFailure(f"{call.what} was aborted"))

    def _cancel(self, id: str) -> None:
        self._hub.post(self._cancelled(id=f"host_cancel_{short_id()}", target_id=id))

    def disconnect(self) -> None:
        """Fail all calls: the host is gone."""
        self._is_gone = True
        for id, _ in self.waiting():
            self.fail(id, ToolFailure(self._gone))


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

    def __init__(self, hub: Hub, toolset: Toolset) -> None:
        self._hub = hub
        self._toolset = toolset
        self._calls: HostCalls[ToolContext, ToolOutput] = HostCalls(hub, HostToolCancel, GONE)

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
            if self._toolset.source_of(name) not in (None, SOURCE):
                raise CommandError(f'RPC host tool "{name}" conflicts with an existing tool')
        hidden = frozenset(tool.name for tool in tools if tool.hidden)
        self._toolset.provide(SOURCE, [_HostTool(self, tool) for tool in tools], hidden=hidden)
        return names

    def update(self, id: str, partial: ToolOutput) -> None:
        """Show the progress of a call."""
        call = self._calls.about(id)
        if call is not None and call.about.post is not None:
            call.about.post(partial)

    def result(self, id: str, output: ToolOutput, *, failed: bool, is_error: bool) -> None:
        """Finish a call. `failed`: only the text counts; `is_error`: a complete error result."""
        if failed:
            self._calls.fail(id, ToolFailure(text_of(output.content, "\n") or FAILED))
        elif is_error:
            self._calls.fail(id, ToolFailure(text_of(output.content, "\n"), output))
        else:
            self._calls.answer(id, output)

    def disconnect(self) -> None:
        """Fail all calls: the host is gone."""
        self._calls.disconnect()

    async def run(self, tool: Definition, args: Mapping[str, Any], ctx: ToolContext) -> ToolOutput:
        """Send a call to the host and wait for its result.

        Raises:
            ToolFailure: the host reported an error, is gone, or was too slow.
        """

        async def send(id: str) -> None:
            await self._hub.emit(
                HostToolCall(id=id, tool_call_id=ctx.call_id, tool_name=tool.name, arguments=args)
            )

        call = HostCall(f'Host tool "{tool.name}"', ctx, tool.timeout_ms)
        return await self._calls.run(call, send)


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
