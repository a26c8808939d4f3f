"""models-store.json: what providers told is kept and used, and pi's part of it left alone."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from ludolf.ai.models import Model
from ludolf.base import ConfigError
from ludolf.config.auth.keyring import Keyring
from ludolf.config.models.catalog import catalog_models
from ludolf.config.models.models_file import CostEntry, ModelEntry
from ludolf.config.models.models_store import compare, keep, read_store
from ludolf.config.models.registry import ModelRegistry

CHAT = {"baseUrl": "http://h", "api": "openai-completions", "apiKey": "k"}
OF_PI = {
    "id": "claude-of-pi",
    "name": "Claude of pi",
    "api": "anthropic-messages",
    "provider": "anthropic",
    "baseUrl": "https://api.anthropic.com",
    "reasoning": True,
    "input": ["text"],
    "cost": {"input": 1, "output": 2, "cacheRead": 0, "cacheWrite": 0},
    "contextWindow": 1000,
    "maxTokens": 500,
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "models-store.json"


def registry(path: Path, providers: Any = None) -> ModelRegistry:
    models = path.with_name("models.json")
    models.write_text(json.dumps({"providers": providers or {}}))
    return ModelRegistry(models, Keyring(path.with_name("auth.json"), {}))


def found(path: Path, provider: str, model_id: str, providers: Any = None) -> Model:
    model = registry(path, providers).find(provider, model_id)
    assert model is not None
    return model


def test_a_new_model_is_used_from_the_next_start_on(path: Path) -> None:
    entry = ModelEntry(id="brand-new", name="Brand New", context_window=5000, max_tokens=50)
    before = registry(path)
    assert before.find("groq", "brand-new") is None
    keep(path, "groq", [entry])
    model = found(path, "groq", "brand-new")
    assert (model.name, model.context_window, model.max_tokens) == ("Brand New", 5000, 50)
    shipped = catalog_models("groq")[0]
    assert (model.api, model.base_url) == (shipped.api, shipped.base_url)


def test_what_nobody_told_of_a_model_is_as_with_the_one_most_alike_but_its_price(
    path: Path,
) -> None:
    keep(path, "anthropic", [ModelEntry(id="claude-opus-4-8-20260101")])
    model = found(path, "anthropic", "claude-opus-4-8-20260101")
    kin = next(model for model in catalog_models("anthropic") if model.id == "claude-opus-4-8")
    assert model.name == "claude-opus-4-8-20260101"
    assert (model.context_window, model.reasoning, model.compat) == (
        *(kin.context_window, kin.reasoning, kin.compat),
    )
    assert model.cost.input == model.cost.output == 0


def test_of_a_shipped_model_only_the_price_is_taken_over() -> None:
    shipped = {model.id: model for model in catalog_models("openrouter")}
    known = next(iter(shipped.values()))
    listed = [
        ModelEntry(id=known.id, name="other", context_window=1, cost=CostEntry(input=99.0)),
        ModelEntry(id="new/one", context_window=7),
        ModelEntry(id=list(shipped)[1], context_window=1),
    ]
    news = compare(listed, shipped)
    assert (news.listed, news.added, news.changed) == (3, ("new/one",), (known.id,))
    assert news.entries == (
        ModelEntry(id=known.id, cost=CostEntry(input=99.0)),
        ModelEntry(id="new/one", context_window=7),
    )


def test_a_new_price_lies_over_the_catalog_and_models_json_over_both(path: Path) -> None:
    known = catalog_models("groq")[0]
    keep(path, "groq", [ModelEntry(id=known.id, cost=CostEntry(input=42.0))])
    model = found(path, "groq", known.id)
    assert (model.cost.input, model.cost.output) == (42.0, known.cost.output)
    override = {"groq": {"modelOverrides": {known.id: {"cost": {"input": 1}}}}}
    assert found(path, "groq", known.id, override).cost.input == 1


def test_a_server_of_ones_own_may_have_its_models_from_its_list(path: Path) -> None:
    keep(path, "lab", [ModelEntry(id="big", context_window=9), ModelEntry(id="mine")])
    lab = {"lab": {**CHAT, "models": [{"id": "mine", "contextWindow": 3}]}}
    model = found(path, "lab", "big", lab)
    assert (model.api, model.base_url, model.context_window) == (
        "openai-completions",
        "http://h",
        9,
    )
    assert found(path, "lab", "mine", lab).context_window == 3


def test_what_pi_keeps_stays_and_its_new_models_are_used(path: Path) -> None:
    known = {**OF_PI, "id": "claude-opus-4-8", "contextWindow": 1}
    entry = {"models": [OF_PI, known, {"id": "spoilt"}], "checkedAt": 1, "lastModified": 2}
    path.write_text(json.dumps({"anthropic": entry, "odd": 7}))
    keep(path, "groq", [ModelEntry(id="new")])
    stored = json.loads(path.read_text())
    assert (stored["anthropic"], stored["odd"]) == (entry, 7)
    assert stored["ludolf"]["groq"]["models"] == [{"id": "new"}]
    assert found(path, "anthropic", "claude-of-pi").context_window == 1000
    assert found(path, "anthropic", "claude-opus-4-8").context_window > 1
    assert registry(path).find("anthropic", "spoilt") is None


def test_a_second_answer_replaces_the_first_of_its_provider_only(path: Path) -> None:
    keep(path, "groq", [ModelEntry(id="one")])
    keep(path, "openai", [ModelEntry(id="other")])
    keep(path, "groq", [ModelEntry(id="two")])
    again = registry(path)
    assert again.find("groq", "one") is None
    assert again.find("groq", "two") is not None
    assert again.find("openai", "other") is not None


def test_the_file_is_for_its_owner_only_and_replaced_whole(path: Path) -> None:
    keep(path, "groq", [])
    assert path.stat().st_mode & 0o777 == 0o600
    assert sorted(os.listdir(path.parent)) == ["models-store.json"]


def test_a_spoilt_file_is_told_not_used_and_not_overwritten(path: Path) -> None:
    path.write_text("{broken")
    opened = registry(path)
    assert opened.find("groq", catalog_models("groq")[0].id) is not None
    assert any("models-store.json is not used" in text for text in opened.warnings)
    with pytest.raises(ConfigError, match="was not changed"):
        keep(path, "groq", [])
    assert path.read_text() == "{broken"


def test_a_file_without_our_part_or_with_a_mark_in_front_is_read(path: Path) -> None:
    path.write_text('\ufeff{"anthropic": {"models": "none"}}')
    store = read_store(path)
    assert store.errors == ()
    models: dict[str, Model] = {}
    store.add_to("anthropic", models)
    assert models == {}
