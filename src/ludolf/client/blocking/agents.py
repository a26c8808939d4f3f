"""Made from client/agents.py by scripts/make_sync_client.py."""

from ludolf.client.blocking.asking import BlockingCommandSender
from ludolf.protocol.subagent_events import Level, Snapshot
from ludolf.protocol.wire.answers import (
    CancelledSubagent,
    Subagents,
    Subscription,
    Transcript,
)


class BlockingAgentCommands(BlockingCommandSender):
    """Commands about subagents. Each method sends the command of its name."""

    def set_subagent_subscription(self, level: Level) -> Level:
        """Choose which events of subagents are sent."""
        subscribed: Subscription = self._call("set_subagent_subscription", level=level)
        return subscribed.level

    def get_subagents(self) -> tuple[Snapshot, ...]:
        """Return the running subagents."""
        found: Subagents = self._call("get_subagents")
        return found.subagents

    def get_subagent_messages(
        self,
        subagent_id: str | None = None,
        *,
        session_file: str | None = None,
        from_byte: int | None = None,
    ) -> Transcript:
        """Return the session file of a subagent from a byte on; pass its id or its file."""
        transcript: Transcript = self._call(
            "get_subagent_messages",
            subagent_id=subagent_id,
            session_file=session_file,
            from_byte=from_byte,
        )
        return transcript

    def cancel_subagent(self, subagent_id: str) -> bool:
        """Cancel a subagent; False if it does not run."""
        done: CancelledSubagent = self._call("cancel_subagent", subagent_id=subagent_id)
        return done.cancelled

    def steer_subagent(self, subagent_id: str, message: str) -> None:
        """Send a message to a subagent; it gets the message before its next request."""
        self._call("steer_subagent", subagent_id=subagent_id, message=message)
