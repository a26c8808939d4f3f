"""Keys: the value syntax, which source wins, and what is written to auth.json."""

import json
import os
import re
import stat
import time
from pathlib import Path
from typing import Any

import pytest

from ludolf.ai.access import Access
from ludolf.base import CommandError, ConfigError, dumps, now_ms
from ludolf.config.auth.credentials import checked_key, choose_way, login_methods, login_providers
from ludolf.config.auth.keyring import Keyring, import_old_credentials
from ludolf.config.auth.keys import ALSO_NEEDED, KEY_VARIABLES
from ludolf.config.auth.status import CredentialStatus, auth_status
from ludolf.config.models.registry import ModelRegistry
from ludolf.config.settings.value_syntax import Resolver, literal, names_in, run_command

ENVIRON = {"KEY": "secret", "OTHER": "x", "EMPTY": "", "PATH": os.environ["PATH"]}


def keyring(tmp_path: Path, stored: Any = None, environ: dict[str, str] | None = None) -> Keyring:
    path = tmp_path / "auth.json"
    if stored is not None:
        path.write_text(stored if isinstance(stored, str) else json.dumps(stored))
    base = {"PATH": os.environ["PATH"]}
    return Keyring(path, {**base, **(environ or {})})


# ---------------------------------------------------------------- value syntax


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("sk-plain", "sk-plain"),
        ("$KEY", "secret"),
        ("${KEY}", "secret"),
        ("a-${KEY}-$OTHER!", "a-secret-x!"),
        ("$MISSING", None),
        ("pre-$EMPTY", None),
        ("$$KEY", "$KEY"),
        ("$!echo hi", "!echo hi"),
        ("cost: 5$", "cost: 5$"),
        ("!echo ' from command '", "from command"),
        ("!printf %s $KEY", "secret"),
        ("!exit 3", None),
        ("!true", None),
        ("KEY", "secret"),
        ("", None),
    ],
)
def test_values_are_resolved(value: str, expected: str | None) -> None:
    assert Resolver(ENVIRON).resolve(value) == expected


def test_a_bare_variable_name_is_accepted_with_a_warning() -> None:
    resolver = Resolver(ENVIRON)
    assert [resolver.resolve("KEY"), resolver.resolve("KEY")] == ["secret", "secret"]
    assert len(resolver.warnings) == 1


def test_a_command_runs_once_where_cached_and_each_time_where_not(tmp_path: Path) -> None:
    count = tmp_path / "count"
    command = f"!echo x >> '{count}'; wc -l < '{count}'"
    resolver = Resolver(ENVIRON)
    assert [resolver.resolve(command) for _ in range(2)] == ["1", "2"]
    assert [resolver.resolve(command, cached=True) for _ in range(2)] == ["3", "3"]


def test_whether_a_command_gives_a_key_is_believed_without_running_it(tmp_path: Path) -> None:
    trace = tmp_path / "ran"
    assert Resolver(ENVIRON).can_resolve(f"!touch '{trace}'")
    assert not trace.exists()


def test_a_slow_command_is_ended_with_its_children() -> None:
    begin = time.monotonic()
    assert run_command("sleep 30 | cat", ENVIRON, limit=0.1) is None
    assert time.monotonic() - begin < 15


def test_variables_of_a_value_are_known() -> None:
    assert names_in("a${ONE}$TWO$$THREE") == {"ONE", "TWO"}
    assert names_in("!cat $FILE") == frozenset()


@pytest.mark.parametrize("text", ["plain", "!echo hi", "a$KEY${KEY}$$b", "$!x", "!", "$"])
def test_a_literal_means_itself(text: str) -> None:
    assert Resolver(ENVIRON).resolve(literal(text)) == text


# ---------------------------------------------------------------- resolution


def test_the_order_is_runtime_stored_configured_environment(tmp_path: Path) -> None:
    environ = {"OPENAI_API_KEY": "from-env"}
    ring = keyring(tmp_path, environ=environ)
    assert ring.access("openai") == Access(key="from-env")
    assert ring.access("openai", "configured") == Access(key="configured")
    ring = keyring(tmp_path, {"openai": {"type": "api_key", "key": "stored"}}, environ)
    assert ring.access("openai", "configured") == Access(key="stored")
    ring.use("openai", "given")
    assert ring.access("openai", "configured") == Access(key="given")
    assert not (tmp_path / "auth.json").read_text().count("given")


def test_a_stored_credential_owns_its_provider(tmp_path: Path) -> None:
    stored = {"openai": {"type": "api_key", "key": "$NOT_SET"}}
    ring = keyring(tmp_path, stored, {"OPENAI_API_KEY": "from-env"})
    assert ring.origin("openai") == "stored"
    assert ring.access("openai", "configured") is None


def test_an_unset_configured_value_falls_back_to_the_environment(tmp_path: Path) -> None:
    ring = keyring(tmp_path, environ={"OPENAI_API_KEY": "from-env"})
    assert ring.access("openai", "$NOT_SET") == Access(key="from-env")


def test_environment_of_a_credential_lays_over_the_process(tmp_path: Path) -> None:
    own = {"CLOUDFLARE_API_KEY": "k", "CLOUDFLARE_ACCOUNT_ID": "a"}
    stored = {"cloudflare-workers-ai": {"type": "api_key", "env": own}}
    assert keyring(tmp_path, stored).access("cloudflare-workers-ai") == Access(
        key="k", environment=own
    )


@pytest.mark.parametrize(
    ("provider", "environ", "expected"),
    [
        ("anthropic", {"ANTHROPIC_API_KEY": "k"}, Access(key="k")),
        (
            "anthropic",
            {"ANTHROPIC_AUTH_TOKEN": "t", "ANTHROPIC_API_KEY": "k"},
            Access(headers={"Authorization": "Bearer t"}),
        ),
        ("azure-openai-responses", {"AZURE_OPENAI_API_KEY": "k"}, None),
        (
            "azure-openai-responses",
            {"AZURE_OPENAI_API_KEY": "k", "AZURE_OPENAI_RESOURCE_NAME": "r"},
            Access(key="k"),
        ),
        ("amazon-bedrock", {"AWS_PROFILE": "dev"}, Access()),
        ("amazon-bedrock", {"AWS_ACCESS_KEY_ID": "a"}, None),
        ("openai-codex", {"OPENAI_API_KEY": "k"}, None),
        ("nobody", {}, None),
    ],
)
def test_keys_come_from_the_environment(
    tmp_path: Path, provider: str, environ: dict[str, str], expected: Access | None
) -> None:
    assert keyring(tmp_path, environ=environ).access(provider) == expected


def test_an_oauth_token_is_used_until_it_expires(tmp_path: Path) -> None:
    def login(expires: int) -> dict[str, Any]:
        return {"type": "oauth", "access": "tok", "refresh": "r", "expires": expires, "extra": 1}

    stored = {"anthropic": login(now_ms() + 60_000), "xai": login(now_ms() - 1)}
    ring = keyring(tmp_path, stored, {"XAI_API_KEY": "k"})
    assert ring.access("anthropic") == Access(key="tok")
    assert ring.access("xai") is None


def test_a_key_command_is_announced(tmp_path: Path) -> None:
    ring = keyring(tmp_path, {"a": {"type": "api_key", "key": "!echo k"}})
    assert ring.runs_command("a")
    assert ring.runs_command("b", "!echo k")
    assert not ring.runs_command("b", "plain")


# ---------------------------------------------------------------- the file


def test_an_edit_is_seen_and_a_spoilt_one_keeps_the_last_good_content(tmp_path: Path) -> None:
    ring = keyring(tmp_path, {"a": {"type": "api_key", "key": "one"}})
    assert ring.access("a") == Access(key="one")
    ring.path.write_text('{"a": {"type": "api_key", "key": "longer"}}')
    assert ring.access("a") == Access(key="longer")
    ring.path.write_text("{broken")
    assert ring.access("a") == Access(key="longer")
    assert ring.warnings[0].startswith(f"Invalid auth file {ring.path}: ")


def test_one_odd_entry_costs_only_itself(tmp_path: Path) -> None:
    ring = keyring(tmp_path, {"odd": {"type": "new"}, "a": {"type": "api_key", "key": "k"}})
    assert ring.access("odd") is None
    assert ring.access("a") == Access(key="k")


def test_a_new_file_is_private_and_entries_of_others_stay(tmp_path: Path) -> None:
    ring = Keyring(tmp_path / "agent" / "auth.json", {})
    ring.store("openai", "k")
    assert stat.S_IMODE(ring.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(ring.path.parent.stat().st_mode) == 0o700
    raw = json.loads(ring.path.read_text())
    ring.path.write_text(json.dumps({**raw, "odd": {"type": "new", "x": 1}}))
    ring.store("groq", "g")
    ring.forget("openai")
    assert json.loads(ring.path.read_text()) == {
        "odd": {"type": "new", "x": 1},
        "groq": {"type": "api_key", "key": "g"},
    }
    assert not (ring.path.parent / "auth.json.lock").exists()


def test_a_spoilt_file_is_not_overwritten(tmp_path: Path) -> None:
    ring = keyring(tmp_path, "{broken")
    with pytest.raises(ConfigError, match="was not changed"):
        ring.store("openai", "k")
    assert ring.path.read_text() == "{broken"


def test_names_of_secrets_cover_the_table_and_the_files(tmp_path: Path) -> None:
    ring = keyring(tmp_path, {"a": {"type": "api_key", "key": "$MINE"}})
    names = ring.secret_names(["Bearer ${THEIRS}"])
    assert {"OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "MINE", "THEIRS"} <= names
    assert {"ANTHROPIC_OAUTH_TOKEN", "AZURE_CLIENT_SECRET", "AWS_SESSION_TOKEN"} <= names
    assert not {"PATH", "HOME"} & names


def test_old_credentials_are_brought_over_once(tmp_path: Path) -> None:
    login = {"access": "t", "refresh": "r", "expires": 1}
    (tmp_path / "oauth.json").write_text(json.dumps({"anthropic": login}))
    (tmp_path / "settings.json").write_text(json.dumps({"apiKeys": {"openai": "k"}}))
    import_old_credentials(tmp_path)
    expected = {
        "anthropic": {"type": "oauth", **login},
        "openai": {"type": "api_key", "key": "k"},
    }
    assert json.loads((tmp_path / "auth.json").read_text()) == expected
    (tmp_path / "auth.json").write_text("{}")
    import_old_credentials(tmp_path)
    assert (tmp_path / "auth.json").read_text() == "{}"


def test_the_keyring_brings_old_credentials_over_when_it_is_first_asked(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text(json.dumps({"apiKeys": {"openai": "k"}}))
    ring = keyring(tmp_path)
    assert not ring.path.exists()
    assert ring.access("openai") == Access(key="k")
    assert stat.S_IMODE(ring.path.stat().st_mode) == 0o600
    ring.forget("openai")
    assert keyring(tmp_path).access("openai") is None


def test_spoilt_old_credentials_are_told_and_keep_nobody_from_working(tmp_path: Path) -> None:
    (tmp_path / "oauth.json").write_text("{broken")
    ring = keyring(tmp_path, environ={"OPENAI_API_KEY": "k"})
    assert ring.access("openai") == Access(key="k")
    assert len(ring.warnings) == 1
    assert not ring.path.exists()


def test_settings_without_old_keys_leave_no_auth_file(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text('{"theme": "dark"}')
    assert keyring(tmp_path).stored() == {}
    assert [path.name for path in tmp_path.iterdir()] == ["settings.json"]


def test_a_new_key_leaves_the_rest_of_its_entry_and_a_login_nothing(tmp_path: Path) -> None:
    own = {"AZURE_OPENAI_RESOURCE_NAME": "r"}
    entry = {"type": "api_key", "key": "old", "env": own, "note": 1}
    login = {"type": "oauth", "access": "a", "refresh": "r", "expires": 1}
    ring = keyring(tmp_path, {"azure-openai-responses": entry, "xai": login})
    ring.store("azure-openai-responses", "new")
    ring.store("xai", "new")
    assert json.loads(ring.path.read_text()) == {
        "azure-openai-responses": {**entry, "key": "new"},
        "xai": {"type": "api_key", "key": "new"},
    }


def test_several_entries_are_forgotten_at_once_odd_ones_too(tmp_path: Path) -> None:
    stored = {"a": {"type": "api_key", "key": "k"}, "odd": {"type": "new"}, "c": 3}
    ring = keyring(tmp_path, stored)
    assert ring.entries() == ("a", "odd", "c")
    assert ring.forget("a", "odd", "unknown") == ("a", "odd")
    assert ring.forget("a") == ()
    assert json.loads(ring.path.read_text()) == {"c": 3}


def test_only_a_login_that_requests_depend_on_must_be_renewed(tmp_path: Path) -> None:
    def login(left: int) -> dict[str, Any]:
        return {"type": "oauth", "access": "a", "refresh": "r", "expires": now_ms() + left}

    stored = {"soon": login(1000), "late": login(400_000), "key": {"type": "api_key", "key": "k"}}
    ring = keyring(tmp_path, stored)
    assert [name for name in (*stored, "none") if ring.ends_soon(name)] == ["soon"]
    assert ring.ends_soon("late", 500_000)
    assert not ring.ends_soon("soon", 0)
    ring.use("soon", "given")
    assert not ring.ends_soon("soon")


# ---------------------------------------------------------------- what there is


def registry(tmp_path: Path, ring: Keyring, **providers: Any) -> ModelRegistry:
    path = tmp_path / "models.json"
    path.write_text(json.dumps({"providers": providers}))
    return ModelRegistry(path, ring)


def test_the_state_tells_where_credentials_come_from_and_never_themselves(tmp_path: Path) -> None:
    hour = now_ms() + 3_600_000
    login = {"type": "oauth", "access": "secret-a", "refresh": "secret-r", "expires": hour}
    stored = {
        "openai": {"type": "api_key", "key": "secret-k"},
        "groq": {"type": "api_key", "key": "$NOT_SET"},
        "xai": login,
        "openrouter": {**login, "refresh": "", "expires": 2**53 - 1},
        "meta": {**login, "refresh": "", "expires": 5},
        "kimi-coding": {**login, "expires": 5},
    }
    environ = {"HF_TOKEN": "secret-h", "AWS_ACCESS_KEY_ID": "i", "AWS_SECRET_ACCESS_KEY": "secret"}
    model = {"id": "m", "api": "openai-completions"}
    mine = {"baseUrl": "http://127.0.0.1:1", "apiKey": "secret-m", "models": [model]}
    ring = keyring(tmp_path, stored, environ)
    ring.use("deepseek", "secret-d")
    found = auth_status(registry(tmp_path, ring, mine=mine))
    assert {status.provider: (status.origin, status.kind, status.usable) for status in found} == {
        "openai": ("stored", "api_key", True),
        "groq": ("stored", "api_key", False),
        "xai": ("stored", "oauth", True),
        "openrouter": ("stored", "oauth", True),
        "meta": ("stored", "oauth", False),
        "kimi-coding": ("stored", "oauth", True),
        "huggingface": ("environment", "api_key", True),
        "amazon-bedrock": ("environment", "identity", True),
        "deepseek": ("command line", "api_key", True),
        "mine": ("models.json", "api_key", True),
    }
    by_name = {status.provider: status for status in found}
    assert by_name["huggingface"].variables == ("HF_TOKEN",)
    assert by_name["amazon-bedrock"].variables == ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
    assert (by_name["xai"].expires, by_name["openrouter"].expires) == (hour, None)
    assert b"secret" not in dumps(found)


def test_a_provider_that_has_nothing_is_told_only_if_asked_for(tmp_path: Path) -> None:
    models = registry(tmp_path, keyring(tmp_path))
    assert auth_status(models) == ()
    assert auth_status(models, ["openai"]) == (
        CredentialStatus(provider="openai", origin="none", usable=False),
    )


def test_one_can_log_in_to_providers_with_keys_and_to_ones_own(tmp_path: Path) -> None:
    model = {"id": "m", "api": "openai-completions"}
    mine = {"baseUrl": "http://127.0.0.1:1", "models": [model]}
    gate = {"baseUrl": "http://127.0.0.1:2", "oauth": "radius"}
    models = registry(tmp_path, keyring(tmp_path), mine=mine, gate=gate)
    names = login_providers(models)
    assert {"openai", "openai-codex", "mine"} <= names.keys()
    assert login_methods(models, "anthropic") == ("api-key",)
    assert login_methods(models, "openai-codex") == ("oauth", "device")
    assert login_methods(models, "github-copilot") == ("device", "api-key")
    assert login_methods(models, "gate") == ("device", "api-key")
    assert choose_way(models, "openrouter", None) == "oauth"
    assert choose_way(models, "openrouter", "api-key") == "api-key"
    with pytest.raises(CommandError, match="openai-codex has no login method api-key"):
        choose_way(models, "openai-codex", "api-key")


@pytest.mark.parametrize("key", ["", " \n", "two words", "schlüssel", "a\x00b", "a\nb"])
def test_what_cannot_be_a_key_is_refused_without_showing_it(key: str) -> None:
    with pytest.raises(CommandError) as caught:
        checked_key(key)
    assert not key.strip() or key not in str(caught.value)


def test_a_key_is_stored_so_that_it_means_itself() -> None:
    assert Resolver(ENVIRON).resolve(checked_key(" !a$KEY\n")) == "!a$KEY"


def test_the_page_of_keys_lists_the_variables_of_every_provider() -> None:
    text = (Path(__file__).parents[2] / "docs" / "keys.md").read_text()
    page = text.partition("## Variables")[2].partition("## Commands")[0]
    rows = dict(re.findall(r"^\| `([^`]+)` \| (.*) \|$", page, re.M))
    for provider, variables in KEY_VARIABLES.items():
        also = (name for group in ALSO_NEEDED.get(provider, ()) for name in group)
        assert all(f"`{name}`" in rows[provider] for name in (*variables, *also)), provider
