"""settings.json: merging, old spellings, bad values, saving."""

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from ludolf.ai.access import Patience
from ludolf.ai.http.proxy import Proxy, proxy_for
from ludolf.config.settings.home import Home
from ludolf.config.settings.lock import settings_lock
from ludolf.config.settings.settings import (
    Retry,
    Settings,
    SettingsFiles,
    keep_sound,
    merge,
    migrate,
)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(agent=tmp_path / "agent", cwd=tmp_path / "work", user=tmp_path)
    home.agent.mkdir()
    home.project.mkdir(parents=True)
    return home


def put(path: Path, value: Any) -> None:
    path.write_text(value if isinstance(value, str) else json.dumps(value))


def test_without_files_all_defaults_hold(home: Home) -> None:
    files = SettingsFiles(home)
    assert files.current == Settings()
    assert files.current.compaction.limits("p/m") == (16384, 20000)
    assert files.current.retry.max_retries == 3
    assert files.warnings == []


def test_a_trusted_project_is_laid_over_the_user(home: Home) -> None:
    put(
        home.settings_file,
        {"defaultModel": "a", "retry": {"maxRetries": 5, "baseDelayMs": 1}, "skills": ["u"]},
    )
    put(home.project_settings_file, {"retry": {"maxRetries": 9}, "skills": ["p"]})
    files = SettingsFiles(home, trusted=True)
    assert files.current.default_model == "a"
    assert (files.current.retry.max_retries, files.current.retry.base_delay_ms) == (9, 1)
    assert (files.user.skills, files.project.skills) == (("u",), ("p",))


def test_an_untrusted_project_says_nothing(home: Home) -> None:
    put(home.project_settings_file, {"sessionDir": "/evil", "shellPath": "/evil/sh"})
    files = SettingsFiles(home)
    assert files.current == Settings()


def test_even_a_trusted_project_cannot_move_proxy_trust_or_keys(home: Home) -> None:
    put(
        home.project_settings_file,
        {
            "httpProxy": "http://evil",
            "defaultProjectTrust": "always",
            "passKeys": ["OPENAI_API_KEY"],
        },
    )
    files = SettingsFiles(home, trusted=True)
    assert files.current == Settings()
    assert proxy_for("https://api.test", os.environ) is None


def test_the_proxy_of_the_user_counts_until_the_settings_are_read_again(home: Home) -> None:
    put(home.settings_file, {"httpProxy": "http://mine.test:1"})
    files = SettingsFiles(home)
    assert proxy_for("https://api.test", os.environ) == Proxy("http://mine.test:1")
    put(home.settings_file, {})
    files.load()
    assert proxy_for("https://api.test", os.environ) is None


def test_objects_merge_and_arrays_are_replaced() -> None:
    lower = {"a": {"x": 1, "y": 2}, "l": [1, 2], "s": 1}
    assert merge(lower, {"a": {"y": 3}, "l": [3], "s": {"n": 1}}) == {
        "a": {"x": 1, "y": 3},
        "l": [3],
        "s": {"n": 1},
    }


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"queueMode": "all"}, {"steeringMode": "all"}),
        ({"queueMode": "all", "steeringMode": "one-at-a-time"}, {"steeringMode": "one-at-a-time"}),
        ({"websockets": True}, {"transport": "websocket"}),
        ({"websockets": False}, {"transport": "sse"}),
        (
            {"skills": {"customDirectories": ["d"], "enableSkillCommands": False}},
            {"skills": ["d"], "enableSkillCommands": False},
        ),
        ({"retry": {"maxDelayMs": 7}}, {"retry": {"provider": {"maxRetryDelayMs": 7}}}),
        ({"unknown": 1}, {"unknown": 1}),
    ],
)
def test_old_spellings_are_read(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert migrate(old) == new


def test_a_spoilt_file_is_reported_and_never_overwritten(home: Home) -> None:
    put(home.settings_file, "{broken")
    put(home.project_settings_file, {"defaultModel": "p"})
    files = SettingsFiles(home, trusted=True)
    assert files.warnings[0].startswith(f"Invalid settings file {home.settings_file}: ")
    assert files.current.default_model == "p"
    assert files.save({"followUpMode": "all"}) is not None
    assert files.current.follow_up_mode == "all"
    assert home.settings_file.read_text() == "{broken"
    put(home.settings_file, {"theme": "repaired"})
    assert files.save({"followUpMode": "all"}) is None
    repaired = {"theme": "repaired", "followUpMode": "all"}
    assert json.loads(home.settings_file.read_text()) == repaired


def test_one_bad_value_costs_only_its_own_key(home: Home) -> None:
    put(
        home.settings_file,
        {
            "defaultModel": 7,
            "steeringMode": "sometimes",
            "followUpMode": "all",
            "compaction": {"reserveTokens": -1, "keepRecentTokens": 5},
            "retry": "often",
            "shellPath": None,
        },
    )
    files = SettingsFiles(home)
    assert files.current.default_model is None
    assert files.current.steering_mode == "one-at-a-time"
    assert files.current.follow_up_mode == "all"
    assert files.current.compaction.limits("any/one") == (16384, 5)
    assert files.current.retry.enabled
    keys = [text.split(": ")[1] for text in files.warnings]
    assert keys == ["defaultModel", "steeringMode", "compaction.reserveTokens", "retry"]


def test_a_bad_project_value_leaves_the_users_value(home: Home) -> None:
    put(home.settings_file, {"steeringMode": "all"})
    put(home.project_settings_file, {"steeringMode": 3})
    assert SettingsFiles(home, trusted=True).current.steering_mode == "all"


def test_sound_values_pass_without_complaint() -> None:
    raw = {"httpIdleTimeoutMs": "disabled", "theme": "dark", "packages": ["a", {"source": "b"}]}
    assert keep_sound(raw, Settings) == (raw, [])


def test_model_overrides_fall_back_value_by_value(home: Home) -> None:
    override = {"p/m": {"reserveTokens": 1}}
    put(home.settings_file, {"compaction": {"keepRecentTokens": 2, "modelOverrides": override}})
    compaction = SettingsFiles(home).current.compaction
    assert compaction.limits("p/m") == (1, 2)
    assert compaction.limits("p/other") == (16384, 2)


def test_saving_writes_only_what_changed(home: Home) -> None:
    put(home.settings_file, {"theme": "dark", "compaction": {"enabled": True, "other": 1}})
    files = SettingsFiles(home)
    put(home.settings_file, {"theme": "light", "compaction": {"enabled": True, "other": 1}})
    assert files.save({"compaction": {"enabled": False}, "defaultModel": "m"}) is None
    expected = {
        "theme": "light",
        "compaction": {"enabled": False, "other": 1},
        "defaultModel": "m",
    }
    # `put` writes one line, and the text keeps its form.
    assert home.settings_file.read_text() == json.dumps(expected)
    assert not files.current.compaction.enabled
    assert files.save({"defaultModel": None}) is None
    assert "defaultModel" not in json.loads(home.settings_file.read_text())


def test_saving_makes_the_agent_directory(tmp_path: Path) -> None:
    home = Home(agent=tmp_path / "a" / "b", cwd=tmp_path, user=tmp_path)
    assert SettingsFiles(home).save({"defaultModel": "m"}) is None
    assert json.loads(home.settings_file.read_text()) == {"defaultModel": "m"}


def test_a_locked_file_is_not_written_but_the_change_counts(home: Home) -> None:
    files = SettingsFiles(home)
    with settings_lock(home.settings_file):
        problem = files.save({"defaultModel": "m"})
    assert problem is not None
    assert "locked" in problem
    assert files.current.default_model == "m"
    assert not home.settings_file.exists()


def test_writers_at_the_same_time_lose_nothing(home: Home) -> None:
    def write(key: str) -> None:
        # Who finds the file locked for too long is told so, and tries again.
        while SettingsFiles(home).save({key: True}) is not None:
            pass

    threads = [threading.Thread(target=write, args=(f"key{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(json.loads(home.settings_file.read_text())) == {f"key{n}" for n in range(4)}


def test_waits_between_attempts_double_and_are_spread_by_a_fifth() -> None:
    for attempt, plain in ((1, 2000), (2, 4000), (3, 8000)):
        waits = {Retry().delay_ms(attempt) for _ in range(300)}
        assert 0.8 * plain <= min(waits) < 0.9 * plain
        assert 1.1 * plain < max(waits) <= 1.2 * plain


def test_a_wait_is_never_longer_than_its_limit_nor_shorter_than_the_server_asks_for() -> None:
    retry = Retry(base_delay_ms=1000, max_agent_delay_ms=1500)
    assert max(retry.delay_ms(5) for _ in range(300)) == 1500
    assert retry.delay_ms(1, 30) == 30_000
    assert Retry(jitter=0).delay_ms(2) == 4000


@pytest.mark.parametrize(
    ("written", "first", "between"),
    [
        ({}, 300, 180),
        ({"httpIdleTimeoutMs": 5000}, 5, 5),
        ({"httpIdleTimeoutMs": "disabled"}, 0, 0),
        ({"httpIdleTimeoutMs": 0, "streamIdleTimeoutMs": 7000}, 0, 7),
        ({"streamIdleTimeoutMs": 0}, 300, 0),
        ({"retry": {"provider": {"timeoutMs": 9000}}, "httpIdleTimeoutMs": 5000}, 9, 9),
    ],
)
def test_silence_of_a_model_has_its_limits(
    home: Home, written: dict[str, Any], first: float, between: float
) -> None:
    put(home.settings_file, written)
    patience = SettingsFiles(home).current.patience
    assert patience == Patience(connect=30, first=first, between=between)


def test_keys_that_look_misspelt_are_named_and_those_of_pi_are_not(home: Home) -> None:
    put(
        home.settings_file,
        {
            "defaultprovider": "x",
            "theme": "dark",
            "lastChangelogVersion": "1",
            "mine": 1,
            "retry": {"maxRetrys": 1},
        },
    )
    files = SettingsFiles(home)
    assert files.remarks == [
        f'{home.settings_file}: unknown key "defaultprovider". Did you mean "defaultProvider"?',
        f'{home.settings_file}: unknown key "retry.maxRetrys". Did you mean "retry.maxRetries"?',
    ]
    assert files.warnings == []


def test_a_value_outside_a_set_is_reported_with_the_valid_ones(home: Home) -> None:
    put(home.settings_file, {"steeringMode": "some", "defaultThinkingLevel": "ultra"})
    first, second = SettingsFiles(home).warnings
    assert first.endswith(
        "; the default is used. Valid values: off, minimal, low, medium, high, xhigh, max"
    )
    assert second.endswith("; the default is used. Valid values: all, one-at-a-time")
