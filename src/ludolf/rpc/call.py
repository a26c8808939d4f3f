"""One command on its way to its handler, and the results that a handler may return."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from ludolf.base import CommandError
from ludolf.engine.engine import Engine
from ludolf.protocol.commands import CommandSpec, Order
from ludolf.protocol.framing import Head
from ludolf.rpc.connection import HostConnection


class ReplyData(msgspec.Struct, frozen=True):
    """The `data` of a reply; a list of bytes is JSON in pieces.

    `more` computes fields that only some dialects write.
    """

    data: Any
    more: Callable[[], dict[str, Any]] | None = None


class Silence(msgspec.Struct, frozen=True):
    """No reply: the command gets none, or has got it already."""


Result = ReplyData | Silence | None


class Call(msgspec.Struct, frozen=True):
    """One command of a host: the engine that it acts on, its parameters, its head.

    `answer` replies before the handler ends; the handler then returns `Silence`. `earlier` is the
    last command with the order `in_turn` that has not been answered yet.
    """

    engine: Engine
    command: Any
    head: Head
    connection: HostConnection
    answer: Callable[[Result], None]
    earlier: "asyncio.Task[Any] | None" = None


def unknown_command(name: str) -> CommandError:
    """Return the error for a command that does not exist."""
    return CommandError(f"Unknown command: {name}", code="unknown_command")


HandlerFunction = Callable[[Call], Coroutine[Any, Any, Result]]
# The functions that handle commands, by the name of the command.
FUNCTIONS: dict[str, HandlerFunction] = {}


def handles(run: HandlerFunction) -> HandlerFunction:
    """Register a function as the handler of the command with the name of the function."""
    FUNCTIONS[run.__name__] = run
    return run


class Handler(msgspec.Struct, frozen=True):
    """A command and the function that handles it, after the dialect has changed it."""

    spec: CommandSpec
    run: HandlerFunction
    own_task_if: Callable[[Call], bool] | None = None

    def order_of(self, call: Call) -> Order:
        """Return the order of one call: some calls of a command need not wait for their turn."""
        if self.own_task_if is not None and self.own_task_if(call):
            return "own_task"
        return self.spec.order
