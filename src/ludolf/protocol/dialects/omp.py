"""oh-my-pi: greeted with `ready`, one `agent_end` for each prompt, results as they come."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from ludolf.agent import events as run
from ludolf.ai.draft import BlockDelta, BlockEnd
from ludolf.ai.messages import ToolCall
from ludolf.base import now_ms
from ludolf.protocol import events as around
from ludolf.protocol.commands import COMMANDS
from ludolf.protocol.dialects.dialect import ServerInfo, Traits, silent, stream_event
from ludolf.protocol.dialects.omp_messages import FAILED, OmpMessages, short_summary
from ludolf.protocol.dialects.omp_replies import OmpReplies, model
from ludolf.protocol.dialects.omp_subagents import not_terminal
from ludolf.protocol.dialects.omp_tools import approval
from ludolf.protocol.dialects.pi import EagerEnds, Pi
from ludolf.protocol.frame_limits import MAX_FRAME, MAX_REASSEMBLED, VERSIONS
from ludolf.protocol.framing import Frame, Reply, line
from ludolf.protocol.host_events import ConfigUpdate, SessionSettled
from ludolf.protocol.subagent_events import AgentWaiting

if TYPE_CHECKING:
    from ludolf.protocol.ui import UiRequest


def _notice(level: str, text: str) -> Frame:
    return line({"type": "notice", "level": level, "message": text, "source": "ludolf"})


NOTICES: dict[type, Callable[[Any], Frame]] = {
    around.Warned: lambda event: _notice("warning", event.message),
    around.ContextFilesUsed: lambda event: _notice(
        "info", f"Instructions from {', '.join(event.paths) or 'no file'}"
    ),
}
ACTION = "context-full"


def compaction_start(event: around.CompactionStart) -> Frame | None:
    if event.reason == "manual":
        return None
    return line({"type": "auto_compaction_start", "reason": event.reason, "action": ACTION})


def compaction_end(event: around.CompactionEnd) -> Frame | None:
    if event.reason == "manual":
        return None
    record: dict[str, Any] = {
        "type": "auto_compaction_end",
        "action": ACTION,
        "result": None,
        "aborted": event.aborted,
        "willRetry": event.will_retry,
    }
    if event.result is not None:
        details = {} if event.result.details is UNSET else event.result.details
        record["result"] = {
            "summary": event.result.summary,
            "shortSummary": short_summary(event.result.summary),
            "firstKeptEntryId": event.result.first_kept_entry_id,
            "tokensBefore": event.result.tokens_before,
            "details": details,
        }
    if event.error_message is not None:
        record["errorMessage"] = event.error_message
    return line(record)


_ABORTS = frozenset(name for name, spec in COMMANDS.items() if spec.interrupts)
_MODEL_CHANGES = ("set_model", "cycle_model")


class Omp(Pi):
    """Several runs may follow one prompt; hosts take the first `agent_end` for its end.

    So the end of a run is held until no other run follows, and dropped if another run follows. The
    end of an aborted run comes after the reply to `abort`, and not at all with `abort_and_prompt`.
    """

    name = "omp"
    traits = Traits(
        early_ack=True,
        answers_slash=True,
        starts_when_idle=True,
        opens_existing=True,
        todos=True,
        tasks=True,
        prompt_results=True,
        forgets_modes=True,
        max_frame=MAX_FRAME,
        interrupt_mode="immediate",
    )

    messages_kind = OmpMessages
    replies_kind = OmpReplies

    def __init__(self) -> None:
        super().__init__()
        self.messages = self.messages_kind()
        self.replies = self.replies_kind(self.messages)
        self._ends = EagerEnds()
        self._held: bytes | None = None
        self._aborting = 0
        self._retry_aborting = 0
        self._retry_end = b""
        self._retry_errors: list[dict[str, Any]] = []
        self._settled = True
        self._new_model = False
        self._open_calls: set[str] = set()
        self._told_early: set[str] = set()
        self._tells_titles = False
        self._table.update(
            {
                run.AgentStart: self._agent_start,
                run.AgentEnd: self._agent_end,
                around.AgentSettled: self._agent_settled,
                AgentWaiting: self._agent_waiting,
                run.MessageStart: self._message,
                run.MessageUpdate: self._updates,
                run.MessageEnd: self._message,
                run.TurnEnd: self._turn_end,
                run.ToolStart: self._tool_start,
                run.ToolUpdate: self._tool_update,
                run.ToolEnd: self._tool_end,
                run.QueueUpdate: self.messages.queue,
                around.CompactionStart: compaction_start,
                around.CompactionEnd: compaction_end,
                around.ThinkingLevelChanged: self._level_changed,
                around.AutoRetryStart: self._retry_start,
                around.AutoRetryEnd: self._retry_ended,
                ConfigUpdate: _config_update,
                SessionSettled: self._session_settled,
            }
        )
        self._table.update({**dict.fromkeys(around.ONLY_PI, silent), **NOTICES})

    # ------------------------------------------------------------ start and replies

    def greeting(self, info: ServerInfo) -> Frame | None:
        self._tells_titles = info.tells_titles
        self.replies.commands = info.commands
        self.messages.cwd, self.messages.home = info.cwd, info.home
        return line(self.ready(info)) + self.replies.commands_update()

    def ready(self, info: ServerInfo) -> dict[str, Any]:
        return {
            "type": "ready",
            "protocolVersion": VERSIONS[0],
            "supportedProtocolVersions": VERSIONS,
            "maxFrameBytes": MAX_FRAME,
            "maxReassembledFrameBytes": MAX_REASSEMBLED,
        }

    def begun(self, command: str) -> None:
        self._aborting += command in _ABORTS
        self._retry_aborting += command == "abort_retry"
        self.messages.is_interrupted = bool(self._aborting)
        self._new_model = command in _MODEL_CHANGES
        if command == "steer" and self._settled:
            self.messages.steer_next()

    def reply(self, reply: Reply) -> Frame | None:
        frame = self.replies.render(reply)
        if reply.command in _MODEL_CHANGES and reply.error is None and reply.data is not None:
            return self._model_changed() + frame
        if reply.command == "abort_retry":
            return frame + self._retry_aborted()
        if reply.command not in _ABORTS:
            return frame
        self._aborting = max(0, self._aborting - 1)
        self.messages.is_interrupted = bool(self._aborting)
        held, self._held = (self._held, None) if self._settled else (None, self._held)
        return frame + held if held and reply.command == "abort" else frame

    def ui(self, request: "UiRequest") -> Frame | None:
        if request.method == "setTitle" and not self._tells_titles:
            return None
        return super().ui(approval(request) if request.tool_name is not None else request)

    # ------------------------------------------------------------ the run

    def _agent_start(self, event: run.AgentStart) -> Frame:
        if self._settled:
            self.messages.new_prompt()
        self._held = None
        self._settled = False
        return line({"type": "agent_start"})

    def _agent_end(self, event: run.AgentEnd) -> None:
        messages = self.messages.render_all(event.messages)
        self._held = line({"type": "agent_end", "messages": messages, **self.ending()})

    def ending(self) -> dict[str, Any]:
        return {"isTerminal": True}

    def _agent_settled(self, event: around.AgentSettled) -> Frame | None:
        self._settled = True
        if self._aborting:
            return None
        held, self._held = self._held, None
        return held

    def _agent_waiting(self, event: AgentWaiting) -> Frame | None:
        return not_terminal(self._agent_settled(around.AgentSettled()))

    def _session_settled(self, event: SessionSettled) -> Frame | None:
        """Behind the end that waits for the reply to an abort, or dropped with it."""
        settled = line({"type": "session_settled"})
        if self._held is None:
            return settled
        self._held += settled
        return None

    def _turn_end(self, event: run.TurnEnd) -> Frame:
        self._open_calls.clear()
        self._told_early.clear()
        return line(
            {
                "type": "turn_end",
                "message": self.messages.render(event.message),
                "toolResults": self.messages.render_all(event.tool_results),
            }
        )

    # ------------------------------------------------------------ messages

    def _message(self, event: run.MessageStart | run.MessageEnd) -> Frame | None:
        message = event.message
        if getattr(message, "tool_call_id", None) in self._told_early:
            return None
        is_start = isinstance(event, run.MessageStart)
        self.messages.saw(message, is_start=is_start)
        kind = "message_start" if is_start else "message_end"
        return line({"type": kind, "message": self.messages.render(message)})

    def _updates(self, update: run.MessageUpdate) -> Frame | None:
        pieces = [piece for item in self._ends.order(update) for piece in self._update(item)]
        return pieces or None

    def _update(self, update: run.MessageUpdate) -> list[bytes]:
        event = update.event
        if type(event) is BlockDelta and event.kind == "toolcall":
            self.messages.argument(event)
        elif type(event) is BlockDelta:
            self.messages.first_token()
        message = update.draft.segments()
        inside = stream_event(event)
        if isinstance(event, BlockEnd) and isinstance(event.block, ToolCall):
            before = update.draft.snapshot().content[: event.index]
            place = sum(isinstance(block, ToolCall) for block in before)
            self.messages.arguments_ended(event.index, event.block)
            inside = inside[:-1] + self.messages.call_fields(event.block, place) + b"}"
        return [
            b'{"type":"message_update","assistantMessageEvent":{%b,"partial":' % inside,
            *message,
            b'},"message":',
            *message,
            b"}\n",
        ]

    # ------------------------------------------------------------ tools

    def _tool_start(self, event: run.ToolStart) -> Frame:
        self._open_calls.add(event.tool_call_id)
        self.messages.call_began(event)
        return line(msgspec.to_builtins(event))

    def _tool_update(self, event: run.ToolUpdate) -> Frame:
        record = msgspec.to_builtins(event)
        record["partialResult"].setdefault("details", {})
        return line(record)

    def _tool_end(self, event: run.ToolEnd) -> Frame:
        """Send a result at once while other calls run, and not again at its place."""
        self._open_calls.discard(event.tool_call_id)
        progress = self.messages.call_ended(event)
        record = msgspec.to_builtins(event)
        name, failed = event.tool_name, event.is_error
        result = self.messages.result(
            event.tool_call_id, record["result"], name=name, failed=failed
        )
        marks = self.messages.marks
        frame = line({**record, "result": {**result, **_whole(result, failed=failed)}, **marks})
        frame = line(progress) + frame if progress else frame
        if not self._open_calls:
            return frame
        self._told_early.add(event.tool_call_id)
        message = {
            "role": "toolResult",
            "toolCallId": event.tool_call_id,
            "toolName": event.tool_name,
            "content": result["content"],
            "details": result["details"],
            "isError": event.is_error,
            **marks,
            "timestamp": now_ms(),
        }
        start = line({"type": "message_start", "message": message})
        return frame + start + line({"type": "message_end", "message": message})

    # ------------------------------------------------------------ retries

    def _retry_start(self, event: around.AutoRetryStart) -> Frame:
        failed = {"errorMessage": event.error_message, "errorId": FAILED}
        self._retry_errors.append({"attempt": event.attempt, **failed})
        return line({**msgspec.to_builtins(event), "errorId": FAILED})

    def _retry_ended(self, event: around.AutoRetryEnd) -> Frame | None:
        """Return the frame that follows the reply to `abort_retry`."""
        record = msgspec.to_builtins(event)
        errors, self._retry_errors = self._retry_errors, []
        if not self._retry_aborting:
            return line({**record, "retryErrors": errors})
        self._retry_end += line(record)
        return None

    def _retry_aborted(self) -> bytes:
        self._retry_aborting = max(0, self._retry_aborting - 1)
        held, self._retry_end = self._retry_end, b""
        return held

    # ------------------------------------------------------------ other events

    def _model_changed(self) -> bytes:
        if not self._new_model:
            return b""
        self._new_model = False
        return line({"type": "model_changed"})

    def _level_changed(self, event: around.ThinkingLevelChanged) -> Frame | None:
        changed = line({"type": "thinking_level_changed", "thinkingLevel": event.level})
        return self._model_changed() + changed


def _whole(result: dict[str, Any], *, failed: bool) -> dict[str, Any]:
    """Return the error flag inside a failed result that has details."""
    details = result["details"]
    if not failed or not details or not isinstance(details, dict):
        return {}
    made_here = details.get("isError") is True or "__synthetic" in details
    return {} if made_here else {"isError": True}


def _config_update(event: ConfigUpdate) -> Frame:
    record = msgspec.to_builtins(event)
    return line({**record, "model": model(record["model"])})
