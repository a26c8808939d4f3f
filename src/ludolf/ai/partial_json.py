"""Best-effort value of a JSON object that is still arriving, in linear time.

The text is scanned once. The certain part is kept as bytes; with the closing brackets added it is
always a valid object, which can be spliced into a frame without parsing.
"""

import re
from typing import Any, Literal

from ludolf.ai.rope import Rope
from ludolf.base import MAX_NESTING, is_nested_deeper, loads

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
