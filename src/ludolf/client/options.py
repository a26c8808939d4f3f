"""Options of a client, and the command and dialect that follow from them."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypedDict

import msgspec

from ludolf.client.errors import ClientError
from ludolf.protocol.wire.dialects import WIRE, WireDialect

DialectName = Literal["pi", "pi-0.79", "pi-delta", "omp", "xcsh", "pi-early"]
# -P: nothing in the folder that the program works in may pose as a module.
PROGRAM = (sys.executable, "-P", "-m", "ludolf", "--mode", "rpc")
_FLAG = "--rpc-dialect"
_VARIABLES = ("LUDOLF_RPC_DIALECT", "PI_RPC_DIALECT")


class ClientOptions(TypedDict, total=False):
    """Everything is optional.

    program    the program and its first arguments; default: this package's own. Others of the
               family do as well: ("pi", "--mode", "rpc")
    dialect    the dialect of the program; default: `pi-delta` for this package's program, where it
               is passed as an argument, else `pi`
    cwd        where the program works; default: here
    env        its environment; default: ours
    tools      functions that the model may call; their type hints become the schema, and calls are
               answered by themselves. Plain functions run in a thread
    on_dialog  answers questions of extensions: gets the request, returns the chosen option, the
               text, or yes and no; None dismisses. Without it they are events
    timeout    seconds to wait for replies that come at once; default 30, None: as long as it takes
    trace      sees every line as it is read
    """

    program: Sequence[str]
    dialect: DialectName
    cwd: str | os.PathLike[str]
    env: Mapping[str, str]
    tools: Sequence[Callable[..., Any]]
    on_dialog: Callable[..., Any]
    timeout: float | None
    trace: Callable[[bytes], None]


class Start(msgspec.Struct, frozen=True):
    """The command of a program and its dialect. `is_ours`: it is the program of this package."""

    command: tuple[str, ...]
    wire: WireDialect
    is_ours: bool

    @property
    def name(self) -> str:
        return "ludolf" if self.is_ours else os.path.basename(self.command[0])


def plan_start(arguments: Sequence[str], options: ClientOptions) -> Start:
    """Raises:
    ClientError: an option or the dialect is unknown.
    """
    unknown = set(options) - ClientOptions.__optional_keys__
    if unknown:
        known = ", ".join(sorted(ClientOptions.__optional_keys__))
        raise ClientError(f"Unknown option: {', '.join(sorted(unknown))}. Known: {known}.")
    given: str | None = options.get("dialect")
    if given is not None and given not in WIRE:
        raise ClientError(f'Unknown dialect "{given}". Known: {", ".join(WIRE)}.')
    program = options.get("program")
    named = given or _named(arguments, options.get("env"))
    command = (*(program or PROGRAM), *arguments)
    if program is None and _FLAG not in arguments:
        named = named or "pi-delta"
        command = (*command, _FLAG, named)
    # The program refuses an unknown name.
    wire = WIRE.get(named or "pi", WIRE["pi"])
    return Start(command, wire, program is None or "ludolf" in command)


def _named(arguments: Sequence[str], env: Mapping[str, str] | None) -> str | None:
    """The dialect that the program will find in its arguments or its environment."""
    words = list(arguments)
    if _FLAG in words[:-1]:
        return words[words.index(_FLAG) + 1]
    environ = os.environ if env is None else env
    return next((environ[name] for name in _VARIABLES if environ.get(name)), None)
