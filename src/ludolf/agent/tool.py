"""What a tool is: a name, a schema, and an execute that may report progress."""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec
from msgspec import UNSET

from ludolf.ai.messages import Part, Text, Usage
from ludolf.base import LudolfError, Value


class ToolError(LudolfError):
    """The tool could not do its work; the text becomes an error result for the model.

    A tool that has a whole result to show for its failure gives it as `output`.
    """

    def __init__(self, text: str, output: "ToolOutput | None" = None) -> None:
        super().__init__(text)
        self.output = output


class ToolOutput(Value):
    """What a tool gives back. `ends_run` asks to stop after this batch, if all results ask so."""

    content: tuple[Part, ...]
    details: Any = UNSET
    usage: Usage | None = None
    ends_run: bool = msgspec.field(default=False, name="terminate")


class ToolContext(msgspec.Struct, frozen=True, kw_only=True):
    """What a running tool may ask of the outside."""

    call_id: str
    cwd: Path
    report: Callable[[ToolOutput], Awaitable[None]]
    takes_images: bool = True
    environment: Mapping[str, str] = {}

    async def update(self, partial: ToolOutput) -> None:
        """Show the result so far; each update replaces the one before."""
        await self.report(partial)


class Tool(Protocol):
    """Order law: tools of one message run side by side unless one of them is `alone`."""

    @property
    def name(self) -> str: ...
    @property
    def label(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def parameters(self) -> Mapping[str, Any]: ...
    @property
    def alone(self) -> bool: ...
    @property
    def snippet(self) -> str | None:
        """One line for the system prompt's list of tools, or None to be left out."""

    @property
    def guidelines(self) -> tuple[str, ...]:
        """Rules for the system prompt while the tool is active."""

    def prepare(self, args: Mapping[str, Any]) -> Mapping[str, Any]:
        """Accept other spellings of the arguments before they are checked."""

    async def execute(self, args: Mapping[str, Any], ctx: ToolContext) -> ToolOutput:
        """Do the work. Stopping is task cancellation.

        Raises:
            ToolError: the work could not be done; the text is for the model.
        """


class Allow(msgspec.Struct, frozen=True):
    """The call may run, with these arguments."""

    args: Mapping[str, Any]


class Block(msgspec.Struct, frozen=True):
    """The call must not run; the reason is its error result."""

    reason: str = "Tool execution was blocked"


Verdict = Allow | Block
ExecutionMode = Literal["parallel", "sequential"]


def text_output(text: str, details: Any = UNSET) -> ToolOutput:
    return ToolOutput(content=(Text(text=text),), details=details)
