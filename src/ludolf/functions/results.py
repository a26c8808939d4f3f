"""What a tool of an extension gives back."""

from typing import Any

import msgspec
from msgspec import UNSET

from ludolf.agent import tool
from ludolf.ai.messages import Usage


class ToolResult(msgspec.Struct, frozen=True):
    """Content for the model (text, a block, or a list of blocks), and details for the host.

    `terminate` asks to end the run after this batch of calls, if all results of it ask so.
    """

    content: Any
    details: Any = UNSET
    usage: Usage | None = None
    terminate: bool = False


class ToolError(tool.ToolError):
    """The tool could not do its work; the text is for the model, the details for the host."""

    def __init__(self, text: str, *, details: Any = None) -> None:
        super().__init__(text)
        self.details = {} if details is None else details


class ExecResult(msgspec.Struct, frozen=True):
    """How a program ended; `killed` when its time was up."""

    stdout: str
    stderr: str
    code: int
    killed: bool = False
