"""Makes the model catalog that ships with the package.

Usage: python scripts/make_catalog.py FACTS [CATALOG]

FACTS is a JSON file {provider: {model id: {name, api, baseUrl, reasoning, input, contextWindow,
maxTokens, cost}}}. CATALOG defaults to src/ludolf/ai/catalog.json. The catalog holds one line per
provider: its routes (API and address), traits (thinking levels, compatibility flags) and models as
rows [id, name, route, flags (1 thinks, 2 sees), context window, longest answer, prices, trait?].
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

THINKS, SEES = 1, 2
PRICES = ("input", "output", "cacheRead", "cacheWrite")

Trait = dict[str, Any]


def levels(*names: str, off: str | None = "off", top: tuple[str, ...] = ()) -> Trait:
    """A map in which the named levels mean themselves and all others do not exist."""
    kept = {name: name for name in (*names, *top)}
    lower = {name: kept.get(name) for name in ("minimal", "low", "medium", "high")}
    upper = {name: name for name in top}
    return {"off": off, **lower, **upper}


def adaptive(*top: str, off: bool = True, **compat: Any) -> Trait:
    """A Claude that chooses its own thinking budget; `top` are the levels above high."""
    named: dict[str, str | None] = {} if off else {"off": None}
    named.update({name: name for name in top})
    return {"thinkingLevelMap": named, "compat": {"forceAdaptiveThinking": True, **compat}}


def thinking(named: Trait, **compat: Any) -> Trait:
    return {"thinkingLevelMap": named, **({"compat": compat} if compat else {})}


COLD: dict[str, Any] = {"supportsTemperature": False}
LOW_TO_HIGH = ("low", "medium", "high")
DEEPSEEK: dict[str, Any] = {"thinkingFormat": "deepseek", "maxTokensField": "max_tokens"}

# What is known of models beside limits and prices; not taken from the input.
# First match wins: (provider, model id, trait).
TRAITS: tuple[tuple[str, str, Trait], ...] = (
    ("anthropic", r"claude-(opus|sonnet)-4-6", adaptive("max")),
    ("anthropic", r"claude-opus-4-[78]", adaptive("xhigh", "max", **COLD)),
    ("anthropic", r"claude-opus-5.*", adaptive("xhigh", "max", off=False, **COLD)),
    ("anthropic", r"claude-sonnet-5.*", adaptive("xhigh", "max")),
    ("anthropic", r"claude-fable-.*", adaptive("xhigh", "max", off=False)),
    ("openai|azure.*", r"gpt-5(-mini|-nano)?", thinking(levels("minimal", *LOW_TO_HIGH, off=None))),
    ("openai|azure.*", r"gpt-5-pro", thinking(levels("high", off=None))),
    (
        "openai|azure.*",
        r"gpt-5\.[2-5]-pro",
        thinking(levels("medium", "high", off=None, top=("xhigh",))),
    ),
    ("openai|azure.*", r"gpt-5\.1(-codex.*)?", thinking(levels(*LOW_TO_HIGH, off="none"))),
    (
        "openai|azure.*",
        r"gpt-5\.[2-5](-codex|-mini|-nano)?",
        thinking(levels(*LOW_TO_HIGH, off="none", top=("xhigh",))),
    ),
    (
        "openai|azure.*",
        r"gpt-(5\.6|6)-(luna|sol|terra)",
        thinking(levels(*LOW_TO_HIGH, off="none", top=("xhigh", "max"))),
    ),
    ("openai|azure.*", r"gpt-6-.*", thinking(levels(*LOW_TO_HIGH, off=None, top=("xhigh", "max")))),
    ("openai|azure.*", r"o[134].*", thinking(levels(*LOW_TO_HIGH, off=None))),
    ("google.*", r"gemini-3.*-pro.*", thinking(levels(*LOW_TO_HIGH, off=None))),
    ("google.*", r"gemini-(3|flash).*", thinking(levels("minimal", *LOW_TO_HIGH, off=None))),
    ("google.*", r"gemma-4.*", thinking(levels("minimal", "high", off=None))),
    ("deepseek", r"deepseek-.*pro", thinking(levels("high", top=("max",)), **DEEPSEEK)),
    ("deepseek", r".*", thinking(levels("low", "high", top=("max",)), **DEEPSEEK)),
    ("xai", r"grok-4\.3", thinking(levels(*LOW_TO_HIGH, off="none"))),
    ("xai", r"grok-.*", thinking(levels(*LOW_TO_HIGH, off=None))),
)


def trait_of(provider: str, model_id: str) -> Trait | None:
    for providers, ids, trait in TRAITS:
        if re.fullmatch(providers, provider) and re.fullmatch(ids, model_id):
            return trait
    return None


def place(items: list[Any], item: Any) -> int:
    """The item's index in the list, to which it is added if new."""
    if item not in items:
        items.append(item)
    return items.index(item)


def compact(provider: str, models: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """One provider's models as rows that share their routes and traits."""
    routes: list[Any] = []
    traits: list[Any] = []
    rows: list[list[Any]] = []
    for model_id, facts in models.items():
        route = place(routes, [facts["api"], facts["baseUrl"]])
        flags = (THINKS if facts["reasoning"] else 0) | (SEES if "image" in facts["input"] else 0)
        prices = [facts["cost"].get(name, 0) for name in PRICES]
        limits = [facts["contextWindow"], facts["maxTokens"]]
        row = [model_id, facts["name"], route, flags, *limits, prices]
        trait = trait_of(provider, model_id) if facts["reasoning"] else None
        rows.append(row if trait is None else [*row, place(traits, trait)])
    return {"routes": routes, "traits": traits, "models": rows}


def main(facts_file: str, catalog_file: str = "src/ludolf/ai/catalog.json") -> None:
    facts = json.loads(Path(facts_file).read_text(encoding="utf-8"))
    lines = []
    for provider, models in facts.items():
        body = json.dumps(compact(provider, models), separators=(",", ":"), ensure_ascii=False)
        lines.append(f"{json.dumps(provider)}:{body}")
    Path(catalog_file).write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
