"""Events as pi sends them to extensions, and answers as pi's extensions return them."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ludolf.ai.messages import OpaqueMessage
from ludolf.base import dumps
from ludolf.extensions import payloads
from ludolf.extensions.hooks import HOOKS
from ludolf.extensions.session_view import EntryView
from ludolf.functions.content import BadAnswer, camel
from ludolf.session.entries import entry_json

# Events that the host process builds from pieces, one way.
ONE_WAY = ("message_update", "tool_execution_update")
_MESSAGES = (payloads.ContextBuilt, payloads.ContextWithSystem)
# Fields that pi always sends, also with the value that our values leave out.
_ALWAYS: dict[str, dict[str, Any]] = {
    "session_before_compact": {"willRetry": False, "branchEntries": []},
    "session_compact": {"willRetry": False},
    "session_compact_failed": {"willRetry": False, "fromExtension": False},
    "turn_end": {"toolResultEntryIds": [], "entries": [], "continue": False},
    "agent_before_settle": {"entries": [], "continue": False},
    "input": {"source": "rpc"},
    "ui_prompt_start": {"reason": "ui_prompt"},
    "ui_prompt_end": {"reason": "ui_prompt"},
}
_PROMPT_LISTS = (
    "appendSystemPrompt",
    "selectedTools",
    "promptGuidelines",
    "contextFiles",
    "skills",
)
_PARAGRAPH = "\n\n"
# Parts of the prompt that extensions read only, and one that is an answer of its own.
_FIXED = ("contextFiles", "skills", "forceSystemPrompt")
_PROMPT_MAPS = ("toolSnippets", "toolGuidelines", "sections")
# Fields of our payloads that pi's events do not have.
_OURS = {
    "before_agent_start": ("messages", "forced"),
    "resources_discover": ("skillPaths", "promptPaths", "themePaths"),
}


def _encode(value: Any) -> Any:
    if isinstance(value, EntryView):
        return msgspec.Raw(entry_json(value.stored))
    raise TypeError(f"{type(value).__name__} cannot be sent")


_encoder = msgspec.json.Encoder(enc_hook=_encode)
_decoder = msgspec.json.Decoder()


def encode(value: Any) -> bytes:
    """Encode a value that may contain entries of the session."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        return dumps(msgspec.to_builtins(value, enc_hook=lambda one: one.fields))


def raw_messages(messages: Iterable[Any]) -> tuple[Any, ...]:
    """Return messages that can be encoded; those of unknown shape stay as they are stored."""
    return tuple(m.raw if isinstance(m, OpaqueMessage) else m for m in messages)


class MessageHistory:
    """The messages that the host process has; events carry only those after them."""

    def __init__(self) -> None:
        self._messages: tuple[Any, ...] = ()

    def forget(self) -> None:
        self._messages = ()

    def send(self, messages: Sequence[Any]) -> tuple[int, tuple[Any, ...]]:
        """Return the number of messages that the process has, and the others."""
        same = 0
        for old, new in zip(self._messages, messages, strict=False):
            if old is not new:
                break
            same += 1
        self._messages = tuple(messages)
        return same, raw_messages(self._messages[same:])

    def take(self, same: int, more: Sequence[Any]) -> tuple[Any, ...]:
        """Return the messages of an answer."""
        return (*self._messages[:same], *more)


def hook_args(number: int, payload: payloads.Payload, history: MessageHistory) -> bytes:
    """Return the arguments of a call of a handler as JSON."""
    if isinstance(payload, _MESSAGES):
        same, more = history.send(payload.messages)
        event = encode(payload.replace(messages=more))
        return b'{"h":%d,"same":%d,"ev":%b}' % (number, same, event)
    if payload.type in _ALWAYS or payload.type in _OURS:
        return b'{"h":%d,"ev":%b}' % (number, encode(_complete(payload)))
    return b'{"h":%d,"ev":%b}' % (number, encode(payload))


def _complete(payload: payloads.Payload) -> dict[str, Any]:
    """Return an event with the fields that pi always sends."""
    fields: dict[str, Any] = _decoder.decode(encode(payload))
    for name in _OURS.get(payload.type, ()):
        fields.pop(name, None)
    if "continue_" in fields:
        fields["continue"] = fields.pop("continue_")
    for name, value in _ALWAYS.get(payload.type, {}).items():
        fields.setdefault(name, value)
    options = fields.get("systemPromptOptions")
    if isinstance(options, dict):
        _complete_options(options)
    if payload.type in ("turn_end", "agent_before_settle"):
        _complete_boundary(fields)
    return fields


def prompt_options(options: payloads.PromptOptions) -> dict[str, Any]:
    """Return the parts of the system prompt in pi's form."""
    fields: dict[str, Any] = _decoder.decode(encode(options))
    _complete_options(fields)
    return fields


def _complete_options(options: dict[str, Any]) -> None:
    for name in _PROMPT_LISTS:
        options.setdefault(name, [])
    for name in _PROMPT_MAPS:
        options.setdefault(name, {})
    options["appendSystemPrompt"] = _PARAGRAPH.join(options.get("appendSystemPrompt") or ())
    files = options.get("contextFiles") or ()
    options["contextFiles"] = [{"path": path, "content": _text(path)} for path in files]
    options["skills"] = [{"name": name} for name in options.get("skills") or ()]


def _text(path: str) -> str:
    try:
        return Path(path).read_text("utf-8", "replace")
    except OSError:
        return ""


def _read_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return changed parts of the system prompt in our form; files and skills stay."""
    changed = {name: value for name, value in options.items() if name not in _FIXED}
    added = changed.get("appendSystemPrompt")
    if isinstance(added, str):
        changed["appendSystemPrompt"] = (added,) if added else ()
    return changed


def _complete_boundary(fields: dict[str, Any]) -> None:
    context = fields.setdefault("context", {})
    for name in ("contextEntries", "contextMessages", "pendingMessages"):
        context.setdefault(name, [])
    context.setdefault("llmMessages", context["contextMessages"])
    context.setdefault("canContinue", True)
    if fields["type"] == "turn_end":
        fields.setdefault("outcome", "completed")


def read_answer(event: str, answer: Any, history: MessageHistory) -> Any:
    """Return the answer of a handler in the form of Python handlers; None changes nothing.

    Raises:
        BadAnswer: the answer is not an object.
    """
    if answer is None:
        return None
    value = answer.get("v")
    if event == "before_provider_request":
        return value
    if value is not None and not isinstance(value, Mapping):
        if HOOKS[event].blocks:
            raise BadAnswer(f"{event} handlers must return an object or undefined")
        value = None
    fields: dict[str, Any] = {**(value or {}), **(answer.get("c") or {})}
    if "same" in answer:
        fields["messages"] = history.take(int(answer["same"]), answer.get("more") or ())
    options = fields.get("systemPromptOptions")
    if isinstance(options, Mapping):
        if options.get("forceSystemPrompt") and "systemPrompt" not in fields:
            fields["systemPrompt"] = options["forceSystemPrompt"]
        fields["systemPromptOptions"] = _read_options(options)
    known = {key: fields[camel(key)] for key in HOOKS[event].keys if camel(key) in fields}
    return _tidy(event, known) or None


def _tidy(event: str, answer: dict[str, Any]) -> dict[str, Any]:
    """Leave out what pi ignores, where our own rules are stricter."""
    answer = {key: value for key, value in answer.items() if value is not None}
    if event == "tool_call" and "block" not in answer:
        answer.pop("reason", None)
        answer.pop("terminate", None)
    if event == "project_trust" and "trusted" not in answer:
        return {}
    if event == "cache_warming_decision" and answer.get("action") not in ("warm", "stop"):
        return {}
    return answer
