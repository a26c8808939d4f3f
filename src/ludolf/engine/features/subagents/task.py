"""The task of one subagent, fixed before it starts."""

from pathlib import Path
from typing import Literal

import msgspec

from ludolf.agent.scope import Scope
from ludolf.ai.messages import ThinkingLevel
from ludolf.ai.models import Model
from ludolf.engine.features.subagents.agents import Agent
from ludolf.protocol.subagent_events import Progress, SubagentStatus


class SubagentTask(msgspec.Struct, frozen=True, kw_only=True):
    """`wanted` are the model patterns asked for; `is_fallback` if none of them was available.

    The subagent runs in `scope`.
    """

    id: str
    name: str
    index: int
    call_id: str
    agent: Agent
    assignment: str
    context: str
    file: Path
    model: Model
    level: ThinkingLevel
    wanted: tuple[str, ...]
    scope: Scope
    is_fallback: bool = False

    @property
    def prompt(self) -> str:
        return f"Your assignment:\n\n{self.assignment}"

    def progress(self, status: SubagentStatus) -> Progress:
        """Return the progress of a subagent that has not started yet."""
        return Progress(
            index=self.index,
            id=self.id,
            agent=self.agent.name,
            agent_source=self.agent.source,
            status=status,
            task=self.prompt,
            assignment=self.assignment,
            recent_tools=(),
            recent_output=(),
            tool_count=0,
            requests=0,
            tokens=0,
            cost=0,
            duration_ms=0,
        )


class SubagentOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """How a subagent ended: its result, or an error with the partial result."""

    status: Literal["completed", "failed", "aborted"]
    text: str = ""
    error: str | None = None
