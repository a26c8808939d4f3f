"""Settings that may ask for safety and cannot be understood are doubts, which end the start."""

import json
import os
from pathlib import Path

import pytest

from ludolf.base import ConfigError
from ludolf.config.settings.home import Home
from ludolf.config.settings.options import Options
from ludolf.config.settings.safety_settings import read_sandbox
from ludolf.config.settings.settings import SettingsFiles
from ludolf.engine.build import build

ASKS = json.dumps({"approval": {"mode": "always"}, "sandbox": {"mode": "workspace"}})


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(agent=tmp_path / "u" / ".pi" / "agent", cwd=tmp_path / "repo", user=tmp_path / "u")
    home.agent.mkdir(parents=True)
    home.project.mkdir(parents=True)
    return home


def _doubts(home: Home, data: bytes | str, *, project: bool = False) -> list[str]:
    path = home.project_settings_file if project else home.settings_file
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return SettingsFiles(home, trusted=True).doubts


@pytest.mark.parametrize("project", [False, True])
@pytest.mark.parametrize(
    "data",
    [
        ASKS[:-1],
        "\0" + ASKS,
        f"[{ASKS}]",
        '{"\\u0061pproval": {"mode": "always"},}',
        '{"s\\u0061ndbox": {"mode": "workspace"},}',
        '{"APPROVAL": {},}',
        '{"aproval": {},}',
        '{"sandbx": {},}',
        '{"ｓａｎｄｂｏｘ": {},}',
        '{"sand\nbox": {}}',
        '{"x": ' + "[" * 100_000 + ', "approval": {}}',
        ASKS[:-1].encode("utf-16"),
        ASKS.encode("utf-16-le"),
        ASKS.encode("utf-16")[:-1],
        ASKS.encode("utf-32"),
        ASKS.encode("cp037"),
        b'{"theme": "d\xff"',
    ],
)
def test_a_file_that_cannot_be_parsed_and_may_ask_for_safety_is_a_doubt(
    home: Home, data: bytes | str, project: bool
) -> None:
    (doubt,) = _doubts(home, data, project=project)
    assert "Correct it first" in doubt


@pytest.mark.parametrize("data", ['{"theme": "dark",}', "{", "", "  ", '{"presets": 1} {'])
def test_a_file_that_cannot_be_parsed_and_asks_for_nothing_is_no_doubt(
    home: Home, data: str
) -> None:
    assert _doubts(home, data) == []


def _folder(path: Path) -> None:
    path.mkdir()


def _dangling(path: Path) -> None:
    path.symlink_to("/nonexistent/settings.json")


def _ring(path: Path) -> None:
    path.symlink_to(path.name)


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _giant(path: Path) -> None:
    path.write_text("{}")
    os.truncate(path, 2**40)


@pytest.mark.parametrize("make", [_folder, _dangling, _ring, _device, _giant, os.mkfifo])
def test_a_file_that_cannot_be_read_is_a_doubt(home: Home, make: object) -> None:
    assert callable(make)
    make(home.settings_file)
    (doubt,) = SettingsFiles(home).doubts
    assert str(home.settings_file) in doubt
    assert "Correct it first, or remove it" in doubt


@pytest.mark.skipif(os.geteuid() == 0, reason="root can read every file")
def test_a_file_without_rights_is_a_doubt(home: Home) -> None:
    home.settings_file.write_text(ASKS)
    home.settings_file.chmod(0)
    assert len(SettingsFiles(home).doubts) == 1


@pytest.mark.parametrize("name", ["agent", ".pi"])
def test_a_folder_of_settings_that_is_a_link_to_something_missing_is_a_doubt(
    tmp_path: Path, name: str
) -> None:
    agent = tmp_path / ".pi" / "agent"
    place = agent if name == "agent" else agent.parent
    place.parent.mkdir(exist_ok=True)
    place.symlink_to(tmp_path / "not mounted")
    home = Home(agent=agent, cwd=tmp_path, user=tmp_path)
    assert len(SettingsFiles(home).doubts) == 1


def test_no_file_at_all_is_no_doubt(tmp_path: Path) -> None:
    home = Home(agent=tmp_path / "a" / "b", cwd=tmp_path, user=tmp_path)
    assert SettingsFiles(home, trusted=True).doubts == []
    (tmp_path / "a").write_text("")  # a file cannot hold settings
    assert SettingsFiles(home, trusted=True).doubts == []


def test_a_file_of_powershell_is_read(home: Home) -> None:
    home.settings_file.write_bytes(ASKS.encode("utf-16"))
    files = SettingsFiles(home)
    assert files.doubts == files.warnings == []
    assert files.user.approval == {"mode": "always"}


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("approvals", "approval"),
        ("Approval", "approval"),
        ("aproval", "approval"),
        ("approvalMode", "approval"),
        ("approvla", "approval"),
        ("\u0430pproval", "approval"),  # a Cyrillic letter
        ("sandboxing", "sandbox"),
        ("sand-box", "sandbox"),
        ("SandBox", "sandbox"),
        ("sandbox.mode", "sandbox"),
        ("--sandbox", "sandbox"),
        ("secret", "secrets"),
        ("Secrets", "secrets"),
        ("sercets", "secrets"),
    ],
)
def test_a_misspelt_key_is_a_doubt(home: Home, key: str, meant: str) -> None:
    for project in (False, True):
        home.settings_file.unlink(missing_ok=True)
        (doubt,) = _doubts(home, json.dumps({key: {}}), project=project)
        assert f'Did you mean "{meant}"' in doubt
    (doubt,) = SettingsFiles(home, given={key: {}}).doubts
    assert "the settings given" in doubt


def test_keys_of_other_programs_are_no_doubt(home: Home) -> None:
    others = dict.fromkeys(("theme", "presets", "approach", "lastChangelogVersion", "band"), 1)
    assert _doubts(home, json.dumps(others)) == []


@pytest.mark.parametrize(
    "text",
    [
        '{"approval": {"mode": "always"}, "approval": {}}',
        '{"sandbox": {"mode": "workspace", "mode": "off"}}',
    ],
)
def test_a_key_of_safety_that_stands_twice_is_a_doubt(home: Home, text: str) -> None:
    (doubt,) = _doubts(home, text)
    assert "occurs twice" in doubt


def test_a_doubt_ends_the_start(home: Home) -> None:
    home.settings_file.write_text('{"approvals": {"mode": "always"}}')
    options = Options(cwd=home.cwd, agent_dir=home.agent)
    with pytest.raises(ConfigError, match="approvals"):
        build(options, warn=lambda text: None)


def test_a_wrong_mode_of_the_sandbox_is_refused_with_the_valid_ones(home: Home) -> None:
    home.settings_file.write_text(json.dumps({"sandbox": {"mode": "workspce"}}))
    with pytest.raises(ConfigError, match=r"Valid values: off, workspace, read-only$"):
        read_sandbox(SettingsFiles(home), Options(cwd=home.cwd))
