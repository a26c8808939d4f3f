"""pi of December 2025: no replies; an error is an `error` record."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from ludolf.agent import events as run
from ludolf.agent.events import MessageUpdate
from ludolf.ai.messages import Message, text_of
from ludolf.base import iso_time, now_ms
from ludolf.protocol import events as around
from ludolf.protocol.dialects.dialect import ServerInfo, Traits, silent, stream_event
from ludolf.protocol.dialects.pi import EagerEnds, Pi
from ludolf.protocol.framing import PARSE_FAILED, Frame, Reply, line
from ludolf.protocol.subagent_events import AgentWaiting

if TYPE_CHECKING:
    from ludolf.protocol.ui import UiRequest

_UNSPOKEN: tuple[type, ...] = (
    *around.ONLY_PI,
    run.ToolUpdate,
    around.AutoRetryStart,
    around.AutoRetryEnd,
    around.ContextFilesUsed,
    around.ThinkingLevelChanged,
)
_FAILED = {"compact": "Compaction failed: ", "bash": "Bash command failed: "}
# A prompt or shell command without its text is ignored: command and missing parameter.
_WITHOUT_TEXT = (("prompt", "message"), ("bash", "command"))
_START = line({"type": "agent_start"})
_TURN = line({"type": "turn_start"})


def _end(messages: Sequence[Message]) -> bytes:
    return line({"type": "agent_end", "messages": messages})


def _pieces(frame: Frame | None) -> list[bytes]:
    if frame is None:
        return []
    return [frame] if isinstance(frame, bytes) else list(frame)


class PiEarly(Pi):
    """Each prompt has its own start and end, also if it was queued.

    The end of a run is held until it is certain that no retry follows. The start of a queued prompt
    is sent at once, since hosts count starts and ends.
    """

    name = "pi-early"
    traits = Traits(queues_when_busy=True, skips_empty=True, ends_after_run=True)

    def __init__(self) -> None:
        super().__init__()
        self._ends = EagerEnds()
        self._held: Frame | None = None
        self._info = ServerInfo("")
        self._running = False
        self._open = False
        self._said: list[Message] = []
        self._ended = 0
        self._waiting = 0
        self._begun = 0
        self._may_stop = False
        self._turn_held = False
        self._table.update(
            {
                run.AgentStart: self._agent_start,
                run.AgentEnd: self._agent_end,
                run.TurnStart: self._turn_start,
                run.QueueUpdate: self._queue_update,
                around.AgentSettled: self._agent_settled,
                AgentWaiting: self._agent_waiting,
                around.CompactionStart: self._compaction_start,
                around.CompactionEnd: self._compaction_end,
                MessageUpdate: self._updates,
                run.MessageEnd: self._message_end,
                run.TurnEnd: self._turn_end,
                run.ToolEnd: _tool_end,
                around.ExtensionError: lambda event: _error(
                    f"{event.extension_path}: {event.error}"
                ),
                around.Warned: lambda event: _error(event.message),
            }
        )
        self._table.update(dict.fromkeys(_UNSPOKEN, silent))

    def greeting(self, info: ServerInfo) -> Frame | None:
        self._info = info
        return None

    def reply(self, reply: Reply) -> Frame | None:
        if reply.code == "invalid_parameter" and (reply.command, reply.field) in _WITHOUT_TEXT:
            return None
        if reply.error is not None:
            text = _FAILED.get(reply.command, "") + reply.error.removeprefix(PARSE_FAILED)
            return _error(text)
        if reply.command == "bash":
            return _bash_end(reply)
        if reply.command == "compact" and isinstance(reply.data, around.CompactionResult):
            return self._compaction(reply.data, auto=False)
        return None

    def ui(self, request: "UiRequest") -> Frame | None:
        return None

    def event(self, event: around.Event) -> Frame | None:
        if not self._turn_held or isinstance(event, run.QueueUpdate):
            return super().event(event)
        self._turn_held = False
        return [_TURN, *_pieces(super().event(event))]

    # ------------------------------------------------------------ the run

    def _updates(self, update: MessageUpdate) -> Frame | None:
        pieces = [piece for item in self._ends.order(update) for piece in _update(item)]
        return pieces or None

    def _agent_start(self, event: run.AgentStart) -> Frame | None:
        """Send the start of a prompt; a retry does not start another prompt."""
        self._held = None
        self._running = True
        self._may_stop = False
        if self._open:
            return None
        self._open = True
        self._said, self._ended = [], 0
        return _START

    def _agent_end(self, event: run.AgentEnd) -> None:
        self._held = _end(self._said[self._ended :])

    def _agent_settled(self, event: around.AgentSettled) -> Frame | None:
        """A prompt that still waits, since the run was stopped, ends with it."""
        self._running = False
        unheard, self._begun = self._begun, 0
        return [*_pieces(self._release()), *[_end(())] * unheard] or None

    def _release(self) -> Frame | None:
        held, self._held = self._held, None
        self._open = self._open and held is None
        return held

    def _turn_start(self, event: run.TurnStart) -> Frame | None:
        """After an answer without tools it is not clear yet whose turn it is."""
        if self._may_stop:
            self._turn_held = True
            return None
        return _TURN

    def _turn_end(self, event: run.TurnEnd) -> Frame:
        self._may_stop = not event.tool_results
        return line(event)

    def _message_end(self, event: run.MessageEnd) -> Frame:
        self._said.append(event.message)
        return line(event)

    def _queue_update(self, event: run.QueueUpdate) -> Frame | None:
        before, self._waiting = self._waiting, len(event.follow_up)
        if self._waiting > before and self._running:
            self._begun += 1
            return _START + _TURN
        if self._waiting < before and self._turn_held:
            return self._next_prompt()
        return None

    def _next_prompt(self) -> Frame:
        self._turn_held = False
        ended = _end(self._said[self._ended :])
        self._ended = len(self._said)
        if not self._begun:
            return ended + _START + _TURN
        self._begun -= 1
        return ended

    def _agent_waiting(self, event: AgentWaiting) -> Frame | None:
        return self._release()

    def _compaction_start(self, event: around.CompactionStart) -> Frame | None:
        return self._release() if event.reason == "threshold" else None

    def _compaction_end(self, event: around.CompactionEnd) -> Frame | None:
        if event.reason == "manual":
            return None
        if event.result is not None:
            return self._compaction(event.result, auto=True)
        return _error(event.error_message or "Auto-compaction failed")

    def _compaction(self, result: around.CompactionResult, *, auto: bool) -> Frame:
        record = {
            "type": "compaction",
            "timestamp": iso_time(),
            "summary": result.summary,
            "firstKeptEntryIndex": self._info.place_of(result.first_kept_entry_id),
            "tokensBefore": result.tokens_before,
        }
        return line({**record, "auto": True} if auto else record)


def _update(update: MessageUpdate) -> list[bytes]:
    message = update.draft.segments()
    return [
        b'{"type":"message_update","message":',
        *message,
        b',"assistantMessageEvent":{%b,"partial":' % stream_event(update.event),
        *message,
        b"}}\n",
    ]


def _tool_end(event: run.ToolEnd) -> Frame:
    record = msgspec.to_builtins(event)
    if event.is_error:
        record["result"] = text_of(event.result.content, "\n")
    return line(record)


def _bash_end(reply: Reply) -> Frame:
    data = msgspec.to_builtins(reply.data)
    message = {
        "role": "bashExecution",
        "command": reply.more()["command"] if reply.more else "",
        "output": data["output"],
        "exitCode": data.get("exitCode"),
        "cancelled": data["cancelled"],
        "truncated": data["truncated"],
        "timestamp": now_ms(),
    }
    if "fullOutputPath" in data:
        message["fullOutputPath"] = data["fullOutputPath"]
    return line({"type": "bash_end", "message": message})


def _error(text: str) -> Frame:
    return line({"type": "error", "error": text})
