"""The output of one connection: dialect, event filter, and limits of line length."""

import asyncio
import re
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

import msgspec

from ludolf.base import CommandError
from ludolf.engine.engine import Engine
from ludolf.engine.host.host_side import HostSide
from ludolf.protocol.commands import COMMANDS, CommandSpec, Order
from ludolf.protocol.dialects import Dialect, ServerInfo, make_dialect
from ludolf.protocol.events import Event
from ludolf.protocol.framing import Frame, Head, Reply
from ludolf.protocol.subagent_events import SubagentEvent, SubagentLifecycle, SubagentProgress
from ludolf.rpc.stdio import Stdio

if TYPE_CHECKING:
    from ludolf.protocol.dialects.omp_subagents import SubagentFrames
    from ludolf.protocol.frame_limits import Bounds
    from ludolf.protocol.ui import UiRequest
    from ludolf.rpc.message_ids import MessageIds


class FrameSink:
    def __init__(self, dialect: Dialect, stdio: Stdio) -> None:
        self._dialect = dialect
        self._stdio = stdio

    def take(self, event: Event) -> None:
        frame = self._dialect.event(event)
        if frame is not None:
            self._stdio.send(frame)

    def reply(self, frame: Frame, head: Head) -> None:
        self._stdio.send(frame)

    def has_room(self) -> bool:
        return self._stdio.has_room()

    async def room(self) -> None:
        await self._stdio.room()

    def unread_bytes(self) -> int:
        return self._stdio.unsent_bytes

    async def all_read(self) -> None:
        await self._stdio.all_sent()


# Frames that a host needs to answer or waits for: no filter hides them.
_DUE = frozenset(
    (
        "host_tool_call",
        "host_tool_cancel",
        "host_uri_request",
        "host_uri_cancel",
        "prompt_result",
        "session_settled",
        "command_output",
    )
)
_OF_AGENTS = frozenset((SubagentEvent, SubagentLifecycle, SubagentProgress))
_TYPE = re.compile(rb'\{"type":"([a-z_]+)"')


class HostConnection(Dialect):
    """A dialect with the filter and the limits that the host asked for."""

    def __init__(self, dialect: Dialect) -> None:
        super().__init__()
        self.name = dialect.name
        self.traits = dialect.traits
        self._dialect = dialect
        self._wanted: frozenset[str] | None = None
        self._bounds: Bounds | None = None
        self._ids: MessageIds | None = None
        self._agents: SubagentFrames | None = None
        self.prompt_results = dialect.traits.prompt_results
        # Takes events that are for this host alone, if the engine has several.
        self.own_events: Callable[[Event], None] | None = None
        if dialect.traits.max_frame is not None:
            self.bound(1)

    def want(self, events: frozenset[str] | None) -> None:
        """Send only these events from now on; None is all."""
        self._wanted = None if events is None else events | _DUE

    def bound(self, version: int) -> None:
        """Limit the length of lines from now on, in the way of this protocol version."""
        from ludolf.protocol.frame_limits import MAX_FRAME, Bounds

        self._bounds = Bounds(self.traits.max_frame or MAX_FRAME, version)

    # ------------------------------------------------------------ as a dialect

    @property
    def greets(self) -> bool:
        """Return whether the first frame is a greeting, which may list commands."""
        return type(self._dialect).greeting is not Dialect.greeting

    def greeting(self, info: ServerInfo) -> Frame | None:
        return self._dialect.greeting(info)

    def begun(self, command: str) -> None:
        self._dialect.begun(command)

    def reply(self, reply: Reply) -> Frame | None:
        return self._fit(self._dialect.reply(reply))

    def event(self, event: Event) -> Frame | None:
        if type(event) in _OF_AGENTS:
            return self._fit(self._of_agent(event))
        frame = self._dialect.event(event)
        return frame if frame is None or not self.is_arranging else self.arrange(frame)

    @property
    def is_arranging(self) -> bool:
        """Return whether `arrange` changes frames."""
        return self.prompt_results or self._wanted is not None or self._bounds is not None

    def arrange(self, frame: Frame) -> Frame | None:
        """Return the frame of an event as the host asked for it; None if it does not want it."""
        chosen: Frame | None = frame
        if self.prompt_results:
            chosen = self._named(frame)
        if chosen is not None and self._wanted is not None:
            chosen = self._chosen(chosen, self._wanted)
        return self._fit(chosen)

    def forget_agents(self) -> None:
        """Drop the state of subagents; the next subscription starts without it."""
        self._agents = None

    def _of_agent(self, event: Event) -> Frame | None:
        """Render an event of a subagent; the subscription decides, not the filter."""
        if self._agents is None:
            from ludolf.protocol.dialects.omp_subagents import SubagentFrames

            self._agents = SubagentFrames(lambda: make_dialect(self.name))
        if isinstance(event, SubagentEvent):
            return self._agents.render(event)
        if isinstance(event, SubagentLifecycle) and event.payload.status != "started":
            self._agents.forget(event.payload.id)
        return self._dialect.event(event)

    def _named(self, frame: Frame) -> Frame:
        """Add message ids, for hosts that want prompt results."""
        if self._ids is None:
            from ludolf.rpc.message_ids import MessageIds

            self._ids = MessageIds()
        return self._ids.stamp(frame)

    def ui(self, request: "UiRequest") -> Frame | None:
        return self._fit(self._dialect.ui(request))

    def _fit(self, frame: Frame | None) -> Frame | None:
        return frame if frame is None or self._bounds is None else self._bounds.fit(frame)

    def _chosen(self, frame: Frame, wanted: frozenset[str]) -> Frame | None:
        if not isinstance(frame, bytes):
            return frame if _is_wanted(frame[0], wanted) else None
        lines = frame.splitlines(keepends=True)
        return b"".join(line for line in lines if _is_wanted(line, wanted)) or None


def _is_wanted(line: bytes, wanted: frozenset[str]) -> bool:
    found = _TYPE.match(line)
    return found is None or found[1].decode() in wanted


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
    last command with the order `in_turn` that has not been answered yet. `host` holds the tools and
    documents of the host.
    """

    engine: Engine
    host: HostSide
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


def forwards(**functions: Callable[[Call], Any]) -> None:
    """Register commands that only call a method; its value is the `data` of the reply."""
    for name, function in functions.items():
        FUNCTIONS[name] = _forwarding(function, has_data=COMMANDS[name].answer is not None)


def _forwarding(function: Callable[[Call], Any], *, has_data: bool) -> HandlerFunction:
    async def run(call: Call) -> Result:
        value = function(call)
        return ReplyData(value) if has_data else None

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
