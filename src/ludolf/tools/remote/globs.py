"""Match paths of a workplace against globs, in linear time."""

import re
from collections.abc import Callable, Iterator

from ludolf.tools.search import anchored, find_pattern, glob_expression

# Patterns that one glob with braces may stand for; more are ignored.
MOST_ALTERNATIVES = 256
_BRACES = re.compile(r"(?<!\\)\{([^{}]*)\}")


def alternatives(glob: str) -> Iterator[str]:
    """Yield the globs without braces that a glob stands for."""
    pending, count = [glob], 0
    while pending and count < MOST_ALTERNATIVES:
        pattern = pending.pop()
        inner = _BRACES.search(pattern)
        if inner is None:
            count += 1
            yield pattern
        elif len(pending) < MOST_ALTERNATIVES:
            head, tail = pattern[: inner.start()], pattern[inner.end() :]
            pending += [f"{head}{choice}{tail}" for choice in reversed(inner[1].split(","))]


def found_by(glob: str, root: str) -> Callable[[str], bool]:
    """Return whether `find` shows a path relative to `root`, as a function."""
    pattern, whole = find_pattern(glob)
    expressions = [
        re.compile(glob_expression(each, braces=False)) for each in alternatives(pattern)
    ]
    folder = root.rstrip("/")

    def fits(path: str) -> bool:
        name = f"{folder}/{path}" if whole else path.rpartition("/")[2]
        return any(expression.fullmatch(name) for expression in expressions)

    return fits


def searched_by(glob: str | None) -> Callable[[str], bool]:
    """Return whether `grep` searches a file, as a function; the path is relative."""
    if not glob:
        return lambda _: True
    wanted = not glob.startswith("!")
    patterns = alternatives(glob.removeprefix("!"))
    expressions = [re.compile(anchored(each)) for each in patterns]
    return lambda path: any(each.fullmatch(path) for each in expressions) == wanted
