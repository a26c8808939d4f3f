"""The desk of one connection: lines become commands on an engine, and results become replies.

`Pacing` is the order in which commands on one engine begin, whichever connection they come from.
"""

import asyncio
import contextlib
import traceback
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol

from msgspec import structs

from ludolf.agent.scope import StartedCoroutine, Tasks
from ludolf.base import CommandError, LudolfError
from ludolf.engine.engine import Engine
from ludolf.engine.host.host_side import HostSide
from ludolf.protocol.commands import BadCommand, CommandSpec, Order, read_command
from ludolf.protocol.framing import BadFrame, Body, Frame, Head, Reply, read_head
from ludolf.rpc.connection import (
    Call,
    Handler,
    HostConnection,
    ReplyData,
    Result,
    unknown_command,
)
from ludolf.rpc.handlers import HANDLERS
from ludolf.rpc.line_reader import MAX_FRAME, TOO_LONG
from ludolf.rpc.manners import with_manners
from ludolf.rpc.prompt_results import PromptResults

# Stands for the head of a line until it has been read.
_UNREAD = Head("parse")
# Takes a reply and the head of the command that it belongs to.
Deliver = Callable[[Frame, Head], None]


def _ignore(head: Head) -> None:
    """Note nothing: no one waits for the ends of commands."""


class CommandJob(Protocol):
    """One command that is about to be handled."""

    spec: CommandSpec

    def begin(self, *, eager: bool) -> Awaitable[Any] | None:
        """Start the handler; None if it has been answered already."""

    async def wait(self, work: Awaitable[Any]) -> None:
        """Wait for the handler and answer."""

    def finished(self) -> None:
        """Note that nothing more is done for the command, also if it was cancelled."""


class Pacing:
    """One per engine. `turn` is the last command that later ones with the order `in_turn` await."""

    def __init__(self) -> None:
        self.tasks = Tasks()
        self.turn: asyncio.Task[Any] | None = None
        # Changes of the session that have not been answered yet.
        self._moves: set[asyncio.Task[Any]] = set()

    def start(self, job: CommandJob, order: Order) -> None:
        """Begin a command, or let it wait for its turn."""
        spec = job.spec
        if self._moves and spec.about_session:
            order = "in_turn"  # it is meant for the session that is about to be opened
        if order == "in_turn" and self.turn is not None:
            task = self._start(job, self._after(self.turn, job))
            self.hold(task)
            self._note_move(spec, task)
            return
        is_eager = spec.order == "now" or (spec.eager and order == spec.order)
        work = job.begin(eager=is_eager)
        if work is None:
            job.finished()
            return
        task = self._start(job, job.wait(work))
        self._note_move(spec, task)
        # Commands that take turns come after the beginning of a task of its own, not before it.
        holds = order == "in_turn" or spec.holds
        self.hold(task if holds else self.tasks.start(_a_moment(self.turn)))

    def _start(self, job: CommandJob, work: Coroutine[Any, Any, None]) -> "asyncio.Task[Any]":
        task = self.tasks.start(work)
        task.add_done_callback(lambda _: job.finished())
        return task

    def _note_move(self, spec: CommandSpec, task: "asyncio.Task[Any]") -> None:
        if spec.changes_session:
            self._moves.add(task)
            task.add_done_callback(self._moves.discard)

    def hold(self, task: "asyncio.Task[Any]") -> None:
        """Commands that take turns wait for this one from now on."""
        self.turn = task
        task.add_done_callback(self._turn_over)

    def _turn_over(self, task: "asyncio.Task[Any]") -> None:
        if self.turn is task:
            self.turn = None

    async def _after(self, earlier: "asyncio.Task[Any]", job: CommandJob) -> None:
        """Commands that take turns begin when those before them have been answered."""
        await asyncio.wait((earlier,))
        work = job.begin(eager=False)
        if work is not None:
            await job.wait(work)


async def _a_moment(earlier: "asyncio.Task[Any] | None") -> None:
    if earlier is not None:
        await asyncio.wait((earlier,))


class Desk:
    """One for each connection to an engine; `pacing` is that of the engine.

    `host` are the tools and documents that the connected host provides. `finished` is called once
    for each command whose head was read, after its last reply or without any.
    """

    def __init__(
        self,
        engine: Engine,
        host: HostSide,
        connection: HostConnection,
        pacing: Pacing,
        deliver: Deliver,
        finished: Callable[[Head], None] = _ignore,
    ) -> None:
        self.engine = engine
        self._host = host
        self.connection = connection
        self._pacing = pacing
        self._deliver = deliver
        self.finished = finished
        self._results = PromptResults(engine, connection)
        self._handlers = with_manners(HANDLERS, connection.traits, self._results)

    # ------------------------------------------------------------ commands

    def feed(self, lines: list[bytes]) -> None:
        """Handle lines of the host, in order, each on its own."""
        for line in lines:
            if line and not line.isspace():
                self._handle(line)

    def _handle(self, line: bytes) -> None:
        """Handle one line; no content of a line prevents the next ones from being read."""
        try:
            head, body = read_line(line)
        except BadFrame as error:
            self.refuse_line(error)
        except Exception as error:  # a bug in reading a line is an error reply, too
            self.fail(_UNREAD, error)
        else:
            self.handle(head, body)

    def handle(self, head: Head, body: Body) -> None:
        """Handle one command whose head has been read."""
        try:
            handler = self._handlers.get(head.type)
            if handler is None:
                raise unknown_command(head.type)
            job = _DeskJob(self, handler, self._call(head, read_command(head, body)))
            order = handler.order_of(job.call)
        except BadFrame as error:
            self.refuse_line(error)
            self.finished(head)
        except LudolfError as error:
            self.refuse(head, error)
            self.finished(head)
        except Exception as error:  # as above
            self.fail(head, error)
            self.finished(head)
        else:
            self._pacing.start(job, order)

    def _call(self, head: Head, command: Any) -> Call:
        def answer(result: Result) -> None:
            self.answer(head, result)

        turn = self._pacing.turn
        return Call(self.engine, self._host, command, head, self.connection, answer, turn)

    # ------------------------------------------------------------ replies

    def answer(self, head: Head, result: Result) -> None:
        """Reply with the result of a handler; a handler without one has replied already."""
        if isinstance(result, ReplyData):
            data, more = result.data, result.more
            self._reply(head, Reply(command=head.type, id=head.id, data=data, more=more))
        elif result is None:
            self._reply(head, Reply(command=head.type, id=head.id))

    def refuse(self, head: Head, error: LudolfError) -> None:
        """Reply that a command was refused."""
        self._reply(head, refusal(head, error))

    def refuse_line(self, error: BadFrame) -> None:
        """Reply to a line that is not a command."""
        head = Head("parse", error.id)
        self._reply(head, structs.replace(refusal(head, error), untyped=error.untyped))

    def fail(self, head: Head, error: Exception) -> None:
        """Reply to a command whose handler has a bug."""
        self._reply(head, _bug(head, error))

    def _reply(self, head: Head, reply: Reply) -> None:
        try:
            frame = self.connection.reply(reply)
        except Exception as error:  # data that cannot be written is an error reply, not silence
            frame = self.connection.reply(_bug(head, error))
        if frame is not None:
            self._deliver(frame, head)

    def close(self) -> None:
        """Stop following the prompts of this connection."""
        self._results.close()


class _DeskJob:
    """One command of one connection, as its engine's pacing sees it."""

    def __init__(self, desk: Desk, handler: Handler, call: Call) -> None:
        self._desk = desk
        self._handler = handler
        self.call = call
        self.spec: CommandSpec = handler.spec

    def begin(self, *, eager: bool) -> Awaitable[Result] | None:
        """Start a handler; an eager one is answered at once if it need not wait."""
        desk, head = self._desk, self.call.head
        try:
            desk.connection.begun(head.type)
            work = self._handler.run(self.call)
            if not eager:
                return work
            started = StartedCoroutine(work)
        except LudolfError as error:
            desk.refuse(head, error)
            return None
        except Exception as error:  # a bug in a handler is an error reply, not the end
            desk.fail(head, error)
            return None
        if not started.done:
            return started
        desk.answer(head, started.result)
        return None

    async def wait(self, work: Awaitable[Result]) -> None:
        desk, head = self._desk, self.call.head
        try:
            result = await work
        except LudolfError as error:
            desk.refuse(head, error)
        except Exception as error:  # as above
            desk.fail(head, error)
        else:
            desk.answer(head, result)

    def finished(self) -> None:
        self._desk.finished(self.call.head)


def read_line(line: bytes) -> tuple[Head, Body]:
    """Return the head and the body of a line.

    Raises:
        BadFrame: the line is too long or is not a command.
    """
    if line is TOO_LONG:
        raise BadFrame(f"the line is longer than {MAX_FRAME >> 20} MiB")
    return read_head(line)


def refusal(head: Head, error: LudolfError) -> Reply:
    """Return the reply to a command that was refused."""
    code = error.code if isinstance(error, CommandError) else None
    field = error.field if isinstance(error, BadCommand) else None
    return Reply(command=head.type, id=head.id, error=str(error), code=code, field=field)


def _bug(head: Head, error: Exception) -> Reply:
    with contextlib.suppress(OSError, ValueError):  # stderr may be closed
        traceback.print_exception(error)
    text = f"Internal error in {head.type}: {type(error).__name__}: {error}"
    return Reply(command=head.type, id=head.id, error=text, code="internal_error")
