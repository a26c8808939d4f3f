"""Events of agents in the background: that they run, how far they are, and all that they do."""

from typing import Any, Literal

from ludolf.base import Value

Level = Literal["off", "progress", "events"]
AgentSource = Literal["bundled", "user", "project"]
SubagentStatus = Literal["pending", "running", "completed", "failed", "aborted"]


class AgentWaiting(Value, tag_field="type", tag="agent_waiting"):
    """The run is over and prompts are welcome, but these agents will wake the session.

    Stands where AgentSettled would; that one comes when no agent is left to wait for.
    """

    jobs: tuple[str, ...]


class RecentTool(Value):
    tool: str
    args: str
    end_ms: int


class Progress(Value, kw_only=True):
    """The progress of a subagent. `task` is its whole prompt, `assignment` its own part of it."""

    index: int
    id: str
    agent: str
    agent_source: AgentSource
    status: SubagentStatus
    task: str
    assignment: str
    description: str | None = None
    current_tool: str | None = None
    recent_tools: tuple[RecentTool, ...]
    recent_output: tuple[str, ...]
    tool_count: int
    requests: int
    tokens: int
    cost: float
    duration_ms: int
    model_override: tuple[str, ...] | None = None
    context_window: int | None = None
    resolved_model: str | None = None
    resolved_model_is_fallback: bool | None = None
    context_tokens: int | None = None
    extracted_tool_data: dict[str, list[Any]] | None = None


class LifecyclePayload(Value):
    id: str
    agent: str
    agent_source: AgentSource
    description: str
    status: Literal["started", "completed", "failed", "aborted"]
    session_file: str
    parent_tool_call_id: str
    index: int
    detached: bool


class ProgressPayload(Value):
    index: int
    agent: str
    agent_source: AgentSource
    task: str
    assignment: str
    parent_tool_call_id: str
    detached: bool
    session_file: str
    progress: Progress


class EventPayload(Value):
    """`event` is any event of the agent's own session; a dialect writes it as it writes its own."""

    id: str
    event: Any


class SubagentLifecycle(Value, tag_field="type", tag="subagent_lifecycle"):
    """An agent in the background began or ended."""

    payload: LifecyclePayload


class SubagentProgress(Value, tag_field="type", tag="subagent_progress"):
    """The progress of a subagent; a few per second at most while an answer streams."""

    payload: ProgressPayload


class SubagentEvent(Value, tag_field="type", tag="subagent_event"):
    """Something happened in an agent's own session."""

    payload: EventPayload


class Snapshot(Value):
    """One item of `get_subagents`."""

    id: str
    index: int
    agent: str
    agent_source: AgentSource
    description: str
    status: SubagentStatus
    task: str
    assignment: str
    session_file: str
    last_update: int
    progress: Progress
    parent_tool_call_id: str


SubagentNews = AgentWaiting | SubagentLifecycle | SubagentProgress | SubagentEvent
