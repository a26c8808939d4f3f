"""Makes the model catalog that ships with the package.

Usage: python scripts/make_catalog.py FACTS [CATALOG]

FACTS is a JSON file {provider: {model id: {name, api, baseUrl, reasoning, input, contextWindow,
maxTokens, cost, and where known thinkingLevelMap, inputLimits, promptCache, compat}}}. CATALOG
defaults to src/ludolf/ai/catalog.json. The catalog holds one line per provider: its routes (API and
address), traits (what only some models have) and models as rows [id, name, route, flags (1 thinks,
2 sees), context window, longest answer, prices, trait?].

What is not in FACTS comes from the rules below, and so do providers that serve models of others. A
rule says where it holds (a pattern for `provider:api`), for which ids, and what. Of the rules for
thinking the first that fits counts, and only for models that think; of the others all that fit.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

THINKS, SEES = 1, 2
PRICES = ("input", "output", "cacheRead", "cacheWrite")

Trait = dict[str, Any]
Rule = tuple[str, str, Trait]
LOWER = ("minimal", "low", "medium", "high")
LOW_TO_HIGH = ("low", "medium", "high")
MIB = 1 << 20


def levels(*names: str, off: str | None = "off") -> Trait:
    """A map in which the named levels mean themselves and all others do not exist."""
    lower = {name: name if name in names else None for name in LOWER}
    upper = {name: name for name in names if name not in LOWER}
    return {"off": off, **lower, **upper}


def thinking(named: Trait, **compat: Any) -> Trait:
    return {"thinkingLevelMap": named, **({"compat": compat} if compat else {})}


def adaptive(*top: str, off: bool = True, **compat: Any) -> Trait:
    """A Claude that chooses its own thinking budget; `top` are the levels above high."""
    named: Trait = {} if off else {"off": None}
    named |= {name: name for name in top}
    return thinking(named, forceAdaptiveThinking=True, **compat)


COLD: Trait = {"supportsTemperature": False}
DEEPSEEK: Trait = {"thinkingFormat": "deepseek", "maxTokensField": "max_tokens"}
TO_MAX = (*LOW_TO_HIGH, "xhigh", "max")
# Servers that speak Anthropic's API or pass its fields on; the id may name the region or the maker.
AS_CLAUDE = r".*:(anthropic-messages|bedrock-converse-stream)"
CLAUDE = r"(.*[./])?claude-"
AT_OPENAI = r"(openai|azure-openai-responses|github-copilot):.*"
AT_GOOGLE = r"google(-vertex)?:.*"

THINKING: tuple[Rule, ...] = (
    (AS_CLAUDE, CLAUDE + r"(opus|sonnet)-4[.-]6.*", adaptive("max")),
    (AS_CLAUDE, CLAUDE + r"opus-4[.-][78].*", adaptive("xhigh", "max", **COLD)),
    (
        AS_CLAUDE,
        CLAUDE + r"opus-5[.-]5.*",
        thinking(levels(*TO_MAX, off=None), forceAdaptiveThinking=True, **COLD),
    ),
    (AS_CLAUDE, CLAUDE + r"opus-5.*", adaptive("xhigh", "max", off=False, **COLD)),
    (AS_CLAUDE, CLAUDE + r"sonnet-5.*", adaptive("xhigh", "max")),
    (AS_CLAUDE, CLAUDE + r"fable-.*", adaptive("xhigh", "max", off=False)),
    (AT_OPENAI, r"gpt-5(-mini|-nano)?", thinking(levels(*LOWER, off=None))),
    (AT_OPENAI, r"gpt-5-pro", thinking(levels("high", off=None))),
    (AT_OPENAI, r"gpt-5\.[2-5]-pro", thinking(levels("medium", "high", "xhigh", off=None))),
    (AT_OPENAI, r"gpt-5\.1(-codex.*)?", thinking(levels(*LOW_TO_HIGH, off="none"))),
    (
        AT_OPENAI,
        r"gpt-5\.[2-5](-codex.*|-mini|-nano)?",
        thinking(levels(*LOW_TO_HIGH, "xhigh", off="none")),
    ),
    (AT_OPENAI, r"gpt-(5\.6|6)-(luna|sol|terra)", thinking(levels(*TO_MAX, off="none"))),
    (AT_OPENAI, r"gpt-6-.*", thinking(levels(*TO_MAX, off=None))),
    (AT_OPENAI, r"o[134].*", thinking(levels(*LOW_TO_HIGH, off=None))),
    (AT_GOOGLE, r"gemini-3.*-pro.*", thinking(levels(*LOW_TO_HIGH, off=None))),
    (AT_GOOGLE, r"gemini-3\.[78]-.*", thinking(levels(*LOW_TO_HIGH, off=None))),
    (AT_GOOGLE, r"gemini-3.*-image.*", thinking(levels("minimal", "high", off=None))),
    (AT_GOOGLE, r"gemini-(3|flash).*", thinking(levels(*LOWER, off=None))),
    (AT_GOOGLE, r"gemma-4.*", thinking(levels("minimal", "high", off=None))),
    ("deepseek:.*", r"deepseek-.*pro", thinking(levels("high", "max"), **DEEPSEEK)),
    ("deepseek:.*", r".*", thinking(levels("low", "high", "max"), **DEEPSEEK)),
    ("xai:.*", r"grok-4\.3", thinking(levels(*LOW_TO_HIGH, off="none"))),
    ("xai:.*", r"grok-4\.[67]", thinking(levels(*LOW_TO_HIGH, "xhigh", off=None))),
    (r"(xai|github-copilot):.*", r"grok-.*", thinking(levels(*LOW_TO_HIGH, off=None))),
    # On every server, these take three levels and cannot stop thinking.
    (
        r".*:openai-.*",
        r".*gpt-oss-(safeguard-)?(20|120)b.*",
        thinking(levels(*LOW_TO_HIGH, off=None)),
    ),
    ("groq:.*", r"qwen/qwen3\.6.*", thinking({**levels(off="none"), "high": "default"})),
    (r"(groq|cerebras):.*", r".*qwen-?3\.8.*", thinking(levels(*LOW_TO_HIGH, off="none"))),
    ("zai:.*", r"glm-5\.2.*", thinking(levels("high", "max", off="none"))),
    ("zai:.*", r"glm-5\.3.*", thinking(levels("low", "high", "max", off=None))),
    ("moonshotai:.*", r"kimi-k2\.7.*", thinking({"off": None})),
    (
        r"(moonshotai|kimi-coding):.*",
        r"(kimi-)?k3.*|kimi-for-coding",
        thinking(levels("low", "high", "max", off=None)),
    ),
    # A switch and no levels.
    ("together:.*", r".*", thinking({"minimal": None, "low": None, "medium": None})),
)

OTHER: tuple[Rule, ...] = (
    ("anthropic:.*", r".*", {"promptCache": {"short": 300, "long": 3600}}),
    ("anthropic:.*", r".*", {"compat": {"supportsStrictTools": True}}),
    (AT_OPENAI, r"gpt-[56].*", {"compat": {"supportsOpenAIGrammarTools": True}}),
)

# For models that see: (where, least context window, limits).
LIMITS: tuple[tuple[str, int, Trait], ...] = (
    ("anthropic:.*", 1_000_000, {"maxRequestBytes": 32 * MIB, "images": {"maxPerRequest": 600}}),
    ("anthropic:.*", 0, {"maxRequestBytes": 32 * MIB, "images": {"maxPerRequest": 100}}),
    ("openai:.*", 0, {"maxRequestBytes": 512 * MIB, "images": {"maxPerRequest": 1500}}),
    ("google:.*", 0, {"maxRequestBytes": 20 * MIB, "images": {"maxPerRequest": 3600}}),
    ("amazon-bedrock:.*", 0, {"images": {"maxPerMessage": 20}}),
)

# Long requests cost more: (where, ids, above so many tokens, factor of input, factor of output).
TIERS: tuple[tuple[str, str, int, float, float], ...] = (
    (
        r"(openai|github-copilot):.*",
        r"gpt-5\.[45](-pro)?|gpt-(5\.6|6)-(luna|sol|terra|astra)",
        272_000,
        2,
        1.5,
    ),
    (r"(xai|github-copilot):.*", r"grok-4\.[3-7]", 200_000, 2, 2),
)


# Providers that serve what another one makes, at an address of their own:
# (provider, whose models, which ids, API, address); no API means that of the other.
KIN: tuple[tuple[str, str, str, str | None, str], ...] = (
    (
        "openai-codex",
        "openai",
        r"gpt-5\.3-codex-spark|gpt-5\.5|gpt-(5\.6|6)-(luna|sol|terra|astra)",
        "openai-codex-responses",
        "https://chatgpt.com/backend-api",
    ),
    ("zai-coding-cn", "zai", ".*", None, "https://open.bigmodel.cn/api/coding/paas/v4"),
    ("moonshotai-cn", "moonshotai", ".*", None, "https://api.moonshot.cn/v1"),
    ("minimax-cn", "minimax", ".*", None, "https://api.minimaxi.com/anthropic"),
)


def kin_of(models: dict[str, Any], ids: str, api: str | None, address: str) -> dict[str, Any]:
    """The models of these ids, as another provider serves them."""
    return {
        model_id: {**facts, "api": api or facts["api"], "baseUrl": address}
        for model_id, facts in models.items()
        if re.fullmatch(ids, model_id)
    }


def trait_of(provider: str, model_id: str, facts: dict[str, Any]) -> Trait:
    """All that the rules say of a model; what its facts say themselves goes before."""
    where = f"{provider}:{facts['api']}"
    trait: Trait = {}
    if facts["reasoning"]:
        fits = (rule for rule in THINKING if _fits(rule, where, model_id))
        _lay_over(trait, next(fits, ("", "", {}))[2])
    for rule in OTHER:
        if _fits(rule, where, model_id):
            _lay_over(trait, rule[2])
    if "image" in facts["input"]:
        _lay_over(trait, _limits(where, facts["contextWindow"]))
    if tiers := _tiers(where, model_id, facts["cost"]):
        trait["tiers"] = tiers
    for name in ("thinkingLevelMap", "inputLimits", "promptCache", "compat"):
        if facts.get(name):
            _lay_over(trait, {name: facts[name]})
    if facts["cost"].get("tiers"):
        trait["tiers"] = facts["cost"]["tiers"]
    return trait


def _fits(rule: Rule, where: str, model_id: str) -> bool:
    return bool(re.fullmatch(rule[0], where) and re.fullmatch(rule[1], model_id))


def _lay_over(trait: Trait, more: Trait) -> None:
    for name, value in more.items():
        trait[name] = {**trait.get(name, {}), **value}


def _limits(where: str, window: int) -> Trait:
    for place, least, limits in LIMITS:
        if re.fullmatch(place, where) and window >= least:
            return {"inputLimits": limits}
    return {}


def _tiers(where: str, model_id: str, cost: dict[str, float]) -> list[dict[str, float]]:
    for place, ids, above, sent, received in TIERS:
        if re.fullmatch(place, where) and re.fullmatch(ids, model_id):
            prices = {
                name: round(cost[name] * (received if name == "output" else sent), 6)
                for name in ("input", "output", "cacheRead", "cacheWrite")
            }
            return [{"inputTokensAbove": above, **prices}]
    return []


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
        # A router's price is -1: it depends on whom it asks.
        prices = [max(0, facts["cost"].get(name, 0)) for name in PRICES]
        window = facts["contextWindow"]
        limits = [window, min(window, facts["maxTokens"])]
        row = [model_id, facts["name"], route, flags, *limits, prices]
        trait = trait_of(provider, model_id, facts)
        rows.append([*row, place(traits, trait)] if trait else row)
    return {"routes": routes, "traits": traits, "models": rows}


def main(facts_file: str, catalog_file: str = "src/ludolf/ai/catalog.json") -> None:
    facts = json.loads(Path(facts_file).read_text(encoding="utf-8"))
    shelves = {provider: compact(provider, models) for provider, models in facts.items()}
    for provider, maker, ids, api, address in KIN:
        # What the rules say of a maker's models holds wherever they are served.
        models = kin_of(facts.get(maker, {}), ids, api, address)
        if models:
            shelves.setdefault(provider, compact(maker, models))
    lines = []
    for provider, shelf in shelves.items():
        body = json.dumps(shelf, separators=(",", ":"), ensure_ascii=False)
        lines.append(f"{json.dumps(provider)}:{body}")
    Path(catalog_file).write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
