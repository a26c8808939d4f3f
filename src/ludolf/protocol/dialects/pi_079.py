"""pi 0.79 exactly: no record and no field that pi 0.79.10 does not send, for strict hosts.

Events and fields of commands that pi 0.79 does not have are sent as in `pi`: only a host that
used such a command receives them.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from ludolf.agent import events as run
from ludolf.agent.tool import ToolOutput
from ludolf.ai.draft import BlockEnd, BlockStart, Draft, StreamEvent, message_tail
from ludolf.ai.messages import (
    AssistantMessage,
    Text,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
    decode_message,
)
from ludolf.ai.models import Model
from ludolf.base import dumps
from ludolf.protocol import events as around
from ludolf.protocol import host_events as host
from ludolf.protocol.dialects.dialect import compaction_end, silent, stream_event
from ludolf.protocol.dialects.pi import Pi
from ludolf.protocol.framing import PUBLIC_CODES, Frame, Reply, line
from ludolf.protocol.results import BashResult, CycledModel, State
from ludolf.protocol.subagent_events import AgentWaiting

if TYPE_CHECKING:
    from ludolf.protocol.ui import UiRequest

# Events that pi 0.79 does not have and that none of its commands asks for.
UNSPOKEN: tuple[type, ...] = (
    around.AgentSettled,
    around.SummaryRetryScheduled,
    around.SummaryRetryStart,
    around.SummaryRetryFinished,
    around.EntryStored,
    around.ShellOutput,
    around.LimitReached,
    around.Warned,
    around.ContextFilesUsed,
    around.McpServerChanged,
    around.StructuredOutput,
    host.TodoReminder,
    host.TodoAutoClear,
    host.StreamRuleHit,
    host.CommandOutput,
    host.SessionInfoUpdate,
    host.ModelChanged,
    host.ConfigUpdate,
    AgentWaiting,
)
_WITHOUT_DATA = ("prompt", "steer", "follow_up", "abort_and_prompt")


class Pi079(Pi):
    """The level `max` is written as `xhigh`, the highest one of pi 0.79."""

    name = "pi-0.79"
    codes = PUBLIC_CODES

    def __init__(self) -> None:
        super().__init__()
        self._newer_tail = self._tail = b""
        self._table.update(
            {
                run.MessageUpdate: self._update,
                run.MessageStart: _with_message,
                run.MessageEnd: _with_message,
                run.TurnEnd: _turn_end,
                run.AgentStart: _agent_start,
                run.AgentEnd: _agent_end,
                run.ToolUpdate: _tool_update,
                run.ToolEnd: _tool_end,
                around.CompactionEnd: _compaction_end,
                around.ThinkingLevelChanged: _level_changed,
            }
        )
        self._table.update(dict.fromkeys(UNSPOKEN, silent))

    def reply(self, reply: Reply) -> Frame | None:
        if reply.error is None and reply.data is not UNSET:
            reply = replace(reply, data=_answer(reply.command, reply.data))
        return super().reply(reply)

    def ui(self, request: "UiRequest") -> Frame | None:
        if request.method == "cancel":
            return None
        asked = request.replace(
            tool_name=None, tool_call_id=None, args=UNSET, risk=None, session_id=None
        )
        return super().ui(asked)

    def _update(self, update: run.MessageUpdate) -> Frame:
        message = update.draft.segments()
        message[-1] = self._tail_of(message[-1], update.draft)
        return [
            b'{"type":"message_update","message":',
            *message,
            b',"assistantMessageEvent":{%b,"partial":' % _stream_event(update.event),
            *message,
            b"}}\n",
        ]

    def _tail_of(self, newer: bytes, draft: Draft) -> bytes:
        """Return the end of a message; it is computed again if the usage has changed."""
        if newer is not self._newer_tail:
            self._newer_tail = newer
            self._tail = message_tail(_assistant(draft.envelope()))
        return self._tail


def _stream_event(event: StreamEvent) -> bytes:
    if isinstance(event, BlockStart):
        return b'"type":"%b_start","contentIndex":%d' % (event.kind.encode(), event.index)
    if isinstance(event, BlockEnd):
        event = replace(event, block=_block(event.block))
    return stream_event(event)


# ---------------------------------------------------------------- messages


def _message(message: Any) -> Any:
    match message:
        case AssistantMessage():
            return _assistant(message)
        case ToolResultMessage():
            return message.replace(usage=None)
        case UserMessage(content=content):
            if not isinstance(content, str):
                content = tuple(map(_block, content))
            return message.replace(content=content, attachments=UNSET)
    return message


def _assistant(message: AssistantMessage) -> AssistantMessage:
    return message.replace(
        content=tuple(map(_block, message.content)),
        usage=_usage(message.usage),
        response_model=None,
        raw_stop_reason=None,
        diagnostics=(),
    )


def _block(block: Any) -> Any:
    if isinstance(block, ToolCall) and block.namespace is not None:
        return block.replace(namespace=None)
    if isinstance(block, Text) and block.is_document:
        return block.replace(is_document=False)
    return block


def _usage(usage: Usage) -> Usage:
    return usage if usage.reasoning is UNSET else usage.replace(reasoning=UNSET)


# ---------------------------------------------------------------- events


def _with_message(event: run.MessageStart | run.MessageEnd) -> Frame:
    return line(event.replace(message=_message(event.message)))


def _turn_end(event: run.TurnEnd) -> Frame:
    results = tuple(map(_message, event.tool_results))
    return line(event.replace(message=_assistant(event.message), tool_results=results))


def _agent_start(event: run.AgentStart) -> Frame:
    return line(run.AgentStart())


def _agent_end(event: run.AgentEnd) -> Frame:
    return line(event.replace(messages=tuple(map(_message, event.messages))))


def _tool_update(event: run.ToolUpdate) -> Frame:
    return line(event.replace(partial_result=_output(event.partial_result)))


def _tool_end(event: run.ToolEnd) -> Frame:
    return line(event.replace(result=_output(event.result)))


def _output(output: ToolOutput) -> ToolOutput:
    return output if output.usage is None else output.replace(usage=None)


def _compaction_end(event: around.CompactionEnd) -> Frame:
    if event.result is not None:
        event = event.replace(result=_compaction(event.result))
    return compaction_end(event)


def _compaction(result: around.CompactionResult) -> around.CompactionResult:
    return result.replace(usage=None)


def _level_changed(event: around.ThinkingLevelChanged) -> Frame:
    return line(event.replace(level=_level(event.level)))


# ---------------------------------------------------------------- models


def _level(level: Any) -> Any:
    return "xhigh" if level == "max" else level


def _model(model: Model) -> Model:
    return model.replace(
        thinking_level_map=_level_map(model.thinking_level_map),
        input_limits=None,
        cost=model.cost.replace(tiers=UNSET),
        prompt_cache=None,
        sampling_params=None,
    )


def _level_map(levels: dict[str, str | None] | None) -> dict[str, str | None] | None:
    """Return the map without `max`, whose value becomes that of `xhigh` if this one has none."""
    if levels is None or "max" not in levels:
        return levels
    rest = {level: value for level, value in levels.items() if level != "max"}
    if rest.get("xhigh") is None and levels["max"] is not None:
        rest["xhigh"] = levels["max"]
    return rest or None


# ---------------------------------------------------------------- replies


def _answer(command: str, data: Any) -> Any:
    if command in _WITHOUT_DATA:
        return UNSET
    match data:
        case State():
            return _state(data)
        case Model():
            return _model(data)
        case CycledModel():
            level = _level(data.thinking_level)
            return data.replace(model=_model(data.model), thinking_level=level)
        case around.CompactionResult():
            return _compaction(data)
        case BashResult():
            return data.replace(total_lines=None, total_bytes=None, signal=None, background=())
    change = _CHANGES.get(command)
    return data if change is None or data is None else change(data)


def _state(state: State) -> State:
    return state.replace(
        model=None if state.model is None else _model(state.model),
        thinking_level=_level(state.thinking_level),
        todo_phases=None,
        has_pending_async_work=None,
        fast_mode_enabled=None,
        fast_mode_active=None,
    )


def _models(data: Any) -> Any:
    return {"models": tuple(map(_model, data["models"]))}


def _levels(data: Any) -> Any:
    return {"levels": tuple(dict.fromkeys(map(_level, data["levels"])))}


def _cycled_level(data: Any) -> Any:
    return {"level": _level(data["level"])}


def _commands(data: Any) -> Any:
    return {"commands": [_command(msgspec.to_builtins(item)) for item in data["commands"]]}


def _command(item: dict[str, Any]) -> dict[str, Any]:
    newer = ("path", "location")
    known = {name: value for name, value in item.items() if name not in newer}
    # Prompts of MCP servers have a source that pi 0.79 does not have.
    return {**known, "source": "prompt"} if item["source"] == "mcp" else known


class _Conversation(msgspec.Struct):
    messages: list[msgspec.Raw]


def _messages(pieces: list[bytes]) -> list[bytes]:
    stored = msgspec.json.decode(b"".join(pieces), type=_Conversation).messages
    shown = b",".join(dumps(_message(decode_message(one))) for one in stored)
    return [b'{"messages":[', shown, b"]}"]


def _last_text(data: Any) -> Any:
    return {} if data["text"] is None else data


def _fork(data: Any) -> Any:
    record = msgspec.to_builtins(data)
    return {"cancelled": True} if record["cancelled"] else record


_CHANGES: dict[str, Callable[[Any], Any]] = {
    "get_available_models": _models,
    "get_available_thinking_levels": _levels,
    "cycle_thinking_level": _cycled_level,
    "get_commands": _commands,
    "get_messages": _messages,
    "get_last_assistant_text": _last_text,
    "fork": _fork,
}
