"""Convert a conversation for one model: other roles become text, foreign signatures are removed."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import count
from operator import is_
from typing import Any

import msgspec
from msgspec import structs

from ludolf.ai.messages import (
    AssistantMessage,
    BashExecutionMessage,
    Block,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    CustomMessage,
    Image,
    Message,
    OpaqueMessage,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from ludolf.ai.models import Model
from ludolf.base import without_surrogates
from ludolf.base.patterns import lazy_pattern

ModelMessage = UserMessage | AssistantMessage | ToolResultMessage
NormalId = Callable[[str, AssistantMessage], str]

NO_RESULT = "No result provided"
NO_IMAGE = "(image omitted: model does not support images)"
NO_TOOL_IMAGE = "(tool image omitted: model does not support images)"
_AFTER_COMPACTION = "Earlier parts of this conversation were replaced by this summary:"
_AFTER_BRANCH = "The conversation came back from another branch, which this summary describes:"
_LIMIT = 20_000
_ODD_ID = lazy_pattern(r"[^a-zA-Z0-9_-]")
_MAX_ID = 64


def plain_id(call_id: str, source: AssistantMessage) -> str:
    """Convert a foreign tool call id to characters and a length that most servers accept."""
    return _ODD_ID.sub("_", call_id)[:_MAX_ID]


class HistoryAdapter:
    """Converts conversations and caches the results.

    The results of an assistant message follow it directly, one per call: a missing result is added,
    a superfluous one is dropped. The same input message gives the same output object each time (the
    input itself if nothing changed), so that providers can cache its encoded form by identity.
    """

    def __init__(self, normal_id: NormalId | None = None) -> None:
        self._normal_id = normal_id
        self._target: tuple[str, str, str, bool] | None = None
        self._cache: dict[tuple[int, str], tuple[object, ModelMessage | None]] = {}
        self._messages: tuple[Message | OpaqueMessage, ...] = ()
        self._closed: list[ModelMessage] = []
        self._turn = _Turn()
        self._call_ids: set[str] = set()

    def adapt(
        self, messages: Sequence[Message | OpaqueMessage], model: Model
    ) -> list[ModelMessage]:
        """Convert a conversation; if it has grown, only the new messages are converted."""
        conversation = tuple(messages)
        self._go_back(conversation, model)
        for message in conversation[len(self._messages) :]:
            self._add(message, model)
        self._messages = conversation
        out = self._closed.copy()
        self._close(self._turn, out)
        return out

    def _go_back(self, messages: tuple[Message | OpaqueMessage, ...], model: Model) -> None:
        target = (model.provider, model.api, model.id, model.takes_images)
        same_start = messages[:1] == self._messages[:1]
        if target == self._target and messages[: len(self._messages)] == self._messages:
            return
        if target != self._target or not same_start or len(self._cache) > _LIMIT:
            self._cache.clear()
            self._call_ids.clear()
        self._target = target
        self._messages, self._closed, self._turn = (), [], _Turn()

    def _add(self, message: Message | OpaqueMessage, model: Model) -> None:
        if isinstance(message, ToolResultMessage):
            self._take_result(message, self._turn, model)
            return
        adapted = self._once(message, "", partial(self._convert, message, model))
        if isinstance(message, AssistantMessage) and isinstance(adapted, AssistantMessage):
            self._close(self._turn, self._closed)
            self._turn = _Turn(message, adapted)
        elif adapted is not None:
            self._turn.others.append(adapted)

    def _take_result(self, message: ToolResultMessage, turn: "_Turn", model: Model) -> None:
        index = turn.claim(message.tool_call_id)
        if index is None:
            return
        new_id = turn.calls[index].id
        adapted = self._once(message, new_id, partial(_result, message, new_id, model))
        assert adapted is not None
        turn.results[index] = adapted

    def _close(self, turn: "_Turn", out: list[ModelMessage]) -> None:
        assistant = turn.assistant
        if assistant is not None:
            out.append(assistant)
            # In call order: for calls without ids, the order is the only way to match results.
            for index, call in enumerate(turn.calls):
                make = partial(_no_result, assistant, call)
                result = turn.results.get(index) or self._once(assistant, f"no {call.id}", make)
                assert result is not None
                out.append(result)
        out += turn.others

    def _once(
        self,
        message: Message | OpaqueMessage,
        variant: str,
        make: Callable[[], ModelMessage | None],
    ) -> ModelMessage | None:
        key = (id(message), variant)
        entry = self._cache.get(key)
        if entry is None:
            # The entry keeps the message alive, so that no other message can have its id.
            entry = self._cache[key] = (message, make())
        return entry[1]

    def _convert(self, message: Message | OpaqueMessage, model: Model) -> ModelMessage | None:
        match message:
            case AssistantMessage():
                return None if message.failed else self._assistant(message, model)
            case UserMessage() | CustomMessage():
                return _user(message, model)
            case BashExecutionMessage():
                return (
                    None if message.exclude_from_context else _as_user(message, bash_text(message))
                )
            case CompactionSummaryMessage():
                return _as_user(message, _summary(_AFTER_COMPACTION, message.summary))
            case BranchSummaryMessage():
                return _as_user(message, _summary(_AFTER_BRANCH, message.summary))
        return None

    def _assistant(self, message: AssistantMessage, model: Model) -> AssistantMessage:
        is_same_model = (message.provider, message.api, message.model) == (
            model.provider,
            model.api,
            model.id,
        )
        blocks = _own_blocks(message) if is_same_model else self._foreign_blocks(message)
        content = tuple(map(_clean_block, blocks))
        self._call_ids |= {_name(block.id) for block in content if isinstance(block, ToolCall)}
        return (
            message
            if _same(content, message.content)
            else structs.replace(message, content=content)
        )

    def _foreign_blocks(self, message: AssistantMessage) -> Iterator[Block]:
        for block in message.content:
            match block:
                case Text():
                    yield block if block.text_signature is None else Text(text=block.text)
                case Thinking():
                    if block.thinking.strip() and not block.redacted:
                        yield Text(text=block.thinking)
                case ToolCall():
                    yield self._foreign_call(block, message)

    def _foreign_call(self, call: ToolCall, message: AssistantMessage) -> ToolCall:
        new_id = self._normal_id(call.id, message) if self._normal_id else call.id
        if _name(new_id) in self._call_ids:
            new_id = _distinct(new_id, self._call_ids)
        self._call_ids.add(_name(new_id))
        if new_id == call.id and call.thought_signature is None:
            return call
        return structs.replace(call, id=new_id, thought_signature=None)


class _Turn:
    """An assistant message and the messages after it, up to the next one."""

    def __init__(
        self, source: AssistantMessage | None = None, adapted: AssistantMessage | None = None
    ) -> None:
        self.assistant = adapted
        self.calls = adapted.tool_calls if adapted else ()
        self._old_ids = [call.id for call in source.tool_calls] if source else []
        self.results: dict[int, ModelMessage] = {}
        self.others: list[ModelMessage] = []

    def claim(self, call_id: str) -> int | None:
        """Return the index of the call that a result answers, or None if no call is open for it."""
        for index, old_id in enumerate(self._old_ids):
            if old_id == call_id and index not in self.results:
                return index
        return None


# ---------------------------------------------------------------- roles


def bash_text(message: BashExecutionMessage) -> str:
    """Render a command that the host ran, as text for the model."""
    paragraphs = [
        f"Ran `{message.command}`\n"
        + (f"```\n{message.output}\n```" if message.output else "(no output)")
    ]
    if message.cancelled:
        paragraphs.append("(command cancelled)")
    elif message.exit_code:
        paragraphs.append(f"Command exited with code {message.exit_code}")
    if message.truncated and message.full_output_path:
        paragraphs.append(f"[Output truncated. Full output: {message.full_output_path}]")
    return "\n\n".join(paragraphs)


def _summary(statement: str, summary: str) -> str:
    return f"{statement}\n\n<summary>\n{summary}\n</summary>"


def _as_user(
    message: BashExecutionMessage | CompactionSummaryMessage | BranchSummaryMessage, text: str
) -> UserMessage:
    content = (Text(text=without_surrogates(text)),)
    return UserMessage(content=content, timestamp=message.timestamp)


def _user(message: UserMessage | CustomMessage, model: Model) -> UserMessage:
    content: str | tuple[Part, ...]
    if isinstance(message.content, str):
        content = without_surrogates(message.content)
    else:
        content = _parts(message.content, model, NO_IMAGE)
    if isinstance(message, UserMessage) and content is message.content:
        return message
    return UserMessage(content=content, timestamp=message.timestamp)


def _result(message: ToolResultMessage, call_id: str, model: Model) -> ToolResultMessage:
    content = _parts(message.content, model, NO_TOOL_IMAGE)
    if content is message.content and call_id == message.tool_call_id:
        return message
    return structs.replace(message, content=content, tool_call_id=call_id)


def _no_result(assistant: AssistantMessage, call: ToolCall) -> ToolResultMessage:
    return ToolResultMessage(
        tool_call_id=call.id,
        tool_name=call.name,
        content=(Text(text=NO_RESULT),),
        is_error=True,
        timestamp=assistant.timestamp,
    )


# ---------------------------------------------------------------- content


def _own_blocks(message: AssistantMessage) -> Iterator[Block]:
    for block in message.content:
        if isinstance(block, Thinking) and not (block.thinking_signature or block.thinking.strip()):
            continue
        yield block


def _name(call_id: str) -> str:
    """Return the part of an id by which a result names its call."""
    return call_id.partition("|")[0]


def _distinct(call_id: str, taken: set[str]) -> str:
    """Return an unused id of the same length: truncated ids can collide."""
    call, bar, item = call_id.partition("|")
    marks = (f"_{number}" for number in count(2))
    names = (f"{call[: -len(mark)]}{mark}" for mark in marks)
    return next(f"{name}{bar}{item}" for name in names if name not in taken)


def _parts(content: tuple[Part, ...], model: Model, placeholder: str) -> tuple[Part, ...]:
    shown: Iterable[Part] = content if model.takes_images else _without_images(content, placeholder)
    clean = tuple(map(_clean_part, shown))
    return content if _same(clean, content) else clean


def _without_images(content: tuple[Part, ...], placeholder: str) -> Iterator[Part]:
    after_image = False
    for part in content:
        if not isinstance(part, Image):
            yield part
        elif not after_image:
            yield Text(text=placeholder)
        after_image = isinstance(part, Image)


def _same(new: Sequence[object], old: Sequence[object]) -> bool:
    return len(new) == len(old) and all(map(is_, new, old))


def _clean_part(part: Part) -> Part:
    if isinstance(part, Image):
        return part
    text = without_surrogates(part.text)
    return part if text is part.text else structs.replace(part, text=text)


def _clean_block(block: Block) -> Block:
    match block:
        case Text():
            text = without_surrogates(block.text)
            return block if text is block.text else structs.replace(block, text=text)
        case Thinking():
            text = without_surrogates(block.thinking)
            return block if text is block.thinking else structs.replace(block, thinking=text)
    try:
        msgspec.json.encode(block)
    except UnicodeEncodeError:
        return structs.replace(
            block,
            id=without_surrogates(block.id),
            name=without_surrogates(block.name),
            arguments=_clean(block.arguments),
        )
    return block


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return without_surrogates(value)
    if isinstance(value, dict):
        return {_clean(key): _clean(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_clean(item) for item in value]
    return value
