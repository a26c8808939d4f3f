"""Keeps count of what an agent in the background does, and tells hosts that asked for it."""

import asyncio
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ludolf.agent.events import MessageEnd, MessageUpdate, ToolEnd, ToolStart
from ludolf.ai.draft import Draft
from ludolf.ai.messages import AssistantMessage, text_of
from ludolf.base import now_ms
from ludolf.engine.features.subagents.task import Plan
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
    Status,
    SubagentEvent,
    SubagentLifecycle,
    SubagentProgress,
)

if TYPE_CHECKING:
    from ludolf.engine.features.subagents.registry import Board

# Between two frames while an answer comes. The ends of answers and of calls are told at once.
PAUSE_SECONDS = 0.15
RECENT_TOOLS, RECENT_LINES, TAIL = 5, 8, 8192
_TELLING = ("path", "file_path", "command", "pattern", "url", "query")


class Watch:
    """A sink at the agent's own hub. While nobody asked, it only counts."""

    def __init__(self, plan: Plan, board: "Board") -> None:
        self._plan = plan
        self._board = board
        self.status: Status = "pending"
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
        """The agent begins; hosts that follow its events learn its level first."""
        self.status = "running"
        self._began = time.monotonic()
        self._tell_life("started")
        self.take(ThinkingLevelChanged(level=self._plan.level))
        self._tell()

    def ended(self, status: Status) -> None:
        self.status = status
        self._tell()
        self._tell_life(status)

    @property
    def duration_ms(self) -> int:
        return int((time.monotonic() - self._began) * 1000)

    def snapshot(self) -> Snapshot:
        plan = self._plan
        return Snapshot(
            id=plan.id,
            index=plan.index,
            agent=plan.agent.name,
            agent_source=plan.agent.source,
            description=plan.name,
            status=self.status,
            task=plan.prompt,
            assignment=plan.assignment,
            session_file=str(plan.file),
            last_update=self.updated,
            progress=self.progress(),
            parent_tool_call_id=plan.call_id,
        )

    def progress(self) -> Progress:
        plan = self._plan
        level = "" if plan.level == "off" else f":{plan.level}"
        return plan.progress(self.status).replace(
            description=plan.name,
            current_tool=self._tool,
            recent_tools=tuple(self._tools),
            recent_output=self._recent_output(),
            tool_count=self._tool_count,
            requests=self._requests,
            tokens=self._tokens,
            cost=self._cost,
            duration_ms=self.duration_ms,
            model_override=plan.wanted,
            context_window=plan.model.context_window,
            resolved_model=plan.model.key + level,
            resolved_model_is_fallback=plan.is_fallback,
            context_tokens=self._context,
            extracted_tool_data={YIELD: self._yielded} if self._yielded else None,
        )

    # ------------------------------------------------------------ as a sink

    def take(self, event: Event) -> None:
        if self._board.level == "events":
            payload = EventPayload(id=self._plan.id, event=event)
            self._board.hub.tell(SubagentEvent(payload=payload))
        if type(event) is MessageUpdate:
            self._draft = event.draft
            self._tell_later()
        elif isinstance(event, MessageEnd) and isinstance(event.message, AssistantMessage):
            self._answered(event.message)
        elif isinstance(event, ToolStart):
            self._tool = event.tool_name
            self._open[event.tool_call_id] = _brief(event)
            self._tell_later()
        elif isinstance(event, ToolEnd):
            self._called(event)
        elif isinstance(event, AgentSettled):
            self._tell()

    def has_room(self) -> bool:
        return self._board.level == "off" or self._board.hub.has_room()

    async def room(self) -> None:
        if self._board.level != "off":
            await self._board.hub.room()

    # ------------------------------------------------------------ counting

    def _answered(self, message: AssistantMessage) -> None:
        self.last, self._draft = message, None
        self._requests += 1
        self._tokens += message.usage.context
        self._cost += message.usage.cost.total
        self._context = message.usage.context or self._context
        self._lines = _last_lines(text_of(message.content)) or self._lines
        self._tell()

    def _called(self, event: ToolEnd) -> None:
        self._tool = None
        self._tool_count += 1
        args = self._open.pop(event.tool_call_id, "")
        done = RecentTool(tool=event.tool_name, args=args, end_ms=now_ms())
        self._tools = [done, *self._tools][:RECENT_TOOLS]
        if event.tool_name == YIELD and not event.is_error:
            self._yielded.append(event.result.details)
        self._tell()

    def _recent_output(self) -> tuple[str, ...]:
        said = text_of(self._draft.snapshot().content) if self._draft is not None else ""
        return _last_lines(said) or self._lines

    # ------------------------------------------------------------ telling

    def _tell_later(self) -> None:
        if self._later is None and self._board.level != "off":
            self._later = asyncio.get_running_loop().call_later(PAUSE_SECONDS, self._tell)

    def _tell(self) -> None:
        self.updated = now_ms()
        if self._later is not None:
            self._later.cancel()
            self._later = None
        if self._board.level == "off":
            return
        plan = self._plan
        self._board.hub.tell(
            SubagentProgress(
                payload=ProgressPayload(
                    index=plan.index,
                    agent=plan.agent.name,
                    agent_source=plan.agent.source,
                    task=plan.prompt,
                    assignment=plan.assignment,
                    parent_tool_call_id=plan.call_id,
                    detached=True,
                    session_file=str(plan.file),
                    progress=self.progress(),
                )
            )
        )

    def _tell_life(self, status: Any) -> None:
        if self._board.level == "off":
            return
        plan = self._plan
        self._board.hub.tell(
            SubagentLifecycle(
                payload=LifecyclePayload(
                    id=plan.id,
                    agent=plan.agent.name,
                    agent_source=plan.agent.source,
                    description=plan.name,
                    status=status,
                    session_file=str(plan.file),
                    parent_tool_call_id=plan.call_id,
                    index=plan.index,
                    detached=True,
                )
            )
        )


def _brief(event: ToolStart) -> str:
    """The argument that tells most of a call, on one line."""
    args: Mapping[str, Any] = event.args if isinstance(event.args, dict) else {}
    told = next((args[key] for key in _TELLING if isinstance(args.get(key), str)), "")
    return " ".join(told.split())[:80]


def _last_lines(text: str) -> tuple[str, ...]:
    lines = [line for line in text[-TAIL:].splitlines() if line.strip()]
    return tuple(lines[-RECENT_LINES:])


if TYPE_CHECKING:

    def _proof(watch: Watch) -> Sink:
        return watch
