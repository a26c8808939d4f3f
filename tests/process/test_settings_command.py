"""`ludolf settings`: show and change settings without touching other text in the file."""

import pytest

from ludolf.base import loads
from tests.process.harness import Lab

TEXT = """{
    "theme":   "dark",
    "unknown": [1,2,   3],
    "retry": { "maxRetries": 5 },
    "defaultProvider": "claude"
}
"""


@pytest.fixture
def text_of(lab: Lab) -> str:
    (lab.agent / "settings.json").write_text(TEXT)
    return TEXT


def _file(lab: Lab) -> str:
    return (lab.agent / "settings.json").read_text()


def test_set_changes_only_its_key(lab: Lab, text_of: str) -> None:
    done = lab.run("settings", "set", "defaultProvider", "openai")
    assert (done.code, done.stderr) == (0, "")
    assert _file(lab) == text_of.replace('"claude"', '"openai"')


def test_set_adds_a_key_and_unset_removes_it_again(lab: Lab, text_of: str) -> None:
    assert lab.run("settings", "set", "retry.provider.timeoutMs", "5000").code == 0
    assert lab.run("settings", "set", "compaction.enabled", "false").code == 0
    assert loads(_file(lab)) == {
        **loads(text_of),
        "retry": {"maxRetries": 5, "provider": {"timeoutMs": 5000}},
        "compaction": {"enabled": False},
    }
    assert '"unknown": [1,2,   3]' in _file(lab)
    assert lab.run("settings", "get", "compaction.enabled").stdout == b"false\n"
    for key in ("retry.provider.timeoutMs", "compaction.enabled"):
        assert lab.run("settings", "unset", key).code == 0
    assert _file(lab) == text_of
    assert lab.run("settings", "unset", "compaction.enabled").code == 1


@pytest.mark.parametrize(
    ("key", "value", "hint"),
    [
        ("steeringMode", "some", "`all` or `one-at-a-time`"),
        ("compaction.enabled", "perhaps", "true or false"),
        ("retry.maxRetries", "-1", "whole number, 0 or more"),
        ("sandbox.mode", "on", "`workspace`"),
        ("defaultprovider", "x", "Did you mean defaultProvider?"),
        ("compaction", "{}", "compaction.enabled"),
    ],
)
def test_a_wrong_key_or_value_is_refused(lab: Lab, key: str, value: str, hint: str) -> None:
    before = _file(lab)
    done = lab.run("settings", "set", key, value)
    assert done.code == 1
    assert hint in done.stderr
    assert _file(lab) == before


def test_lists_and_entries_of_objects_are_written_as_typed(lab: Lab) -> None:
    assert lab.run("settings", "set", "defaultTools", "read, grep").code == 0
    assert lab.run("settings", "set", "modelThinkingLevels.openai/gpt-5.1", "high").code == 0
    written = loads(_file(lab))
    assert written["defaultTools"] == ["read", "grep"]
    assert written["modelThinkingLevels"] == {"openai/gpt-5.1": "high"}


def test_each_key_is_listed_with_its_source(lab: Lab) -> None:
    done = lab.run("settings", "--json")
    assert done.stdout == lab.run("settings", "list", "--json").stdout
    rows = {row["key"]: row for row in done.records}
    assert rows["defaultProvider"]["source"] == "user"
    assert rows["defaultProvider"]["value"] == "claude"
    assert rows["sync"]["source"] == "default"
    assert not rows["transport"]["hasEffect"]
    shown = lab.run("settings", "list", "defaultProvider").stdout.decode()
    assert 'defaultProvider = "claude"  (user; default: unset)' in shown


def test_the_projects_file_counts_once_it_is_trusted_and_stays_so(lab: Lab) -> None:
    assert "ludolf trust" in lab.run("settings", "set", "sync", "off", "--project").stderr
    assert lab.run("settings", "get", "sync").stdout == b"turn\n"
    assert lab.run("trust", "--yes").code == 0
    assert lab.run("settings", "get", "sync").stdout == b"off\n"
    assert lab.run("settings", "set", "sync", "always", "--project").stderr == ""
    assert loads(lab.run("settings", "get", "sync", "--json").stdout)["source"] == "project"
    done = lab.run("settings", "set", "httpProxy", "http://x:1", "--project")
    assert (done.code, "Leave out --project" in done.stderr) == (1, True)


def test_an_invalid_file_is_not_overwritten(lab: Lab) -> None:
    (lab.agent / "settings.json").write_text("{ nonsense")
    done = lab.run("settings", "set", "sync", "off")
    assert done.code == 1
    assert "Correct it first" in done.stderr
    assert _file(lab) == "{ nonsense"


def test_a_setting_of_pi_without_effect_is_marked(lab: Lab) -> None:
    assert "no effect" in lab.run("settings", "set", "transport", "sse").stderr


def test_a_misspelt_key_and_one_of_pi_can_be_removed(lab: Lab, text_of: str) -> None:
    (lab.agent / "settings.json").write_text('{"compaction": {"enabld": true}, "theme": "x"}')
    for key in ("compaction.enabld", "theme"):
        done = lab.run("settings", "unset", key)
        assert (done.code, done.stderr) == (0, "")
    assert loads(_file(lab)) == {}
    done = lab.run("settings", "unset", "compaction.enabld")
    assert done.code == 1
    assert "Did you mean compaction.enabled?" in done.stderr


@pytest.mark.parametrize(
    "words", [("get", "tuiMode"), ("set", "tuiMode", "full"), ("get", "transport")]
)
def test_a_key_of_pi_is_named_as_such(lab: Lab, words: tuple[str, ...]) -> None:
    stderr = lab.run("settings", *words).stderr
    assert f"{words[1]} is a setting of pi" in stderr
    assert "no effect in Ludolf" in stderr


def test_the_path_is_printed(lab: Lab) -> None:
    assert lab.run("settings", "path").stdout.decode() == f"{lab.agent / 'settings.json'}\n"


@pytest.mark.parametrize(("refused", "value"), [(False, b"off\n"), (True, b"turn\n")])
def test_a_stored_refusal_is_stronger_than_the_default_trust(
    lab: Lab, refused: bool, value: bytes
) -> None:
    lab.settings(defaultProjectTrust="always")
    assert lab.run("settings", "set", "sync", "off", "--project").stderr == ""
    if refused:
        assert lab.run("trust", "--revoke").code == 0
    assert lab.run("settings", "get", "sync").stdout == value
