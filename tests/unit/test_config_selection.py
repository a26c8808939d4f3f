"""Choosing models: patterns, scopes, and the start."""

import json
import re
from pathlib import Path

import pytest

from ludolf.base import ConfigError
from ludolf.config.auth.keyring import Keyring
from ludolf.config.models.registry import ModelRegistry
from ludolf.config.models.selection import (
    ModelChoice,
    choose_model,
    default_of,
    initial_model,
    missing_key,
    resolve_scope,
    thinking_level,
    unusable_default,
)
from ludolf.config.settings.settings import Settings

BASE = {"baseUrl": "http://h", "api": "openai-completions"}
PROVIDERS = {
    "mock": {
        **BASE,
        "apiKey": "k",
        "models": [
            {"id": "only"},
            {"id": "qqtwo", "name": "Second Zebra"},
            {"id": "qqboth"},
            {"id": "qqhalf"},
            {"id": "qqdated-20250101"},
            {"id": "qqdated-20250202"},
            {"id": "qqdays-20250303"},
            {"id": "qqdays"},
            {"id": "qqrs", "reasoning": True},
        ],
    },
    "nokey": {**BASE, "models": [{"id": "qqboth"}, {"id": "qqhalf"}, {"id": "qqnone"}]},
    "nokey2": {**BASE, "models": [{"id": "qqnone"}, {"id": "qqtwo-newer"}]},
    "other": {
        **BASE,
        "apiKey": "k",
        "models": [
            {"id": "qqboth"},
            {"id": "mock/weird"},
            {"id": "qqrs:low", "reasoning": True},
        ],
    },
}


def registry_in(folder: Path, providers: object, **environ: str) -> ModelRegistry:
    (folder / "models.json").write_text(json.dumps({"providers": providers}))
    return ModelRegistry(folder / "models.json", Keyring(folder / "auth.json", dict(environ)))


@pytest.fixture
def registry(tmp_path: Path) -> ModelRegistry:
    return registry_in(tmp_path, PROVIDERS)


def tell(choice: ModelChoice | None) -> str:
    if choice is None:
        return "none"
    return choice.model.key + (f" at {choice.level}" if choice.level else "")


@pytest.mark.parametrize(
    ("pattern", "provider", "expected"),
    [
        ("mock/qqtwo", None, "mock/qqtwo"),
        ("MOCK/QQTWO", None, "mock/qqtwo"),
        ("qqtwo", "mock", "mock/qqtwo"),
        ("qqtwo", "MOCK", "mock/qqtwo"),
        ("mock/qqtwo", "mock", "mock/qqtwo"),
        ("ond zeb", None, "mock/qqtwo"),
        ("only:high", None, "mock/only at high"),
        ("mock/only:off", None, "mock/only at off"),
        ("qqdated", None, "mock/qqdated-20250202"),
        ("qqday", None, "mock/qqdays"),
        ("mock/weird", None, "other/mock/weird"),
        ("nokey/qqnone", None, "nokey/qqnone"),
        ("qqhalf", None, "mock/qqhalf"),
        ("qqhalf:high", None, "mock/qqhalf at high"),
        ("qqtw", None, "mock/qqtwo"),
        ("qqtwo-n", None, "nokey2/qqtwo-newer"),
        ("qqboth:high", None, "mock/qqboth at high"),
        ("qqrs:high", None, "mock/qqrs at high"),
        ("qqrs:low", None, "other/qqrs:low"),
        ("other/qqrs:low:high", None, "other/qqrs:low at high"),
        (" qqtwo ", None, "mock/qqtwo"),
        ("qqrs:max", None, "mock/qqrs at max"),
        ("mock/qqd", None, "mock/qqdays"),
        ("weird", "other", "other/mock/weird"),
        ("other/", None, "other/qqrs:low"),
        ("anthropic/claude-opus-4-8", None, "anthropic/claude-opus-4-8"),
    ],
)
def test_a_pattern_of_the_command_line_finds_its_model(
    registry: ModelRegistry, pattern: str, provider: str | None, expected: str
) -> None:
    choice = choose_model(registry, pattern, provider)
    assert tell(choice) == expected
    assert choice.warning is None


@pytest.mark.parametrize(
    ("pattern", "provider", "text"),
    [
        ("nosuch", None, 'Model "nosuch" not found. `ludolf models` lists the available models.'),
        ("m*", None, 'Model "m*" not found. `ludolf models` lists the available models.'),
        (
            "qqrs:bogus",
            None,
            'Model "qqrs:bogus" not found. `ludolf models` lists the available models.',
        ),
        (
            "qqtwo",
            "bad",
            'Unknown provider "bad". `ludolf models` lists the available models.',
        ),
        (
            "qqboth",
            None,
            'Model "qqboth" is ambiguous across providers: '
            "mock/qqboth, nokey/qqboth, other/qqboth. "
            "More than one matching provider is authenticated. Name it as provider/model.",
        ),
        (
            "qqnone",
            None,
            'Model "qqnone" is ambiguous across providers: nokey/qqnone, nokey2/qqnone. '
            "No matching provider is authenticated. Name it as provider/model.",
        ),
    ],
)
def test_a_pattern_that_cannot_be_used_is_refused_in_known_words(
    registry: ModelRegistry, pattern: str, provider: str | None, text: str
) -> None:
    with pytest.raises(ConfigError) as refusal:
        choose_model(registry, pattern, provider)
    assert str(refusal.value) == text


@pytest.mark.parametrize(
    ("pattern", "model_id", "level", "reasoning"),
    [
        ("mock/zzz", "zzz", None, False),
        ("mock/zzz:high", "zzz", "high", True),
        ("mock/qqrs:bogus", "qqrs:bogus", None, False),
    ],
)
def test_an_unknown_id_of_a_known_provider_becomes_a_custom_model(
    registry: ModelRegistry, pattern: str, model_id: str, level: str | None, reasoning: bool
) -> None:
    choice = choose_model(registry, pattern)
    expected = f'Model "{model_id}" not found for provider "mock". Using custom model id.'
    assert choice.warning == expected
    assert (choice.model.id, choice.level, choice.model.reasoning) == (model_id, level, reasoning)
    assert choice.model.base_url == "http://h"


@pytest.mark.parametrize(
    ("patterns", "expected", "warnings"),
    [
        (["qqtwo", "only:high"], ["mock/qqtwo", "mock/only at high"], []),
        (["nosuch*", "qqtwo"], ["mock/qqtwo"], ['No models match pattern "nosuch*"']),
        (
            ["other/*:low"],
            ["other/qqboth at low", "other/qqrs:low at low"],
            [],
        ),
        (
            ["other/**:low"],
            ["other/qqboth at low", "other/mock/weird at low", "other/qqrs:low at low"],
            [],
        ),
        (["qqd[ab]y*", "[mn]ock/only"], ["mock/qqdays-20250303", "mock/qqdays", "mock/only"], []),
        (["qqtw?"], ["mock/qqtwo"], []),
        (["qqnone"], [], ['No models match pattern "qqnone"']),
        (["only", "ONLY:high"], ["mock/only"], []),
        (
            ["qqtwo:bogus"],
            ["mock/qqtwo"],
            ['Invalid thinking level "bogus" in pattern "qqtwo:bogus". Using default instead.'],
        ),
    ],
)
def test_a_scope_lists_models_with_credentials_in_pattern_order(
    registry: ModelRegistry, patterns: list[str], expected: list[str], warnings: list[str]
) -> None:
    scope = resolve_scope(patterns, registry.available())
    assert [tell(choice) for choice in scope.choices] == expected
    assert list(scope.warnings) == warnings


def test_the_start_follows_the_order_of_sources(registry: ModelRegistry) -> None:
    saved = Settings(default_provider="mock", default_model="qqrs")
    scope = resolve_scope(["qqtwo:low", "qqrs:high"], registry.available())
    elsewhere = resolve_scope(["qqtwo:low"], registry.available())
    chosen = choose_model(registry, "only")
    resumed = ("mock", "qqhalf")
    assert tell(initial_model(registry, saved, chosen=chosen, scope=scope)) == "mock/only"
    assert tell(initial_model(registry, saved, scope=scope)) == "mock/qqrs at high"
    assert tell(initial_model(registry, saved, scope=elsewhere)) == "mock/qqtwo at low"
    assert tell(initial_model(registry, saved, scope=scope, resumed=resumed)) == "mock/qqhalf"
    assert tell(initial_model(registry, saved)) == "mock/qqrs"
    assert tell(initial_model(registry, Settings())) == "mock/only"


def test_a_lost_model_of_a_resumed_session_is_told(registry: ModelRegistry) -> None:
    saved = Settings(default_provider="mock", default_model="only")
    choice = initial_model(registry, saved, resumed=("gone", "m"))
    assert choice is not None
    assert choice.model.key == "mock/only"
    assert choice.warning == "Could not restore model gone/m. Using mock/only"


def test_a_saved_default_without_key_is_passed_over(registry: ModelRegistry) -> None:
    saved = Settings(default_provider="nokey", default_model="qqnone")
    assert tell(initial_model(registry, saved)) == "mock/only"


@pytest.mark.parametrize(
    ("provider", "model_id", "reason"),
    [
        ("nokey", "qqnone", 'has no credentials: Set "apiKey" of the provider "nokey" in '),
        ("anthropic", "claude-sonnet-5", "has no credentials: Set ANTHROPIC_API_KEY in "),
        ("mock", "gone", "is unknown."),
        ("gone", "m", "is unknown."),
    ],
)
def test_a_saved_default_that_cannot_be_used_has_a_reason(
    registry: ModelRegistry, provider: str, model_id: str, reason: str
) -> None:
    saved = Settings(default_provider=provider, default_model=model_id)
    text = unusable_default(registry, saved) or ""
    assert text.startswith(f"The default model {provider}/{model_id} of settings.json {reason}")
    assert unusable_default(registry, Settings()) is None
    usable = Settings(default_provider="mock", default_model="only")
    assert unusable_default(registry, usable) is None


@pytest.mark.parametrize(
    ("provider", "text"),
    [
        (
            "anthropic",
            "Set ANTHROPIC_API_KEY in the environment, or run `ludolf auth login anthropic`.",
        ),
        ("openai-codex", "Run `ludolf auth login openai-codex`."),
        (
            "cloudflare-workers-ai",
            "Set CLOUDFLARE_API_KEY and CLOUDFLARE_ACCOUNT_ID in the environment, or run "
            "`ludolf auth login cloudflare-workers-ai`.",
        ),
    ],
)
def test_a_missing_key_is_named_by_its_variable(
    registry: ModelRegistry, provider: str, text: str
) -> None:
    assert missing_key(registry, provider) == text


@pytest.mark.parametrize(
    ("provider", "expected"),
    [
        ("mock", "mock/only"),
        ("MOCK", "mock/only"),
        ("anthropic", "anthropic/claude-opus-4-8"),
        ("google", "google/gemini-3.1-pro-preview"),
    ],
)
def test_a_provider_alone_has_a_default_model(
    registry: ModelRegistry, provider: str, expected: str
) -> None:
    assert default_of(registry, provider).model.key == expected


def test_an_unknown_name_is_refused_with_the_nearest_one(registry: ModelRegistry) -> None:
    with pytest.raises(
        ConfigError, match=r'^Unknown provider "antropic"\. Did you mean "anthropic"'
    ):
        default_of(registry, "antropic")
    with pytest.raises(
        ConfigError, match=r'^Model "sonet" not found\. Did you mean "sonnet"\? `ludolf'
    ):
        choose_model(registry, "sonet")
    with pytest.raises(ConfigError, match="ludolf models refresh nvidia"):
        default_of(registry, "nvidia")
    registry.local_servers = False
    with pytest.raises(ConfigError, match=r'^No models of ollama .* Start it with "ollama serve"'):
        default_of(registry, "ollama")


@pytest.mark.parametrize(
    ("variable", "pattern", "expected"),
    [
        ("", "sonnet", "anthropic/claude-sonnet-"),
        ("", "opus", "anthropic/claude-opus-"),
        ("", "haiku", "anthropic/claude-haiku-"),
        ("", "claude", "anthropic/claude-"),
        ("", "gpt", "openai/gpt-"),
        ("", "gemini", "google/gemini-"),
        ("", "deepseek", "deepseek/deepseek-"),
        ("ANTHROPIC_API_KEY", "sonnet", "anthropic/claude-sonnet-"),
        ("OPENAI_API_KEY", "gpt", "openai/gpt-"),
        ("GEMINI_API_KEY", "gemini", "google/gemini-"),
        ("OPENROUTER_API_KEY", "sonnet", "openrouter/anthropic/claude-sonnet-"),
        ("OPENROUTER_API_KEY", "gemini", "openrouter/google/gemini-"),
        ("OPENROUTER_API_KEY", "gpt", "openrouter/openai/gpt-"),
        ("OPENROUTER_API_KEY", "deepseek", "openrouter/deepseek/deepseek-"),
        ("AWS_PROFILE", "sonnet", "amazon-bedrock/us.anthropic.claude-sonnet-"),
    ],
)
def test_part_of_a_name_means_an_ordinary_model_of_the_maker_or_of_the_key(
    tmp_path: Path, variable: str, pattern: str, expected: str
) -> None:
    environ = {variable: "k"} if variable else {}
    key = choose_model(registry_in(tmp_path, {}, **environ), pattern).model.key
    assert key.startswith(expected)
    special = re.compile(r"\b(batch|realtime|safeguard|lite|mini|nano|preview|audio|oss|202[45])")
    assert special.search(key) is None


def test_of_several_versions_the_newest_is_meant_and_special_ones_only_by_name(
    tmp_path: Path,
) -> None:
    ids = (
        "zz-9",
        "zz-10",
        "zz-10-lite",
        "zz-11-preview",
        "zz-10-20260101",
        "zz-70b",
        "zz-10:batch",
    )
    models = [{"id": model_id} for model_id in ids]
    registry = registry_in(tmp_path, {"mock": {**BASE, "apiKey": "k", "models": models}})
    for pattern, expected in (
        ("zz", "zz-10"),
        ("zz-1", "zz-10"),
        ("-lite", "zz-10-lite"),
        ("preview", "zz-11-preview"),
        (":batch", "zz-10:batch"),
        ("zz-10-2", "zz-10-20260101"),
        ("zz-7", "zz-70b"),
    ):
        assert choose_model(registry, pattern).model.id == expected


def test_preferred_providers_come_before_any_other(tmp_path: Path) -> None:
    registry = registry_in(tmp_path, PROVIDERS, OPENAI_API_KEY="k", GROQ_API_KEY="k")
    assert tell(initial_model(registry, Settings())) == "openai/gpt-5.5"


def test_without_any_key_there_is_no_model(tmp_path: Path) -> None:
    assert initial_model(registry_in(tmp_path, {}), Settings()) is None


def test_the_level_at_start(registry: ModelRegistry) -> None:
    plain = choose_model(registry, "mock/qqrs")
    settings = Settings(default_thinking_level="low", model_thinking_levels={"mock/qqrs": "high"})
    assert thinking_level(Settings(), plain) == "medium"
    assert thinking_level(Settings(default_thinking_level="low"), plain) == "low"
    assert thinking_level(settings, plain) == "high"
    assert thinking_level(settings, choose_model(registry, "mock/qqrs:minimal")) == "minimal"
    assert thinking_level(settings, plain, "off") == "off"


def test_an_id_with_signs_of_a_glob_is_found_by_itself(tmp_path: Path) -> None:
    found = registry_in(tmp_path, {"a": {**BASE, "apiKey": "k", "models": [{"id": "br[1]x"}]}})
    scope = resolve_scope(["br[1]x", "br[1]x:high"], found.available())
    assert [tell(choice) for choice in scope.choices] == ["a/br[1]x"]
