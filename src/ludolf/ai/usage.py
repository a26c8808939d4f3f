"""Sums of what answers cost."""

from msgspec import UNSET, structs

from ludolf.ai.messages import Usage


def add_usage(first: Usage, second: Usage) -> Usage:
    """The tokens and cost of two calls together."""
    long_writes = (
        UNSET
        if first.cache_write_1h is UNSET and second.cache_write_1h is UNSET
        else (first.cache_write_1h or 0) + (second.cache_write_1h or 0)
    )
    return Usage(
        input=first.input + second.input,
        output=first.output + second.output,
        cache_read=first.cache_read + second.cache_read,
        cache_write=first.cache_write + second.cache_write,
        total_tokens=first.total_tokens + second.total_tokens,
        cache_write_1h=long_writes,
        cost=structs.replace(
            first.cost,
            **{
                name: getattr(first.cost, name) + getattr(second.cost, name)
                for name in first.cost.__struct_fields__
            },
        ),
    )
