"""Compare requests by content, independent of the API family."""

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

from ludolf.ai.record.scrubbing import REMOVED
from ludolf.base import dumps

_TOOLS = ("tools", "toolConfig")
_SCHEMAS = frozenset(("parameters", "input_schema", "inputSchema", "parametersJsonSchema"))
_RESULTS = frozenset(("tool_result", "function_call_output", "functionResponse", "toolResult"))
_MODEL_IN_PATH = re.compile(r"/models?/([^/?#:]+)")
_AROUND = 24


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """The properties of a request that must match a recorded one, and its messages."""

    method: str
    path: str
    model: str
    tools: tuple[str, ...]
    count: int
    last_text: str
    messages: bytes

    @property
    def endpoint(self) -> tuple[str, str]:
        """Method and end of the path: gateways change only the start of a path."""
        end = self.path.rpartition("/")[2]
        # Google's paths contain the model.
        return (self.method, end.rpartition(":")[2])

    def __str__(self) -> str:
        model = f" for model {self.model}" if self.model else ""
        question = f", last user text {_quoted(self.last_text)}" if self.last_text else ""
        return f"{self.method} {self.path}{model}{question}"


def shape_of(method: str, url: str, body: Any) -> Shape:
    """Return the shape of a request; a `body` that is not JSON has no messages."""
    fields = body if isinstance(body, dict) else {}
    messages = _messages(fields)
    tools = [fields.get(name) for name in _TOOLS]
    tools += [message.get("toolsAdded") for message in messages if _is_system(message)]
    messages = [message for message in messages if not _is_system(message)]
    return Shape(
        method=method,
        path=urlsplit(url).path,
        model=_model(url, fields),
        tools=tuple(sorted(_names(tools))),
        count=len(messages),
        last_text=_last_text(messages),
        messages=dumps(messages or body),
    )


def difference(recorded: Shape, asked: Shape) -> str | None:
    """Describe the first difference between two requests; None if there is none."""
    if recorded.tools != asked.tools:
        return f"the tools are {_changes(recorded.tools, asked.tools)}"
    if not _same_text(recorded.last_text, asked.last_text):
        now, before = _around(asked.last_text, recorded.last_text)
        return f"the last user text is {now}, the recorded one is {before}"
    if recorded.count != asked.count:
        return f"it has {asked.count} messages, the recorded one has {recorded.count}"
    return None


# ---------------------------------------------------------------- reading bodies


def _model(url: str, body: dict[str, Any]) -> str:
    model = body.get("model")
    in_path = _MODEL_IN_PATH.search(url)
    return model if isinstance(model, str) else unquote(in_path[1]) if in_path else ""


def _messages(body: dict[str, Any]) -> list[Any]:
    inner = body.get("context")
    fields = {**inner, **body} if isinstance(inner, dict) else body
    for name in ("messages", "input", "contents"):
        value = fields.get(name)
        if isinstance(value, list):
            return value
        if isinstance(value, str):
            return [{"role": "user", "content": value}]
    return []


def _is_system(message: Any) -> bool:
    return isinstance(message, dict) and message.get("role") in ("system", "developer")


def _last_text(messages: list[Any]) -> str:
    for message in reversed(messages):
        if isinstance(message, dict) and message.get("role") == "user":
            content = message.get("content", message.get("parts"))
            text = content if isinstance(content, str) else "\n".join(_texts(content))
            if text:
                return text
    return ""


def _texts(content: Any) -> Iterator[str]:
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict) and not _RESULTS & {part.get("type"), *part}:
            text = part.get("text")
            if isinstance(text, str):
                yield text


def _names(tools: Any) -> Iterator[str]:
    if isinstance(tools, list):
        for item in tools:
            yield from _names(item)
    elif isinstance(tools, dict):
        for name, item in tools.items():
            if name == "name" and isinstance(item, str):
                yield item
            elif name not in _SCHEMAS:
                yield from _names(item)


# ---------------------------------------------------------------- words


def _same_text(recorded: str, asked: str) -> bool:
    """Return whether both texts are equal except for values removed from the recorded one."""
    if REMOVED not in recorded:
        return recorded == asked
    pattern = ".*".join(map(re.escape, recorded.split(REMOVED)))
    return re.fullmatch(pattern, asked, re.DOTALL) is not None


def _changes(before: tuple[str, ...], now: tuple[str, ...]) -> str:
    more = [name for name in now if name not in before]
    fewer = [name for name in before if name not in now]
    texts = [f"with {', '.join(more)}"] if more else []
    texts += [f"without {', '.join(fewer)}"] if fewer else []
    return f"not those recorded: {' and '.join(texts) or 'some occur more than once'}"


def _around(one: str, other: str) -> tuple[str, str]:
    """Return both texts from shortly before their first difference."""
    pairs = enumerate(zip(one, other, strict=False))
    index = next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))
    start = max(0, index - _AROUND)
    return _quoted(one, start), _quoted(other, start)


def _quoted(text: str, start: int = 0) -> str:
    end = start + 3 * _AROUND
    piece = " ".join(text[start:end].split())
    return f'"{"…" if start else ""}{piece}{"…" if end < len(text) else ""}"'
