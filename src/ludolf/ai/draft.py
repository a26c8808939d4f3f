"""Append-only assistant message that is still streaming; the only mutable message.

Each byte is escaped once, when it arrives. A snapshot for a host is a list of pieces that are
already JSON, so its cost does not depend on the dialect.
"""

import re
from collections.abc import Iterator
from typing import Any, Literal

import msgspec
from msgspec import structs

from ludolf.ai.errors import ProviderError
from ludolf.ai.messages import (
    NO_USAGE,
    AssistantMessage,
    Block,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    Usage,
)
from ludolf.ai.models import Model, charge, price
from ludolf.base import MAX_NESTING, dumps, escape, is_nested_deeper, join_surrogates, loads, now_ms

_Mode = Literal[
    "start", "value", "key", "key_text", "colon", "text", "scalar", "after", "done", "bad"
]
_PLAIN = r'[^"\\\x00-\x1f]'
# Text with complete escapes; possessive, so that a long run stores no backtracking state.
_RUN = re.compile(_PLAIN + r'*+(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})' + _PLAIN + r"*+)*+")
_SPACE = re.compile(r"[ \t\n\r]+")
_SCALAR = re.compile(r"[^,\]}\s]+")
_WHOLE_SCALAR = re.compile(r"true|false|null|-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")
_MAX_SCALAR = 400
_ESCAPES = '"\\/bfnrtu'
_HEX = "0123456789abcdefABCDEF"
_CONTROL = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}


class PartialJson:
    """Accepts pieces of an object's text; returns the value so far at any time."""

    def __init__(self) -> None:
        self._source: list[str] = []
        self._certain = Rope()
        self._held: list[str] = []  # scanned but not certain yet: a key, a comma, part of an escape
        self._bit = ""  # the start of an escape or of a scalar
        self._stack: list[str] = []
        self._mode: _Mode = "start"

    def feed(self, text: str) -> None:
        self._source.append(text)
        position, end = 0, len(text)
        while position < end:
            position = self._step(text, position)

    def segments(self) -> list[bytes]:
        """Return the value so far as pieces of JSON."""
        parts = self._certain.parts()
        if not parts[0]:
            return [b"{}"]
        closers = ('"' if self._mode == "text" else "") + "".join(reversed(self._stack))
        return [*parts, closers.encode()]

    def best(self) -> dict[str, Any]:
        """Return the value so far as an object."""
        value = loads(b"".join(self.segments()))
        return value if isinstance(value, dict) else {}

    def whole(self) -> Any:
        """Return the finished value, which is an object if the model follows the rules.

        Raises:
            ValueError: the text is truncated or not JSON.
        """
        text = "".join(self._source)
        if not text.strip():
            return {}
        try:
            if is_nested_deeper(text.encode("utf-8", "surrogatepass")):
                raise RecursionError
            return loads(text)
        except (ValueError, RecursionError) as error:
            if self._mode == "done":
                return self.best()
            raise ValueError("cut or no JSON") from error

    # ------------------------------------------------------------ scanning

    def _step(self, text: str, at: int) -> int:
        match self._mode:
            case "text" | "key_text":
                return self._in_string(text, at)
            case "scalar":
                return self._in_scalar(text, at)
            case "bad":
                return len(text)
        space = _SPACE.match(text, at)
        if space:
            return space.end()
        if self._mode == "value" and text[at] not in '{["]':
            self._mode = "scalar"
            return at
        self._structure(text[at])
        return at + 1

    def _structure(self, char: str) -> None:
        mode = self._mode
        if mode in ("start", "value") and (mode == "value" or char == "{"):
            self._open_value(char)
        elif mode == "key" and char == '"':
            self._held.append('"')
            self._mode = "key_text"
        elif mode == "colon" and char == ":":
            self._held.append(":")
            self._mode = "value"
        elif mode == "after" and char == ",":
            self._held.append(",")
            self._mode = "key" if self._stack[-1] == "}" else "value"
        elif char in "}]":
            self._close(char)
        else:
            self._mode = "bad"

    def _open_value(self, char: str) -> None:
        if char in "{[" and len(self._stack) == MAX_NESTING:
            self._mode = "bad"
        elif char == "{":
            self._commit("{")
            self._stack.append("}")
            self._mode = "key"
        elif char == "[":
            self._commit("[")
            self._stack.append("]")
            self._mode = "value"
        elif char == '"':
            self._commit('"')
            self._mode = "text"
        else:
            self._close(char)

    def _close(self, char: str) -> None:
        if not self._stack or self._stack[-1] != char or self._held:
            self._mode = "bad"
            return
        self._commit(char)
        self._stack.pop()
        self._mode = "after" if self._stack else "done"

    def _in_scalar(self, text: str, at: int) -> int:
        match = _SCALAR.match(text, at)
        if match:
            self._bit += match.group()
            if len(self._bit) > _MAX_SCALAR:
                self._mode = "bad"
            return match.end()
        whole, self._bit = self._bit, ""
        if _WHOLE_SCALAR.fullmatch(whole):
            self._commit(whole)
            self._mode = "after"
        else:
            self._mode = "bad"
        return at

    def _in_string(self, text: str, at: int) -> int:
        if self._bit:
            return self._in_escape(text, at)
        run = _RUN.match(text, at)
        if run and run.end() > at:
            self._put(run.group())
            return run.end()
        char = text[at]
        if char == '"':
            self._put('"')
            self._mode = "after" if self._mode == "text" else "colon"
        elif char == "\\":
            self._bit = "\\"
        else:
            self._put(_CONTROL.get(char, f"\\u{ord(char):04x}"))
        return at + 1

    def _in_escape(self, text: str, at: int) -> int:
        char = text[at]
        if char not in (_ESCAPES if len(self._bit) == 1 else _HEX):
            # Not an escape: keep the backslash as text, and scan the following characters again.
            self._put("\\" + self._bit)
            self._bit = ""
            return at
        self._bit += char
        if len(self._bit) == 6 or self._bit[1] != "u":
            self._put(self._bit)
            self._bit = ""
        return at + 1

    def _put(self, text: str) -> None:
        if self._mode == "key_text":
            self._held.append(text)
        else:
            self._certain.add(_utf8(text))

    def _commit(self, text: str) -> None:
        if self._held:
            text = "".join(self._held) + text
            self._held.clear()
        self._certain.add(_utf8(text))


def _utf8(text: str) -> bytes:
    # A lone surrogate becomes its \uXXXX escape, which is valid JSON.
    return text.encode("utf-8", "backslashreplace")


_SMALL = 4096
_GROUP = 16


class Rope:
    """Buffer of small pieces; the number of parts grows with size / 64 KiB, not with the pieces."""

    __slots__ = ("_big", "_middle", "_tail")

    def __init__(self) -> None:
        self._big: list[bytes] = []
        self._middle: list[bytes] = []
        self._tail = b""

    def add(self, piece: bytes) -> None:
        tail = self._tail + piece
        if len(tail) < _SMALL:
            self._tail = tail
            return
        self._tail = b""
        self._middle.append(tail)
        if len(self._middle) == _GROUP:
            self._big.append(b"".join(self._middle))
            self._middle = []

    def parts(self) -> list[bytes]:
        return [*self._big, *self._middle, self._tail]


BlockKind = Literal["text", "thinking", "toolcall"]


class BlockStart(msgspec.Struct, frozen=True, gc=False):
    """Start of a block; for tool calls with the id and the tool's name."""

    kind: BlockKind
    index: int
    call_id: str = ""
    tool_name: str = ""


class BlockDelta(msgspec.Struct, frozen=True, gc=False):
    """A piece of a block; `escaped` is the delta as the inside of a JSON string."""

    kind: BlockKind
    index: int
    delta: str
    escaped: bytes


class BlockEnd(msgspec.Struct, frozen=True):
    """End of a block."""

    kind: BlockKind
    index: int
    block: Block


StreamEvent = BlockStart | BlockDelta | BlockEnd


class _Open:
    """An unfinished block: its text, and the same text as JSON."""

    __slots__ = ("args", "chunks", "done", "head", "kind", "parts", "text", "value")

    def __init__(self, kind: BlockKind, value: Block, head: bytes) -> None:
        self.kind = kind
        self.value = value
        self.head = head
        # The text that was joined before, and the pieces since then.
        self.text = ""
        self.parts: list[str] = []
        self.chunks = Rope()
        self.args = PartialJson() if kind == "toolcall" else None
        self.done: bytes | None = None

    def segments(self) -> list[bytes]:
        if self.done is not None:
            return [self.done]
        if self.args is not None:
            return [self.head, *self.args.segments(), b"}"]
        return [self.head, *self.chunks.parts(), self.tail()]

    def tail(self) -> bytes:
        if isinstance(self.value, Thinking) and self.value.thinking_signature is not None:
            redacted = b',"redacted":true' if self.value.redacted else b""
            return b'","thinkingSignature":%b%b}' % (dumps(self.value.thinking_signature), redacted)
        return b'"}'

    def now(self) -> Block:
        """Return the block in its current state."""
        if isinstance(self.value, ToolCall):
            assert self.args is not None
            return structs.replace(self.value, arguments=self.args.best())
        text = self._joined()
        if isinstance(self.value, Text):
            return structs.replace(self.value, text=self.value.text + text)
        return structs.replace(self.value, thinking=self.value.thinking + text)

    def close(self, value: Block) -> None:
        """Finish the block."""
        self.value, self.done = value, dumps(value)
        self.text = ""
        self.parts.clear()

    def _joined(self) -> str:
        """Return the text so far. Pieces are joined once, however often the text is read."""
        if self.parts:
            text, more = self.text, "".join(self.parts)
            self.parts.clear()
            if "\ud800" <= text[-1:] <= "\udbff":  # its other half may have arrived
                text, more = text[:-1], text[-1] + more
            self.text = text + (more if more.isascii() else join_surrogates(more))
        return self.text


class Draft:
    """The answer under construction. Providers call it as pieces arrive; calls return events."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.timestamp = now_ms()
        self.usage: Usage = NO_USAGE
        self.usage_json = dumps(NO_USAGE)
        self.broken: set[str] = set()
        # Why the call failed, once it has.
        self.failure: ProviderError | None = None
        self._stop: StopReason | None = None
        self._raw_stop: str | None = None
        self._response: dict[str, str] = {}
        self._blocks: list[_Open] = []
        self._tail = b""

    # ------------------------------------------------------------ text and thinking

    def start_text(self, signature: str | None = None) -> BlockStart:
        return self._open(
            "text", Text(text="", text_signature=signature), b'{"type":"text","text":"'
        )

    def text(self, index: int, delta: str) -> BlockDelta:
        """Append to a block of text or thinking."""
        block = self._blocks[index]
        escaped = escape(delta)
        block.parts.append(delta)
        block.chunks.add(escaped)
        return BlockDelta(block.kind, index, delta, escaped)

    thinking = text

    def start_thinking(
        self, text: str = "", signature: str | None = "", redacted: bool = False
    ) -> BlockStart:
        """Start a thinking block; a redacted block is complete at once and gets no deltas."""
        value = Thinking(thinking=text, thinking_signature=signature, redacted=redacted)
        head = b'{"type":"thinking","thinking":"' + escape(text)
        return self._open("thinking", value, head)

    def sign(self, index: int, signature: str, *, append: bool = False) -> None:
        """Set or extend the opaque signature that a provider expects back; emits no event."""
        block = self._blocks[index]
        match block.value:
            case Text():
                old = (block.value.text_signature or "") if append else ""
                block.value = structs.replace(block.value, text_signature=old + signature)
            case Thinking():
                old = (block.value.thinking_signature or "") if append else ""
                block.value = structs.replace(block.value, thinking_signature=old + signature)
            case ToolCall():
                block.value = structs.replace(block.value, thought_signature=signature)
        if block.done is not None:
            block.done = dumps(block.value)

    # ------------------------------------------------------------ tool calls

    def start_tool(self, call_id: str, name: str, namespace: str | None = None) -> BlockStart:
        value = ToolCall(id=call_id, name=name, arguments={}, namespace=namespace)
        return self._open("toolcall", value, _call_head(call_id, name))

    def rename_tool(self, index: int, call_id: str, name: str) -> None:
        """Set the id or the name of a call that a server sends after the start of the block."""
        block = self._blocks[index]
        assert isinstance(block.value, ToolCall)
        block.value = structs.replace(block.value, id=call_id, name=name)
        block.head = _call_head(call_id, name)

    def tool_args(self, index: int, delta: str) -> BlockDelta:
        block = self._blocks[index]
        assert block.args is not None
        block.args.feed(delta)
        return BlockDelta("toolcall", index, delta, escape(delta))

    # ------------------------------------------------------------ ends

    def end(self, index: int, text: str | None = None) -> BlockEnd:
        """Close a block; `text` is its complete text if the provider sent it.

        A call whose arguments are truncated or not JSON is marked broken and never runs.
        """
        block = self._blocks[index]
        value = block.now()
        if text is not None and isinstance(value, Text):
            value = structs.replace(value, text=text)
        elif text is not None and isinstance(value, Thinking):
            value = structs.replace(value, thinking=text)
        if isinstance(value, ToolCall):
            assert block.args is not None
            try:
                value = structs.replace(value, arguments=block.args.whole())
            except ValueError:
                self.broken.add(value.id)
        block.close(value)
        return BlockEnd(block.kind, index, value)

    def is_open(self, index: int) -> bool:
        return self._blocks[index].done is None

    def end_all(self) -> Iterator[BlockEnd]:
        """Close the open blocks in order, each when the iterator reaches it."""
        return (self.end(index) for index in range(len(self._blocks)) if self.is_open(index))

    @property
    def has_tool_calls(self) -> bool:
        return any(block.kind == "toolcall" for block in self._blocks)

    def stopped(self, reason: StopReason, raw: str | None = None) -> None:
        """Record the provider's stop reason; it takes effect when the stream ends."""
        self._stop, self._raw_stop = reason, raw

    @property
    def stop_reason(self) -> StopReason | None:
        return self._stop

    def finish(self, stop: StopReason | None = None, error: str | None = None) -> AssistantMessage:
        """Return the final message with the stop reason and the content that has arrived."""
        return self._message(stop or self._stop or "stop", error)

    # ------------------------------------------------------------ about the answer

    def count(self, usage: Usage, factor: float = 1, *, charged: float | None = None) -> None:
        """Set new token counts; compute the cost from the model, times a provider's factor.

        If the server reports the amount it `charged`, that is the cost.
        """
        priced = price(self.model, usage, factor)
        self.usage = priced if charged is None else charge(priced, charged)
        self.usage_json = dumps(self.usage)
        self._tail = b""

    def identify(self, response_id: str | None, response_model: str | None = None) -> None:
        if response_id:
            self._response["response_id"] = response_id
        if response_model and response_model != self.model.id:
            self._response["response_model"] = response_model
        self._tail = b""

    def segments(self) -> list[bytes]:
        """Return the current message as pieces of JSON, to splice into a frame immediately."""
        out = [b'{"role":"assistant","content":[']
        for place, block in enumerate(self._blocks):
            if place:
                out.append(b",")
            out += block.segments()
        if not self._tail:
            self._tail = message_tail(self.envelope())
        out.append(self._tail)
        return out

    def snapshot(self) -> AssistantMessage:
        """Return an immutable copy of the current message."""
        return self._message("stop", None)

    # ------------------------------------------------------------ private

    def _message(self, stop: StopReason, error: str | None) -> AssistantMessage:
        about: dict[str, Any] = self._response
        return AssistantMessage(
            content=tuple(b.value if b.done is not None else b.now() for b in self._blocks),
            api=self.model.api,
            provider=self.model.provider,
            model=self.model.id,
            usage=self.usage,
            stop_reason=stop,
            timestamp=self.timestamp,
            error_message=error,
            raw_stop_reason=self._raw_stop,
            **about,
        )

    def _open(self, kind: BlockKind, value: Block, head: bytes) -> BlockStart:
        index = len(self._blocks)
        self._blocks.append(_Open(kind, value, head))
        if isinstance(value, ToolCall):
            return BlockStart(kind, index, value.id, value.name)
        return BlockStart(kind, index)

    def envelope(self) -> AssistantMessage:
        """Return the current message without its content."""
        return structs.replace(self.message_head(), usage=self.usage, **self._response)

    def message_head(self) -> AssistantMessage:
        """Return the message before any content arrived."""
        return AssistantMessage(
            content=(),
            api=self.model.api,
            provider=self.model.provider,
            model=self.model.id,
            usage=NO_USAGE,
            stop_reason="stop",
            timestamp=self.timestamp,
        )


def message_tail(envelope: AssistantMessage) -> bytes:
    """Return the JSON of a message after its content, from the bracket that closes the list."""
    # `content` is the first field after the role: remove it and keep the rest of the object.
    return b"]" + dumps(envelope).removeprefix(b'{"role":"assistant","content":[]')


def _call_head(call_id: str, name: str) -> bytes:
    return b'{"type":"toolCall","id":%b,"name":%b,"arguments":' % (dumps(call_id), dumps(name))
