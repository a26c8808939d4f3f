"""The RPC server: reads commands, runs their handlers in order, sends replies and events."""

import asyncio
import contextlib
import traceback
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

import msgspec

from ludolf import __version__
from ludolf.agent.scope import StartedCoroutine, Tasks
from ludolf.base import CommandError, LudolfError
from ludolf.config.settings.home import env
from ludolf.engine.engine import Engine
from ludolf.protocol.commands import BadCommand, Order, read_command
from ludolf.protocol.dialects import Dialect, ServerInfo
from ludolf.protocol.framing import BadFrame, Body, Head, read_head
from ludolf.protocol.replies import Reply
from ludolf.rpc.call import Call, Handler, Result, Silence, unknown_command
from ludolf.rpc.connection import HostConnection
from ludolf.rpc.dialect_policies import adopt, with_manners
from ludolf.rpc.frame_sink import FrameSink
from ludolf.rpc.handlers import HANDLERS
from ludolf.rpc.line_reader import MAX_FRAME, TOO_LONG
from ludolf.rpc.prompt_results import PromptResults
from ludolf.rpc.stdio import Stdio

if TYPE_CHECKING:
    from ludolf.protocol.ui import UiRequest

SHUTDOWN_SECONDS = 5.0
# Stands for the head of a line until it has been read.
_UNREAD = Head("parse")
_ON = ("1", "true", "yes", "on")


class Server:
    """One host on one pair of pipes."""

    def __init__(self, engine: Engine, dialect: Dialect, stdio: Stdio) -> None:
        self._engine = engine
        self._dialect = HostConnection(dialect)
        self._stdio = stdio
        self._tasks = Tasks()
        self._turn: asyncio.Task[Any] | None = None
        # Changes of the session that have not been answered yet.
        self._moves: set[asyncio.Task[Any]] = set()
        self._ended = asyncio.Event()
        engine.conversation.hub.attach(FrameSink(self._dialect, stdio))
        adopt(engine, dialect.traits)
        results = PromptResults(engine, self._dialect)
        self._handlers = with_manners(HANDLERS, dialect.traits, results)

    # ------------------------------------------------------------ life

    async def serve(self) -> None:
        """Serve until the input ends; then abort the run, store it and send its end."""
        greeting = self._dialect.greeting(self._info())
        if greeting is not None:
            self._stdio.send(greeting)
        self._engine.conversation.hub.begin()
        self._stdio.lines(self.feed, self._ended.set)
        self._engine.on_shutdown = self._ended.set
        await self._ended.wait()
        if self._dialect.traits.ends_after_run:
            await self._let_run_end()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + SHUTDOWN_SECONDS
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(deadline):
                await self._finish()
        await self._stdio.drain(max(0.0, deadline - loop.time()))

    def _info(self) -> ServerInfo:
        titles = (env("RPC_EMIT_TITLE") or "").strip().lower() in _ON
        return ServerInfo(__version__, self._commands, titles, self._place_of, self._cwd)

    def _cwd(self) -> str:
        return str(self._engine.conversation.place.cwd)

    def _commands(self) -> tuple[Any, ...]:
        from ludolf.rpc.slash_commands import available_commands

        return available_commands(self._engine, self._dialect.traits)

    def _place_of(self, entry_id: str) -> int:
        entries = self._engine.session.entries()
        return next((place for place, entry in enumerate(entries, 1) if entry.id == entry_id), 0)

    async def _let_run_end(self) -> None:
        """Let the run end after the end of input; dialogs and host tools are cancelled."""
        self._engine.disconnect()
        self._engine.host_tools.disconnect()
        await self._tasks.ended()
        await self._engine.settled()

    async def _finish(self) -> None:
        """Abort everything that runs; pending commands still get their replies."""
        self._engine.disconnect()
        if self._turn is not None:
            await asyncio.wait((self._turn,), timeout=SHUTDOWN_SECONDS / 2)
        self._engine.host_tools.disconnect()
        await self._engine.abort()
        self._engine.shell.abort()
        await self._tasks.ended()
        await self._engine.close()

    # ------------------------------------------------------------ commands

    def feed(self, lines: list[bytes]) -> None:
        """Handle lines of the host, in order, each on its own."""
        for line in lines:
            if line and not line.isspace():
                self._handle(line)

    def _handle(self, line: bytes) -> None:
        """Handle one line; no content of a line prevents the next ones from being read."""
        head = _UNREAD
        try:
            head, body = _read(line)
            handler = self._handlers.get(head.type)
            if handler is None:
                raise unknown_command(head.type)
            call = self._call(head, read_command(head, body))
            order = handler.order_of(call)
        except BadFrame as error:
            self._refuse(error)
        except LudolfError as error:
            self._answer_refusal(head, error)
        except Exception as error:  # a bug in reading a line is an error reply, too
            self._answer_bug(head, error)
        else:
            self._start(handler, call, order)

    def _call(self, head: Head, command: Any) -> Call:
        def answer(result: Result) -> None:
            self._answer(head, result)

        return Call(self._engine, command, head, self._dialect, answer, self._turn)

    def _start(self, handler: Handler, call: Call, order: Order) -> None:
        spec = handler.spec
        if self._moves and spec.about_session:
            order = "in_turn"  # it is meant for the session that is about to be opened
        if order == "in_turn" and self._turn is not None:
            task = self._tasks.start(self._after(self._turn, handler, call))
            self._hold(task)
            self._note_move(handler, task)
            return
        is_eager = spec.order == "now" or (spec.eager and order == spec.order)
        work = self._begin(handler, call, eager=is_eager)
        if work is None:
            return
        task = self._tasks.start(self._wait(work, call))
        self._note_move(handler, task)
        # Commands that take turns come after the beginning of a task of its own, not before it.
        holds = order == "in_turn" or spec.holds
        self._hold(task if holds else self._tasks.start(_a_moment(self._turn)))

    def _note_move(self, handler: Handler, task: "asyncio.Task[Any]") -> None:
        if handler.spec.changes_session:
            self._moves.add(task)
            task.add_done_callback(self._moves.discard)

    def _hold(self, task: "asyncio.Task[Any]") -> None:
        """Commands that take turns wait for this one from now on."""
        self._turn = task
        task.add_done_callback(self._turn_over)

    def _turn_over(self, task: "asyncio.Task[Any]") -> None:
        if self._turn is task:
            self._turn = None

    async def _after(self, earlier: "asyncio.Task[Any]", handler: Handler, call: Call) -> None:
        """Commands that take turns begin when those before them have been answered."""
        await asyncio.wait((earlier,))
        work = self._begin(handler, call, eager=False)
        if work is not None:
            await self._wait(work, call)

    def _begin(self, handler: Handler, call: Call, *, eager: bool) -> Awaitable[Result] | None:
        """Start a handler; an eager one is answered at once if it need not wait."""
        try:
            self._dialect.begun(call.head.type)
            work = handler.run(call)
            if not eager:
                return work
            started = StartedCoroutine(work)
        except LudolfError as error:
            self._answer_refusal(call.head, error)
            return None
        except Exception as error:  # a bug in a handler is an error reply, not the end
            self._answer_bug(call.head, error)
            return None
        if not started.done:
            return started
        self._answer(call.head, started.result)
        return None

    async def _wait(self, work: Awaitable[Result], call: Call) -> None:
        try:
            result = await work
        except LudolfError as error:
            self._answer_refusal(call.head, error)
        except Exception as error:  # as above
            self._answer_bug(call.head, error)
        else:
            self._answer(call.head, result)

    # ------------------------------------------------------------ replies

    def ask(self, request: "UiRequest") -> bool:
        """Send a dialog to the host; False if its dialect has no dialogs."""
        frame = self._dialect.ui(request)
        if frame is not None:
            self._stdio.send(frame)
        return frame is not None

    def _answer(self, head: Head, data: Result = None, *, error: str | None = None) -> None:
        if isinstance(data, Silence):
            return
        if data is None:
            self._reply(Reply(command=head.type, id=head.id, error=error))
        else:
            self._reply(Reply(command=head.type, id=head.id, data=data.data, more=data.more))

    def _answer_refusal(self, head: Head, error: LudolfError) -> None:
        code = error.code if isinstance(error, CommandError) else None
        field = error.field if isinstance(error, BadCommand) else None
        self._reply(Reply(command=head.type, id=head.id, error=str(error), code=code, field=field))

    def _answer_bug(self, head: Head, error: Exception) -> None:
        self._reply(_bug(head.type, head.id, error))

    def _refuse(self, error: BadFrame) -> None:
        self._reply(Reply(command="parse", id=error.id, error=str(error), untyped=error.untyped))

    def _reply(self, reply: Reply) -> None:
        try:
            frame = self._dialect.reply(reply)
        except Exception as error:  # data that cannot be written is an error reply, not silence
            frame = self._dialect.reply(_bug(reply.command, reply.id, error))
        if frame is not None:
            self._stdio.send(frame)


def _read(line: bytes) -> tuple[Head, Body]:
    if line is TOO_LONG:
        raise BadFrame(f"the line is longer than {MAX_FRAME >> 20} MiB")
    return read_head(line)


def _bug(command: str, id: msgspec.Raw, error: Exception) -> Reply:
    with contextlib.suppress(OSError, ValueError):  # stderr may be closed
        traceback.print_exception(error)
    text = f"Internal error in {command}: {type(error).__name__}: {error}"
    return Reply(command=command, id=id, error=text, code="internal_error")


async def _a_moment(earlier: "asyncio.Task[Any] | None") -> None:
    if earlier is not None:
        await asyncio.wait((earlier,))
