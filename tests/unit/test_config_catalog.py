"""The shipped catalog: that it is sane, and that it is what the script makes of the facts."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ludolf.ai.messages import NO_USAGE, THINKING_LEVELS
from ludolf.ai.models import CostTier, Model, ModelCost, price, thinking_levels
from ludolf.config.models.catalog import catalog_models, catalog_providers

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "make_catalog.py"
# A file of facts, as the script takes it; it is not part of this repository.
FACTS = os.environ.get("LUDOLF_MODEL_FACTS", "")
MILLION = 1_000_000
FACTS_OF_ONE = {
    "name": "Opus",
    "api": "anthropic-messages",
    "baseUrl": "http://h",
    "reasoning": True,
    "input": ["text", "image"],
    "contextWindow": 5,
    "maxTokens": 4,
    "cost": {"input": 1, "output": 2, "cacheRead": 0.5, "cacheWrite": 1.25},
}


def everything() -> list[Model]:
    return [model for provider in catalog_providers() for model in catalog_models(provider)]


def shipped(provider: str, model_id: str) -> Model:
    return next(model for model in catalog_models(provider) if model.id == model_id)


def make(folder: Path, facts: dict[str, Any]) -> dict[str, Any]:
    (folder / "facts.json").write_text(json.dumps(facts))
    target = folder / "catalog.json"
    subprocess.run(
        [sys.executable, str(SCRIPT), str(folder / "facts.json"), str(target)], check=True
    )
    made: dict[str, Any] = json.loads(target.read_text())
    return made


def test_every_number_of_the_catalog_makes_sense() -> None:
    models = everything()
    assert len(models) > 1000
    for model in models:
        assert 0 < model.max_tokens <= model.context_window, model.key
        # Where Azure answers is the user's to say.
        if model.provider != "azure-openai-responses":
            assert model.base_url.startswith("https://"), model.key
        assert model.input[0] == "text", model.key
        rates: list[ModelCost | CostTier] = [model.cost, *(model.cost.tiers or ())]
        for rate in rates:
            assert min(rate.input, rate.output, rate.cache_read, rate.cache_write) >= 0, model.key
        for tier in model.cost.tiers or ():
            assert tier.input_tokens_above > 0, model.key
            assert tier.input >= model.cost.input, model.key
        assert set(model.thinking_level_map or {}) <= set(THINKING_LEVELS), model.key
        assert thinking_levels(model), model.key


def test_no_id_occurs_twice_at_one_provider() -> None:
    keys = [model.key for model in everything()]
    assert len(set(keys)) == len(keys)


def test_a_long_request_costs_what_its_tier_says() -> None:
    model = shipped("xai", "grok-4.5")
    assert model.cost.tiers
    short = price(model, NO_USAGE.replace(input=200_000, output=MILLION))
    long = price(model, NO_USAGE.replace(input=200_001, output=MILLION))
    assert short.cost.output == model.cost.output
    assert long.cost.output == 2 * model.cost.output


def test_what_is_read_from_a_cache_counts_for_the_tier_of_a_request() -> None:
    model = shipped("xai", "grok-4.5")
    used = NO_USAGE.replace(cache_read=200_000, input=1, output=MILLION)
    assert price(model, used).cost.output == 2 * model.cost.output


def test_writing_to_a_cache_for_an_hour_costs_twice_the_input() -> None:
    model = shipped("anthropic", "claude-opus-4-8")
    used = NO_USAGE.replace(cache_write=2 * MILLION, cache_write_1h=MILLION)
    assert price(model, used).cost.cache_write == model.cost.cache_write + 2 * model.cost.input


def test_what_anthropic_promises_of_its_caches_and_images_is_known() -> None:
    model = shipped("anthropic", "claude-opus-4-8")
    assert model.prompt_cache == {"short": 300, "long": 3600}
    assert model.input_limits == {"maxRequestBytes": 32 << 20, "images": {"maxPerRequest": 600}}


@pytest.mark.parametrize(
    ("provider", "model_id", "flag"),
    [
        ("anthropic", "claude-sonnet-5", "supportsStrictTools"),
        ("openai", "gpt-5.5", "supportsOpenAIGrammarTools"),
        ("github-copilot", "claude-opus-4.8", "forceAdaptiveThinking"),
        ("vercel-ai-gateway", "anthropic/claude-opus-4.8", "forceAdaptiveThinking"),
        ("amazon-bedrock", "us.anthropic.claude-opus-4-8", "forceAdaptiveThinking"),
    ],
)
def test_a_family_has_its_ways_at_every_provider(provider: str, model_id: str, flag: str) -> None:
    assert (shipped(provider, model_id).compat or {})[flag] is True


def test_the_script_makes_the_shipped_form(tmp_path: Path) -> None:
    shelf = make(tmp_path, {"anthropic": {"claude-opus-4-8": FACTS_OF_ONE}})["anthropic"]
    assert shelf["routes"] == [["anthropic-messages", "http://h"]]
    assert shelf["models"] == [["claude-opus-4-8", "Opus", 0, 3, 5, 4, [1, 2, 0.5, 1.25], 0]]
    assert shelf["traits"][0]["compat"]["forceAdaptiveThinking"] is True


def test_whoever_serves_the_models_of_another_has_them_at_its_own_address(tmp_path: Path) -> None:
    openai = {**FACTS_OF_ONE, "api": "openai-responses"}
    made = make(tmp_path, {"openai": {"gpt-5.5": openai, "gpt-4": openai}})
    assert list(made) == ["openai", "openai-codex"]
    codex = made["openai-codex"]
    assert codex["routes"] == [["openai-codex-responses", "https://chatgpt.com/backend-api"]]
    assert [row[0] for row in codex["models"]] == ["gpt-5.5"]
    assert codex["traits"][0] == made["openai"]["traits"][0]


def test_what_the_facts_say_of_a_model_goes_before_the_rules(tmp_path: Path) -> None:
    tiers = [{"inputTokensAbove": 9, "input": 3, "output": 3, "cacheRead": 3, "cacheWrite": 3}]
    facts = {
        **FACTS_OF_ONE,
        "cost": {**FACTS_OF_ONE["cost"], "tiers": tiers},  # type: ignore[dict-item]
        "thinkingLevelMap": {"max": None},
        "promptCache": {"short": 60},
        "inputLimits": {"maxRequestBytes": 7},
        "compat": {"supportsTemperature": True},
    }
    (trait,) = make(tmp_path, {"anthropic": {"claude-opus-4-8": facts}})["anthropic"]["traits"]
    assert trait["tiers"] == tiers
    assert trait["thinkingLevelMap"] == {"xhigh": "xhigh", "max": None}
    assert trait["promptCache"] == {"short": 60, "long": 3600}
    assert trait["inputLimits"]["maxRequestBytes"] == 7
    assert trait["compat"]["supportsTemperature"] is True


@pytest.mark.skipif(not FACTS, reason="needs a file of facts, named by LUDOLF_MODEL_FACTS")
def test_the_shipped_catalog_is_what_the_script_makes_of_the_facts(tmp_path: Path) -> None:
    target = tmp_path / "catalog.json"
    subprocess.run([sys.executable, str(SCRIPT), FACTS, str(target)], check=True)
    assert target.read_bytes() == (ROOT / "src/ludolf/ai/catalog.json").read_bytes()


@pytest.mark.skipif(not FACTS, reason="needs a file of facts, named by LUDOLF_MODEL_FACTS")
def test_every_fact_is_found_again_in_the_models() -> None:
    facts = json.loads(Path(FACTS).read_text())
    assert tuple(facts) == catalog_providers()[: len(facts)]
    for provider, models in facts.items():
        known = {model.id: model for model in catalog_models(provider)}
        assert list(known) == list(models)
        for model_id, fact in models.items():
            model = known[model_id]
            cost = {name: max(0, dollars) for name, dollars in fact["cost"].items()}
            assert (model.name, model.api, model.base_url, model.reasoning) == (
                *(fact["name"], fact["api"], fact["baseUrl"], fact["reasoning"]),
            )
            assert list(model.input) == fact["input"]
            assert (model.context_window, model.max_tokens) == (
                *(fact["contextWindow"], min(fact["maxTokens"], fact["contextWindow"])),
            )
            rates = model.cost
            assert (rates.input, rates.output, rates.cache_read, rates.cache_write) == (
                *(cost["input"], cost["output"], cost["cacheRead"], cost["cacheWrite"]),
            )
