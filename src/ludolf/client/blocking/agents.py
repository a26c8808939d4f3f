"""Made from client/agents.py by scripts/make_sync_client.py."""

from ludolf.client.blocking.asking import Asking
from ludolf.protocol.subagent_events import Level, Snapshot
from ludolf.protocol.wire.answers import (
    CancelledSubagent,
    Subagents,
    Subscription,
    Transcript,
)


class AgentCommands(Asking):
    """What works beside the conversation. Each method sends the command of its name."""

    def set_subagent_subscription(self, level: Level) -> Level:
        """How much is told of agents in the background."""
        subscribed: Subscription = self._call("set_subagent_subscription", level=level)
        return subscribed.level

    def get_subagents(self) -> tuple[Snapshot, ...]:
        """Those that run."""
        found: Subagents = self._call("get_subagents")
        return found.subagents

    def get_subagent_messages(
        self,
        subagent_id: str | None = None,
        *,
        session_file: str | None = None,
        from_byte: int | None = None,
    ) -> Transcript:
        """What an agent's session file holds from a byte on; its id or its file names it."""
        transcript: Transcript = self._call(
            "get_subagent_messages",
            subagent_id=subagent_id,
            session_file=session_file,
            from_byte=from_byte,
        )
        return transcript

    def cancel_subagent(self, subagent_id: str) -> bool:
        """End an agent; False if no such agent runs."""
        done: CancelledSubagent = self._call("cancel_subagent", subagent_id=subagent_id)
        return done.cancelled

    def steer_subagent(self, subagent_id: str, message: str) -> None:
        """Say something to an agent; it hears it before its next answer."""
        self._call("steer_subagent", subagent_id=subagent_id, message=message)
