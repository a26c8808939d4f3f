"""The script extensions of an engine: one host process for all of them, over all sessions."""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import structs

from ludolf.agent import events
from ludolf.agent.scope import Scope, Tasks
from ludolf.base import CommandError, LudolfError
from ludolf.engine.engine import Engine
from ludolf.engine.extension_bridge.host import host_mode
from ludolf.engine.feature import Feature
from ludolf.engine.features.script_extensions.early import EarlyScriptHost
from ludolf.engine.features.script_extensions.extension import ScriptExtension
from ludolf.engine.features.script_extensions.latest import LATEST, LatestNotices
from ludolf.engine.features.script_extensions.link import (
    ScriptError,
    ScriptFrame,
    ScriptLink,
    TakeUpdate,
)
from ludolf.engine.features.script_extensions.node import find_node, host_environment
from ludolf.engine.features.script_extensions.process import ScriptProcess
from ludolf.engine.features.script_extensions.questions import QUESTIONS, ScriptAsker
from ludolf.engine.features.script_extensions.requests import (
    NOTICES,
    REQUESTS,
    ScriptRequest,
    starts_run,
)
from ludolf.engine.features.script_extensions.shapes import MessageHistory
from ludolf.extensions.loader import ExtensionFile
from ludolf.extensions.registry import Extension, Registry
from ludolf.extensions.runtime import STALE, NotReady
from ludolf.functions.isolation import Failed, call_now
from ludolf.protocol.events import Event
from ludolf.session.tree import Session
from ludolf.tools.process import ProcessCommand, StartError

HOST = "<script host>"
SILENCE_SECONDS = 10.0
# Nothing more is read from the process while the host has left so much unread.
MOST_UNREAD_BYTES = 1 << 20
Report = Callable[[str, str, str], None]


class ScriptExtensions(Feature):
    """Starts the host process for the first script; ends it with the engine.

    A process that ends is started again once in a session; the second time its scripts stay
    registered, so that their gates refuse and their tools fail.
    """

    def __init__(self, engine: Engine, report: Report, *, silence: float = SILENCE_SECONDS) -> None:
        self._engine = engine
        self._report = report
        self._silence = silence
        self._tasks = Tasks()
        self._link: ScriptLink | None = None
        self._starting: asyncio.Task[ScriptLink] | None = None
        self._scripts: dict[int, ScriptExtension] = {}
        # A script of the last session, for questions between two sessions.
        self._left: ScriptExtension | None = None
        self._generation = 0
        self._number = 0
        self._fresh = False
        self._opened = False
        self._restarts = 0
        self._history = MessageHistory()
        self._deferred: list[Callable[[], None]] = []
        hub = engine.conversation.hub
        self._latest = LatestNotices(hub, partial(report, HOST, "ui"))
        self._setup: Session | None = None
        self._jiti: Path | None = None
        # The run whose abort a script waits for.
        self._run = 0
        self._watched: Scope | None = None
        self._watch: asyncio.Task[None] | None = None

    # ------------------------------------------------------------ life

    def origin(self, file: ExtensionFile) -> ExtensionFile:
        """Return a script so that loading it runs it in the host process."""
        return structs.replace(file, connect=self._connect)

    def start_early(self) -> None:
        """Start the process, without waiting for it."""
        if self._link is None and self._starting is None:
            self._starting = self._tasks.start(self._start())

    def leave(self, *, fresh: bool) -> None:
        """Make the scripts of the session stale; `fresh` reads their files again."""
        self._latest.flush()
        self._left = next(iter(self._scripts.values()), None)
        self._scripts = {}
        self._deferred.clear()
        self._history.forget()
        self._fresh = self._fresh or fresh
        self._opened = False
        self._restarts = 0
        if self._starting is not None and self._starting.done():
            self._starting = None

    def bind(self) -> None:
        """Let the loaded scripts act."""
        if self._link is not None and self._scripts:
            self._link.tell(t="bind", info=self._info())

    async def close(self) -> None:
        """End the process."""
        await self._tasks.close()
        await self._latest.close()
        link, self._link = self._link, None
        if link is not None:
            await link.close()

    # ------------------------------------------------------------ one-way events

    def on_update(self, update: events.MessageUpdate) -> None:
        if self._link is not None and self._watches("message_update"):
            self._link.pieces.add_update(update)

    async def before_event(self, event: Event) -> None:
        self.after_event(event)

    def after_event(self, event: Event) -> None:
        if not isinstance(event, events.ToolUpdate) or self._link is None:
            return
        if self._watches("tool_execution_update"):
            self._link.pieces.add_progress(event)

    def _watches(self, event: str) -> bool:
        return any(event in script.watches.values() for script in self._scripts.values())

    # ------------------------------------------------------------ loading

    async def _connect(self, extension: Extension, registry: Registry) -> None:
        """Load a script into an extension.

        Raises:
            ScriptError: it does not load.
            NoNode: there is no Node.
        """
        link = await self._running()
        if not self._opened:
            self._open(link)
        self._number += 1
        script = ScriptExtension(self._number, extension, registry, self._history)
        self._scripts[script.number] = script
        try:
            await script.load(link, self._generation)
        except LudolfError:
            self._scripts.pop(script.number, None)
            raise

    def _open(self, link: ScriptLink) -> None:
        self._generation += 1
        self._opened = True
        info = self._info()
        link.tell(t="open", gen=self._generation, fresh=self._fresh, info=info)
        self._fresh = False

    async def _running(self) -> ScriptLink:
        if self._link is None:
            self.start_early()
            assert self._starting is not None
            # A failure is kept for the other scripts of the session.
            self._link = await asyncio.shield(self._starting)
            self._starting = None
        return self._link

    async def _start(self) -> ScriptLink:
        """Start the process.

        Raises:
            NoNode: there is no Node that is new enough.
            ScriptError: the process does not start.
        """
        workspace = self._engine.workspace
        environ, home = workspace.environ, workspace.home
        writable = tuple(self._engine.features.writable(home.cwd))
        node = await find_node(home, environ, workspace.settings.node_command, writable)
        self._jiti = node.jiti
        link = ScriptLink(self, silence=self._silence)
        command = ProcessCommand(
            argv=node.argv(), cwd=home.cwd, env=host_environment(home, environ)
        )
        early = self._engine.features.find(EarlyScriptHost)
        process = early.take_process(command) if early is not None else None
        process = process or ScriptProcess(command)
        link.attach(process)
        try:
            await process.start(link)
            await link.ready
        except StartError as error:
            raise ScriptError(str(error)) from error
        except (ScriptError, asyncio.CancelledError):
            await link.close()
            raise
        return link

    def _info(self) -> dict[str, Any]:
        engine = self._engine
        mode, home = host_mode(engine), engine.workspace.home
        return {
            "cwd": str(home.cwd),
            "mode": "print" if mode == "sdk" else mode,
            "hasUI": mode in ("tui", "rpc"),
            "agentDir": str(home.agent),
            "jiti": str(self._jiti) if self._jiti is not None else None,
            "cache": str(home.agent / "cache"),
        }

    # ------------------------------------------------------------ questions and notices

    def has_room(self) -> bool:
        hub = self._engine.conversation.hub
        return hub.unread_bytes() <= MOST_UNREAD_BYTES and hub.has_room()

    async def room(self) -> None:
        await self._engine.conversation.hub.room()

    def answer_question(self, frame: ScriptFrame) -> Any:
        """Answer at once, from memory."""
        method = str(frame.get("m"))
        asker = self._asker(frame)
        if method == "run":
            return self._run_number()
        answer = QUESTIONS.get(method)
        if answer is None:
            raise CommandError(f"Ludolf does not know {method}")
        return answer(asker, frame.get("a") or {})

    async def answer_call(self, frame: ScriptFrame, update: TakeUpdate) -> Any:
        """Answer a request that takes time."""
        method = str(frame.get("m"))
        answer = REQUESTS.get(method)
        if answer is None:
            raise CommandError(f"Ludolf does not know {method}")
        request = ScriptRequest(self._asker(frame), frame.get("a") or {}, update, self._call_back)
        return await answer(request)

    def take_notice(self, frame: ScriptFrame) -> None:
        """Take a registration, or a notice that needs no answer."""
        script = self._scripts.get(frame.get("ext") or 0)
        match frame.get("t"):
            case "tell":
                self._do(frame)
            case "tick":
                self._begin_runs()
            case "error":
                path = str(script.path) if script is not None else HOST
                self._report(path, str(frame.get("where")), str(frame.get("error")))
            case _:
                if script is not None:
                    script.take(frame)

    def _asker(self, frame: ScriptFrame) -> ScriptAsker:
        """Return who asks; pi's packages ask for no script in particular.

        Raises:
            NotReady: the script belongs to a session that has ended.
        """
        number = frame.get("ext")
        script = self._any_script() if number is None else self._scripts.get(number)
        if script is None:
            raise NotReady(STALE)
        return ScriptAsker(script, self._engine, self._setup)

    def _any_script(self) -> ScriptExtension:
        script = next(iter(self._scripts.values()), self._left)
        if script is None:
            raise CommandError("No extension is loaded.")
        return script

    def _do(self, frame: ScriptFrame) -> None:
        """Perform a notice; a message that starts a run waits for the end of the task."""
        method, args = str(frame.get("m")), frame.get("a") or {}
        if method == "warn":
            self._engine.conversation.hub.report(f"Warning: {args.get('text')}")
            return
        try:
            asker = self._asker(frame)
            act = partial(NOTICES[method], asker, args)
            if method.startswith("send_") and starts_run(asker, method, args):
                self._deferred.append(act)
            elif method in LATEST:
                self._latest.add((asker.script.number, method, str(args.get("key"))), act)
            else:
                call_now(act)
        except NotReady:
            return  # said in a session that has ended meanwhile
        except (LudolfError, KeyError) as error:
            self._report(HOST, method, str(error))

    def _begin_runs(self) -> None:
        if self._deferred:
            self._tasks.start(self._run_deferred())

    async def _run_deferred(self) -> None:
        # The command that asked for a run is answered first.
        await asyncio.sleep(0)
        deferred, self._deferred = self._deferred, []
        for act in deferred:
            try:
                call_now(act)
            except Failed as error:
                self._report(HOST, "send_message", str(error))

    async def _call_back(self, number: int, path: Path, session: Session | None) -> None:
        assert self._link is not None
        if session is None:
            same = [one.number for one in self._scripts.values() if one.path == path]
            await self._link.call("then", {"callback": number, "ext": next(iter(same), None)})
            return
        self._setup = session
        try:
            await self._link.call("setup", {"callback": number})
        finally:
            self._setup = None

    def _run_number(self) -> int | None:
        """Return the number of the active run; the process learns of its abort."""
        scope = self._engine.runner.scope
        if scope is None:
            return None
        if scope is not self._watched:
            self._watched = scope
            self._run += 1
            if self._watch is not None:
                self._watch.cancel()
            self._watch = self._tasks.start(self._watch_run(self._run, scope))
        return self._run

    async def _watch_run(self, number: int, scope: Scope) -> None:
        await scope.until_aborted()
        if self._link is not None:
            self._link.tell(t="abort", run=number)

    # ------------------------------------------------------------ end of the process

    def lost(self, reason: str) -> None:
        """Start the process again, once in a session."""
        old, self._link = self._link, None
        if old is not None:
            self._tasks.start(old.close())
        again = self._restarts == 0 and bool(self._scripts)
        note = "It is started again." if again else "Reload the session to start it again."
        self._report(HOST, "host", f"{reason}. {note}")
        if again:
            self._restarts += 1
            self._tasks.start(self._restart())

    async def _restart(self) -> None:
        """Load the scripts of the session into a new process."""
        self._history.forget()
        self._fresh = True
        try:
            link = await self._running()
        except LudolfError as error:
            self._report(HOST, "host", str(error))
            return
        self._open(link)
        loaded = [one for one in tuple(self._scripts.values()) if await self._load_again(one, link)]
        self.bind()
        for script in loaded:
            await script.start_again()

    async def _load_again(self, script: ScriptExtension, link: ScriptLink) -> bool:
        """Return whether a script loads in a new process; its old gates refuse otherwise."""
        try:
            await script.load(link, self._generation)
        except LudolfError as error:
            self._report(str(script.path), "host", str(error))
            return False
        return True
