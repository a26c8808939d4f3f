"""Files of older programs load, are converted once with a copy kept, and continue as version 3."""

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ludolf.ai.messages import (
    AssistantMessage,
    CompactionSummaryMessage,
    CustomMessage,
    UserMessage,
    text_of,
)
from ludolf.base import CommandError
from ludolf.page.live.watch import Follower
from ludolf.session.branching import fork_file, import_file
from ludolf.session.entries import MessageBody
from ludolf.session.finder import SessionFolder, list_sessions
from ludolf.session.library import rename, trash
from ludolf.session.migrate import migrate
from ludolf.session.tree import Session, open_session
from tests.session_samples import no_warning

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
    kept = tmp_path / "old.jsonl.v1.bak"
    assert sorted(tmp_path.iterdir()) == [path, kept]
    assert kept.read_bytes() == V1
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
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
    other = '{ "type": "custom", "id": "b", "parentId": "a", "timestamp": "t", "n": 1.0e0 }\n'
    before = json.dumps(header) + "\n" + json.dumps(entry) + "\n" + other
    path.write_text(before)
    warnings: list[str] = []
    session = open_session(path, "/", warnings.append)
    assert told(session) == ["hint"]
    assert session.entries()[0].id == "a"
    assert stored(path)[1]["message"] == {**message, "role": "custom"}
    assert path.read_text().endswith(other)
    kept = tmp_path / "old.jsonl.v2.bak"
    assert kept.read_text() == before
    assert warnings == [
        f"Session file was converted from version 2 to 3: {path}. The old file is kept as {kept}"
    ]


def test_a_copy_of_an_old_file_never_replaces_another_file(tmp_path: Path) -> None:
    path = tmp_path / "old.jsonl"
    path.write_bytes(V1)
    (tmp_path / "old.jsonl.v1.bak").write_text("precious")
    open_session(path, "/", ignore).close()
    assert (tmp_path / "old.jsonl.v1.bak").read_text() == "precious"
    assert (tmp_path / "old.jsonl.v1-1.bak").read_bytes() == V1


def test_an_old_file_behind_a_link_is_converted_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    target, link = tmp_path / "real" / "old.jsonl", tmp_path / "link.jsonl"
    target.write_bytes(V1)
    link.symlink_to(target)
    open_session(link, "/", ignore).close()
    assert link.is_symlink()
    assert stored(target)[0]["version"] == 3
    assert (tmp_path / "real" / "old.jsonl.v1.bak").read_bytes() == V1


def test_ids_and_branches_in_a_version_1_file_stay(tmp_path: Path) -> None:
    path = tmp_path / "old.jsonl"
    links = [("root", None), ("left", "root"), ("right", "root"), ("leaf", "right")]
    path.write_bytes(tree_file({}, links))
    open_session(path, "/", ignore).close()
    header, *entries = stored(path)
    assert header["version"] == 3
    assert [(entry["id"], entry["parentId"]) for entry in entries] == links


def tree_file(version: dict[str, Any], links: list[tuple[str, str | None]]) -> bytes:
    lines = [{"type": "session", **version, "id": "s", "timestamp": "t", "cwd": "/"}]
    for name, parent in links:
        message = {"role": "user", "content": name, "timestamp": 1}
        entry = {"type": "message", "id": name, "parentId": parent, "timestamp": "t"}
        lines.append({**entry, "message": message})
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


@pytest.mark.parametrize(
    "version", ["3", "x", 3.0, 2.5, 1.0, None, True, False, 0, -1, -(10**30), [3], {"a": 3}, ""]
)
def test_an_invalid_version_is_refused_everywhere_and_nothing_is_changed(
    tmp_path: Path, version: Any
) -> None:
    path = tmp_path / "odd.jsonl"
    data = tree_file({"version": version}, [("root", None), ("left", "root"), ("right", "root")])
    path.write_bytes(data)
    place = SessionFolder(
        home=Path("/home/a"), agent_dir=tmp_path / "agent", cwd="/", custom=tmp_path
    )
    attempts: list[Callable[[], object]] = [
        lambda: open_session(path, "/", ignore),
        lambda: open_session(path, "/", ignore, write=False),
        lambda: fork_file(path, "/", tmp_path / "forks", ignore),
        lambda: import_file(path, tmp_path / "imports"),
        lambda: rename(place, str(path), "name", ignore),
        lambda: trash(place, str(path), ignore),
        lambda: Follower(path, ignore).read(),
    ]
    for attempt in attempts:
        with pytest.raises(CommandError, match="has an invalid version"):
            attempt()
    assert list_sessions(place) == []
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_bytes() == data


@pytest.mark.parametrize("version", [4, 99, 2**63, 10**30])
def test_a_newer_version_is_opened_for_reading_and_not_changed(
    tmp_path: Path, version: int
) -> None:
    path = tmp_path / "new.jsonl"
    data = tree_file({"version": version}, [("root", None), ("left", "root")])
    path.write_bytes(data)
    session = open_session(path, "/", no_warning)
    assert [entry.id for entry in session.entries()] == ["root", "left"]
    assert f"version {version}" in (session.read_only or "")
    session.close()
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_bytes() == data


def test_looking_at_an_old_file_leaves_it_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "old.jsonl"
    path.write_bytes(V1)
    assert told(open_session(path, "/", ignore, write=False)) == ["<past>", "second"]
    assert path.read_bytes() == V1


def test_the_present_version_is_not_touched() -> None:
    lines = [b'{"type":"session","version":3,"id":"s"}\n', b"rest\n"]
    assert migrate(lines) is lines
