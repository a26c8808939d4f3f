"""What one agent in the background is to do, settled before it starts."""

from pathlib import Path
from typing import Literal

import msgspec

from ludolf.ai.messages import ThinkingLevel
from ludolf.ai.models import Model
from ludolf.engine.features.subagents.agents import Agent
from ludolf.protocol.subagent_events import Progress, Status


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """`wanted` are the names of models that were asked for; a fallback is none of them."""

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
    is_fallback: bool = False

    @property
    def prompt(self) -> str:
        return f"Your assignment:\n\n{self.assignment}"

    def progress(self, status: Status) -> Progress:
        """That of an agent that has done nothing yet."""
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


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How it ended: a result, or what went wrong, with what there is all the same."""

    status: Literal["completed", "failed", "aborted"]
    text: str = ""
    error: str | None = None
