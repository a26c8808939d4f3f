"""Tool interface: a name, a schema, and an `execute` that may report progress."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

import msgspec
from msgspec import UNSET

from ludolf.ai.messages import Part, Text, Usage
from ludolf.base import LudolfError, Value

if TYPE_CHECKING:
    from ludolf.ai.sampling import Sampling

# The key in the details of an update with the id of the host's terminal that runs the command.
TERMINAL_ID = "terminalId"


class ToolFailure(LudolfError):
    """The tool could not do its work; the text becomes an error result for the model.

    `output` replaces the text if the tool has a complete result for its failure.
    """

    def __init__(self, text: str, output: "ToolOutput | None" = None) -> None:
        super().__init__(text)
        self.output = output


class ToolOutput(Value):
    """Result of a tool. `ends_run` ends the run after this batch if all results set it."""

    content: tuple[Part, ...]
    details: Any = UNSET
    usage: Usage | None = None
    ends_run: bool = msgspec.field(default=False, name="terminate")


class LeftBehind(Value):
    """A process that a command started and that is still running after it."""

    pid: int
    name: str


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """Content at an address; base64 for images. `fixed` content never changes."""

    content: str
    content_type: str = "text/plain"
    notes: tuple[str, ...] = ()
    fixed: bool = False


class Documents(Protocol):
    """Documents with an address such as `wiki://start`, which tools accept in place of a path."""

    def address(self, path: str) -> str | None:
        """Return the address that a path denotes; None if it denotes a file."""

    async def read(self, address: str) -> Document:
        """Return the document at an address.

        Raises:
            ToolFailure: it cannot be read; the text is for the model.
        """

    async def write(self, address: str, content: str) -> None:
        """Replace the content at an address.

        Raises:
            ToolFailure: it cannot be changed; the text is for the model.
        """

    def check_writable(self, address: str) -> None:
        """Check that documents at such an address can be changed.

        Raises:
            ToolFailure: they cannot; the text is for the model.
        """


class Files(Protocol):
    """Text files as an editor holds them, with changes that are not on disk yet.

    Tools pass only paths of text files inside the working folder, after all checks.
    """

    async def read(self, path: Path) -> str | None:
        """Return the text of a file; None if the file on disk is to be used."""

    async def write(self, path: Path, text: str) -> bool:
        """Replace the text of a file; False if the file on disk is to be written instead."""


class TerminalFailure(LudolfError):
    """A terminal did not run a command to its end; the text is for the model."""


class CommandExit(NamedTuple):
    """Exit code of a command, 128 + n if signal n killed it, and the name of that signal."""

    code: int
    signal: str | None


class Terminal(Protocol):
    """One command in a terminal of the host. The caller must `close` it."""

    @property
    def id(self) -> str: ...

    async def wait(self) -> CommandExit:
        """Wait until the command exits.

        Raises:
            TerminalFailure: the host cannot say how it ended.
        """

    async def close(self) -> str:
        """Kill the command if it runs, free the terminal, and return the output."""


class Terminals(Protocol):
    """Terminals of the host, in which the user sees the commands of the model."""

    async def open(
        self, argv: tuple[str, ...], cwd: Path, env: Mapping[str, str]
    ) -> Terminal | None:
        """Start a command; None if the tool is to run it in a process of its own.

        Raises:
            TerminalFailure: it is unknown whether the command has started.
        """

    def decline(self, cause: str) -> None:
        """Report, once, why commands do not run in terminals of the host."""


class Walls(Protocol):
    """Sandbox of the tools: the files that they can access, and the wrapper of their commands."""

    @property
    def output_folder(self) -> Path:
        """Return the folder for complete command output, readable by commands."""

    def locate(self, path: Path) -> Path:
        """Resolve a path.

        Raises:
            ToolFailure: it is hidden.
        """

    def open(self, path: Path) -> int:
        """Open a regular file for reading and return the descriptor.

        Raises:
            OSError: it cannot be opened, or is a folder.
            ToolFailure: it is hidden, or not a regular file.
        """

    def open_folder(self, path: Path) -> int:
        """Open a folder for listing and return the descriptor.

        Raises:
            OSError: it cannot be opened, or is not a folder.
            ToolFailure: it is hidden.
        """

    def hidden_among(self, folder: Path, names: Iterable[str]) -> frozenset[str]:
        """Return the files below a folder that are hard links to hidden files.

        Raises:
            ToolFailure: the folder is hidden.
        """

    def replace(self, path: Path, data: bytes) -> None:
        """Write a file; create it and its parent folders if they are missing.

        Raises:
            OSError: it cannot be written.
            ToolFailure: it may not be written.
        """

    def check_writable(self, path: Path) -> None:
        """Check that `replace` may write a file.

        Raises:
            ToolFailure: it may not be written.
        """

    def enclose(
        self, argv: tuple[str, ...], cwd: Path, env: Mapping[str, str]
    ) -> tuple[tuple[str, ...], Path, dict[str, str]]:
        """Return the sandboxed form of a command, its working folder and its environment."""


class ToolContext(msgspec.Struct, frozen=True, kw_only=True):
    """Services for a running tool."""

    call_id: str
    cwd: Path
    report: Callable[[ToolOutput], Awaitable[None]]
    # Like `update`, for code outside the tool's task; does not wait.
    post: Callable[[ToolOutput], None] | None = None
    takes_images: bool = True
    input_limits: Mapping[str, Any] | None = None
    environment: Callable[[], Mapping[str, str]] = dict
    documents: Documents | None = None
    walls: Walls | None = None
    files: Files | None = None
    terminals: Terminals | None = None
    # What `~` at the start of a path stands for.
    home: Path = Path("~")
    # Its files never pass through `files`.
    agent_folder: Path | None = None
    # Returns `traceparent` and `tracestate` of the call, if telemetry is on.
    trace: Callable[[], Mapping[str, str]] = dict

    def address(self, path: str) -> str | None:
        """Return the address of the document that a path denotes, if any."""
        return self.documents.address(path) if self.documents is not None else None

    async def update(self, partial: ToolOutput) -> None:
        """Report the result so far; each update replaces the previous one."""
        await self.report(partial)


class Tool(Protocol):
    """A tool that a model can call; `ToolDefaults` has defaults of the optional members.

    Tools of one message run concurrently unless one of them is `alone`.
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
    def version(self) -> str:
        """Changes with the definition: approvals for a session cover one version of a tool."""

    @property
    def sampling(self) -> "Sampling | None":
        """How the model must sample the arguments; None if the tool does not require it."""

    @property
    def snippet(self) -> str | None:
        """Return one line for the tool list in the system prompt, or None to omit the tool."""

    @property
    def guidelines(self) -> tuple[str, ...]:
        """Return rules for the system prompt while the tool is active."""

    async def prepare(self, args: Mapping[str, Any]) -> Mapping[str, Any]:
        """Convert alternative spellings of the arguments before validation."""

    async def execute(self, args: Mapping[str, Any], ctx: ToolContext) -> ToolOutput:
        """Run the tool. Cancelling the task stops it.

        Raises:
            ToolFailure: the work could not be done; the text is for the model.
        """


class ToolDefaults:
    """Base class of tools: defaults for the optional members of `Tool`."""

    alone: bool = False
    read_only: bool = False
    version: str = ""
    sampling: "Sampling | None" = None
    snippet: str | None = None
    guidelines: tuple[str, ...] = ()

    async def prepare(self, args: Mapping[str, Any]) -> Mapping[str, Any]:
        return args


class Deny(msgspec.Struct, frozen=True):
    """The call must not run. The reason is its error result; `ends_run` may end the run."""

    reason: str = "Tool execution was blocked"
    ends_run: bool = False


ExecutionMode = Literal["parallel", "sequential"]


def text_output(text: str, details: Any = UNSET) -> ToolOutput:
    return ToolOutput(content=(Text(text=text),), details=details)
