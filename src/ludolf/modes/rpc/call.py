"""One command on its way to its handler, and what a handler may give back."""

from collections.abc import Callable, Coroutine
from typing import Any, Literal

import msgspec

from ludolf.engine.engine import Engine
from ludolf.protocol.framing import Head

Pace = Literal["now", "turn", "own"]


class Data(msgspec.Struct, frozen=True):
    """What goes into `data` of a reply; a list of bytes is JSON in pieces."""

    data: Any


Result = Data | None


class Call(msgspec.Struct, frozen=True):
    """One command on its way: the engine it acts on, its parameters, and its head."""

    engine: Engine
    command: Any
    head: Head


Run = Callable[[Call], Result | Coroutine[Any, Any, Result]]


class Handler(msgspec.Struct, frozen=True):
    pace: Pace
    run: Run
