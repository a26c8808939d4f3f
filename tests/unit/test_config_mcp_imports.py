"""Servers of other programs are taken over, and what differs is named."""

import json
from pathlib import Path
from typing import Any

import pytest

from ludolf.config.mcp.entries import parse_entry
from ludolf.config.mcp.imports import ForeignEntries, ForeignProgram, read_foreign_entries
from ludolf.config.mcp.resolution import resolve_entry
from ludolf.config.settings.home import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(agent=tmp_path / "u" / "agent", cwd=tmp_path / "repo", user=tmp_path / "u")
    home.agent.mkdir(parents=True)
    home.cwd.mkdir()
    return home


def _put(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def _read(program: ForeignProgram, home: Home, **options: Any) -> ForeignEntries:
    return read_foreign_entries(program, home, {}, **options)


def test_claude_has_servers_for_all_folders_and_for_one(home: Home) -> None:
    path = _put(
        home.user / ".claude.json",
        {
            "mcpServers": {
                "all": {"type": "stdio", "command": "a", "args": ["${X:-1}"], "env": {"K": "!v"}},
                "over": {"command": "low"},
                "old": {"type": "sse", "url": "https://x/sse"},
            },
            "projects": {
                str(home.cwd): {
                    "mcpServers": {
                        "over": {"type": "http", "url": "https://y/mcp", "timeout": 5500},
                        "off": {"command": "z", "headersHelper": "h"},
                    },
                    "disabledMcpServers": ["off"],
                },
                "/other": {"mcpServers": {"foreign": {"command": "x"}}},
            },
        },
    )
    found = _read("claude", home)
    assert found.entries == {
        "all": {"type": "stdio", "command": "a", "args": ["${X:-1}"], "env": {"K": "$!v"}},
        "over": {"type": "http", "url": "https://y/mcp", "timeout": 5.5},
        "off": {"command": "z", "enabled": False},
    }
    assert found.files == (str(path),)
    assert found.remarks[0].startswith("old is left out: ")
    assert found.remarks[1:] == ("off: `headersHelper` is not taken over",)
    assert list(_read("claude", home, project_only=True).entries) == ["over", "off"]


def test_cursor_and_vscode_variables_are_translated(home: Home) -> None:
    _put(
        home.user / ".cursor" / "mcp.json",
        {
            "mcpServers": {
                "a b": {
                    "command": "${userHome}/s",
                    "args": ["${workspaceFolder}/x", "${env:TOK}", "${command:pick}"],
                    "envFile": ".env",
                },
                "same": {"command": "low"},
            }
        },
    )
    project = _put(
        home.cwd / ".cursor" / "mcp.json",
        {
            "mcpServers": {
                "same": {"url": "https://x/", "auth": {"CLIENT_ID": "i", "scopes": ["r"]}}
            }
        },
    )
    found = _read("cursor", home)
    assert found.entries == {
        "a_b": {"command": f"{home.user}/s", "args": ["./x", "${TOK}", "${command:pick}"]},
        "same": {"url": "https://x/", "oauth": {"clientId": "i", "scope": "r"}},
    }
    assert found.origins["same"] == str(project)
    assert found.remarks == (
        "a_b: renamed from 'a b'",
        "a_b: `${workspaceFolder}` became `.`, the folder of a session",
        "a_b: ${command:pick} is not supported. Replace it by hand",
        "a_b: `envFile` is not supported. Set its variables in `env`",
    )
    text = """{
      // servers of the folder
      "inputs": [{"type": "promptString", "id": "api-key", "password": true}],
      "servers": {"gh": {"type": "http", "url": "https://x/mcp",
                         "headers": {"Authorization": "Bearer ${input:api-key}"}},
                  "n": {"command": "s", "env": {"PORT": 80, "NO": null}},},
    }"""
    _put(home.cwd / ".vscode" / "mcp.json", text)
    found = _read("vscode", home)
    assert found.entries == {
        "gh": {
            "type": "http",
            "url": "https://x/mcp",
            "headers": {"Authorization": "Bearer ${API_KEY}"},
        },
        "n": {"command": "s", "env": {"PORT": "80"}},
    }
    assert found.remarks == (
        "gh: `${input:api-key}` became `${API_KEY}`. Set that environment variable",
    )


def test_codex_tables_become_entries_and_its_literal_values_stay_literal(home: Home) -> None:
    text = """
[mcp_servers.files]
command = "npx"
args = ["-y", "$${A}", "!b"]
env_vars = ["TOKEN", { name = "OTHER", source = "local" }]
env = { K = "${HOME}" }
tool_timeout_sec = 90
startup_timeout_sec = 20
disabled_tools = ["rm"]
enabled = false

[mcp_servers.web]
url = "https://x/mcp"
bearer_token_env_var = "WEB_TOKEN"
http_headers = { X-A = "1" }
env_http_headers = { X-B = "B_VAR" }
enabled_tools = ["one", "two"]
"""
    _put(home.user / ".codex" / "config.toml", text)
    found = _read("codex", home)
    assert found.entries["files"] == {
        "command": "npx",
        "args": ["-y", "$$${A}", "$!b"],
        "env": {"K": "$${HOME}"},
        "enabled": False,
        "inheritEnv": ["TOKEN", "OTHER"],
        "timeout": 90,
        "toolExposure": {"rm": "hidden"},
    }
    entry = parse_entry("files", found.entries["files"], "user")
    resolved = resolve_entry(entry, {"HOME": "/h", "A": "a"})
    assert (resolved.args[1:], resolved.env) == (("$${A}", "!b"), {"K": "${HOME}"})
    assert found.entries["web"] == {
        "url": "https://x/mcp",
        "headers": {"X-A": "1", "X-B": "${B_VAR}", "Authorization": "Bearer ${WEB_TOKEN}"},
        "toolExposure": {"one": "direct", "two": "direct", "*": "hidden"},
    }
    assert found.remarks == ("files: `startup_timeout_sec` is not taken over",)


@pytest.mark.parametrize("is_second", [False, True])
def test_opencode_in_both_versions_of_its_file(home: Home, is_second: bool) -> None:
    off = {"disabled": True} if is_second else {"enabled": False}
    servers = {
        "l": {
            "type": "local",
            "command": ["npx", "-y", "s"],
            "environment": {"K": "{env:KEY}", "F": "{file:~/my key}"},
            **off,
        },
        "r": {
            "type": "remote",
            "url": "https://x/mcp",
            "headers": {"A": "Bearer {env:T}"},
            "oauth": {"clientId": "i", "clientSecret": "s"},
            "timeout": 10000,
        },
    }
    folder = home.user / ".config" / "opencode"
    _put(folder / "opencode.jsonc", {"mcp": {"servers": servers} if is_second else servers})
    assert _read("opencode", home).entries == {
        "l": {
            "command": "npx",
            "args": ["-y", "s"],
            "env": {"K": "${KEY}", "F": "!cat ~/'my key'"},
            "enabled": False,
        },
        "r": {
            "url": "https://x/mcp",
            "headers": {"A": "Bearer ${T}"},
            "oauth": {"clientId": "i", "clientSecret": "s"},
            "timeout": 10,
        },
    }


def test_gemini_settings_with_chosen_tools_and_old_addresses(home: Home) -> None:
    _put(
        home.user / ".gemini" / "settings.json",
        {
            "mcp": {"excluded": ["p"]},
            "mcpServers": {
                "p": {
                    "command": "py",
                    "env": {"K": "$KEY", "L": "${L}"},
                    "timeout": 30000,
                    "trust": True,
                    "includeTools": ["a(x)"],
                    "excludeTools": ["b"],
                },
                "h": {"httpUrl": "https://x/mcp"},
                "s": {"url": "https://x/sse"},
                "t": {"tcp": "ws://x"},
            },
        },
    )
    found = _read("gemini", home)
    assert found.entries == {
        "p": {
            "command": "py",
            "env": {"K": "${KEY}", "L": "${L}"},
            "enabled": False,
            "toolExposure": {"a": "direct", "b": "hidden", "*": "hidden"},
            "timeout": 30,
        },
        "h": {"url": "https://x/mcp"},
        "s": {"url": "https://x/sse"},
    }
    assert "`approval.rules`" in found.remarks[0]
    assert found.remarks[1].startswith("s: Gemini uses this address with SSE")
    assert found.remarks[2].startswith("t is left out")


def test_files_that_are_broken_or_hold_nonsense_are_reported(home: Home) -> None:
    _put(home.user / ".codex" / "config.toml", "[mcp_servers\n")
    assert "config.toml cannot be used" in _read("codex", home).remarks[0]
    odd = {"mcpServers": {"a": 1, "": {"command": "x"}, "b": {"command": 3, "args": "x", "env": 1}}}
    _put(home.user / ".cursor" / "mcp.json", odd)
    found = _read("cursor", home)
    assert list(found.entries) == ["server"]
    assert len(found.remarks) == 3
    assert _read("gemini", home) == ForeignEntries()
