"""Events as frames on stdout, in the words of a dialect."""

from ludolf.protocol.dialects import Dialect
from ludolf.protocol.events import Event
from ludolf.rpc.stdio import Stdio


class FrameSink:
    def __init__(self, dialect: Dialect, stdio: Stdio) -> None:
        self._dialect = dialect
        self._stdio = stdio

    def take(self, event: Event) -> None:
        frame = self._dialect.event(event)
        if frame is not None:
            self._stdio.send(frame)

    def has_room(self) -> bool:
        return self._stdio.has_room()

    async def room(self) -> None:
        await self._stdio.room()
