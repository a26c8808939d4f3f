"""Calls between Ludolf and the host process of script extensions, in both directions."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from contextvars import Context, copy_context
from typing import Any, Protocol

from ludolf.agent.scope import Tasks
from ludolf.base import LudolfError, dumps
from ludolf.engine.features.script_extensions.pieces import PieceBatch
from ludolf.engine.features.script_extensions.process import ScriptProcess
from ludolf.functions.isolation import Failed, call, call_now

PING_SECONDS = 1.0
# A silent process that has used this share of the silence as CPU time computes; another one waits,
# for example for a program that it runs or for its turn on a busy machine, and has more time.
SPINNING_SHARE = 0.5
WAITING_FACTOR = 12
# Loading a large package for the first time takes 20 s of CPU, more on a busy machine.
LOADING_FACTOR = 18


class ScriptError(LudolfError):
    """Raised when code of a script extension failed; the text is that of its error."""


class ScriptHostGone(ScriptError):
    """Raised for calls to a host process that has ended."""


ScriptFrame = Mapping[str, Any]
TakeUpdate = Callable[[Any], None]


class ScriptLinkOwner(Protocol):
    """Answers the questions of the host process and takes its notices."""

    def answer_question(self, frame: ScriptFrame) -> Any: ...
    def answer_call(self, frame: ScriptFrame, update: TakeUpdate) -> Awaitable[Any]: ...
    def take_notice(self, frame: ScriptFrame) -> None: ...
    def lost(self, reason: str) -> None: ...
    def has_room(self) -> bool: ...
    async def room(self) -> None: ...


class _Call:
    """A call that the host process works on."""

    def __init__(self, method: str, done: "asyncio.Future[Any]", update: TakeUpdate | None) -> None:
        self.method = method
        self.done = done
        self.update = update
        self.context: Context = copy_context()
        self.inner: set[asyncio.Task[Any]] = set()


class ScriptLink:
    """The protocol of one host process. `silence` is the time after which it counts as hung."""

    def __init__(self, owner: ScriptLinkOwner, *, silence: float) -> None:
        self._owner = owner
        self._silence = silence
        self._number = 0
        self._calls: dict[int, _Call] = {}
        self._asked: dict[int, asyncio.Task[Any]] = {}
        self._tasks = Tasks()
        self._process: ScriptProcess | None = None
        self._gone: str | None = None
        # The last sign of life, the one after which CPU time was read, and that time.
        self._heard = self._sampled = self._used = 0.0
        self._watch: asyncio.TimerHandle | None = None
        self.pieces = PieceBatch(self._send_now)
        self.ready: asyncio.Future[ScriptFrame] = asyncio.get_running_loop().create_future()

    def attach(self, process: ScriptProcess) -> None:
        self._process = process

    # ------------------------------------------------------------ to the host process

    def send(self, frame: bytes) -> None:
        """Send a frame after the pieces that wait."""
        self.pieces.flush()
        self._send_now(frame)

    def tell(self, **frame: Any) -> None:
        self.send(dumps(frame))

    async def call(self, method: str, args: Any, update: TakeUpdate | None = None) -> Any:
        """Let the host process do something and return its answer.

        Cancelling cancels the work there, and what it asked for meanwhile.

        Raises:
            ScriptError: it failed, or the process has ended.
        """
        return await self.call_raw(method, dumps(args), update)

    async def call_raw(self, method: str, args: bytes, update: TakeUpdate | None = None) -> Any:
        """As `call`, with arguments that are JSON already."""
        number, pending = self.begin(method, args, update)
        try:
            return await pending
        except asyncio.CancelledError:
            self.cancel(number)
            raise
        finally:
            self.forget(number)

    def begin(
        self, method: str, args: bytes, update: TakeUpdate | None
    ) -> "tuple[int, asyncio.Future[Any]]":
        """Send a call; returns its number and its result. `forget` it afterwards."""
        if self._gone is not None:
            raise ScriptHostGone(self._gone)
        self._number += 1
        number = self._number
        pending: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._calls[number] = _Call(method, pending, update)
        self.send(b'{"t":"call","id":%d,"m":"%b","a":%b}' % (number, method.encode(), args))
        self._start_watch()
        return number, pending

    def cancel(self, number: int) -> None:
        """Ask the host process to stop a call, and stop what that call asked for."""
        call = self._calls.get(number)
        if call is None:
            return
        self.tell(t="cancel", id=number)
        for task in call.inner:
            task.cancel()

    def forget(self, number: int) -> None:
        self._calls.pop(number, None)

    def _send_now(self, frame: bytes) -> None:
        if self._process is not None:
            self._process.send(frame)

    # ------------------------------------------------------------ from the host process

    def take_frame(self, frame: ScriptFrame) -> None:
        """Take a frame; one that an extension wrote itself and that does not fit is dropped."""
        with suppress(Failed):
            call_now(self._take, frame)

    def _take(self, frame: ScriptFrame) -> None:
        match frame.get("t"):
            case "ret":
                self._note_life()
                self._settle(frame)
            case "upd":
                call = self._calls.get(frame.get("id", 0))
                if call is not None and call.update is not None:
                    call.update(frame.get("v"))
            case "sync":
                self._answer(frame)
            case "call":
                self._start_work(frame)
            case "cancel":
                task = self._asked.get(frame.get("id", 0))
                if task is not None:
                    task.cancel()
            case "ready":
                if not self.ready.done():
                    self.ready.set_result(frame)
            case "pong":
                self._note_life()
            case _:
                self._owner.take_notice(frame)

    def has_room(self) -> bool:
        return self._owner.has_room()

    async def room(self) -> None:
        await self._owner.room()

    def lost(self, reason: str) -> None:
        """Fail every open call: the process has ended."""
        text = f"The process of script extensions {reason}"
        self._gone = text
        self._stop_watch()
        if not self.ready.done():
            self.ready.set_exception(ScriptHostGone(text))
            self.ready.exception()
        self._fail_calls(text)
        for task in tuple(self._asked.values()):
            task.cancel()
        self._owner.lost(text)

    async def close(self) -> None:
        """End the process; open calls fail."""
        self._gone = self._gone or "The process of script extensions has ended"
        self._stop_watch()
        self.pieces.close()
        self._fail_calls(self._gone)
        await self._tasks.close()
        process, self._process = self._process, None
        if process is not None:
            await process.end()

    def _fail_calls(self, text: str) -> None:
        for pending in tuple(self._calls.values()):
            if not pending.done.done():
                pending.done.set_exception(ScriptHostGone(text))

    def _settle(self, frame: ScriptFrame) -> None:
        call = self._calls.get(frame.get("id", 0))
        if call is None or call.done.done():
            return
        if "e" in frame:
            call.done.set_exception(ScriptError(str(frame["e"])))
        else:
            call.done.set_result(frame.get("v"))

    def _answer(self, frame: ScriptFrame) -> None:
        assert self._process is not None
        number = frame.get("n", 0)
        try:
            value = call_now(self._owner.answer_question, frame)
            answer = dumps({"n": number, "v": value})
        except (Failed, TypeError, ValueError, RecursionError) as error:
            answer = dumps({"n": number, "e": str(error)})
        self._process.answer(answer)

    def _start_work(self, frame: ScriptFrame) -> None:
        number = frame.get("id", 0)
        outer = self._calls.get(frame.get("in") or 0)
        # Inside a handler, so that its timeout stands still while a dialog is open.
        context = outer.context if outer is not None else copy_context()
        work = self._work(number, frame)
        task = context.run(self._tasks.start, work)
        self._asked[number] = task
        if outer is not None:
            outer.inner.add(task)
            task.add_done_callback(outer.inner.discard)
        task.add_done_callback(lambda _: self._asked.pop(number, None))

    async def _work(self, number: int, frame: ScriptFrame) -> None:
        def update(value: Any) -> None:
            self.send(dumps({"t": "upd", "id": number, "v": value}))

        answer: dict[str, Any] = {"t": "ret", "id": number}
        try:
            answer["v"] = await call(self._owner.answer_call, frame, update)
            encoded = dumps(answer)
        except (Failed, TypeError, ValueError, RecursionError) as error:
            encoded = dumps({"t": "ret", "id": number, "e": str(error)})
        except asyncio.CancelledError:
            self.send(dumps(answer))
            raise
        self.send(encoded)

    # ------------------------------------------------------------ life of the process

    def _note_life(self) -> None:
        self._heard = asyncio.get_running_loop().time()

    def _start_watch(self) -> None:
        """Watch the process while it works on a call."""
        if self._watch is None:
            self._note_life()
            self._ping_later()

    def _ping_later(self) -> None:
        loop = asyncio.get_running_loop()
        self._watch = loop.call_later(min(PING_SECONDS, self._silence / 2), self._ping)

    def _ping(self) -> None:
        self._watch = None
        if not self._calls or self._gone is not None or self._process is None:
            return
        if not self._owner.has_room():
            self._note_life()  # its frames wait for a slow reader
        if self._heard != self._sampled:
            self._sampled, self._used = self._heard, self._process.cpu_seconds()
        if self._is_stuck(self._process):
            self._kill()
            return
        self.tell(t="ping", n=self._number)
        self._ping_later()

    def _is_stuck(self, process: ScriptProcess) -> bool:
        """Return whether the process spins, or is silent for far too long."""
        silent = asyncio.get_running_loop().time() - self._heard
        if any(one.method == "load" for one in self._calls.values()):
            return silent > self._silence * LOADING_FACTOR
        if silent <= self._silence:
            return False
        used = process.cpu_seconds()
        spins = math.isinf(used) or used - self._used > self._silence * SPINNING_SHARE
        return spins or silent > self._silence * WAITING_FACTOR

    def _kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            self._tasks.start(process.end(0.0))
        self.lost(f"did not answer for {self._silence:g} s, so it was killed")

    def _stop_watch(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
