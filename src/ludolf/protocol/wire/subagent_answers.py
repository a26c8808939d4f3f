"""What commands about agents in the background answer: the same in every dialect."""

from typing import Any

from ludolf.base import Value
from ludolf.protocol.subagent_events import Level, Snapshot


class Subscription(Value):
    level: Level


class Subagents(Value):
    """Those that run."""

    subagents: tuple[Snapshot, ...]


class Transcript(Value):
    """What an agent's session file holds from a byte on, in whole lines, as it was stored.

    `reset`: the file is shorter than that, and was read from its start.
    """

    session_file: str
    from_byte: int
    next_byte: int
    reset: bool
    entries: tuple[dict[str, Any], ...]
    messages: tuple[dict[str, Any], ...]


class CancelledSubagent(Value):
    """False if no such agent runs."""

    cancelled: bool


SUBAGENT_ANSWERS: dict[str, Any] = {
    "set_subagent_subscription": Subscription,
    "get_subagents": Subagents,
    "get_subagent_messages": Transcript,
    "cancel_subagent": CancelledSubagent,
    "steer_subagent": None,
}
