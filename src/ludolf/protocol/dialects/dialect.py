"""What a dialect is: how events and replies of the neutral core are written for one family."""

from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from ludolf.protocol.events import Event
from ludolf.protocol.replies import Frame, Reply

Render = Callable[[Any], Frame | None]


class ServerInfo(msgspec.Struct, frozen=True):
    version: str


class Dialect(Protocol):
    """Output only. A frame is one or more whole lines, as bytes or as pieces to be joined."""

    @property
    def name(self) -> str: ...
    @property
    def early_ack(self) -> bool:
        """Whether a prompt is acknowledged before it has been looked at."""

    def greeting(self, info: ServerInfo) -> Frame | None: ...
    def reply(self, reply: Reply) -> Frame | None: ...
    def event(self, event: Event) -> Frame | None: ...
