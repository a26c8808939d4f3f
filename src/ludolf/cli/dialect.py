"""The dialect that the program speaks: by flag, environment or program name."""

import os
import sys
from collections.abc import Sequence

from ludolf.config.settings.home import env

# Dialects that a program name selects.
_NAMED = ("omp", "xcsh", "pi-early", "pi-0.79")


def dialect_of(words: Sequence[str] = ()) -> str:
    """Return the dialect from `--rpc-dialect`, else the environment, else the program name."""
    for at, word in enumerate(words):
        flag, equals, value = word.partition("=")
        if flag == "--rpc-dialect" and (equals or words[at + 1 :]):
            return value if equals else words[at + 1]
    return env("RPC_DIALECT", os.environ) or _own_dialect()


def _own_dialect() -> str:
    """Return the dialect that the program is named after, perhaps with an extension; else `pi`."""
    name = os.path.basename(sys.argv[0])
    named = (each for each in _NAMED if name == each or name.startswith(f"{each}."))
    return next(named, "pi")
