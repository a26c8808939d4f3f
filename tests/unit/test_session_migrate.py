"""Files of older programs load, are rewritten once, and go on as the present version."""

import json
import stat
from pathlib import Path
from typing import Any

from ludolf.ai.messages import (
    AssistantMessage,
    CompactionSummaryMessage,
    CustomMessage,
    UserMessage,
    text_of,
)
from ludolf.session import MessageBody, Session, open_session
from ludolf.session.migrate import migrate

# A file as pi before version 2 wrote it: no version, no ids, header with the model.
V1 = (
    b'{"type":"session","id":"2dcc737c-eeab-4a33-a21e-c780c9712efa","timestamp":'
    b'"2025-11-15T06:35:52.642Z","cwd":"/work","provider":"mock","modelId":"m","thinkingLevel":'
    b'"off"}\n'
    b'{"type":"message","timestamp":"2025-11-15T06:35:52.634Z","message":{"role":"user","content":'
    b'[{"type":"text","text":"first"}],"timestamp":1794724552618}}\n'
    b"torn or broken\n"
    b'{"type":"message","timestamp":"2025-11-15T06:35:52.642Z","message":{"role":"assistant",'
    b'"content":[{"type":"text","text":"one"}],"api":"openai-completions","provider":"mock",'
    b'"model":"m","usage":{"input":100,"output":20,"cacheRead":0,"cacheWrite":0,"cost":{"input":0,'
    b'"output":0,"cacheRead":0,"cacheWrite":0,"total":0}},"stopReason":"stop","timestamp":'
    b"1794724552620}}\n"
    b'{"type":"message","timestamp":"2025-11-15T06:35:59.257Z","message":{"role":"user","content":'
    b'"second","timestamp":1794724559252}}\n'
    b'{"type":"compaction","timestamp":"2025-11-15T06:36:00.000Z","summary":"past",'
    b'"firstKeptEntryIndex":3,"tokensBefore":120}\n'
)


def ignore(text: str) -> None:
    pass


def no_warning(text: str) -> None:
    raise AssertionError(text)


def told(session: Session) -> list[str]:
    found = []
    for message in session.context.messages():
        if isinstance(message, CompactionSummaryMessage):
            found.append(f"<{message.summary}>")
        elif isinstance(message, UserMessage | AssistantMessage | CustomMessage):
            found.append(text_of(message.content))
    return found


def stored(path: Path) -> list[dict[str, Any]]:
    lines = path.read_bytes().splitlines()
    return [json.loads(line) for line in lines if line.startswith(b"{")]


def test_a_version_1_file_becomes_a_chain_with_ids(tmp_path: Path) -> None:
    path = tmp_path / "old.jsonl"
    path.write_bytes(V1)
    session = open_session(path, "/", ignore)
    assert told(session) == ["<past>", "second"]
    session.append(MessageBody(message=UserMessage(content="third", timestamp=1)))
    session.close()
    header, *entries = stored(path)
    assert (header["version"], header["provider"]) == (3, "mock")
    assert [entry["parentId"] for entry in entries] == [
        None,
        *(entry["id"] for entry in entries[:-1]),
    ]
    assert entries[3]["firstKeptEntryId"] == entries[2]["id"]
    assert "firstKeptEntryIndex" not in entries[3]
    assert b"torn or broken\n" in path.read_bytes()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [item.name for item in tmp_path.iterdir()] == ["old.jsonl"]
    before = path.read_bytes()
    assert told(open_session(path, "/", ignore)) == ["<past>", "second", "third"]
    assert path.read_bytes() == before


def test_an_index_of_0_keeps_everything() -> None:
    lines = V1.replace(b'"firstKeptEntryIndex":3', b'"firstKeptEntryIndex":0').splitlines(True)
    entries = [json.loads(line) for line in migrate(lines) if line.startswith(b"{")]
    assert entries[4]["firstKeptEntryId"] == entries[1]["id"]


def test_a_version_2_hook_message_becomes_a_custom_one(tmp_path: Path) -> None:
    path = tmp_path / "old.jsonl"
    message = {
        "role": "hookMessage",
        "customType": "note",
        "content": "hint",
        "display": True,
        "timestamp": 1,
    }
    entry = {"type": "message", "id": "a", "parentId": None, "timestamp": "t", "message": message}
    header = {"type": "session", "version": 2, "id": "s", "timestamp": "t", "cwd": "/"}
    path.write_text(json.dumps(header) + "\n" + json.dumps(entry) + "\n")
    session = open_session(path, "/", no_warning)
    assert told(session) == ["hint"]
    assert session.entries()[0].id == "a"
    assert stored(path)[1]["message"] == {**message, "role": "custom"}


def test_looking_at_an_old_file_leaves_it_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "old.jsonl"
    path.write_bytes(V1)
    assert told(open_session(path, "/", ignore, write=False)) == ["<past>", "second"]
    assert path.read_bytes() == V1


def test_the_present_version_is_not_touched() -> None:
    lines = [b'{"type":"session","version":3,"id":"s"}\n', b"rest\n"]
    assert migrate(lines) is lines
