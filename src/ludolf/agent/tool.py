"""What a tool is: a name, a schema, and an execute that may report progress."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec
from msgspec import UNSET

from ludolf.ai.messages import Part, Text, Usage
from ludolf.ai.strict_schema import Sampling
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


class LeftBehind(Value):
    """A process that a command started and that outlives it."""

    pid: int
    name: str


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """What stands at an address. The content of an image is base64; `fixed` is never to change."""

    content: str
    content_type: str = "text/plain"
    notes: tuple[str, ...] = ()
    fixed: bool = False


class Documents(Protocol):
    """What is no file but has an address, such as `wiki://start`, that tools take for a path."""

    def address(self, path: str) -> str | None:
        """The address that a path is; None if it is that of a file."""

    async def read(self, address: str) -> Document:
        """Raises:
        ToolError: it cannot be had; the text is for the model.
        """

    async def write(self, address: str, content: str) -> None:
        """Raises:
        ToolError: it cannot be changed; the text is for the model.
        """

    def check_writable(self, address: str) -> None:
        """Raises:
        ToolError: nothing at such an address can be changed.
        """


class Walls(Protocol):
    """The sandbox around tools: which files they reach, and how their commands are shut in."""

    @property
    def output_folder(self) -> Path:
        """Where the whole output of commands is kept, so that they can look it up."""

    def locate(self, path: Path) -> Path:
        """Where a path really is.

        Raises:
            ToolError: it is hidden.
        """

    def open(self, path: Path) -> int:
        """A descriptor for reading a regular file.

        Raises:
            OSError: it cannot be opened, or is a folder.
            ToolError: it is hidden, or no file.
        """

    def open_folder(self, path: Path) -> int:
        """A descriptor for listing a folder.

        Raises:
            OSError: it cannot be opened, or is not a folder.
            ToolError: it is hidden.
        """

    def hidden_among(self, folder: Path, names: Iterable[str]) -> frozenset[str]:
        """The files below a folder that are hard links to hidden files.

        Raises:
            ToolError: the folder is hidden.
        """

    def replace(self, path: Path, data: bytes) -> None:
        """Give a file new content; it is made with its folders if it is missing.

        Raises:
            OSError: it cannot be written.
            ToolError: it may not be written.
        """

    def enclose(
        self, argv: tuple[str, ...], cwd: Path, env: Mapping[str, str]
    ) -> tuple[tuple[str, ...], Path, dict[str, str]]:
        """The command that runs this one within the walls, and where and with what to start it."""


class ToolContext(msgspec.Struct, frozen=True, kw_only=True):
    """What a running tool may ask of the outside."""

    call_id: str
    cwd: Path
    report: Callable[[ToolOutput], Awaitable[None]]
    # The same from outside of the tool's own task, without waiting for anyone.
    post: Callable[[ToolOutput], None] | None = None
    takes_images: bool = True
    input_limits: Mapping[str, Any] | None = None
    environment: Callable[[], Mapping[str, str]] = dict
    documents: Documents | None = None
    walls: Walls | None = None

    def address(self, path: str) -> str | None:
        """The address of a document that is meant instead of a file, if one is."""
        return self.documents.address(path) if self.documents is not None else None

    async def update(self, partial: ToolOutput) -> None:
        """Show the result so far; each update replaces the one before."""
        await self.report(partial)


class Tool(Protocol):
    """A tool that a model can call. `ToolDefaults` has defaults of the optional members.

    Order law: tools of one message run in parallel unless one of them is `alone`.
    """

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
    def read_only(self) -> bool:
        """Whether the tool changes nothing, so that calls may need no approval."""

    @property
    def sampling(self) -> Sampling | None:
        """How the model must sample the arguments; None if the tool does not require it."""

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


class ToolDefaults:
    """Base class of tools: defaults for the optional members of `Tool`."""

    alone: bool = False
    read_only: bool = False
    sampling: Sampling | None = None
    snippet: str | None = None
    guidelines: tuple[str, ...] = ()

    def prepare(self, args: Mapping[str, Any]) -> Mapping[str, Any]:
        return args


class Allow(msgspec.Struct, frozen=True):
    """The call may run, with these arguments."""

    args: Mapping[str, Any]


class Block(msgspec.Struct, frozen=True):
    """The call must not run; the reason is its error result, which may ask to end the run."""

    reason: str = "Tool execution was blocked"
    ends_run: bool = False


Verdict = Allow | Block
ExecutionMode = Literal["parallel", "sequential"]


def text_output(text: str, details: Any = UNSET) -> ToolOutput:
    return ToolOutput(content=(Text(text=text),), details=details)
