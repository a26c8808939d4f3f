"""Where the frames about tool calls get their facts; apart from them, since a start needs these."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

from ludolf.agent.events import ToolStart

TODO_TOOLS = ("todo", "todo_write")
# Reads the text of a file; None if there is none, or if it cannot be shown.
ReadText = Callable[[Path], str | None]


class ToolFacts(NamedTuple):
    """What the definition of a tool says about its calls."""

    label: str = ""
    read_only: bool = False


NO_FACTS = ToolFacts()


class CallSources(msgspec.Struct, frozen=True):
    """Where the writer learns about tools and files.

    facts  label and annotations of a tool
    read   text of a file, called before a write starts, to show the difference
    asks   whether the user has to approve a call; it then stays `pending` until `running`
    clock  seconds, for the rate of progress
    """

    facts: Callable[[str], ToolFacts] = lambda name: NO_FACTS
    read: ReadText = lambda path: None
    asks: Callable[[ToolStart], bool] = lambda start: False
    clock: Callable[[], float] = time.monotonic


NO_SOURCES = CallSources()
