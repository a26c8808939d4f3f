"""Value base class, paths, ids, clock, root errors, and JSON that accepts lone surrogates."""

import itertools
import math
import os
import time
from collections.abc import Callable, Container, Mapping
from pathlib import Path
from typing import Any, Literal, Self, dataclass_transform

import msgspec

# The limits of Linux; other systems have the same or lower ones.
_PATH_BYTES, _NAME_BYTES = 4096, 255
ErrorCode = Literal[
    "busy",
    "full",
    "internal_error",
    "invalid_fork_entry",
    "invalid_parameter",
    "no_key",
    "no_model",
    "session_busy",
    "session_in_use",
    "shared",
    "stale_cursor",
    "unauthorized",
    "unknown_command",
    "unknown_session",
    "unsupported",
    "view_only",
]
# Takes a warning for the user.
Warn = Callable[[str], None]
# A JSON Schema: one that is built here, and one that is only read.
Schema = dict[str, Any]
ReadOnlySchema = Mapping[str, Any]


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(msgspec.field,))
class Value(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Base class of immutable records: snake_case in Python, camelCase on the wire.

    A field without a default always appears on the wire. A field with a default is omitted while it
    has that default.
    """

    def replace(self, **changes: Any) -> Self:
        """Return a copy with other values in some fields."""
        return msgspec.structs.replace(self, **changes)


class LudolfError(Exception):
    """Root of all errors that this package raises on purpose."""


class CommandError(LudolfError):
    """A refused command. The host receives the text unchanged.

    `code` names the reason where a program has to know it: dialects choose their wording by it.
    """

    def __init__(self, text: str = "", *, code: ErrorCode | None = None) -> None:
        super().__init__(text)
        self.code = code


class ConfigError(LudolfError):
    """A configuration file of the user cannot be used; the text names the file."""


def check_path(path: str) -> str:
    """Return the path if a file can have it.

    Raises:
        CommandError: the path contains a character that no file name can have, or is too long.
    """
    shown = repr(path if len(path) <= 60 else path[:60] + "…")
    try:
        encoded = os.fsencode(path)
    except UnicodeEncodeError:
        raise CommandError(f"Not a usable path: {shown} holds a lone surrogate") from None
    if b"\0" in encoded:
        raise CommandError(f"Not a usable path: {shown} holds a NUL character")
    if len(encoded) >= _PATH_BYTES or max(map(len, encoded.split(b"/"))) > _NAME_BYTES:
        limits = f"{_PATH_BYTES - 1:,} bytes, {_NAME_BYTES} for each name"
        raise CommandError(f"Not a usable path: {shown} is too long (at most {limits})")
    return path


def user_dir(environ: Mapping[str, str]) -> Path:
    """Return the user's home directory; "/" if neither the environment nor the system names one."""
    folder = environ.get("HOME") or environ.get("USERPROFILE")
    return Path(folder or _of_user(None) or "/")


def expand_user(path: str, home: Path | str) -> str:
    """Return the path with `home` in place of a leading `~`, and the folder of a user for `~name`.

    The path of an unknown user stays as it is.
    """
    if not path.startswith("~"):
        return path
    name, slash, rest = path[1:].partition("/")
    folder = _of_user(name) if name else os.fspath(home)
    return path if folder is None else (folder.rstrip("/") + slash + rest) or "/"


def _of_user(name: str | None) -> str | None:
    import pwd

    try:
        entry = pwd.getpwuid(os.getuid()) if name is None else pwd.getpwnam(name)
    except (KeyError, ValueError):
        return None
    return entry.pw_dir


def now_ms() -> int:
    """Return the wall clock in Unix milliseconds, the unit of message timestamps."""
    return time.time_ns() // 1_000_000


def iso_time(ms: int | None = None) -> str:
    """Format a time as ISO 8601 UTC with milliseconds and Z, as in session entries."""
    stamp = now_ms() if ms is None else ms
    seconds, rest = divmod(stamp, 1000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{rest:03d}Z"


def short_id() -> str:
    """Return eight random hex digits, the id of a session entry."""
    return os.urandom(4).hex()


def unused_id(used: Container[str]) -> str:
    """Return a short id that is not in `used`."""
    for _ in range(100):
        name = short_id()
        if name not in used:
            return name
    return uuid4()


def uuid4() -> str:
    """Return a random UUID without importing the uuid module, which is slow to load."""
    return _shape_uuid(bytearray(os.urandom(16)), version=4)


def uuid7() -> str:
    """Return a UUID that sorts by time, the id of a session."""
    return _shape_uuid(bytearray(now_ms().to_bytes(6, "big") + os.urandom(10)), version=7)


def _shape_uuid(raw: bytearray, *, version: int) -> str:
    raw[6] = (raw[6] & 0x0F) | (version << 4)
    raw[8] = (raw[8] & 0x3F) | 0x80
    text = raw.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


# ---------------------------------------------------------------- JSON

# msgspec does almost all of it. The module json is imported where it is needed: few starts use it.
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder()
# Deeper values can be parsed, but encoding them again may exceed the recursion limit.
MAX_NESTING = 500
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_AS_STEPS = bytes.maketrans(b"[{]}", b"\2\2\0\0")
_PLAIN = (str, int, bool, type(None))


def dumps(value: Any) -> bytes:
    """Encode to JSON bytes; lone surrogates become escapes, as in JavaScript."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        import json

        return json.dumps(_finite(msgspec.to_builtins(value)), separators=(",", ":")).encode()


def loads(data: bytes | bytearray | memoryview | str) -> Any:
    """Decode JSON; accept lone surrogates and invalid UTF-8, as JavaScript does.

    Raises:
        ValueError: the text is not JSON, or is nested too deeply.
    """
    try:
        try:
            return _decoder.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError):
            import json

            return json.loads(as_text(data))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def is_nested_deeper(data: bytes, limit: int = MAX_NESTING) -> bool:
    """Return whether arrays and objects of JSON text are nested deeper than `limit`."""
    if data.count(b"[") + data.count(b"{") <= limit:
        return False
    unescaped = data.replace(rb"\\", b"").replace(rb"\"", b"")
    outside_strings = b"".join(unescaped.split(b'"')[::2])
    steps = outside_strings.translate(_AS_STEPS, _NO_BRACKETS)
    depths = itertools.accumulate(steps, lambda depth, step: depth + step - 1, initial=0)
    return max(depths) > limit


def as_text(data: bytes | bytearray | memoryview | str) -> str:
    """Decode JSON bytes to text; replace invalid UTF-8 and drop a leading BOM."""
    text = data if isinstance(data, str) else bytes(data).decode("utf-8", "replace")
    return text.removeprefix("\ufeff")


def escape(text: str) -> bytes:
    """Escape the text for the inside of a JSON string, without the quotes."""
    try:
        return _encoder.encode(text)[1:-1]
    except UnicodeEncodeError:
        import json

        return json.dumps(text).encode()[1:-1]


def join_surrogates(text: str) -> str:
    """Join surrogate pairs that arrived in two pieces; keep lone surrogates."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def without_surrogates(text: str) -> str:
    """Join surrogate pairs and remove lone surrogates, which model providers reject."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "ignore")
    return text


def _finite(value: Any) -> Any:
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value]
