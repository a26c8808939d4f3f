"""What agents in the background do, told in the words in which their parent's run is told."""

from collections.abc import Callable

from ludolf.base import dumps, loads
from ludolf.protocol.dialects.dialect import Dialect
from ludolf.protocol.events import ThinkingLevelChanged
from ludolf.protocol.replies import Frame
from ludolf.protocol.subagent_events import SubagentEvent

_TERMINAL, _WAITING = b'"isTerminal":true}\n', b'"isTerminal":false}\n'


class SubagentFrames:
    """Every agent has a dialect of its own, since a dialect remembers what it said."""

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
    """The end of a run that agents in the background will wake from."""
    if isinstance(end, bytes) and end.endswith(_TERMINAL):
        return end.removesuffix(_TERMINAL) + _WAITING
    return end


def _with_origin(frame: Frame, level: str) -> Frame:
    """Hosts of omp look for what an agent was told to use, and what came of it."""
    if not isinstance(frame, bytes) or b'"thinkingLevel":' not in frame:
        return frame
    return dumps({**loads(frame), "configured": level, "resolved": level}) + b"\n"


def _of_agent(dialect: Dialect) -> Dialect:
    """What the agent is told comes from another agent, where a family tells who spoke."""
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
