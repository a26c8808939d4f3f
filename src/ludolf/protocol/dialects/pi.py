"""pi up to 0.83, the default: each update of an answer carries the whole message so far.

The message is joined from pieces that are JSON already; nothing is encoded twice.
"""

from ludolf.agent.events import MessageUpdate
from ludolf.ai.draft import BlockDelta, BlockEnd, BlockStart, Draft
from ludolf.protocol.dialects.dialect import Dialect, stream_event, with_model
from ludolf.protocol.framing import Frame, Reply


class EagerEnds:
    """Moves the ends of texts and thoughts forward, to where the next block begins."""

    def __init__(self) -> None:
        self._draft: Draft | None = None
        self._open: BlockStart | None = None
        self._ended: set[int] = set()

    def order(self, update: MessageUpdate) -> tuple[MessageUpdate, ...]:
        """Return the updates to send for this one: itself, an end before it, or nothing."""
        event = update.event
        if self._draft is not update.draft:
            self._draft, self._open, self._ended = update.draft, None, set()
        if type(event) is BlockDelta:
            self._ended.discard(event.index)
            return (update,)
        if isinstance(event, BlockStart):
            early = self._end_open(update)
            self._open = event if event.kind != "toolcall" else None
            return (*early, update)
        if event.index in self._ended:
            return ()
        if self._open is not None and self._open.index == event.index:
            self._open = None
        return (update,)

    def _end_open(self, update: MessageUpdate) -> tuple[MessageUpdate, ...]:
        before = self._open
        if before is None or not update.draft.is_open(before.index):
            return ()
        self._ended.add(before.index)
        block = update.draft.snapshot().content[before.index]
        return (MessageUpdate(BlockEnd(before.kind, before.index, block), update.draft),)


class Pi(Dialect):
    name = "pi"

    def __init__(self) -> None:
        super().__init__()
        self._table[MessageUpdate] = _update

    def reply(self, reply: Reply) -> Frame | None:
        return super().reply(with_model(reply))


def _update(update: MessageUpdate) -> Frame:
    message = update.draft.segments()
    return [
        b'{"type":"message_update","message":',
        *message,
        b',"assistantMessageEvent":{%b,"partial":' % stream_event(update.event),
        *message,
        b'},"usage":%b}\n' % update.draft.usage_json,
    ]
