"""Run Ludolf and count modules or regular expressions at its first reply.

`python -P bench/first_reply.py FILE modules|regexes ARGUMENT...` writes the count to the file. It
imports nothing that Ludolf does not import, so that it does not change the count.
"""

import os
import sys
from collections.abc import Callable
from typing import Any

_MARK = b'"response"'
_WRITERS = ("write", "writev", "pwritev")


def main() -> None:
    file, what, *words = sys.argv[1:]
    count = _modules if what == "modules" else _compiled()
    for name in _WRITERS:
        setattr(os, name, _watched(getattr(os, name), file, count))
    sys.argv = ["ludolf", *words]
    from ludolf.cli.start import main as start

    start()


def _modules() -> int:
    """Count the modules that are loaded; a late one is only found, and loaded when it is used."""
    return sum(type(module).__name__ != "LateModule" for module in sys.modules.values())


def _compiled() -> Callable[[], int]:
    """Count from here on; returns a function that returns the number."""
    import re

    compiler: Any = vars(re)["_compiler"]
    compile_, count = compiler.compile, 0

    def counted(*arguments: Any, **options: Any) -> Any:
        nonlocal count
        count += 1
        return compile_(*arguments, **options)

    compiler.compile = counted
    return lambda: count


def _watched(write: Callable[..., int], file: str, count: Callable[[], int]) -> Callable[..., int]:
    """Return a function that writes the count to the file before it writes a reply."""

    def watched(fd: int, data: Any, *more: Any) -> int:
        parts = data if isinstance(data, list) else [data]
        if any(_MARK in bytes(part) for part in parts) and not os.path.exists(file):
            with open(file, "w") as out:
                out.write(str(count()))
        return write(fd, data, *more)

    return watched


if __name__ == "__main__":
    main()
