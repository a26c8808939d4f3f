"""Edits of the files of MCP servers, and the cache of what servers answered."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ludolf.base import CommandError
from ludolf.config.mcp import cache
from ludolf.config.mcp.cache import mcp_cache_file, read_cached_servers, store_cached_server
from ludolf.config.mcp.edit import remove_entry, set_entry, set_entry_key
from ludolf.config.settings.home import Home
from ludolf.config.settings.trust import decide_trust, save_decision

STORE = """
import sys
from pathlib import Path
from ludolf.config.mcp.cache import store_cached_server
for number in range(10):
    store_cached_server(Path(sys.argv[1]), f"{sys.argv[2]}{number}", {"tools": [number]})
"""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(agent=tmp_path / "u" / ".pi" / "agent", cwd=tmp_path / "repo", user=tmp_path / "u")
    home.cwd.mkdir(parents=True)
    return home


# ---------------------------------------------------------------- edits


def test_an_edit_keeps_everything_else_as_it_is_written(home: Home) -> None:
    home.agent.mkdir(parents=True)
    text = '{\n\t"x": 1,\n\t"mcpServers": {\n\t\t"a-b": {"command": "x", "own":   [1]}\n\t}\n}\n'
    home.mcp_file.write_text(text)
    set_entry_key(home, home.mcp_file, "a_b", {"enabled": False})
    assert home.mcp_file.read_text() == text.replace("[1]}", '[1], "enabled": false}')
    set_entry_key(home, home.mcp_file, "a-b", {"enabled": None})
    assert home.mcp_file.read_text() == text
    assert not set_entry(home, home.mcp_file, "new", {"url": "http://x/"})
    assert remove_entry(home, home.mcp_file, "new")
    assert not remove_entry(home, home.mcp_file, "new")
    assert home.mcp_file.read_text() == text
    assert set_entry(home, home.mcp_file, "a_b", {"command": "y"})
    assert json.loads(home.mcp_file.read_text()) == {
        "x": 1,
        "mcpServers": {"a_b": {"command": "y"}},
    }


def test_a_new_file_is_private_and_an_entry_without_keys_stays(home: Home) -> None:
    assert not set_entry(home, home.mcp_file, "a", {"env": {"K": "secret"}})
    assert os.stat(home.mcp_file).st_mode & 0o777 == 0o600
    set_entry_key(home, home.mcp_file, "a", {"env": None})
    assert json.loads(home.mcp_file.read_text()) == {"mcpServers": {"a": {}}}
    assert not list(home.agent.glob("*.lock"))


def test_a_change_of_a_trusted_project_by_its_user_keeps_the_trust(home: Home) -> None:
    save_decision(home, trusted=True)
    set_entry_key(home, home.project_mcp_file, "a", {"enabled": False})
    assert json.loads(home.project_mcp_file.read_text()) == {
        "mcpServers": {"a": {"enabled": False}}
    }
    assert decide_trust(home).trusted


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"mcpServers": {}, // x\n}', "comments or trailing commas"),
        ('{"mcpServers": 1}', "must be an object"),
        ("{", "was not changed"),
    ],
)
def test_a_file_that_cannot_be_edited_is_left_alone(home: Home, text: str, reason: str) -> None:
    home.agent.mkdir(parents=True)
    home.mcp_file.write_text(text)
    with pytest.raises(CommandError, match=reason):
        set_entry(home, home.mcp_file, "a", {"command": "x"})
    assert home.mcp_file.read_text() == text


# ---------------------------------------------------------------- cache


RECORD = dict[str, Any]


def _times(path: Path) -> dict[str, Any]:
    return {name: one["time"] for name, one in json.loads(path.read_text())["servers"].items()}


def test_records_are_stored_by_several_processes_and_only_the_owner_can_read(home: Home) -> None:
    path = mcp_cache_file(home)
    children = [
        subprocess.Popen([sys.executable, "-c", STORE, str(path), name]) for name in ("a", "b")
    ]
    assert [child.wait(timeout=60) for child in children] == [0, 0]
    found = read_cached_servers(path, ["a0", "a9", "b5", "none"], RECORD)
    assert {name: one["tools"] for name, one in found.items()} == {"a0": [0], "a9": [9], "b5": [5]}
    assert len(_times(path)) == 20
    assert os.stat(path).st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not json",
        b"\xff\xfe\x00",
        b"[]",
        b'{"version":2,"servers":{"a":{"x":1}}}',
        b'{"version":1,"servers":{"a":7}}',
        b'{"version":1,"servers":[]}',
    ],
)
def test_content_that_cannot_be_used_is_ignored_and_replaced(home: Home, content: bytes) -> None:
    path = mcp_cache_file(home)
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    path.chmod(0o644)
    assert read_cached_servers(path, ["a"], RECORD) == {}
    store_cached_server(path, "b", {"era": "modern", "text": "\ud800"})
    assert read_cached_servers(path, ["b"], RECORD)["b"]["text"] == ""
    assert os.stat(path).st_mode & 0o777 == 0o600


def test_the_oldest_records_are_dropped_beyond_the_limits(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = mcp_cache_file(home)
    path.parent.mkdir(parents=True)
    servers = {f"s{number}": {"time": number} for number in range(cache.MOST_RECORDS)}
    path.write_text(json.dumps({"version": 1, "servers": servers}))
    store_cached_server(path, "new", {})
    times = _times(path)
    assert len(times) == cache.MOST_RECORDS
    assert "s0" not in times
    monkeypatch.setattr(cache, "MOST_CACHE_BYTES", 200)
    store_cached_server(path, "big", {"text": "x" * 100})
    assert path.stat().st_size < 250
    assert list(_times(path))[:2] == ["big", "new"]
    store_cached_server(path, "huge", {"text": "x" * 300})
    assert "huge" not in _times(path)
