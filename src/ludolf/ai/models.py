"""Model data: abilities, prices and names of thinking levels."""

from typing import Any, Literal

from msgspec import UNSET, UnsetType, structs

from ludolf.ai.messages import THINKING_LEVELS, Cost, ThinkingLevel, Usage
from ludolf.base import Value

# The provider of the models that need no server.
BUILT_IN_PROVIDER = "ludolf"


class CostTier(Value):
    input_tokens_above: int
    input: float
    output: float
    cache_read: float
    cache_write: float


class ModelCost(Value, omit_defaults=False):
    """US dollars per million tokens."""

    input: int | float = 0
    output: int | float = 0
    cache_read: int | float = 0
    cache_write: int | float = 0
    tiers: tuple[CostTier, ...] | UnsetType = UNSET


class Model(Value, kw_only=True):
    id: str
    name: str
    api: str
    provider: str
    base_url: str
    reasoning: bool
    thinking_level_map: dict[str, str | None] | None = None
    input: tuple[Literal["text", "image"], ...]
    input_limits: dict[str, Any] | None = None
    cost: ModelCost
    prompt_cache: dict[str, int] | None = None
    context_window: int
    max_tokens: int
    sampling_params: dict[str, Any] | None = None
    compat: dict[str, Any] | None = None

    @property
    def takes_images(self) -> bool:
        return "image" in self.input

    @property
    def uses_tools(self) -> bool:
        """Whether tools may be offered to the model."""
        return (self.compat or {}).get("supportsTools") is not False

    @property
    def key(self) -> str:
        return f"{self.provider}/{self.id}"


def plain(dollars: float) -> int | float:
    """Return an integer if the amount is one, so that it is written as in pi: 1, not 1.0."""
    # The first test also excludes infinity and integers too long for JSON readers.
    return int(dollars) if abs(dollars) < 2**53 and dollars == int(dollars) else dollars


def price(model: Model, usage: Usage, factor: float = 1) -> Usage:
    """Return the usage with its cost in dollars, multiplied by `factor`.

    A tier applies to the whole request; one-hour cache writes cost twice the input rate.
    """
    sent = usage.input + usage.cache_read + usage.cache_write
    rates: ModelCost | CostTier = model.cost
    for tier in sorted(model.cost.tiers or (), key=lambda tier: tier.input_tokens_above):
        if sent > tier.input_tokens_above:
            rates = tier
    long_writes = usage.cache_write_1h or 0
    # Multiply the rate per token by the tokens, in this order: the last digit must match pi's.
    cost_input = rates.input / 1e6 * usage.input * factor
    cost_output = rates.output / 1e6 * usage.output * factor
    cost_read = rates.cache_read / 1e6 * usage.cache_read * factor
    short_writes = usage.cache_write - long_writes
    writes = rates.cache_write * short_writes + 2 * rates.input * long_writes
    cost_write = writes / 1e6 * factor
    cost = Cost(
        input=plain(cost_input),
        output=plain(cost_output),
        cache_read=plain(cost_read),
        cache_write=plain(cost_write),
        total=plain(cost_input + cost_output + cost_read + cost_write),
    )
    return structs.replace(usage, cost=cost)


def charge(usage: Usage, total: float) -> Usage:
    """Return the usage with the total cost that the server charged; the parts keep their shares."""
    cost = usage.cost
    share = total / cost.total if cost.total else 0
    charged_cost = Cost(
        input=cost.input * share,
        output=cost.output * share,
        cache_read=cost.cache_read * share,
        cache_write=cost.cache_write * share,
        total=total,
    )
    return structs.replace(usage, cost=charged_cost)


def thinking_levels(model: Model) -> tuple[ThinkingLevel, ...]:
    """Return the levels that a model supports; the two highest only if the model names them."""
    if not model.reasoning:
        return ("off",)
    level_map = model.thinking_level_map or {}
    levels: list[ThinkingLevel] = []
    for level in THINKING_LEVELS:
        default: str | None = None if level in ("xhigh", "max") else level
        if level_map.get(level, default) is not None:
            levels.append(level)
    return tuple(levels)


def clamp_thinking(model: Model, level: ThinkingLevel) -> ThinkingLevel:
    """Return the level if it is supported, or else the next higher, or else the next lower."""
    supported = thinking_levels(model)
    if level in supported:
        return level
    index = THINKING_LEVELS.index(level)
    higher = [item for item in supported if THINKING_LEVELS.index(item) > index]
    return higher[0] if higher else supported[-1]
