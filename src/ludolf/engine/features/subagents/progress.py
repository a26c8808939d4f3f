"""Count what a subagent does, and send its progress to hosts that subscribed."""

import asyncio
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ludolf.agent.events import MessageEnd, MessageUpdate, ToolEnd, ToolStart
from ludolf.ai.draft import Draft
from ludolf.ai.messages import AssistantMessage, text_of
from ludolf.base import now_ms
from ludolf.engine.features.subagents.subscription import SubagentSubscription
from ludolf.engine.features.subagents.task import SubagentTask
from ludolf.engine.features.subagents.yield_tool import NAME as YIELD
from ludolf.engine.hub import Sink
from ludolf.protocol.events import AgentSettled, Event, ThinkingLevelChanged
from ludolf.protocol.subagent_events import (
    EventPayload,
    LifecyclePayload,
    Progress,
    ProgressPayload,
    RecentTool,
    Snapshot,
    SubagentEvent,
    SubagentLifecycle,
    SubagentProgress,
    SubagentStatus,
)

# Between two frames while an answer streams. Ends of answers and calls are sent at once.
PAUSE_SECONDS = 0.15
RECENT_TOOLS, RECENT_LINES, TAIL = 5, 8, 8192
_KEY_ARGUMENTS = ("path", "file_path", "command", "pattern", "url", "query")


class SubagentProgressSink:
    """A sink at the subagent's hub. Without a subscription it only counts."""

    def __init__(self, task: SubagentTask, subscription: SubagentSubscription) -> None:
        self._task = task
        self._subscription = subscription
        self.status: SubagentStatus = "pending"
        self.last: AssistantMessage | None = None
        self.updated = now_ms()
        self._began = time.monotonic()
        self._draft: Draft | None = None
        self._tool: str | None = None
        self._open: dict[str, str] = {}
        self._tools: list[RecentTool] = []
        self._lines: tuple[str, ...] = ()
        self._tool_count = self._requests = self._tokens = 0
        self._cost = 0.0
        self._context: int | None = None
        self._yielded: list[Any] = []
        self._later: asyncio.TimerHandle | None = None

    # ------------------------------------------------------------ life

    def started(self) -> None:
        """Called when the subagent starts; subscribers of its events get its level first."""
        self.status = "running"
        self._began = time.monotonic()
        self._send_lifecycle("started")
        self.take(ThinkingLevelChanged(level=self._task.level))
        self._send()

    def ended(self, status: SubagentStatus) -> None:
        self.status = status
        self._send()
        self._send_lifecycle(status)

    @property
    def duration_ms(self) -> int:
        return int((time.monotonic() - self._began) * 1000)

    def snapshot(self) -> Snapshot:
        task = self._task
        return Snapshot(
            id=task.id,
            index=task.index,
            agent=task.agent.name,
            agent_source=task.agent.source,
            description=task.name,
            status=self.status,
            task=task.prompt,
            assignment=task.assignment,
            session_file=str(task.file),
            last_update=self.updated,
            progress=self.progress(),
            parent_tool_call_id=task.call_id,
        )

    def progress(self) -> Progress:
        task = self._task
        level = "" if task.level == "off" else f":{task.level}"
        return task.progress(self.status).replace(
            description=task.name,
            current_tool=self._tool,
            recent_tools=tuple(self._tools),
            recent_output=self._recent_output(),
            tool_count=self._tool_count,
            requests=self._requests,
            tokens=self._tokens,
            cost=self._cost,
            duration_ms=self.duration_ms,
            model_override=task.wanted,
            context_window=task.model.context_window,
            resolved_model=task.model.key + level,
            resolved_model_is_fallback=task.is_fallback,
            context_tokens=self._context,
            extracted_tool_data={YIELD: self._yielded} if self._yielded else None,
        )

    # ------------------------------------------------------------ as a sink

    def take(self, event: Event) -> None:
        if self._subscription.level == "events":
            payload = EventPayload(id=self._task.id, event=event)
            self._subscription.hub.send(SubagentEvent(payload=payload))
        if type(event) is MessageUpdate:
            self._draft = event.draft
            self._send_later()
        elif isinstance(event, MessageEnd) and isinstance(event.message, AssistantMessage):
            self._answered(event.message)
        elif isinstance(event, ToolStart):
            self._tool = event.tool_name
            self._open[event.tool_call_id] = _brief(event)
            self._send_later()
        elif isinstance(event, ToolEnd):
            self._called(event)
        elif isinstance(event, AgentSettled):
            self._send()

    def has_room(self) -> bool:
        return self._subscription.level == "off" or self._subscription.hub.has_room()

    async def room(self) -> None:
        if self._subscription.level != "off":
            await self._subscription.hub.room()

    # ------------------------------------------------------------ counting

    def _answered(self, message: AssistantMessage) -> None:
        self.last, self._draft = message, None
        self._requests += 1
        self._tokens += message.usage.context
        self._cost += message.usage.cost.total
        self._context = message.usage.context or self._context
        self._lines = _last_lines(text_of(message.content)) or self._lines
        self._send()

    def _called(self, event: ToolEnd) -> None:
        self._tool = None
        self._tool_count += 1
        args = self._open.pop(event.tool_call_id, "")
        done = RecentTool(tool=event.tool_name, args=args, end_ms=now_ms())
        self._tools = [done, *self._tools][:RECENT_TOOLS]
        if event.tool_name == YIELD and not event.is_error:
            self._yielded.append(event.result.details)
        self._send()

    def _recent_output(self) -> tuple[str, ...]:
        said = text_of(self._draft.snapshot().content) if self._draft is not None else ""
        return _last_lines(said) or self._lines

    # ------------------------------------------------------------ sending

    def _send_later(self) -> None:
        if self._later is None and self._subscription.level != "off":
            self._later = asyncio.get_running_loop().call_later(PAUSE_SECONDS, self._send)

    def _send(self) -> None:
        self.updated = now_ms()
        if self._later is not None:
            self._later.cancel()
            self._later = None
        if self._subscription.level == "off":
            return
        task = self._task
        self._subscription.hub.send(
            SubagentProgress(
                payload=ProgressPayload(
                    index=task.index,
                    agent=task.agent.name,
                    agent_source=task.agent.source,
                    task=task.prompt,
                    assignment=task.assignment,
                    parent_tool_call_id=task.call_id,
                    detached=True,
                    session_file=str(task.file),
                    progress=self.progress(),
                )
            )
        )

    def _send_lifecycle(self, status: Any) -> None:
        if self._subscription.level == "off":
            return
        task = self._task
        self._subscription.hub.send(
            SubagentLifecycle(
                payload=LifecyclePayload(
                    id=task.id,
                    agent=task.agent.name,
                    agent_source=task.agent.source,
                    description=task.name,
                    status=status,
                    session_file=str(task.file),
                    parent_tool_call_id=task.call_id,
                    index=task.index,
                    detached=True,
                )
            )
        )


def _brief(event: ToolStart) -> str:
    """Return the most informative argument of a call, on one line."""
    args: Mapping[str, Any] = event.args if isinstance(event.args, dict) else {}
    text = next((args[key] for key in _KEY_ARGUMENTS if isinstance(args.get(key), str)), "")
    return " ".join(text.split())[:80]


def _last_lines(text: str) -> tuple[str, ...]:
    lines = [line for line in text[-TAIL:].splitlines() if line.strip()]
    return tuple(lines[-RECENT_LINES:])


if TYPE_CHECKING:

    def _proof(watch: SubagentProgressSink) -> Sink:
        return watch
