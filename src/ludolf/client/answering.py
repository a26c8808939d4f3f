"""Answer calls of tools and dialogs with the functions of the client's options."""

import asyncio
import warnings
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from ludolf.agent.scope import Tasks
from ludolf.agent.tool import ToolContext, ToolFailure, ToolOutput, text_output
from ludolf.client.errors import ProgramEnded, ServerClosed, SessionGone
from ludolf.client.events import Record
from ludolf.functions.isolation import Failed, call
from ludolf.functions.tool import FunctionTool, is_async, make_tool
from ludolf.protocol.host_events import HostToolCall
from ludolf.protocol.ui import DIALOGS, UiRequest
from ludolf.protocol.wire.commands import HostTool, HostToolContent

SendCommand = Callable[..., Awaitable[Any]]


class HostAnswers:
    """Each call and each dialog is a task; a cancel ends it, and so does the end of the client."""

    def __init__(
        self,
        tasks: Tasks,
        send: SendCommand,
        functions: Sequence[Callable[..., Any]],
        on_dialog: Callable[..., Any] | None,
    ) -> None:
        """Raises:
        NoSchema: a type of a function's parameter cannot be described.
        """
        self._tasks = tasks
        self._send = send
        self._on_dialog = on_dialog
        made = map(make_tool, functions)
        self._tools: dict[str, FunctionTool] = {tool.name: tool for tool in made}
        self._running: dict[str, asyncio.Task[Any]] = {}

    @property
    def wanted(self) -> bool:
        return bool(self._tools) or self._on_dialog is not None

    @property
    def tools(self) -> list[HostTool]:
        """The tools as they are registered with the program."""
        return [
            HostTool(
                name=tool.name,
                label=tool.label,
                description=tool.description,
                parameters=dict(tool.parameters),
            )
            for tool in self._tools.values()
        ]

    def take(self, record: Record) -> bool:
        """Whether the record is answered here."""
        try:
            return self._take(record)
        except msgspec.ValidationError:
            return False  # a frame of another program that only looks like one of these

    # ------------------------------------------------------------ private

    def _take(self, record: Record) -> bool:
        match record:
            case {"type": "host_tool_call", "toolName": str(name)} if name in self._tools:
                asked = msgspec.convert(record, HostToolCall)
                self._start(asked.id, self._run(self._tools[name], asked))
            case {"type": "host_tool_cancel", "targetId": str(target)}:
                return self._cancel(target)
            case {"type": "extension_ui_request", "method": "cancel", "targetId": str(target)}:
                return self._cancel(target)
            case {"type": "extension_ui_request", "method": method} if method in DIALOGS:
                if self._on_dialog is None:
                    return False
                request = msgspec.convert(record, UiRequest)
                self._start(request.id, self._settle(self._on_dialog, request))
            case _:
                return False
        return True

    def _start(self, id: str, work: Any) -> None:
        task = self._running[id] = self._tasks.start(work)
        task.add_done_callback(lambda _: self._running.pop(id, None))

    def _cancel(self, id: str) -> bool:
        task = self._running.get(id)
        if task is None:
            return False
        task.cancel()
        return True

    async def _run(self, tool: FunctionTool, asked: HostToolCall) -> None:
        async def report(partial: ToolOutput) -> None:
            await self._say("host_tool_update", id=asked.id, partialResult=_content(partial))

        context = ToolContext(call_id=asked.tool_call_id, cwd=Path.cwd(), report=report)
        failed: dict[str, Any] = {}
        try:
            output = await tool.execute(asked.arguments, context)
        except ToolFailure as error:
            failed = {"isError": True}
            output = error.output or text_output(str(error))
        await self._say("host_tool_result", id=asked.id, result=_content(output), **failed)

    async def _settle(self, on_dialog: Callable[..., Any], request: UiRequest) -> None:
        try:
            value = await call(on_dialog, request, thread=not is_async(on_dialog))
        except Failed as error:
            warnings.warn(f"on_dialog failed: {error}", stacklevel=2)
            value = None
        await self._say("extension_ui_response", id=request.id, **answer_to(request, value))

    async def _say(self, kind: str, **fields: Any) -> None:
        # Callers that wait for a reply get these errors.
        with suppress(ProgramEnded, ServerClosed, SessionGone):
            await self._send(kind, **fields)


def answer_to(request: UiRequest, value: Any) -> dict[str, Any]:
    """Return the fields of an answer with this value; None dismisses the dialog."""
    if value is None:
        return {"cancelled": True}
    return {"confirmed": bool(value)} if request.method == "confirm" else {"value": value}


def _content(output: ToolOutput) -> HostToolContent:
    return HostToolContent(content=list(output.content), details=output.details)
