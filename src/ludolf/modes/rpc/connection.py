"""How one host is spoken to: its dialect, the events it wants, and how long a line may be."""

import re
from typing import TYPE_CHECKING

from ludolf.protocol.dialects import Dialect, ServerInfo
from ludolf.protocol.dialects.dialect import Traits
from ludolf.protocol.events import Event
from ludolf.protocol.replies import Frame, Reply

if TYPE_CHECKING:
    from ludolf.protocol.bounded import Bounds
    from ludolf.protocol.ui import UiRequest

# Frames that somebody waits for: no filter hides them.
_DUE = frozenset(("host_tool_call", "host_tool_cancel", "prompt_result", "command_output"))
_TYPE = re.compile(rb'\{"type":"([a-z_]+)"')


class Connection:
    """A dialect with what the host asked for laid over it. Costs nothing until it asks."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._wanted: frozenset[str] | None = None
        self._bounds: Bounds | None = None
        self.prompt_results = dialect.traits.prompt_results
        if dialect.traits.max_frame is not None:
            self.bound(1)

    @property
    def name(self) -> str:
        return self._dialect.name

    @property
    def traits(self) -> Traits:
        return self._dialect.traits

    def want(self, events: frozenset[str] | None) -> None:
        """Tell only these events from now on; None is all."""
        self._wanted = None if events is None else events | _DUE

    def bound(self, version: int) -> None:
        """Keep lines short from now on, in the way of this protocol version."""
        from ludolf.protocol.bounded import MAX_FRAME, Bounds

        self._bounds = Bounds(self.traits.max_frame or MAX_FRAME, version)

    # ------------------------------------------------------------ as a dialect

    def greeting(self, info: ServerInfo) -> Frame | None:
        return self._dialect.greeting(info)

    def begun(self, command: str) -> None:
        self._dialect.begun(command)

    def reply(self, reply: Reply) -> Frame | None:
        return self._fit(self._dialect.reply(reply))

    def event(self, event: Event) -> Frame | None:
        frame = self._dialect.event(event)
        if frame is not None and self._wanted is not None:
            frame = self._chosen(frame, self._wanted)
        return self._fit(frame)

    def ui(self, request: "UiRequest") -> Frame | None:
        return self._fit(self._dialect.ui(request))

    def _fit(self, frame: Frame | None) -> Frame | None:
        return frame if frame is None or self._bounds is None else self._bounds.fit(frame)

    def _chosen(self, frame: Frame, wanted: frozenset[str]) -> Frame | None:
        if not isinstance(frame, bytes):
            return frame if _is_wanted(frame[0], wanted) else None
        lines = frame.splitlines(keepends=True)
        return b"".join(line for line in lines if _is_wanted(line, wanted)) or None


def _is_wanted(line: bytes, wanted: frozenset[str]) -> bool:
    found = _TYPE.match(line)
    return found is None or found[1].decode() in wanted


if TYPE_CHECKING:

    def _proof(connection: Connection) -> Dialect:
        return connection
