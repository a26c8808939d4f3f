"""Models: the shipped catalog, models.json, registration, and the way in."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ludolf.ai.access import Access
from ludolf.ai.models import Model, ModelCost
from ludolf.config.auth.credentials import nameless
from ludolf.config.auth.keyring import Keyring
from ludolf.config.auth.keys import KEY_VARIABLES
from ludolf.config.auth.oauth import FLOWS
from ludolf.config.models.catalog import catalog_models, catalog_providers
from ludolf.config.models.registry import LOCAL as LOCAL_PROVIDERS
from ludolf.config.models.registry import ModelRegistry
from ludolf.config.models.routes import PREFERRED, ROUTES
from ludolf.config.models.selection import choose_model

LOCAL = {"baseUrl": "http://h", "api": "openai-completions", "apiKey": "k"}


START = """
import json, os, sys
from pathlib import Path
from ludolf.config.auth.keyring import Keyring
from ludolf.config.settings.home import find_home
from ludolf.config.models.registry import ModelRegistry
from ludolf.config.models.selection import initial_model
from ludolf.config.settings.settings import SettingsFiles
from ludolf.config.settings.trust import decide_trust
home = find_home(Path(sys.argv[1]), os.environ)
decide_trust(home)
files = SettingsFiles(home)
registry = ModelRegistry(home.models_file, Keyring(home.auth_file, os.environ))
choice = initial_model(registry, files.current)
names = [n for n in sys.modules if n.startswith("ludolf.config.") or n in ("yaml", "subprocess")]
print(json.dumps([choice.model.key, names]))
"""


def registry(tmp_path: Path, value: Any = None, **environ: str) -> ModelRegistry:
    path = tmp_path / "models.json"
    if value is not None:
        path.write_text(value if isinstance(value, str) else json.dumps({"providers": value}))
    base = {"PATH": os.environ["PATH"]}
    return ModelRegistry(path, Keyring(tmp_path / "auth.json", {**base, **environ}))


def keys(models: tuple[Model, ...]) -> list[str]:
    return [model.key for model in models]


# ---------------------------------------------------------------- catalog


def test_the_catalog_is_whole_and_every_provider_has_a_key_rule() -> None:
    for provider in catalog_providers():
        assert provider in KEY_VARIABLES
        models = catalog_models(provider)
        assert models
        assert all(
            m.context_window > 0 and m.max_tokens > 0 and m.provider == provider for m in models
        )
    assert catalog_models("nobody") == ()


def test_every_preferred_model_is_in_the_catalog() -> None:
    for provider, model_id in PREFERRED.items():
        assert model_id in [model.id for model in catalog_models(provider)]


def test_whoever_can_have_a_key_has_models_or_an_address() -> None:
    shipped = {*catalog_providers(), *LOCAL_PROVIDERS}
    assert {*KEY_VARIABLES, *FLOWS} - shipped == ROUTES.keys()
    assert not ROUTES.keys() & shipped


@pytest.mark.parametrize(
    ("model_id", "api", "address"),
    [
        ("claude-x", "anthropic-messages", "https://opencode.ai/zen"),
        ("gpt-x", "openai-responses", "https://opencode.ai/zen/v1"),
        ("other", "openai-completions", "https://opencode.ai/zen/v1"),
    ],
)
def test_a_model_that_nobody_knows_takes_the_route_of_its_provider(
    tmp_path: Path, model_id: str, api: str, address: str
) -> None:
    registry = ModelRegistry(
        tmp_path / "models.json",
        Keyring(tmp_path / "auth.json", {"OPENCODE_API_KEY": "k"}),
    )
    assert nameless(registry) == ("opencode", "opencode-go")
    choice = choose_model(registry, f"opencode/{model_id}:high")
    assert (choice.model.api, choice.model.base_url) == (api, address)
    assert (choice.model.id, choice.level, choice.model.reasoning) == (model_id, "high", True)
    assert registry.admits(choice.model)


def test_a_shipped_model_has_its_facts() -> None:
    model = next(m for m in catalog_models("anthropic") if m.id == "claude-opus-4-8")
    assert model.takes_images
    assert model.reasoning
    assert model.cost.output > model.cost.input > model.cost.cache_read > 0
    assert (model.thinking_level_map or {})["xhigh"] == "xhigh"


def test_a_saved_custom_model_is_found_without_opening_catalog_or_prompt_files(
    tmp_path: Path,
) -> None:
    (tmp_path / "models.json").write_text(
        json.dumps({"providers": {"mock": {**LOCAL, "models": [{"id": "m"}]}}})
    )
    (tmp_path / "settings.json").write_text('{"defaultProvider": "mock", "defaultModel": "m"}')
    source = str(Path(__file__).parents[2] / "src")
    environ = {**os.environ, "PYTHONPATH": source, "LUDOLF_DIR": str(tmp_path)}
    out = subprocess.run(
        [sys.executable, "-c", START, str(tmp_path)],
        env=environ,
        stdout=subprocess.PIPE,
        check=True,
    )
    key, names = json.loads(out.stdout)
    assert key == "mock/m"
    late = (
        "catalog",
        "lock",
        "skills",
        "templates",
        "context_files",
        "system_prompt",
        "front_matter",
    )
    assert not {f"ludolf.config.{name}" for name in late} & set(names)
    assert not {"yaml", "subprocess", "ludolf.config.resources.sources"} & set(names)


# ---------------------------------------------------------------- models.json


def test_an_almost_empty_model_gets_all_defaults(tmp_path: Path) -> None:
    found = registry(tmp_path, {"mock": {**LOCAL, "models": [{"id": "only"}]}}).available()
    assert found == (
        Model(
            id="only",
            name="only",
            api="openai-completions",
            provider="mock",
            base_url="http://h",
            reasoning=False,
            input=("text",),
            cost=ModelCost(),
            context_window=128000,
            max_tokens=16384,
        ),
    )


def test_available_models_are_those_with_credentials(tmp_path: Path) -> None:
    custom = {"a": {**LOCAL, "models": [{"id": "1"}]}, "b": {**LOCAL, "models": [{"id": "2"}]}}
    del custom["b"]["apiKey"]
    assert keys(registry(tmp_path, custom).available()) == ["a/1"]
    groq = registry(tmp_path, custom, GROQ_API_KEY="k").available()
    assert {model.provider for model in groq} == {"groq", "a"}
    everything = {model.provider for model in registry(tmp_path, custom).all()}
    assert everything >= {"anthropic", "openai", "a", "b"}


def test_a_shipped_provider_can_be_moved_extended_and_corrected(tmp_path: Path) -> None:
    change = {"name": "Mine", "cost": {"input": 1}, "compat": {"chatTemplateKwargs": {"b": 2}}}
    found = registry(
        tmp_path,
        {
            "groq": {
                "baseUrl": "http://proxy",
                "compat": {"supportsStore": False, "chatTemplateKwargs": {"a": 1}},
                "models": [{"id": "new", "compat": {"supportsStore": True}}],
                "modelOverrides": {"openai/gpt-oss-120b": change, "unknown": {"name": "x"}},
            }
        },
    )
    shipped = next(m for m in catalog_models("groq") if m.id == "openai/gpt-oss-120b")
    model = found.find("groq", "openai/gpt-oss-120b")
    assert model is not None
    assert (model.name, model.base_url) == ("Mine", "http://proxy")
    assert (model.cost.input, model.cost.output) == (1, shipped.cost.output)
    assert model.compat == {"supportsStore": False, "chatTemplateKwargs": {"a": 1, "b": 2}}
    new = found.find("groq", "new")
    assert new is not None
    assert (new.api, new.base_url) == (shipped.api, "http://proxy")
    assert new.compat == {"supportsStore": True, "chatTemplateKwargs": {"a": 1}}
    assert found.find("groq", "unknown") is None
    assert found.errors == ()


def test_old_effort_maps_are_read(tmp_path: Path) -> None:
    model = {"id": "m", "reasoning": True, "compat": {"reasoningEffortMap": {"high": "max"}}}
    found = registry(tmp_path, {"a": {**LOCAL, "models": [model]}}).find("a", "m")
    assert found is not None
    assert found.thinking_level_map == {"high": "max"}


@pytest.mark.parametrize(
    ("provider", "text"),
    [
        (
            {"baseUrl": "http://h", "models": [{"id": "x"}]},
            'Provider bad, model x: no "api" specified. Set at provider or model level.',
        ),
        (
            {"api": "openai-completions", "models": [{"id": "x"}]},
            'Provider bad: "baseUrl" is required when defining custom models.',
        ),
        (
            {**LOCAL, "models": [{"id": "x", "contextWindow": 0}]},
            "Provider bad, model x: invalid contextWindow",
        ),
        (
            {**LOCAL, "models": [{"id": "x", "maxTokens": -1}]},
            "Provider bad, model x: invalid maxTokens",
        ),
        (
            {"name": "Nothing else"},
            'Provider bad: must specify "baseUrl", "headers", "compat", '
            '"modelOverrides", or "models".',
        ),
        ({"oauth": "radius"}, 'Provider bad: "baseUrl" is required when "oauth" is set.'),
        ({**LOCAL, "baseUrl": 5}, "Invalid models.json schema:\n  - providers.bad.baseUrl: "),
        (
            {**LOCAL, "models": [{"name": "n"}]},
            "Invalid models.json schema:\n  - providers.bad.models.0.id: missing\n",
        ),
    ],
)
def test_an_error_is_told_and_other_providers_still_work(
    tmp_path: Path, provider: dict[str, Any], text: str
) -> None:
    found = registry(tmp_path, {"bad": provider, "good": {**LOCAL, "models": [{"id": "m"}]}})
    assert len(found.errors) == 1
    assert found.errors[0].startswith(text)
    assert keys(found.available()) == ["good/m"]


def test_a_file_that_is_not_json_is_told(tmp_path: Path) -> None:
    found = registry(tmp_path, "{broken")
    assert found.errors[0].startswith("Failed to parse models.json: ")
    assert found.available() == ()


def test_an_edit_is_seen_at_the_next_listing(tmp_path: Path) -> None:
    found = registry(tmp_path, {"a": {**LOCAL, "models": [{"id": "one"}]}})
    assert keys(found.available()) == ["a/one"]
    text = json.dumps({"providers": {"a": {**LOCAL, "models": [{"id": "two"}]}}})
    found.path.write_text("// edited\n" + text)
    assert keys(found.available()) == ["a/two"]


# ---------------------------------------------------------------- access


def test_key_and_headers_are_resolved_at_request_time(tmp_path: Path) -> None:
    count = tmp_path / "count"
    provider = {
        **LOCAL,
        "apiKey": f"!echo x >> '{count}'; wc -l < '{count}'",
        "authHeader": True,
        "headers": {"X-Team": "$TEAM", "X-None": "$MISSING"},
        "models": [{"id": "m", "headers": {"X-Model": "yes"}}],
    }
    found = registry(tmp_path, {"a": provider}, TEAM="red")
    model = found.available()[0]
    assert not count.exists()
    assert found.runs_command(model)
    headers = {"Authorization": "Bearer 1", "X-Team": "red", "X-Model": "yes"}
    assert found.access(model) == Access(key="1", headers=headers)
    second = found.access(model)
    assert second is not None
    assert second.key == "2"
    assert found.warnings == ["Provider a: header X-None has no value and is left out"]


def test_an_auth_header_does_the_work_of_a_key(tmp_path: Path) -> None:
    provider = {"baseUrl": "http://h", "api": "openai-completions", "models": [{"id": "m"}]}
    with_header = {**provider, "headers": {"Authorization": "Bearer $T"}}
    found = registry(tmp_path, {"a": with_header, "b": provider}, T="t")
    assert keys(found.available()) == ["a/m"]
    assert found.access(found.available()[0]) == Access(headers={"Authorization": "Bearer t"})


def test_registered_models_bring_their_own_access(tmp_path: Path) -> None:
    found = registry(tmp_path, {"a": {**LOCAL, "models": [{"id": "m"}]}})
    model = Model(
        id="offline",
        name="Offline",
        api="ludolf-offline",
        provider="ludolf",
        base_url="",
        reasoning=False,
        input=("text",),
        cost=ModelCost(),
        context_window=1,
        max_tokens=1,
    )
    found.register([model], Access(key="none"))
    assert keys(found.available()) == ["a/m", "ludolf/offline"]
    assert found.find("ludolf", "offline") == model
    assert found.access(model) == Access(key="none")
    found.register([model], lambda asked: Access(key=asked.id))
    assert found.access(model) == Access(key="offline")
    found.unregister("ludolf")
    assert keys(found.available()) == ["a/m"]


def test_variables_named_in_models_json_are_secrets_too(tmp_path: Path) -> None:
    provider = {**LOCAL, "apiKey": "$MY_KEY", "headers": {"X": "${MY_HEADER}"}, "models": []}
    assert {"MY_KEY", "MY_HEADER"} <= registry(tmp_path, {"a": provider}).secret_names()


# ---------------------------------------------------------------- reading the file


def test_every_mistake_is_told_with_its_place(tmp_path: Path) -> None:
    wrong = {
        "baseUrl": 5,
        "headers": {"X": 3},
        "oauth": "other",
        "models": [
            {"name": "n"},
            {"id": "", "cost": {"input": "x", "output": -1}},
            {"id": "k", "input": ["audio"], "inputLimits": {"images": {"resize": 1}}},
        ],
        "modelOverrides": {"o": {"promptCache": {"long": "1h"}}},
    }
    found = registry(tmp_path, {"a": wrong, "b": 7, "good": {**LOCAL, "models": [{"id": "m"}]}})
    (text,) = found.errors
    places = [line.split(":")[0].strip(" -") for line in text.splitlines() if "  - " in line]
    assert places == [
        "providers.a.models.0.id",
        "providers.a.models.1.cost.input",
        "providers.a.models.1.cost.output",
        "providers.a.models.1.id",
        "providers.a.models.2.input.0",
        "providers.a.models.2.inputLimits.images.resize",
        "providers.a.modelOverrides.o.promptCache.long",
        "providers.a.baseUrl",
        "providers.a.headers.X",
        "providers.a.oauth",
        "providers.b",
    ]
    assert str(found.path) in text
    assert keys(found.available()) == ["good/m"]


def test_a_wrong_model_leaves_its_provider_and_neighbours_alone(tmp_path: Path) -> None:
    models = [{"id": "bad", "maxTokens": "many"}, {"id": "m"}]
    assert keys(registry(tmp_path, {"a": {**LOCAL, "models": models}}).available()) == ["a/m"]


def test_comments_trailing_commas_and_a_byte_order_mark_are_accepted(tmp_path: Path) -> None:
    text = """\ufeff// of mine
    {"providers": {"a": { /* here */
      "baseUrl": "http://h//x", "api": "openai-completions", "apiKey": "k", // "no"
      "models": [{"id": "a//b", "name": "x /* y */",},],
    },},}"""
    found = registry(tmp_path, text)
    (model,) = found.available()
    assert (model.id, model.name, model.base_url) == ("a//b", "x /* y */", "http://h//x")
    assert found.errors == ()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"provider": {}}', "Invalid models.json schema:\n  - providers: missing"),
        ('{"providers": []}', "Invalid models.json schema:\n  - providers: Expected `object`"),
        ("[]", "Failed to parse models.json: expected an object"),
    ],
)
def test_a_file_of_another_shape_is_told(tmp_path: Path, text: str, told: str) -> None:
    assert registry(tmp_path, text).errors[0].startswith(told)


def test_the_last_of_two_models_of_one_id_counts(tmp_path: Path) -> None:
    models = [{"id": "m", "name": "one"}, {"id": "m", "contextWindow": 5}]
    (model,) = registry(tmp_path, {"a": {**LOCAL, "models": models}}).available()
    assert (model.name, model.context_window) == ("m", 5)


def test_overrides_also_change_models_that_are_registered(tmp_path: Path) -> None:
    found = registry(tmp_path, {"mine": {"modelOverrides": {"m": {"contextWindow": 9}}}})
    model = catalog_models("groq")[0].replace(provider="mine", id="m")
    found.register([model], Access(key="k"))
    changed = found.find("mine", "m")
    assert changed is not None
    assert changed.context_window == 9


def test_unknown_keys_and_values_of_models_json_are_explained(tmp_path: Path) -> None:
    entry = {
        **LOCAL,
        "apikey": "k",
        "models": [{"id": "a", "reasonning": True, "//": "note"}, {"id": "b", "input": ["video"]}],
        "modelOverrides": {"c": {"cost": {"inptu": 1}, "shiny": True}},
    }
    path = tmp_path / "models.json"
    path.write_text(json.dumps({"$schema": "x", "providers": {"lab": entry}}))
    registry = ModelRegistry(path, Keyring(tmp_path / "auth.json", os.environ))
    where = f"{path}: unknown key"
    assert registry.warnings == [
        f'{where} "providers.lab.apikey". Did you mean "providers.lab.apiKey"?',
        f'{where} "providers.lab.models.0.reasonning". '
        'Did you mean "providers.lab.models.0.reasoning"?',
        f'{where} "providers.lab.modelOverrides.c.cost.inptu". '
        'Did you mean "providers.lab.modelOverrides.c.cost.input"?',
        f'{where} "providers.lab.modelOverrides.c.shiny".',
    ]
    (error,) = registry.errors
    assert "models.1.input.0: Invalid enum value 'video'. Valid values: text, image" in error
    assert registry.find("lab", "a") is not None


# ---------------------------------------------------------------- several registries


def test_registries_of_the_same_files_share_their_models(tmp_path: Path) -> None:
    entry = {**LOCAL, "models": [{"id": "one"}]}
    first, second = registry(tmp_path, {"mine": entry}), registry(tmp_path)
    model = first.find("mine", "one")
    assert model is not None
    assert second.find("mine", "one") is model
    second.register([model.replace(id="own")], Access(key="k"))
    assert keys(second.of_provider("mine")) == ["mine/one", "mine/own"]
    assert keys(first.of_provider("mine")) == ["mine/one"]
    third = registry(tmp_path, {"mine": {**entry, "models": [{"id": "other"}]}})
    assert third.find("mine", "one") is None
    assert second.find("mine", "one") is model
    second.refresh()
    assert keys(second.of_provider("mine")) == ["mine/other", "mine/own"]
