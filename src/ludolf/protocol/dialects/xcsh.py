"""xcsh: oh-my-pi of spring 2026 with a plainer `ready`, and errors of handlers without an id."""

from typing import Any, ClassVar

import msgspec

from ludolf.protocol.dialects.dialect import ServerInfo, Traits, silent
from ludolf.protocol.dialects.omp import Omp
from ludolf.protocol.dialects.omp_messages import OmpMessages
from ludolf.protocol.dialects.omp_replies import OmpReplies
from ludolf.protocol.dialects.omp_tools import JsonObject
from ludolf.protocol.events import ContextFilesUsed, Warned
from ludolf.protocol.framing import NO_ID, Frame, Reply, line

# Errors that this family reports without the id and the name of the command.
_UNPARSED = ("internal_error", "invalid_parameter")


class _Messages(OmpMessages):
    """Results have a flag for warnings, which is never set."""

    interrupted = "Request was aborted"
    tells_wall_time = False
    marks: ClassVar[JsonObject] = {"isWarning": False}


class _Replies(OmpReplies):
    def failed(self, reply: Reply) -> bytes:
        if reply.code in _UNPARSED:
            reply = msgspec.structs.replace(reply, command="parse", id=NO_ID)
        return super().failed(reply)

    def commands_update(self) -> bytes:
        return b""

    def system_prompt(self, text: str) -> Any:
        return text


class Xcsh(Omp):
    name = "xcsh"
    traits = Traits(
        early_ack=True,
        starts_when_idle=True,
        opens_existing=True,
        todos=True,
        clears_todos=True,
        interrupt_mode="wait",
    )

    messages_kind = _Messages
    replies_kind = _Replies

    def __init__(self) -> None:
        super().__init__()
        self._table[Warned] = self._table[ContextFilesUsed] = silent

    def greeting(self, info: ServerInfo) -> Frame | None:
        super().greeting(info)
        return line({"type": "ready", "version": info.version})

    def ending(self) -> dict[str, Any]:
        return {}

    def _model_changed(self) -> bytes:
        return b""

    def _level_changed(self, event: Any) -> Frame | None:
        return None
