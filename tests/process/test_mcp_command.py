"""`ludolf mcp`: servers are added, removed, listed and taken over from other programs."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from ludolf.base import loads
from ludolf.config.mcp.cache import store_cached_server
from ludolf.config.mcp.entries import parse_entry
from ludolf.config.mcp.resolution import server_cache_key
from tests.process.harness import Lab


def _servers(path: Path) -> Any:
    return loads(path.read_bytes())["mcpServers"]


def test_servers_are_added_replaced_and_removed(lab: Lab) -> None:
    path = lab.agent / "mcp.json"
    (lab.work / "sub").mkdir()
    command = ("mcp", "add", "files", "--env", "K=a=b", "--cwd", "sub", "--", "sh", "-y", "--env")
    done = lab.run(*command)
    assert (done.code, done.stderr) == (0, "")
    expected = f"Added files in {path}\nTry it with: ludolf mcp check files\n"
    assert done.stdout.decode() == expected
    assert os.stat(path).st_mode & 0o777 == 0o600
    done = lab.run("mcp", "add", "plain", "no-such-program", "server", "--verbose")
    assert "Warning: Cannot start no-such-program: no such program in PATH" in done.stderr
    lab.run(
        *("mcp", "add", "--transport", "http", "web-x", "https://x.org/mcp"),
        *("--header", "X-A: 1", "--header", "X-B=2", "--bearer-token-env-var", "TOK"),
        *("--oauth-client-id", "me", "--exposure", "direct", "--timeout", "5"),
    )
    done = lab.run("mcp", "add", "keyed", "https://x/", "--header", "Authorization: Bearer abc")
    assert f"value of Authorization is now in {path} as plain text" in done.stderr
    lab.run("mcp", "remove", "keyed")
    assert _servers(path) == {
        "files": {"command": "sh", "args": ["-y", "--env"], "env": {"K": "a=b"}, "cwd": "sub"},
        "plain": {"command": "no-such-program", "args": ["server", "--verbose"]},
        "web-x": {
            "type": "http",
            "url": "https://x.org/mcp",
            "headers": {"X-A": "1", "X-B": "2", "Authorization": "Bearer ${TOK}"},
            "oauth": {"clientId": "me"},
            "timeout": 5,
            "exposure": "direct",
        },
    }
    assert b"Replaced web_x" in lab.run("mcp", "add", "web_x", "--url", "http://y/").stdout
    assert lab.run("mcp", "remove", "web-x").code == 0
    assert list(_servers(path)) == ["files", "plain"]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("add", "a b", "--", "x"), "use only letters"),
        (("add", "a"), "Name the command after `--`"),
        (("add", "a", "https://x/", "--", "x"), "either a command or an address"),
        (("add", "a", "https://x/", "--env", "A=b"), "--env has no effect"),
        (("add", "a", "--env", "A", "--", "x"), "--env needs KEY=VALUE"),
        (("add", "a", "https://x/", "--header", "Authorization: Bearer "), "has no value"),
        (("add", "a", "ftp://x"), "is not an address that begins with https://"),
        (("add", "a", "--transport", "sse", "https://x/sse"), "ends in /mcp"),
        (("remove", "filez"), 'has no server "filez". Did you mean "files"?'),
        (("get", "filez"), 'There is no MCP server "filez". Did you mean "files"?'),
        (("check", "off"), 'is disabled. Set "enabled": true in '),
        (("import", "codex"), "No server of codex was found. Searched: "),
    ],
)
def test_mistakes_are_explained_and_change_nothing(
    lab: Lab, words: tuple[str, ...], reason: str
) -> None:
    off = {"command": "x", "enabled": False}
    text = json.dumps({"mcpServers": {"files": {"command": "x"}, "off": off}})
    (lab.agent / "mcp.json").write_text(text)
    done = lab.run("mcp", *words)
    assert done.code == 1
    assert reason in done.stderr
    assert (lab.agent / "mcp.json").read_text() == text


def test_the_list_shows_files_cache_and_logins_and_starts_nothing(lab: Lab) -> None:
    known = {"command": "touch", "args": ["started"]}
    web = {"url": "https://x.org/mcp", "enabled": False}
    servers = {"known": known, "web": web, "odd": {"command": "x", "args": ["${NO_SUCH}"]}}
    (lab.agent / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    (lab.work / ".mcp.json").write_text('{"mcpServers": {"shared": {"command": "s"}}}')
    key = server_cache_key(parse_entry("known", known, "user"), {}, lab.work)
    tools = {"tools": [{"name": "a"}, {"name": "b"}], "prompts": []}
    store_cached_server(lab.agent / "mcp-cache.json", key, tools)
    logins = {"mcp__web|https://x.org/mcp": {"tokens": {"access_token": "t"}}}
    (lab.agent / "mcp-auth.json").write_text(json.dumps(logins))
    done = lab.run("mcp", "list", "--json")
    rows = {row["name"]: row for row in map(loads, done.stdout.splitlines())}
    assert done.code == 0
    assert rows["known"]["tools"] == 2
    assert (rows["web"]["login"], rows["web"]["enabled"]) == (True, False)
    assert "NO_SUCH is not set" in rows["odd"]["error"]
    assert ".mcp.json is ignored, since the folder is not trusted" in done.stderr
    assert lab.run("trust", "--yes").code == 0
    lines = lab.run("mcp").stdout.decode().splitlines()
    assert lines[0].split() == [
        "name",
        "source",
        "transport",
        "enabled",
        "tools",
        "login",
        "address",
    ]
    assert [line.split()[:2] for line in lines[1:]] == [
        ["known", "user"],
        ["web", "user"],
        ["odd", "user"],
        ["shared", "project"],
    ]
    assert not (lab.work / "started").exists()


def test_an_invalid_entry_is_reported_and_fails_the_list(lab: Lab) -> None:
    (lab.agent / "mcp.json").write_text('{"mcpServers": {"bad": {}, "good": {"command": "x"}}}')
    done = lab.run("mcp", "list")
    assert done.code == 1
    assert 'server "bad": set `command` or `url`' in done.stderr
    assert b"good" in done.stdout


def test_get_hides_secrets_that_are_written_in_the_file(lab: Lab) -> None:
    entry = {"command": "x", "env": {"A": "hunter2", "B": "${B}"}}
    (lab.agent / "mcp.json").write_text(json.dumps({"mcpServers": {"a": entry}}))
    shown = loads(lab.run("mcp", "get", "a").stdout)
    assert shown["env"] == {"A": "***", "B": "${B}"}


def test_an_import_keeps_existing_servers_unless_forced(lab: Lab) -> None:
    (lab.agent / "mcp.json").write_text('{"mcpServers": {"a_b": {"command": "mine"}}}')
    (lab.work / ".cursor").mkdir()
    theirs = {"mcpServers": {"a-b": {"command": "theirs"}, "c": {"command": "d", "odd": 1}}}
    (lab.work / ".cursor" / "mcp.json").write_text(json.dumps(theirs))
    done = lab.run("mcp", "import", "cursor")
    assert done.code == 0
    assert "a-b is already in" in done.stderr
    assert "c: `odd` is not taken over" in done.stderr
    assert _servers(lab.agent / "mcp.json") == {"a_b": {"command": "mine"}, "c": {"command": "d"}}
    assert lab.run("mcp", "import", "cursor", "--force").code == 0
    assert _servers(lab.agent / "mcp.json")["a-b"] == {"command": "theirs"}
    done = lab.run("mcp", "import", "cursor", "--local")
    assert list(_servers(lab.work / ".pi" / "mcp.json")) == ["a-b", "c"]
    assert (
        "is not trusted, so its servers do not start. Trust it with `ludolf trust`" in done.stderr
    )
