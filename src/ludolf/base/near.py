"""Suggest a known name for a misspelt one."""

from collections.abc import Iterable

_ALIKE = 0.75


def nearest(word: str, names: Iterable[str], alike: float = _ALIKE) -> str | None:
    """Return the known name that a word resembles most; None if none is alike enough."""
    # Loaded only after a mistake.
    from difflib import get_close_matches

    by_lowered = {name.lower(): name for name in names}
    near = get_close_matches(word.lower(), by_lowered, n=1, cutoff=alike)
    return by_lowered[near[0]] if near else None


def did_you_mean(word: str, names: Iterable[str]) -> str:
    """Return ` Did you mean "NAME"?` for the nearest known name, else an empty text."""
    return suggestion(nearest(word, names))


def suggestion(name: str | None) -> str:
    """Return ` Did you mean "NAME"?`, or an empty text without a name."""
    return "" if name is None else f' Did you mean "{name}"?'
