"""The RPC server: reads commands, runs their handlers in order, sends replies and events."""

import asyncio
import contextlib
import os
import re
import traceback
from collections.abc import Awaitable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import structs

from ludolf import __version__
from ludolf.agent.events import AgentEnd, AgentStart, QueueUpdate
from ludolf.agent.io import QueueKind
from ludolf.agent.scope import StartedCoroutine, Tasks
from ludolf.ai.errors import RETRYABLE, kind_of
from ludolf.ai.messages import AssistantMessage
from ludolf.base import CommandError, LudolfError, check_path
from ludolf.config.settings.home import env
from ludolf.config.settings.options import Options
from ludolf.engine.build import build
from ludolf.engine.engine import Engine
from ludolf.engine.feature import PromptInput
from ludolf.engine.hub import Sink
from ludolf.protocol.commands import BadCommand, Disposition, Order, read_command
from ludolf.protocol.dialects import Dialect, ServerInfo, make_dialect
from ludolf.protocol.dialects.dialect import Traits
from ludolf.protocol.events import AgentSettled, Event
from ludolf.protocol.framing import NO_ID, BadFrame, Body, Head, Reply, read_head
from ludolf.protocol.host_events import PromptEnded, SessionSettled
from ludolf.protocol.images import read_images
from ludolf.protocol.subagent_events import AgentWaiting
from ludolf.rpc.connection import (
    Call,
    FrameSink,
    Handler,
    HandlerFunction,
    HostConnection,
    ReplyData,
    Result,
    Silence,
    unknown_command,
)
from ludolf.rpc.handlers import HANDLERS
from ludolf.rpc.line_reader import MAX_FRAME, TOO_LONG
from ludolf.rpc.signals import Stop, close_early, watch_signals
from ludolf.rpc.state import is_settled
from ludolf.rpc.stdio import Stdio

if TYPE_CHECKING:
    from ludolf.protocol.ui import UiRequest


PromptStatus = Literal["completed", "aborted", "error"]
_STATUS = re.compile(r"(\d{3})\b")


class _Open(msgspec.Struct):
    """A prompt that was accepted; `place` is its number in the line where it waits."""

    id: msgspec.Raw
    line: QueueKind | None = None
    place: int = 0


class PromptResults(Sink):
    """Emits through the hub, to keep the order of events; attached when results are wanted."""

    def __init__(self, engine: Engine, connection: HostConnection) -> None:
        self._engine = engine
        self._connection = connection
        self._open: list[_Open] = []
        self._status: PromptStatus = "completed"
        self._error: dict[str, Any] | None = None
        self._listens = False
        # Something ran since the last `session_settled`.
        self._has_run = False
        if connection.prompt_results:
            self._listen()

    def accepted(self, id: msgspec.Raw, disposition: Disposition, line: QueueKind) -> None:
        """Note an accepted prompt; it gets a result when it ends."""
        if not self._connection.prompt_results:
            return
        self._listen()
        if disposition == "started":
            self._open.append(_Open(id))
        elif disposition == "queued":
            self._open.append(_Open(id, line, self._engine.conversation.queue.added[line]))
        else:
            # After the reply, which is sent in this turn of the loop.
            loop = asyncio.get_running_loop()
            loop.call_soon(partial(self._tell, id, "completed", invoked=False))

    def _listen(self) -> None:
        if not self._listens:
            self._listens = True
            self._engine.conversation.hub.attach(self)

    # ------------------------------------------------------------ as a sink

    def take(self, event: Event) -> None:
        if isinstance(event, AgentStart):
            self._has_run = True
        elif isinstance(event, AgentEnd):
            self._note(event)
        elif isinstance(event, AgentSettled | AgentWaiting):
            self._settle()
            self._tell_rest()
        elif isinstance(event, QueueUpdate):
            self._drop_cleared()
            self._tell_rest()

    # ------------------------------------------------------------ private

    def _note(self, end: AgentEnd) -> None:
        answers = [item for item in end.messages if isinstance(item, AssistantMessage)]
        last = answers[-1] if answers else None
        self._status, self._error = "completed", None
        if last is not None and last.stop_reason == "aborted":
            self._status = "aborted"
        elif last is not None and last.stop_reason == "error":
            self._status = "error"
            self._error = _failure(last)

    def _settle(self) -> None:
        queue = self._engine.conversation.queue
        over = [item for item in self._open if not item.line or item.place <= queue.left[item.line]]
        self._open = [item for item in self._open if item not in over]
        for item in over:
            self._tell(item.id, self._status, error=self._error)

    def _tell_rest(self) -> None:
        if self._has_run and self._connection.prompt_results and is_settled(self._engine):
            self._has_run = False
            self._engine.conversation.hub.post(SessionSettled())

    def _drop_cleared(self) -> None:
        cleared = self._engine.conversation.queue.cleared
        gone = [item for item in self._open if item.line and item.place in cleared[item.line]]
        self._open = [item for item in self._open if item not in gone]
        for item in gone:
            self._tell(item.id, "aborted", invoked=False)

    def _tell(
        self,
        id: msgspec.Raw,
        status: PromptStatus,
        *,
        invoked: bool = True,
        error: dict[str, Any] | None = None,
    ) -> None:
        self._engine.conversation.hub.post(
            PromptEnded(
                id=None if id is NO_ID or not id else id,
                agent_invoked=invoked,
                status=status,
                error=error,
                session_settled=is_settled(self._engine),
            )
        )


def _failure(answer: AssistantMessage) -> dict[str, Any]:
    """Return the error of an answer, with the data for a decision to retry."""
    text = answer.error_message or "Unknown error"
    status = _STATUS.match(text)
    about = {"message": text, "provider": answer.provider, "model": answer.model}
    http = {"httpStatus": int(status[1])} if status else {}
    return {**about, **http, "retryable": kind_of(text) in RETRYABLE}


Table = dict[str, Handler]


def adopt(engine: Engine, traits: Traits) -> None:
    """Apply the traits of a dialect to the engine, unless the settings say otherwise."""
    mode = engine.workspace.settings.interrupt_mode or traits.interrupt_mode
    engine.conversation.queue.interrupts = mode == "immediate"
    if traits.todos or traits.clears_todos or engine.workspace.settings.todo.enabled:
        engine.todos.configure(on=traits.todos, clears=traits.clears_todos)
    engine.offer_subagents(default=traits.tasks)


def with_manners(handlers: Mapping[str, Handler], traits: Traits, results: PromptResults) -> Table:
    """Return the handlers, changed as the traits ask; accepted prompts get results."""
    table = dict(handlers)
    for name in ("prompt", "abort_and_prompt"):
        _wrap(table, name, lambda run: _followed(run, results))
    if traits.queues_when_busy:
        _wrap(table, "prompt", _queued_when_busy)
    if traits.early_ack:
        prompt = table["prompt"].run
        _wrap(table, "abort_and_prompt", lambda _: _abort_and_prompt(prompt))
        _wrap(table, "prompt", _acknowledged)
    if traits.answers_slash:
        _wrap(table, "prompt", lambda run: _answered_here(run, results))
    if traits.starts_when_idle:
        for name in ("steer", "follow_up"):
            _wrap(table, name, _started_when_idle)
    if traits.skips_empty:
        for name in ("prompt", "bash"):
            _wrap(table, name, _skipped_when_empty)
    if traits.opens_existing:
        _wrap(table, "switch_session", _only_existing)
    return table


def _wrap(table: Table, name: str, change: Any) -> None:
    handler = table[name]
    table[name] = structs.replace(handler, run=change(handler.run))


def _followed(run: HandlerFunction, results: PromptResults) -> HandlerFunction:
    async def follow(call: Call) -> Result:
        result = await run(call)
        if isinstance(result, ReplyData) and isinstance(result.data, dict):
            steered = call.command.streaming_behavior == "steer"
            line: QueueKind = "steering" if steered else "follow_up"
            results.accepted(call.head.id, result.data["disposition"], line)
        return result

    return follow


def _acknowledged(run: HandlerFunction) -> HandlerFunction:
    """Acknowledge before checking; a refusal is then a second reply with the same id."""

    async def early(call: Call) -> Result:
        if not call.engine.prompting.is_command(call.command.message):
            call.answer(None)
            await run(call)
            return Silence()
        # A command of an extension is acknowledged once it has started: after its first requests.
        task = call.engine.tasks.start(run(call))
        await asyncio.sleep(0)
        call.answer(None)
        await task
        return Silence()

    return early


def _answered_here(run: HandlerFunction, results: PromptResults) -> HandlerFunction:
    """Handle a prompt that is a command of the program: first its output, then the reply."""
    from ludolf.rpc.slash_commands import find, perform

    async def choose(call: Call) -> Result:
        called = find(call.engine, call.command.message)
        if called is None:
            return await run(call)
        await perform(call.engine, *called)
        call.answer(ReplyData({"disposition": "handled"}))
        results.accepted(call.head.id, "handled", "follow_up")
        return Silence()

    return choose


def _abort_and_prompt(prompt: HandlerFunction) -> HandlerFunction:
    """Abort, acknowledge, then prompt."""

    async def run(call: Call) -> Result:
        await call.engine.abort()
        call.answer(None)
        await prompt(call)
        return Silence()

    return run


def _started_when_idle(run: HandlerFunction) -> HandlerFunction:
    async def start(call: Call) -> Result:
        if call.engine.runner.running:
            return await run(call)
        images = tuple(read_images(call.head.type, call.command.images))
        message = PromptInput(text=call.command.message, extra=images)
        return ReplyData({"disposition": await call.engine.prompting.prompt(message)})

    return start


def _queued_when_busy(run: HandlerFunction) -> HandlerFunction:
    async def queue(call: Call) -> Result:
        command = call.command
        if command.streaming_behavior is None and call.engine.runner.running:
            command = structs.replace(command, streaming_behavior="followUp")
        return await run(structs.replace(call, command=command))

    return queue


def _skipped_when_empty(run: HandlerFunction) -> HandlerFunction:
    async def skip(call: Call) -> Result:
        text = call.command.message if call.head.type == "prompt" else call.command.command
        has_more = call.head.type == "prompt" and bool(
            call.command.images or call.command.attachments
        )
        return await run(call) if text or has_more else Silence()

    return skip


def _only_existing(run: HandlerFunction) -> HandlerFunction:
    async def check(call: Call) -> Result:
        _check_exists(call.engine.conversation.place.cwd, call.command.session_path)
        return await run(call)

    return check


def _check_exists(cwd: str, path: str) -> None:
    if not os.path.exists(Path(cwd, os.path.expanduser(check_path(path)))):
        raise CommandError(f"File not found: {path}")


WARM_UP_SECONDS = 0.2


def run_rpc(options: Options, dialect: str) -> int:
    """Serve one host on stdin and stdout; returns the exit code."""
    return asyncio.run(_main(options, dialect))


async def _main(options: Options, dialect: str) -> int:
    engine = build(options)
    stop = Stop()
    with Stdio(on_broken=lambda: stop(1)) as stdio:
        server = Server(engine, make_dialect(dialect), stdio)
        watch_signals(stop)
        await engine.start("rpc", server.ask)
        asyncio.get_running_loop().call_later(WARM_UP_SECONDS, engine.warm_up)
        code = await stop.race(server.serve())
        if code is None:
            return 0
        await close_early(code, stdio, engine.close)
        return code


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
            self._reply(
                Reply(command="parse", id=error.id, error=str(error), untyped=error.untyped)
            )
        except LudolfError as error:
            self._answer_refusal(head, error)
        except Exception as error:  # a bug in reading a line is an error reply, too
            self._reply(_bug(head.type, head.id, error))
        else:
            self._start(handler, call, order)

    def _call(self, head: Head, command: Any) -> Call:
        def answer(result: Result) -> None:
            self._answer(head, result)

        host = self._engine.own_host
        return Call(self._engine, host, command, head, self._dialect, answer, self._turn)

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
            self._reply(_bug(call.head.type, call.head.id, error))
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
            self._reply(_bug(call.head.type, call.head.id, error))
        else:
            self._answer(call.head, result)

    # ------------------------------------------------------------ replies

    def ask(self, request: "UiRequest") -> bool:
        """Send a dialog to the host; False if its dialect has no dialogs."""
        frame = self._dialect.ui(request)
        if frame is not None:
            self._stdio.send(frame)
        return frame is not None

    def _answer(self, head: Head, result: Result) -> None:
        if isinstance(result, ReplyData):
            data, more = result.data, result.more
            self._reply(Reply(command=head.type, id=head.id, data=data, more=more))
        elif result is None:
            self._reply(Reply(command=head.type, id=head.id))

    def _answer_refusal(self, head: Head, error: LudolfError) -> None:
        code = error.code if isinstance(error, CommandError) else None
        field = error.field if isinstance(error, BadCommand) else None
        self._reply(Reply(command=head.type, id=head.id, error=str(error), code=code, field=field))

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
