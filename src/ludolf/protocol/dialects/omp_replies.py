"""Replies as oh-my-pi writes them: other field names, ids and error texts."""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import UNSET

from ludolf.base import ErrorCode, dumps, loads
from ludolf.protocol.commands import COMMANDS
from ludolf.protocol.dialects.omp_messages import CANCELLED, OmpMessages, short_summary
from ludolf.protocol.dialects.omp_tools import JsonObject, artifact_id
from ludolf.protocol.framing import NO_ID, Reply, render_reply

# The wording of this family for an error, by its code.
_WORDING: dict[ErrorCode, str] = {
    "busy": "Agent is already processing. Use steer() or followUp() to queue messages, "
    "or wait for completion.",
    "invalid_fork_entry": "Invalid entry ID for branching",
}
CLAUDE, CLAUDE_PROVIDER = "anthropic-messages", "anthropic"
_PROMPTS = frozenset(name for name, spec in COMMANDS.items() if spec.is_prompt)
# After these the host gets the list of slash commands again.
_SESSION_CHANGES = frozenset(
    name for name, spec in COMMANDS.items() if spec.changes_session and name != "handoff"
)


class OmpReplies:
    """Replies by command; commands without a function are written as in pi."""

    def __init__(self, messages: OmpMessages) -> None:
        self._messages = messages
        self.commands: Callable[[], Any] = tuple
        self._table: dict[str, Callable[[Reply], Any]] = {
            "get_state": self._state,
            "get_messages": self._conversation,
            "get_messages_page": self._conversation,
            "get_available_models": self._models,
            "set_model": lambda reply: model(_plain(reply)),
            "cycle_model": self._cycled,
            "compact": _compacted,
            "bash": self._bash,
            "get_session_stats": _stats,
            "handoff": _handed_over,
        }

    def render(self, reply: Reply) -> bytes:
        if reply.error is not None:
            return self.failed(reply)
        if reply.command in _PROMPTS:
            return _join(msgspec.structs.replace(reply, data=_acknowledged(reply)))
        make = self._table.get(reply.command)
        if make is not None and reply.data is not None:
            reply = msgspec.structs.replace(reply, data=make(reply))
        changed = self.commands_update() if reply.command in _SESSION_CHANGES else b""
        return changed + _join(reply)

    def failed(self, reply: Reply) -> bytes:
        if reply.command == "parse":
            if reply.untyped:
                unnamed = {"type": "response", "success": False}
                return dumps({**unnamed, "error": "Unknown command: undefined"}) + b"\n"
            reply = msgspec.structs.replace(reply, id=NO_ID)
        if reply.code == "unknown_command":
            reply = msgspec.structs.replace(reply, id=NO_ID)
        return _join(msgspec.structs.replace(reply, error=_wording(reply)))

    def commands_update(self) -> bytes:
        record = {"type": "available_commands_update", "commands": self.commands()}
        return dumps(record) + b"\n"

    def system_prompt(self, text: str) -> Any:
        return [text]

    # ------------------------------------------------------------ private

    def _state(self, reply: Reply) -> JsonObject:
        state: JsonObject = _plain(reply)
        if state.get("model"):
            state["model"] = model(state["model"])
        state["queuedMessageCount"] = state.pop("pendingMessageCount")
        state.update(reply.more() if reply.more else {})
        if isinstance(state.get("systemPrompt"), str):
            state["systemPrompt"] = self.system_prompt(state["systemPrompt"])
        return state

    def _conversation(self, reply: Reply) -> JsonObject:
        data: JsonObject = _plain(reply)
        more = reply.more() if reply.more else {}
        data["messages"] = [
            _with_snapshot(item, more.get("nonMessageTokens", 0))
            for item in self._messages.complete_all(data["messages"])
        ]
        return data

    def _models(self, reply: Reply) -> JsonObject:
        return {"models": [model(item) for item in _plain(reply)["models"]]}

    def _cycled(self, reply: Reply) -> JsonObject:
        data = _plain(reply)
        return {**data, "model": model(data["model"])}

    def _bash(self, reply: Reply) -> JsonObject:
        data = _plain(reply)
        counted = _counted(data)
        path = data.pop("fullOutputPath", None)
        if path is not None:
            data["artifactId"] = artifact_id(path)
        if data["truncated"]:
            counted["elidedBytes"] = counted["totalBytes"] - counted["outputBytes"]
            counted["elidedLines"] = counted["totalLines"] - counted["outputLines"]
            if path is not None:
                self._messages.shell_ended(path, counted)
        if data["cancelled"]:
            data["output"] = CANCELLED + data["output"]
        more = reply.more() if reply.more else {}
        return {**data, **counted, "workingDir": more.get("cwd", "")}


def model(record: JsonObject) -> JsonObject:
    """Return a model with its thinking levels in both spellings that clients of the family read."""
    by_claude = record["api"] == CLAUDE
    record = {"compat": {}, **record, "supportsComputerUse": False}
    if by_claude and record["provider"] != CLAUDE_PROVIDER:
        # This family takes every other server of that API for one that wants a bearer token.
        record["isOAuth"] = True
    if not record["reasoning"]:
        return record
    named = record.get("thinkingLevelMap") or {}
    usual = ("minimal", "low", "medium", "high")
    # All names of the scale may be said; what the model lacks becomes the next that it has.
    levels = [level for level in (*usual, "xhigh") if named.get(level, level) is not None]
    record["thinking"] = {
        "mode": "budget" if by_claude else "effort",
        "efforts": levels,
        "minLevel": levels[0] if levels else "off",
        "maxLevel": levels[-1] if levels else "off",
    }
    return record


def _wording(reply: Reply) -> str | None:
    """Return the text of an error as this family words it."""
    if reply.field is not None:
        is_shell = reply.command == "bash"
        return f"Missing field `{reply.field}`" if is_shell else f"Missing field: {reply.field}"
    return reply.error if reply.code is None else _WORDING.get(reply.code, reply.error)


def _plain(reply: Reply) -> Any:
    """Return the data of a reply as plain values."""
    data = reply.data
    if isinstance(data, list) and all(isinstance(part, bytes) for part in data):
        return loads(b"".join(data))
    return msgspec.to_builtins(data)


def _join(reply: Reply) -> bytes:
    frame = render_reply(reply)
    return frame if isinstance(frame, bytes) else b"".join(frame)


def _acknowledged(reply: Reply) -> Any:
    data = _plain(reply) if reply.data is not UNSET and reply.data is not None else {}
    return {"agentInvoked": False} if data.get("disposition") == "handled" else UNSET


def _with_snapshot(record: JsonObject, overhead: int) -> JsonObject:
    """Return an earlier answer with the size of its context."""
    if record.get("role") != "assistant":
        return record
    usage = record["usage"]
    sent = usage["input"] + usage["cacheRead"] + usage["cacheWrite"]
    snapshot = {"promptTokens": sent, "nonMessageTokens": overhead}
    return {"errorId": 0, **record, "contextSnapshot": snapshot}


def _compacted(reply: Reply) -> JsonObject:
    data = _plain(reply)
    kept = {key: data[key] for key in ("summary", "firstKeptEntryId", "tokensBefore")}
    short = short_summary(data["summary"])
    return {**kept, "shortSummary": short, "details": data.get("details", {})}


def _counted(data: JsonObject) -> JsonObject:
    output = data["output"]
    lines, size = line_count(output), len(output.encode("utf-8", "surrogatepass"))
    return {
        "totalLines": data.pop("totalLines", lines),
        "totalBytes": data.pop("totalBytes", size),
        "outputLines": lines,
        "outputBytes": size,
    }


def _handed_over(reply: Reply) -> JsonObject | None:
    """Return the data of a handoff; None if it was cancelled."""
    data: JsonObject = _plain(reply)
    return None if data["cancelled"] else data


def line_count(text: str) -> int:
    return text.count("\n") + 1 if text else 0


def _stats(reply: Reply) -> JsonObject:
    data = _plain(reply)
    tokens = {"reasoning": 0, **data["tokens"]}
    more = reply.more() if reply.more else {}
    return {**data, **more, "tokens": tokens, "premiumRequests": 0}
