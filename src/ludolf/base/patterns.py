"""Regular expressions of modules, compiled on first use: compiling them all delays the start."""

import re
from typing import Any, AnyStr, cast


def lazy_pattern(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return a stand-in for `re.compile(text, flags)` that compiles when a method is first used.

    Call its methods; functions of `re` do not accept it in place of a pattern.
    """
    return cast("re.Pattern[AnyStr]", _LazyPattern(text, flags))


class _LazyPattern:
    def __init__(self, text: Any, flags: int) -> None:
        self._source = text, flags

    def __getattr__(self, name: str) -> Any:
        """Compile; keep the attribute, so that this method is called once for each name."""
        found = getattr(re.compile(*self._source), name)
        setattr(self, name, found)
        return found
