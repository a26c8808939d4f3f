"""Suggest a known name for a misspelt one."""

from collections.abc import Iterable

_ALIKE = 0.75


def did_you_mean(word: str, names: Iterable[str]) -> str:
    """Return ` Did you mean "NAME"?` for the nearest known name, else an empty text."""
    # Loaded only after a mistake.
    from difflib import get_close_matches

    by_lowered = {name.lower(): name for name in names}
    near = get_close_matches(word.lower(), by_lowered, n=1, cutoff=_ALIKE)
    return f' Did you mean "{by_lowered[near[0]]}"?' if near else ""
