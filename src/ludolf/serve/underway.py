"""What has begun in a session and not ended, read from its events."""

from typing import Any

import msgspec

from ludolf.agent.events import (
    AgentEnd,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    QueueUpdate,
    ToolEnd,
    ToolStart,
    ToolUpdate,
)
from ludolf.ai.draft import Draft
from ludolf.ai.messages import AssistantMessage, ToolResultMessage
from ludolf.base import dumps
from ludolf.engine.hub import Sink
from ludolf.protocol.events import (
    AutoRetryEnd,
    AutoRetryStart,
    CompactionEnd,
    CompactionStart,
    Event,
    ShellOutput,
)
from ludolf.protocol.server import RunningShell, RunningTool
from ludolf.protocol.ui import UiRequest

# Characters of a running shell command's output that a snapshot has.
_SHELL_TAIL = 64 * 1024
# Kinds of requests that change what a user sees until they are replaced.
_LASTING = ("setStatus", "setWidget", "setTitle")


class UnderwayWatch(Sink):
    """Follows the events of one engine. What has ended is in the session file."""

    def __init__(self) -> None:
        self._draft: Draft | None = None
        self._message: AssistantMessage | None = None
        self._tools: dict[str, RunningTool] = {}
        self._shells: dict[bytes, str] = {}
        self._queue: QueueUpdate | None = None
        self._retry: AutoRetryStart | None = None
        self._compaction: CompactionStart | None = None
        self._shown: dict[tuple[str, str | None], UiRequest] = {}

    def take(self, event: Event) -> None:
        kind = type(event)
        if kind is MessageUpdate:
            assert isinstance(event, MessageUpdate)
            self._draft = event.draft
        elif kind in _HANDLED:
            _HANDLED[kind](self, event)

    def show(self, request: UiRequest) -> None:
        """Note a request that changes what the user sees."""
        if request.method in _LASTING:
            self._shown[request.method, request.status_key or request.widget_key] = request

    def shell_began(self, id: bytes) -> None:
        self._shells[id] = ""

    def shell_ended(self, id: bytes) -> None:
        self._shells.pop(id, None)

    def json(self, dialogs: tuple[UiRequest, ...]) -> bytes:
        """Return the object `underway` of a snapshot; `dialogs` are those without an answer."""
        fields: dict[str, Any] = {}
        if self._draft is not None:
            fields["message"] = msgspec.Raw(b"".join(self._draft.segments()))
        elif self._message is not None:
            fields["message"] = self._message
        if self._tools:
            fields["tools"] = tuple(self._tools.values())
        if self._shells:
            fields["bash"] = tuple(
                RunningShell(id=msgspec.Raw(id) if id else None, output=text)
                for id, text in self._shells.items()
            )
        if self._queue is not None:
            fields["steering"] = self._queue.steering
            fields["followUp"] = self._queue.follow_up
        if dialogs:
            fields["dialogs"] = dialogs
        if self._retry is not None:
            fields["retry"] = self._retry
        if self._compaction is not None:
            fields["compaction"] = self._compaction
        return dumps({**fields, **self._lasting()})

    def _lasting(self) -> dict[str, Any]:
        shown = self._shown.values()
        statuses = {
            str(each.status_key): each.status_text
            for each in shown
            if each.method == "setStatus" and each.status_text is not None
        }
        widgets = tuple(
            each for each in shown if each.method == "setWidget" and each.widget_lines is not None
        )
        title = self._shown.get(("setTitle", None))
        fields = {"statuses": statuses, "widgets": widgets, "title": title and title.title}
        return {name: value for name, value in fields.items() if value}

    # ------------------------------------------------------------ events

    def _message_start(self, event: MessageStart) -> None:
        if isinstance(event.message, AssistantMessage):
            self._message, self._draft = event.message, None

    def _message_end(self, event: MessageEnd) -> None:
        if isinstance(event.message, AssistantMessage):
            self._message = self._draft = None
        elif isinstance(event.message, ToolResultMessage):
            self._tools.pop(event.message.tool_call_id, None)

    def _tool_start(self, event: ToolStart) -> None:
        self._tools[event.tool_call_id] = RunningTool(
            tool_call_id=event.tool_call_id, tool_name=event.tool_name, args=event.args
        )

    def _tool_update(self, event: ToolUpdate) -> None:
        tool = self._tools.get(event.tool_call_id)
        if tool is not None:
            self._tools[event.tool_call_id] = tool.replace(partial_result=event.partial_result)

    def _tool_end(self, event: ToolEnd) -> None:
        """A call that has ended stays until its message is stored."""
        tool = self._tools.get(event.tool_call_id)
        if tool is not None:
            self._tools[event.tool_call_id] = tool.replace(
                result=event.result, is_error=event.is_error
            )

    def _agent_end(self, event: AgentEnd) -> None:
        self._tools.clear()
        self._message = self._draft = None

    def _shell_output(self, event: ShellOutput) -> None:
        key = bytes(event.id) if event.id is not None else b""
        if key in self._shells:
            self._shells[key] = (self._shells[key] + event.delta)[-_SHELL_TAIL:]

    def _queue_update(self, event: QueueUpdate) -> None:
        self._queue = event if event.steering or event.follow_up else None

    def _retry_start(self, event: AutoRetryStart) -> None:
        self._retry = event

    def _retry_end(self, event: AutoRetryEnd) -> None:
        self._retry = None

    def _compaction_start(self, event: CompactionStart) -> None:
        self._compaction = event

    def _compaction_end(self, event: CompactionEnd) -> None:
        self._compaction = None


_HANDLED: dict[type, Any] = {
    MessageStart: UnderwayWatch._message_start,
    MessageEnd: UnderwayWatch._message_end,
    ToolStart: UnderwayWatch._tool_start,
    ToolUpdate: UnderwayWatch._tool_update,
    ToolEnd: UnderwayWatch._tool_end,
    AgentEnd: UnderwayWatch._agent_end,
    ShellOutput: UnderwayWatch._shell_output,
    QueueUpdate: UnderwayWatch._queue_update,
    AutoRetryStart: UnderwayWatch._retry_start,
    AutoRetryEnd: UnderwayWatch._retry_end,
    CompactionStart: UnderwayWatch._compaction_start,
    CompactionEnd: UnderwayWatch._compaction_end,
}
