"""Sum the usage of answers."""

from msgspec import UNSET, UnsetType

from ludolf.ai.messages import Cost, Usage


def add_usage(first: Usage, second: Usage) -> Usage:
    """Add the tokens and costs of two calls."""
    return Usage(
        input=first.input + second.input,
        output=first.output + second.output,
        cache_read=first.cache_read + second.cache_read,
        cache_write=first.cache_write + second.cache_write,
        total_tokens=first.total_tokens + second.total_tokens,
        cache_write_1h=_both(first.cache_write_1h, second.cache_write_1h),
        reasoning=_both(first.reasoning, second.reasoning),
        cost=Cost(
            input=first.cost.input + second.cost.input,
            output=first.cost.output + second.cost.output,
            cache_read=first.cost.cache_read + second.cost.cache_read,
            cache_write=first.cost.cache_write + second.cost.cache_write,
            total=first.cost.total + second.cost.total,
        ),
    )


def _both(first: int | UnsetType, second: int | UnsetType) -> int | UnsetType:
    """Add a count that not every provider reports."""
    if first is UNSET and second is UNSET:
        return UNSET
    return (first or 0) + (second or 0)
