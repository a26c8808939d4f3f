"""The subscription of a host to events of subagents."""

from ludolf.engine.hub import Hub
from ludolf.protocol.subagent_events import Level


class SubagentSubscription:
    """`hub` is that of the host's engine."""

    def __init__(self, hub: Hub) -> None:
        self.level: Level = "off"
        self.hub = hub
