"""Stored trust covers the code that a folder had when it was trusted, and nothing else."""

import json
import os
from pathlib import Path

import msgspec
import pytest

from ludolf.config.settings import executed
from ludolf.config.settings.executed import CannotCheck
from ludolf.config.settings.home import Home
from ludolf.config.settings.trust import (
    Trust,
    add_imports,
    decide_trust,
    guarded_paths,
    save_decision,
)

GOOD = "def extension(api): pass\n"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(agent=tmp_path / "u" / ".pi" / "agent", cwd=tmp_path / "repo", user=tmp_path / "u")
    home.agent.mkdir(parents=True)
    home.cwd.mkdir()
    return home


def _below(home: Home, name: str = "packages/x") -> Home:
    folder = home.cwd / name
    folder.mkdir(parents=True, exist_ok=True)
    return msgspec.structs.replace(home, cwd=folder)


def _add_code(home: Home, text: str = GOOD) -> Path:
    path = home.project / "extensions" / "a.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def _as_pi(home: Home, *folders: Path) -> None:
    home.trust_file.write_text(json.dumps({os.path.realpath(each): True for each in folders}))


def _is_changed(trust: Trust) -> bool:
    return not trust.trusted and "has changed since it was trusted" in (trust.notice or "")


def test_trust_of_a_folder_does_not_cover_code_that_appears_below_it(home: Home) -> None:
    _add_code(home)
    save_decision(home, trusted=True)
    lower = _below(home)
    assert decide_trust(lower).trusted
    _add_code(lower)
    assert _is_changed(decide_trust(lower))
    save_decision(lower, trusted=True)
    assert decide_trust(lower).trusted
    _add_code(lower, GOOD + "#")
    assert _is_changed(decide_trust(lower))


def test_trust_of_a_folder_without_code_does_not_cover_code_that_appears_in_it(home: Home) -> None:
    save_decision(home, trusted=True)
    assert decide_trust(home).trusted
    _add_code(home)
    assert _is_changed(decide_trust(home))


def test_a_decision_without_a_digest_is_bound_at_its_first_use(home: Home) -> None:
    _as_pi(home, home.cwd)
    _add_code(home)
    assert decide_trust(home).trusted
    assert decide_trust(home).trusted
    _add_code(home, GOOD + "#")
    assert _is_changed(decide_trust(home))


def test_so_is_one_for_a_folder_above(home: Home) -> None:
    _as_pi(home, home.cwd.parent)
    _add_code(home)
    assert decide_trust(home).trusted
    _add_code(home, GOOD + "#")
    assert _is_changed(decide_trust(home))
    lower = _below(home)
    _add_code(lower)
    assert decide_trust(lower).trusted


def test_a_digest_of_an_earlier_version_does_not_fit(home: Home) -> None:
    _as_pi(home, home.cwd)
    _add_code(home)
    digests = home.trust_file.with_name("trust-digests.json")
    digests.write_text(json.dumps({os.path.realpath(home.cwd): "0" * 64}))
    assert _is_changed(decide_trust(home))


@pytest.mark.parametrize("text", ["{broken", '{"%s": {"imports": 1}}', '{"%s": [1]}'])
def test_digests_that_cannot_be_read_trust_nothing(home: Home, text: str) -> None:
    _as_pi(home, home.cwd)
    _add_code(home)
    text = text.replace("%s", os.path.realpath(home.cwd))
    home.trust_file.with_name("trust-digests.json").write_text(text)
    trust = decide_trust(home)
    assert not trust.trusted
    assert trust.notice


def test_more_code_than_can_be_checked_is_not_trusted(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    _add_code(home)
    save_decision(home, trusted=True)
    monkeypatch.setattr(executed, "MOST_FILES", 0)
    trust = decide_trust(home)
    assert not trust.trusted
    assert "cannot be checked" in (trust.notice or "")
    with pytest.raises(CannotCheck):
        save_decision(home, trusted=True)


def test_imports_count_once_they_are_stored(home: Home) -> None:
    helper, other = home.cwd / "helper.py", home.cwd.parent / "other.py"
    helper.write_text("")
    other.write_text("")
    _add_code(home)
    add_imports(home, [helper])  # nothing was trusted
    assert not home.trust_file.with_name("trust-digests.json").exists()
    save_decision(home, trusted=True)
    add_imports(home, [helper, other])
    assert decide_trust(home).trusted
    other.write_text("#")  # outside the project
    assert decide_trust(home).trusted
    helper.write_text("#")
    assert _is_changed(decide_trust(home))
    add_imports(home, [helper])  # does not replace what was stored
    assert _is_changed(decide_trust(home))
    save_decision(home, trusted=True)
    assert decide_trust(home).trusted


def test_trust_that_cannot_be_bound_is_told(home: Home) -> None:
    _as_pi(home, home.cwd)
    _add_code(home)
    home.trust_file.with_name("trust-digests.json").symlink_to("nowhere/file.json")
    trust = decide_trust(home)
    assert trust.trusted
    assert "will not be detected" in (trust.notice or "")


def test_the_files_are_for_their_owner_only(home: Home) -> None:
    save_decision(home, trusted=True)
    for path in home.agent.iterdir():
        assert path.stat().st_mode & 0o077 == 0, path


@pytest.mark.parametrize("name", [".mcp.json", ".pi/mcp.json"])
def test_files_of_mcp_servers_need_trust_and_end_it_when_they_change(home: Home, name: str) -> None:
    path = home.cwd / name
    path.parent.mkdir(exist_ok=True)
    path.write_text('{"mcpServers": {"a": {"command": "x"}}}')
    assert guarded_paths(home) == (path,)
    assert "is not trusted" in (decide_trust(home).notice or "")
    save_decision(home, trusted=True)
    assert decide_trust(home).trusted
    path.write_text('{"mcpServers": {"a": {"command": "evil"}}}')
    assert _is_changed(decide_trust(home))
