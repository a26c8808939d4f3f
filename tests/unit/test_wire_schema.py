"""The published schema: whole, strict enough to refuse, and made of what dialects really write."""

import re
from collections.abc import Iterator
from typing import Any, get_args

import jsonschema_rs
import msgspec
import pytest

from ludolf.agent.events import MessageUpdate
from ludolf.ai.builtin.models import scripted_model
from ludolf.ai.draft import BlockEnd, Draft
from ludolf.base import dumps, loads
from ludolf.client.events import EventReader, UnknownEvent
from ludolf.protocol.commands import COMMANDS
from ludolf.protocol.dialects import NAMES, make_dialect
from ludolf.protocol.dialects.dialect import ServerInfo, silent
from ludolf.protocol.events import Event
from ludolf.protocol.framing import Frame
from ludolf.protocol.ui import DIALOGS, UiMethod, UiRequest
from ludolf.protocol.wire.answers import ANSWERS
from ludolf.protocol.wire.commands import SENT
from ludolf.protocol.wire.dialects import WIRE
from ludolf.protocol.wire.frames import REQUESTS, SPOKEN
from ludolf.protocol.wire.published import schemas
from ludolf.protocol.wire.schema import members, schema_in
from ludolf.protocol.wire.stored import KnownEntry, StoredEntry, read_open
from ludolf.protocol.wire.typescript import type_of, typescript
from ludolf.session.entries import EntryBody
from tests.frames import frames_in, frames_out
from tests.samples import sample

ANSWERING = [name for name in NAMES if WIRE[name].answers]


def _records(frame: Frame | None) -> list[Any]:
    if frame is None:
        return []
    whole = frame if isinstance(frame, bytes) else b"".join(frame)
    return [loads(line) for line in whole.splitlines()]


# ---------------------------------------------------------------- the tables are whole


@pytest.mark.parametrize("dialect", ANSWERING)
def test_every_command_has_a_described_answer(dialect: str) -> None:
    answered = {name for name, spec in COMMANDS.items() if not spec.unanswered}
    assert set(WIRE[dialect].answers) == answered


def test_every_dialect_is_described() -> None:
    assert set(WIRE) == set(NAMES)


def test_commands_that_are_described_more_closely_keep_their_parameters() -> None:
    for name, kind in SENT.items():
        params = COMMANDS[name].params
        assert issubclass(kind, params)
        assert kind.__struct_encode_fields__ == params.__struct_encode_fields__, name


def test_every_method_of_a_request_is_described() -> None:
    assert set(REQUESTS) == set(get_args(UiMethod))
    assert set(DIALOGS) <= set(REQUESTS)
    used = {field for needed, allowed in REQUESTS.values() for field in (*needed, *allowed)}
    assert used | {"id", "method"} == set(UiRequest.__struct_encode_fields__)


def test_every_kind_of_entry_is_described() -> None:
    written = {body.__struct_config__.tag: body for body in get_args(EntryBody)}
    read = {entry.__struct_config__.tag: entry for entry in get_args(KnownEntry)}
    assert set(read) == set(written)
    for tag, entry in read.items():
        envelope = {"id", "parentId", "timestamp"}
        fields = set(written[tag].__struct_encode_fields__)
        assert set(entry.__struct_encode_fields__) == fields | envelope


@pytest.mark.parametrize("name", NAMES)
def test_events_that_a_dialect_never_tells_are_not_in_its_schema(name: str) -> None:
    table: dict[type[Any], Any] = make_dialect(name)._table  # what it writes for each event
    tags = {kind.__struct_config__.tag for kind, render in table.items() if render is silent}
    assert tags.isdisjoint(WIRE[name].by_type())


# ---------------------------------------------------------------- what is written fits


@pytest.mark.parametrize("name", schemas())
def test_a_schema_is_a_schema(name: str) -> None:
    schema = schemas()[name]
    jsonschema_rs.meta.validate(schema)
    named = re.findall(r'"#/\$defs/([^"]+)"', dumps(schema).decode())
    assert set(named) == set(schema["$defs"])


@pytest.mark.parametrize("whole", [True, False], ids=["all fields", "required fields"])
@pytest.mark.parametrize("kind", [kind for kind in SPOKEN if kind is not MessageUpdate])
@pytest.mark.parametrize("name", NAMES)
def test_events_are_as_the_schema_says(name: str, kind: type[Any], whole: bool) -> None:
    event: Event = sample(kind, whole=whole)
    dialect = make_dialect(name)
    dialect.greeting(ServerInfo("1"))
    reader = EventReader(WIRE[name])
    for record in _records(dialect.event(event)):
        frames_out(name).check(record)
        assert not isinstance(reader.read(record), UnknownEvent)


def _pieces() -> Iterator[MessageUpdate]:
    draft = Draft(scripted_model())
    text = draft.start_text()
    yield MessageUpdate(text, draft)
    yield MessageUpdate(draft.text(text.index, "a"), draft)
    thinking = draft.start_thinking()
    yield MessageUpdate(thinking, draft)
    yield MessageUpdate(draft.thinking(thinking.index, "b"), draft)
    call = draft.start_tool("id", "name")
    yield MessageUpdate(call, draft)
    yield MessageUpdate(draft.tool_args(call.index, '{"c":1}'), draft)
    ends = list(draft.end_all())
    assert all(isinstance(end, BlockEnd) for end in ends)
    yield from (MessageUpdate(end, draft) for end in ends)


@pytest.mark.parametrize("name", NAMES)
def test_pieces_of_answers_are_as_the_schema_says(name: str) -> None:
    dialect, reader = make_dialect(name), EventReader(WIRE[name])
    told = [record for piece in _pieces() for record in _records(dialect.event(piece))]
    assert len(told) == 9
    for record in told:
        frames_out(name).check(record)
        assert not isinstance(reader.read(record), UnknownEvent)


@pytest.mark.parametrize("whole", [True, False], ids=["all fields", "required fields"])
@pytest.mark.parametrize("name", ANSWERING)
def test_answers_are_as_their_types_say(name: str, whole: bool) -> None:
    for command, kind in WIRE[name].answers.items():
        reply: dict[str, Any] = {"type": "response", "command": command, "success": True}
        for member in members(kind):
            data = loads(dumps(sample(member, whole=whole)))
            frames_out(name).check({**reply, "data": data})
            msgspec.convert(data, member, dec_hook=read_open)


# ---------------------------------------------------------------- what is wrong is refused

END = {"type": "tool_execution_end", "toolCallId": "1", "toolName": "read", "isError": False}


@pytest.mark.parametrize(
    "record",
    [
        {"type": "dance"},
        {"type": "agent_end", "messages": []},
        {"type": "agent_end", "messages": [{"role": "user"}], "willRetry": False},
        {**END, "result": {"content": [{"type": "text"}]}},
        {**END, "result": {"content": [{"type": "text", "text": None}]}},
        {"type": "response", "command": "get_state", "success": True},
        {"type": "response", "command": "get_state", "success": True, "data": {}},
        {"type": "response", "command": "get_state", "success": False},
        {"type": "response", "command": "dance", "success": True},
        {"type": "extension_ui_request", "id": "1", "method": "select", "title": "?"},
    ],
    ids=str,
)
def test_a_frame_that_is_not_so_is_refused(record: dict[str, Any]) -> None:
    with pytest.raises(AssertionError):
        frames_out("pi").check(record)


def test_more_fields_are_welcome() -> None:
    result = {"content": [{"type": "text", "text": "hi", "new": 1}]}
    frames_out("pi").check({**END, "result": result, "another": True})


@pytest.mark.parametrize(
    "record",
    [
        {"type": "get_state"},
        {"type": "get_state", "id": {"any": 1}},
        {"type": "prompt", "message": "hi", "images": None},
        {"type": "prompt", "message": "hi", "images": [{"data": "aa", "mimeType": "image/png"}]},
        {"type": "set_todos", "phases": [{"tasks": ["one", {"content": "two"}]}]},
        {"type": "host_tool_result", "id": "1", "result": {"content": []}, "isError": True},
    ],
    ids=str,
)
def test_commands_are_described(record: dict[str, Any]) -> None:
    frames_in().check(record)


@pytest.mark.parametrize(
    "record",
    [
        {"type": "prompt"},
        {"type": "prompt", "message": "hi", "images": [{"url": "http://example.com"}]},
        {"type": "set_thinking_level", "level": "huge"},
        {"type": "get_messages_page", "limit": 257},
        {"type": "set_host_tools", "tools": [{"name": "x"}]},
    ],
    ids=str,
)
def test_a_command_that_is_not_so_is_refused(record: dict[str, Any]) -> None:
    with pytest.raises(AssertionError):
        frames_in().check(record)


# ---------------------------------------------------------------- unknown messages and entries


def test_what_a_session_holds_and_nobody_knows_is_kept() -> None:
    read = read_open(StoredEntry, {"type": "usage", "id": "1", "cost": 2})
    assert (read.type, loads(read.raw)) == ("usage", {"type": "usage", "id": "1", "cost": 2})
    entry = {"type": "message", "id": "1", "parentId": None, "timestamp": ""}
    told = read_open(StoredEntry, {**entry, "message": {"role": "system", "content": ""}})
    assert (told.message.role, told.parent_id) == ("system", None)


# ---------------------------------------------------------------- TypeScript


@pytest.mark.parametrize(
    ("schema", "wanted"),
    [
        ({}, "unknown"),
        ({"type": "integer"}, "number"),
        ({"const": True}, "true"),
        ({"enum": ["a", 1, None]}, '"a" | 1 | null'),
        ({"$ref": "#/$defs/State"}, "State"),
        ({"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
         "(string | null)[]"),
        ({"type": "object"}, "Record<string, unknown>"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "Record<string, number>"),
        ({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
         "{ a: string; [key: string]: unknown }"),
    ],
    ids=str,
)  # fmt: skip
def test_a_schema_becomes_a_type(schema: dict[str, Any], wanted: str) -> None:
    assert type_of(schema) == wanted


def test_every_type_is_declared_once_and_only_declared_ones_are_used() -> None:
    text = typescript(schemas())
    declared = re.findall(r"^export (?:interface|type) (\w+)", text, re.MULTILINE)
    assert len(declared) == len(set(declared))
    code = re.sub(r'/\*(?:.|\n)*?\*/|//[^\n]*|"[^"\n]*"', "", text)
    assert set(re.findall(r"\b[A-Z]\w+\b", code)) - set(declared) == {"Record"}
    assert code.count("{") == code.count("}")


def test_one_name_is_one_thing() -> None:
    one = {"$defs": {"A": {"type": "string"}}, "anyOf": []}
    other = {"$defs": {"A": {"type": "null"}}, "anyOf": []}
    with pytest.raises(ValueError, match="A means different things"):
        typescript({"out-pi": one, "out-omp": other})


def test_commands_have_types_too() -> None:
    text = typescript({"in": schema_in()})
    assert 'export interface GetStateCommand {\n  type: "get_state";' in text
    assert set(re.findall(r'^  type: "(\w+)";', text, re.MULTILINE)) >= set(ANSWERS)
