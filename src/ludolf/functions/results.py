"""Results and errors of tools and programs for extension authors."""

from typing import Any

import msgspec
from msgspec import UNSET

from ludolf.agent import tool
from ludolf.ai.messages import Usage


class ToolResult(msgspec.Struct, frozen=True):
    """Content for the model (text, a block, or a list of blocks), and details for the host.

    `terminate` ends the run after this batch of calls, if all its results set it.
    """

    content: Any
    details: Any = UNSET
    usage: Usage | None = None
    terminate: bool = False


class ToolError(tool.ToolFailure):
    """Raised when a tool fails; the text is for the model, the details are for the host."""

    def __init__(self, text: str, *, details: Any = None) -> None:
        super().__init__(text)
        self.details = {} if details is None else details


class ExecResult(msgspec.Struct, frozen=True):
    """Output and exit code of a program; `killed` after a timeout."""

    stdout: str
    stderr: str
    code: int
    killed: bool = False
