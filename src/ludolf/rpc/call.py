"""One command on its way to its handler, and what a handler may give back."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Literal

import msgspec

from ludolf.engine.engine import Engine
from ludolf.protocol.framing import Head
from ludolf.rpc.connection import Connection

Pace = Literal["now", "turn", "own"]


class Data(msgspec.Struct, frozen=True):
    """What goes into `data` of a reply; a list of bytes is JSON in pieces.

    `more` makes what only some dialects tell.
    """

    data: Any
    more: Callable[[], dict[str, Any]] | None = None


class Silence(msgspec.Struct, frozen=True):
    """No reply: the frame is never answered, or has been already."""


Result = Data | Silence | None


class Call(msgspec.Struct, frozen=True):
    """One command on its way: the engine it acts on, its parameters, its head, and who asks.

    `answer` replies before the end; the handler then gives `Silence`. `earlier` is the last of the
    commands that take turns, if one has not been answered yet.
    """

    engine: Engine
    command: Any
    head: Head
    connection: Connection
    answer: Callable[[Result], None]
    earlier: "asyncio.Task[Any] | None" = None


Run = Callable[[Call], Coroutine[Any, Any, Result]]


class Handler(msgspec.Struct, frozen=True):
    """`eager` handlers run up to their first wait before the next line is read."""

    pace: Pace
    run: Run
    own_if: Callable[[Call], bool] | None = None
    # Commands that take turns wait until this one has been answered.
    holds: bool = False
    eager: bool = False

    def pace_of(self, call: Call) -> Pace:
        """The pace of one call: some commands need none of the others' turn."""
        return "own" if self.own_if is not None and self.own_if(call) else self.pace
