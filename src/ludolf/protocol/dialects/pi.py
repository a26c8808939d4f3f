"""pi up to 0.83, the default: each update of an answer carries the whole message so far.

The message is joined from pieces that are JSON already; nothing is encoded twice.
"""

from typing import TYPE_CHECKING

from ludolf.agent.events import MessageUpdate
from ludolf.base import dumps
from ludolf.protocol.dialects.dialect import Dialect, Render, ServerInfo, Traits
from ludolf.protocol.dialects.pi_delta import stream_event
from ludolf.protocol.events import Event
from ludolf.protocol.replies import Frame, Reply, render_reply

if TYPE_CHECKING:
    from ludolf.protocol.ui import UiRequest


class Pi:
    name = "pi"
    traits = Traits()

    def __init__(self) -> None:
        self._table: dict[type, Render] = {MessageUpdate: _update}

    def greeting(self, info: ServerInfo) -> Frame | None:
        return None

    def begun(self, command: str) -> None:
        """Ignored: no frame depends on the commands that run."""

    def reply(self, reply: Reply) -> Frame | None:
        return render_reply(reply)

    def event(self, event: Event) -> Frame | None:
        render = self._table.get(type(event))
        return render(event) if render else dumps(event) + b"\n"

    def ui(self, request: "UiRequest") -> Frame | None:
        return dumps(request) + b"\n"


def _update(update: MessageUpdate) -> Frame:
    message = update.draft.segments()
    return [
        b'{"type":"message_update","message":',
        *message,
        b',"assistantMessageEvent":{%b,"partial":' % stream_event(update.event),
        *message,
        b'},"usage":%b}\n' % update.draft.usage_json,
    ]


if TYPE_CHECKING:
    _proof: Dialect = Pi()
