"""Events of subagents, written in the dialect of the connection."""

from collections.abc import Callable

from ludolf.base import dumps, loads
from ludolf.protocol.dialects.dialect import Dialect
from ludolf.protocol.events import ThinkingLevelChanged
from ludolf.protocol.framing import Frame
from ludolf.protocol.subagent_events import SubagentEvent

_TERMINAL, _WAITING = b'"isTerminal":true}\n', b'"isTerminal":false}\n'


class SubagentFrames:
    """One dialect per subagent, since a dialect keeps state."""

    def __init__(self, make: Callable[[], Dialect]) -> None:
        self._make = make
        self._dialects: dict[str, Dialect] = {}

    def render(self, event: SubagentEvent) -> Frame | None:
        id = event.payload.id
        if id not in self._dialects:
            self._dialects[id] = _of_agent(self._make())
        happened = event.payload.event
        frame = self._dialects[id].event(happened)
        if frame is not None and isinstance(happened, ThinkingLevelChanged):
            frame = _with_origin(frame, happened.level)
        return None if frame is None else _wrapped(frame, id)

    def forget(self, id: str) -> None:
        """The agent has ended."""
        self._dialects.pop(id, None)


def not_terminal(end: Frame | None) -> Frame | None:
    """Return the end of a run that subagents will continue later."""
    if isinstance(end, bytes) and end.endswith(_TERMINAL):
        return end.removesuffix(_TERMINAL) + _WAITING
    return end


def _with_origin(frame: Frame, level: str) -> Frame:
    """Add the configured and the resolved level, which hosts of omp expect."""
    if not isinstance(frame, bytes) or b'"thinkingLevel":' not in frame:
        return frame
    return dumps({**loads(frame), "configured": level, "resolved": level}) + b"\n"


def _of_agent(dialect: Dialect) -> Dialect:
    """Attribute the prompts of a subagent to an agent, in families that attribute messages."""
    messages = getattr(dialect, "messages", None)
    if messages is not None:
        messages.speaker = "agent"
    return dialect


def _wrapped(frame: Frame, id: str) -> Frame:
    head = b'{"type":"subagent_event","payload":{"id":%b,"event":' % dumps(id)
    if isinstance(frame, bytes):
        return b"".join(head + line + b"}}\n" for line in frame.splitlines())
    pieces: list[bytes] = []
    begins = True
    for piece in frame:
        if begins:
            pieces.append(head)
        # A line ends with its last piece; inside of JSON a newline is never written as itself.
        begins = piece.endswith(b"\n")
        pieces += (piece[:-1], b"}}\n") if begins else (piece,)
    return pieces
