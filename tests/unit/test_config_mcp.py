"""Files of MCP servers: ranks, faults, expanded values and the environment of a server."""

import json
from pathlib import Path
from typing import Any

import pytest

from ludolf.base import ConfigError
from ludolf.config.mcp.entries import McpEntry, parse_entry
from ludolf.config.mcp.files import McpConfiguration, read_mcp_entries
from ludolf.config.mcp.resolution import entry_digest, resolve_entry, server_environment
from ludolf.config.settings.arguments import parse
from ludolf.config.settings.home import Home, mcp_files_exist


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(agent=tmp_path / "u" / ".pi" / "agent", cwd=tmp_path / "repo", user=tmp_path / "u")
    home.agent.mkdir(parents=True)
    home.project.mkdir(parents=True)
    return home


def _write(path: Path, **servers: Any) -> None:
    path.write_text(json.dumps({"mcpServers": servers}))


def _read(home: Home, *files: str, trusted: bool = True) -> McpConfiguration:
    return read_mcp_entries(home, trusted=trusted, files=files, use_files=True)


def _one(raw: Any, source: Any = "user") -> McpEntry:
    return parse_entry("a", raw, source)


# ---------------------------------------------------------------- ranks


def test_files_are_merged_by_rank_and_names_that_differ_in_dashes_are_one(home: Home) -> None:
    _write(home.shared_mcp_file, shared={"command": "s"}, a_b={"command": "low"})
    _write(home.mcp_file, **{"a-b": {"command": "user"}, "mine": {"command": "m"}})
    _write(home.project_mcp_file, mine={"command": "project"})
    _write(home.cwd / "more.json", extra={"url": "http://localhost/mcp"}, shared={"command": "f"})
    found = _read(home, "more.json")
    assert [(one.name, one.source, one.command) for one in found.entries.values()] == [
        ("extra", "flag", None),
        ("shared", "flag", "f"),
        ("mine", "project", "project"),
        ("a-b", "user", "user"),
    ]
    assert found.warnings == ()
    assert found.entries["a-b"].path == str(home.mcp_file)


def test_files_of_a_project_without_trust_are_not_read(home: Home) -> None:
    _write(home.shared_mcp_file, a={"command": "x"})
    home.project_mcp_file.write_text("broken")
    _write(home.mcp_file, b={"command": "x"})
    assert _read(home, trusted=False) == McpConfiguration(entries={"b": _from(home, "b")})
    assert read_mcp_entries(home, trusted=True, use_files=False) == McpConfiguration()


def _from(home: Home, name: str) -> McpEntry:
    return McpEntry(name=name, source="user", path=str(home.mcp_file), command="x")


def test_a_project_entry_without_a_server_only_changes_the_users(home: Home) -> None:
    _write(home.mcp_file, **{"a-b": {"command": "x", "env": {"K": "v"}}, "c": {"command": "y"}})
    _write(
        home.project_mcp_file,
        a_b={"enabled": False, "exposure": "codemode", "toolExposure": {"t": "hidden"}},
        c={"env": {"LD_PRELOAD": "evil"}},
        unknown={"enabled": True},
    )
    found = _read(home)
    changed = found.entries["a-b"]
    assert (changed.source, changed.command, changed.env) == ("user", "x", {"K": "v"})
    assert (changed.enabled, changed.exposure, changed.tool_exposure) == (
        False,
        "deferred",
        {"t": "hidden"},
    )
    assert changed.override_path == str(home.project_mcp_file)
    assert found.entries["c"].env == {}
    assert len(found.warnings) == 2
    assert "can only set enabled, exposure, toolExposure, not env" in found.warnings[0]
    assert 'server "unknown": set `command` or `url`' in found.warnings[1]


# ---------------------------------------------------------------- faults


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("x", "expected an object"),
        ({}, "set `command` or `url`"),
        ({"command": ["npx", "x"]}, "Expected `str | null`, got `array` - at `command`"),
        ({"command": "x", "args": [1]}, "args[0]"),
        ({"command": "x", "env": {"A=B": "c"}}, "is not a name of a variable"),
        ({"command": "x", "timeout": 0}, "positive number"),
        ({"command": "x", "timeout": 10**400}, "must not be greater"),
        ({"command": "x", "exposure": "all"}, "Invalid enum value 'all' - at `exposure`"),
        ({"type": "stdio", "url": "http://x/"}, "`command` is missing"),
        ({"type": "http", "command": "x"}, "`url` is missing"),
        ({"type": "sse", "url": "http://x/sse"}, "often at an address that ends in /mcp"),
        ({"command": "x", "start": "\ud800"}, "lone surrogate"),
        ({"url": "ftp://x"}, "must be an http or https address"),
        ({"url": "http://x:99999/"}, "must be an http or https address"),
        ({"url": "http://x", "headers": {"a b": "c"}}, "is not a name of a header"),
        ({"url": "http://x", "oauth": {"callbackUrl": "http://evil/"}}, "oauth.callbackUrl"),
    ],
)
def test_a_bad_entry_is_reported_and_the_others_are_kept(home: Home, raw: Any, reason: str) -> None:
    _write(home.mcp_file, bad=raw, good={"command": "x"})
    found = _read(home)
    assert list(found.entries) == ["good"]
    [warning] = found.warnings
    assert warning.startswith(f'{home.mcp_file}: server "bad": ')
    assert reason in warning


def test_bad_names_and_a_second_name_of_one_server_are_reported(home: Home) -> None:
    servers = {"a-b": "1", "a_b": "2", "x y": "3", "": "4", "é": "5"}
    _write(home.mcp_file, **{name: {"command": text} for name, text in servers.items()})
    found = _read(home)
    assert [entry.command for entry in found.entries.values()] == ["1"]
    assert 'server "a_b" is ignored: its name means the same as "a-b"' in found.warnings[0]
    assert len(found.warnings) == 4


def test_a_byte_order_mark_and_comments_are_accepted(home: Home) -> None:
    text = '{\n// mine\n"mcpServers": {"a": {"command": "x", "$note": 1,},},\n}'
    home.mcp_file.write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert _read(home).entries["a"].command == "x"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{\n/* one\ntwo */ "mcpServers": {"a" 1}\n}', "line 3 column"),
        ("[1]", "expected an object"),
        ('{"mcpServers": []}', "`mcpServers` must be an object"),
        ('{"servers": {}}', "not in `servers`"),
    ],
)
def test_a_file_that_cannot_be_used_is_reported_with_its_place(
    home: Home, text: str, reason: str
) -> None:
    home.mcp_file.write_text(text)
    _write(home.shared_mcp_file, a={"command": "x"})
    found = _read(home, "missing.json")
    assert list(found.entries) == ["a"]
    assert found.warnings[0].startswith(f"{home.mcp_file}: ")
    assert reason in found.warnings[0]
    assert "missing.json is not a file, but --mcp-config names it" in found.warnings[1]


def test_a_project_cannot_take_what_only_the_user_may_grant(home: Home) -> None:
    rights = {
        "auth": {"provider": "openai"},
        "inheritEnv": True,
        "sandbox": False,
        "trustAnnotations": True,
    }
    for path in (home.shared_mcp_file, home.project_mcp_file):
        _write(path, **{path.parent.name.strip("."): {"url": "https://x/", **rights}})
    _write(home.mcp_file, own={"url": "https://x/", **rights})
    found = _read(home)
    for name in ("repo", "pi"):
        entry = found.entries[name]
        given = (entry.auth, entry.inherit_env, entry.sandbox, entry.trust_annotations)
        assert given == (None, False, None, None)
    assert found.entries["own"].inherit_env is True
    assert len(found.warnings) == 8
    assert "`auth` is ignored: only the user's mcp.json may set it" in found.warnings[0]


def test_timeouts_are_seconds_and_in_the_shared_file_milliseconds(home: Home) -> None:
    for path in (home.shared_mcp_file, home.mcp_file):
        place = path.name.strip(".").removesuffix(".json").replace("mcp", "x") + path.name[:1]
        name = place.replace(".", "_")
        _write(
            path,
            **{
                name: {"command": "x", "timeout": 5000},
                f"{name}2": {"command": "x", "timeout": 60},
            },
        )
    found = _read(home)
    assert {name: one.timeout for name, one in found.entries.items()} == {
        "x_": 5,
        "x_2": None,
        "xm": 5000,
        "xm2": 60,
    }
    assert "looks like seconds" in found.warnings[0]
    assert "if you meant milliseconds" in found.warnings[1]
    assert len(found.warnings) == 2


# ---------------------------------------------------------------- values


def test_values_are_expanded_and_a_missing_variable_is_named() -> None:
    environ = {"HOME": "/h", "X": "one", "EMPTY": "", "PATH": "/usr/bin:/bin"}
    entry = _one(
        {
            "command": "~/bin/${X}",
            "args": ["${NO:-two}", "${EMPTY:-three}", "$X", "~/d", "$!a", "b$${X}"],
            "env": {"T": "!printf secret", "E": "${EMPTY}"},
            "cwd": "sub/${X}",
        }
    )
    resolved = resolve_entry(entry, environ)
    assert (resolved.command, resolved.cwd) == ("/h/bin/one", "sub/one")
    assert resolved.args == ("two", "three", "$X", "/h/d", "!a", "b${X}")
    assert resolved.env == {"T": "secret", "E": ""}
    assert resolved.folder(Path("/w")) == Path("/w/sub/one")
    web = _one({"url": "https://${X}.org/", "headers": {"Authorization": "Bearer ${X}"}})
    assert resolve_entry(web, environ).url == "https://one.org/"
    assert resolve_entry(web, environ).headers == {"Authorization": "Bearer one"}


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ({"command": "x", "args": ["${NO_SUCH}"]}, "variable NO_SUCH is not set"),
        ({"command": "x", "env": {"A": "!exit 3"}}, "`env.A`: the command exit failed"),
        ({"command": "x\0y"}, "NUL"),
        ({"command": "x", "args": ["\ud800"]}, "lone surrogate"),
        ({"url": "${BAD}"}, "must be an http or https address"),
        ({"url": "http://x/", "headers": {"A": "${LINES_}"}}, "line ends"),
        ({"url": "http://x/", "auth": {"provider": "p"}}, "needs an https address"),
    ],
)
def test_values_that_cannot_be_used_name_the_server_and_the_key(raw: Any, reason: str) -> None:
    environ = {"BAD": "nothing", "LINES_": "a\r\nb", "PATH": "/usr/bin:/bin"}
    with pytest.raises(ConfigError, match='server "a"') as caught:
        resolve_entry(_one(raw), environ)
    assert reason in str(caught.value)


def test_the_digest_changes_with_what_decides_the_server() -> None:
    def digest(raw: Any, cwd: str = "/w", **environ: str) -> str:
        return entry_digest(resolve_entry(_one(raw), environ), Path(cwd))

    base = digest({"command": "x", "env": {"A": "${V}"}}, V="1")
    same = {"command": "x", "env": {"A": "1"}, "timeout": 3, "exposure": "direct", "enabled": False}
    assert digest(same) == base
    assert digest(same, "/other") != base
    assert digest({**same, "args": ["y"]}) != base
    assert digest({**same, "inheritEnv": True}) != base
    assert digest({**same, "sandbox": True}) != base
    web = {"url": "http://x/"}
    assert digest(web) == digest(web, "/other")
    assert digest(web) != digest({**web, "headers": {"A": "b"}})


# ---------------------------------------------------------------- environment


def test_secrets_are_withheld_from_a_server_unless_its_entry_passes_them() -> None:
    environ = {
        "PATH": "/bin",
        "OPENAI_API_KEY": "1",
        "GITHUB_TOKEN": "2",
        "DB_PASSWORD": "3",
        "AWS_SECRET_ACCESS_KEY": "4",
        "ODD": "5",
        "SSH_AUTH_SOCK": "/s",
    }
    names = frozenset(("ODD",))

    def given(raw: Any) -> tuple[dict[str, str], tuple[str, ...]]:
        entry = _one({"command": "x", **raw})
        return server_environment(resolve_entry(entry, environ), environ, names)

    env, withheld = given({"env": {"GITHUB_TOKEN": "${GITHUB_TOKEN}", "NEW": "n"}})
    assert env == {"PATH": "/bin", "SSH_AUTH_SOCK": "/s", "GITHUB_TOKEN": "2", "NEW": "n"}
    assert withheld == ("AWS_SECRET_ACCESS_KEY", "DB_PASSWORD", "ODD", "OPENAI_API_KEY")
    env, withheld = given({"inheritEnv": ["ODD", "DB_PASSWORD"]})
    assert env.keys() == {"PATH", "SSH_AUTH_SOCK", "ODD", "DB_PASSWORD"}
    assert given({"inheritEnv": True}) == (environ, ())


# ---------------------------------------------------------------- start


def test_a_start_sees_whether_a_file_exists_without_reading_one(home: Home) -> None:
    assert not mcp_files_exist(home, parse([]))
    assert mcp_files_exist(home, parse(["--mcp-config", "a.json"]))
    assert parse(["--mcp-config", "a", "--mcp-config=b"]).mcp_config == ("a", "b")
    for path in (home.mcp_file, home.project_mcp_file, home.shared_mcp_file):
        path.write_text("not read")
        assert mcp_files_exist(home, parse([]))
        assert not mcp_files_exist(home, parse(["--no-mcp", "--mcp-config", "a"]))
        path.unlink()
