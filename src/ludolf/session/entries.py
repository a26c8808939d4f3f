"""Entries of a session file: parse the envelope, decode the body on demand, encode lines."""

from typing import Any

import msgspec
from msgspec import UNSET

from ludolf.ai.messages import (
    BranchSummaryMessage,
    CompactionSummaryMessage,
    CustomMessage,
    Message,
    OpaqueMessage,
    Part,
    Usage,
    decode_message,
)
from ludolf.base import Value, dumps, loads
from ludolf.base.patterns import lazy_pattern

VERSION = 3
NO_MESSAGE = msgspec.Raw(b"")


class SessionHeader(Value, tag_field="type", tag="session", kw_only=True):
    """The first line of the file, which is not part of the tree. Version 1 has no `version`."""

    version: int | None = None
    id: str
    timestamp: str
    cwd: str
    parent_session: str | None = None


class Entry(msgspec.Struct, eq=False, gc=False):
    """One node of the tree. `line` is the stored JSON, usually with its final LF.

    The decoded message is cached here: an entry returns the same object each time.
    """

    type: str
    id: str
    parent_id: str | None
    timestamp: str
    line: bytes
    message: msgspec.Raw = NO_MESSAGE
    role: str = ""
    decoded: Message | OpaqueMessage | None = None
    tokens: int = -1
    sound: bool = False


# ---------------------------------------------------------------- bodies for writing


class MessageBody(Value, tag_field="type", tag="message"):
    message: Message | OpaqueMessage


class ModelChangeBody(Value, tag_field="type", tag="model_change"):
    provider: str
    model_id: str


class ThinkingLevelChangeBody(Value, tag_field="type", tag="thinking_level_change"):
    thinking_level: str


class CompactionBody(Value, tag_field="type", tag="compaction", kw_only=True):
    summary: str
    first_kept_entry_id: str
    tokens_before: int
    details: Any = UNSET
    usage: Usage | None = None
    from_hook: bool


class BranchSummaryBody(Value, tag_field="type", tag="branch_summary", kw_only=True):
    from_id: str
    summary: str
    details: Any = UNSET
    usage: Usage | None = None
    from_hook: bool


class UsageBody(Value, tag_field="type", tag="usage", kw_only=True):
    """Usage of a model call without a message in this session; `note` names its purpose."""

    kind: str
    provider: str
    model: str
    usage: Usage
    note: str | None = None


class CustomBody(Value, tag_field="type", tag="custom"):
    custom_type: str
    data: Any = UNSET


class CustomMessageBody(Value, tag_field="type", tag="custom_message"):
    custom_type: str
    content: str | tuple[Part, ...]
    display: bool
    details: Any = UNSET


class LabelBody(Value, tag_field="type", tag="label"):
    target_id: str
    label: str | None = None


class SessionInfoBody(Value, tag_field="type", tag="session_info"):
    name: str


EntryBody = (
    MessageBody
    | ModelChangeBody
    | ThinkingLevelChangeBody
    | CompactionBody
    | BranchSummaryBody
    | UsageBody
    | CustomBody
    | CustomMessageBody
    | LabelBody
    | SessionInfoBody
)


def make_entry(body: EntryBody, *, entry_id: str, parent_id: str | None, timestamp: str) -> Entry:
    """Make the entry for a body."""
    kind = str(body.__struct_config__.tag)
    start = b'{"type":"' + kind.encode() + b'"'
    place = (dumps(entry_id), dumps(parent_id), dumps(timestamp))
    envelope = b',"id":%b,"parentId":%b,"timestamp":%b' % place
    if not isinstance(body, MessageBody):
        line = start + envelope + dumps(body)[len(start) :] + b"\n"
        return Entry(kind, entry_id, parent_id, timestamp, line, sound=True)
    head = start + envelope + b',"message":'
    line = head + encode_message(body.message) + b"}\n"
    inside = msgspec.Raw(memoryview(line)[len(head) : -2])
    return Entry(kind, entry_id, parent_id, timestamp, line, inside, decoded=body.message)


def encode_message(message: Message | OpaqueMessage) -> bytes:
    return bytes(message.raw) if isinstance(message, OpaqueMessage) else dumps(message)


# ---------------------------------------------------------------- reading


class _Envelope(msgspec.Struct, rename="camel", gc=False):
    type: str
    id: str
    parent_id: str | None = None
    timestamp: str = ""
    message: msgspec.Raw = NO_MESSAGE


_envelope = msgspec.json.Decoder(_Envelope)
_FIRST_ROLE = lazy_pattern(rb'\s*\{\s*"role"\s*:\s*"(\w+)"')
# Entries share these strings: a long session holds them many times.
_KINDS = {kind: kind for kind in ("message", "custom_message", "custom", "usage", "label")}
_ROLES = {role.encode(): role for role in ("user", "assistant", "toolResult", "bashExecution")}
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def read_entry(line: bytes) -> Entry | None:
    """Parse the entry in a line without its body; None if the line does not hold one."""
    try:
        head = _envelope.decode(line)
    except _UNREADABLE:
        # JavaScript writes lone surrogates and invalid UTF-8; msgspec does not decode them.
        body = read_object(line)
        return entry_of(body) if body is not None else None
    kind = _KINDS.get(head.type, head.type)
    # Found now, while the line is in the cache of the processor: later it takes thrice as long.
    match = _FIRST_ROLE.match(head.message) if kind == "message" else None
    role = _ROLES.get(match[1], "") if match is not None else ""
    return Entry(kind, head.id, head.parent_id, head.timestamp, line, head.message, role)


def read_object(line: bytes) -> dict[str, Any] | None:
    """Parse the JSON object in a line; None if the line holds anything else."""
    try:
        value = loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def header_version(header: dict[str, Any]) -> int | None:
    """Return the version in a header: 1 without the key, None if it is not a number from 1."""
    version = header.get("version", 1)
    is_number = isinstance(version, int) and not isinstance(version, bool)
    return version if is_number and version >= 1 else None


def entry_of(body: dict[str, Any]) -> Entry | None:
    """Make an entry from decoded JSON; None if id or type is not a string."""
    kind, entry_id, parent = body.get("type"), body.get("id"), body.get("parentId")
    stamp = body.get("timestamp")
    if not isinstance(kind, str) or not isinstance(entry_id, str):
        return None
    return Entry(
        kind,
        entry_id,
        parent if isinstance(parent, str) else None,
        stamp if isinstance(stamp, str) else "",
        dumps(body) + b"\n",
        msgspec.Raw(dumps(body["message"])) if "message" in body else NO_MESSAGE,
        sound=True,
    )


def fields(entry: Entry) -> dict[str, Any]:
    """Decode all fields of an entry; the result is not cached."""
    return read_object(entry.line) or {}


def text_field(body: dict[str, Any], name: str) -> str:
    value = body.get(name)
    return value if isinstance(value, str) else ""


def entry_json(entry: Entry) -> bytes:
    """Return the entry as a JSON object for the wire: valid UTF-8, without the line end."""
    _make_sound(entry)
    return entry.line.rstrip()


def entry_line(entry: Entry) -> bytes:
    """Return the entry as a line of a session file: valid UTF-8, with one final LF."""
    _make_sound(entry)
    # Usually the stored line, which is not copied.
    return entry.line if entry.line.endswith(b"}\n") else entry.line.rstrip() + b"\n"


def role_of(entry: Entry) -> str:
    """Return the role of the message that an entry contributes; "" if it contributes none."""
    if not entry.role:
        entry.role = _find_role(entry)
    return "" if entry.role == "-" else entry.role


def _find_role(entry: Entry) -> str:
    match entry.type:
        case "message":
            match = _FIRST_ROLE.match(entry.message)
            if match is not None:
                return _ROLES.get(match[1]) or match[1].decode()
            role = text_field(read_object(bytes(entry.message)) or {}, "role")
            return role or "unknown"
        case "custom_message":
            return "custom"
        case "branch_summary":
            return "branchSummary" if text_field(fields(entry), "summary") else "-"
        case "compaction":
            return "compactionSummary"
        case _:
            return "-"


def message_of(entry: Entry) -> Message | OpaqueMessage:
    """Return the message that an entry contributes; it is decoded once and cached."""
    if entry.decoded is None:
        entry.decoded = _decode(entry)
    return entry.decoded


def message_json(entry: Entry) -> msgspec.Raw:
    """Return the JSON of the message for the wire; decodes it only if the stored form differs."""
    if entry.type != "message":
        return msgspec.Raw(encode_message(message_of(entry)))
    _make_sound(entry)
    return entry.message


def _decode(entry: Entry) -> Message | OpaqueMessage:
    if entry.type == "message":
        return decode_message(entry.message)
    body = fields(entry)
    stamp = time_ms(entry.timestamp)
    match entry.type:
        case "compaction":
            tokens = body.get("tokensBefore")
            return CompactionSummaryMessage(
                summary=text_field(body, "summary"),
                tokens_before=tokens if isinstance(tokens, int) else 0,
                timestamp=stamp,
            )
        case "branch_summary":
            source = body.get("fromId")
            return BranchSummaryMessage(
                summary=text_field(body, "summary"),
                from_id=source if isinstance(source, str) else None,
                timestamp=stamp,
            )
        case "custom_message":
            return _custom(body, stamp)
        case kind:
            raise TypeError(f"a {kind} entry holds no message")


def _custom(body: dict[str, Any], stamp: int) -> Message | OpaqueMessage:
    message = {
        "role": "custom",
        "customType": text_field(body, "customType"),
        "content": body.get("content") or "",
        "display": bool(body.get("display")),
        "timestamp": stamp,
    }
    if "details" in body:
        message["details"] = body["details"]
    decoded = decode_message(dumps(message))
    if isinstance(decoded, CustomMessage):
        return decoded
    return OpaqueMessage(role="custom", raw=msgspec.Raw(dumps(message)))


def _make_sound(entry: Entry) -> None:
    # The envelope decoder skips strings, so invalid UTF-8 is detected only here.
    if entry.sound:
        return
    if not _is_utf8(entry.line):
        body = fields(entry)
        repaired = entry_of(body)
        if repaired is not None:
            entry.line, entry.message = repaired.line, repaired.message
    entry.sound = True


def _is_utf8(line: bytes) -> bool:
    if line.isascii():
        return True
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def time_ms(stamp: str) -> int:
    """Convert an ISO time to Unix milliseconds; 0 if it cannot be parsed."""
    from datetime import UTC, datetime

    try:
        moment = datetime.fromisoformat(stamp)
    except ValueError:
        return 0
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)
