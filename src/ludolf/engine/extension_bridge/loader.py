"""The extensions of the present session, as the engine meets them. Without any it costs nothing."""

import asyncio
import sys
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from ludolf.agent.scope import Aborted, Scope, Tasks
from ludolf.base import ConfigError
from ludolf.engine.parts import Parts
from ludolf.protocol.events import Event, ExtensionError

if TYPE_CHECKING:
    from ludolf.agent.tool import Tool
    from ludolf.engine.extension_bridge.host import EngineHost
    from ludolf.extensions.extensions import Extensions
    from ludolf.extensions.finding import Found
    from ludolf.extensions.hook_events import Teller
    from ludolf.extensions.host import Then
    from ludolf.extensions.payloads import Payload
    from ludolf.extensions.runner import Limit, Runner

T = TypeVar("T")
Mode = Literal["rpc", "json", "print", "sdk"]
Reason = Literal["startup", "reload", "new", "resume", "fork"]
GOODBYE_SECONDS = 1.5
# So long do handlers of what follows an abort have, all together: a run has to come to its end.
AFTERMATH_SECONDS = 1.0
_PROVIDER_HOOKS = (
    "before_provider_request",
    "before_provider_headers",
    "after_provider_response",
)


class Extending:
    """`current` is None while no extension is loaded; every hook point asks that first."""

    def __init__(self, parts: Parts, tasks: Tasks) -> None:
        self._parts = parts
        self._tasks = tasks
        self._host: EngineHost | None = None
        self._running: set[Scope] = set()
        self._patience: float | None = None
        self._teller: Teller | None = None
        self._updates: list[Payload] = []
        self.current: Extensions | None = None
        self.settle_dialogs: Callable[[], None] | None = None
        self.make_host: Callable[[], EngineHost] | None = None
        self.mode: Mode = "rpc"

    def wants(self, name: str) -> bool:
        return self.current is not None and self.current.runner.wants(name)

    @property
    def runner(self) -> "Runner":
        """What calls the handlers; only for those who know by `wants` that somebody listens."""
        assert self.current is not None
        return self.current.runner

    def tools(self) -> "Mapping[str, Tool]":
        """The tools that extensions bring."""
        return self.current.tools() if self.current is not None else {}

    # ------------------------------------------------------------ life

    async def start(self) -> None:
        """Load what there is, and tell it that a session has begun.

        Raises:
            ConfigError: an extension named on the command line does not load, or nobody knows
                a flag.
        """
        if not self.possible():
            for flag in self._parts.options.flags:
                raise ConfigError(f"Unknown option: {flag}")
        await self._enter("startup")

    async def leave(self, reason: str, target: str | None = None) -> None:
        """The session is about to end: tell it, and retire its extensions."""
        if self.current is None:
            return
        from ludolf.extensions.payloads import SessionShutdown

        payload: Any = SessionShutdown(reason=reason, target_session_file=target)  # type: ignore[arg-type]
        await self._say_goodbye(payload, self.current)
        if self.settle_dialogs is not None:
            self.settle_dialogs()
        await self.current.close()
        self.current = None
        self._parts.hub.listen(None, None)
        self._parts.transport.watcher = None
        self._parts.toolbox.forget()

    async def _say_goodbye(self, payload: Any, current: "Extensions") -> None:
        """The end of the program waits for nobody who hangs; a change of session may ask."""
        limit = GOODBYE_SECONDS if payload.reason == "quit" else None
        try:
            async with asyncio.timeout(limit):
                await current.runner.emit(payload)
        except TimeoutError:
            self.report("<runtime>", "session_shutdown", f"took longer than {limit:g} s")

    async def enter(
        self, reason: Reason, previous: Path | None = None, then: "Then | None" = None
    ) -> None:
        """A new session has begun: load the extensions anew for it."""
        if self.make_host is None:
            return
        await self._enter(reason, str(previous) if previous else None)
        if self.current is not None:
            await self.current.continue_with(then)

    async def _enter(self, reason: Reason, previous: str | None = None) -> None:
        if not self.possible():
            return
        if self._host is None and self.make_host is not None:
            self._host = self.make_host()
        from ludolf.extensions.extensions import Extensions
        from ludolf.extensions.hook_events import Teller
        from ludolf.extensions.payloads import SessionStart

        if self.mode != "sdk":  # there stdout belongs to somebody else's program
            # What extensions print is for people; it must not come between frames, nor at the end.
            sys.stdout = sys.__stdout__ = sys.stderr  # type: ignore[assignment,misc]  # any stream will do
        limit = _seconds(self._parts.settings.handler_timeout_ms)
        flags = _bare(self._parts.options.flags)
        extensions = Extensions(self.report, flags=flags, limit=limit)
        await self._load(extensions)
        self._guard_code(reason)
        for text in extensions.flag_errors():
            raise ConfigError(text)
        if not extensions.count:
            return
        assert self._host is not None
        self.current, self._teller = extensions, Teller()
        self._parts.hub.listen(self._ask, self._later)
        if any(map(self.wants, _PROVIDER_HOOKS)):
            from ludolf.engine.extension_bridge.provider_watch import ProviderWatch

            self._parts.transport.watcher = ProviderWatch(self._parts)
        self._parts.toolbox.forget()
        extensions.bind(self._host)
        await extensions.runner.emit(SessionStart(reason=reason, previous_session_file=previous))
        await self._discover("reload" if reason == "reload" else "startup")

    async def _load(self, extensions: "Extensions") -> None:
        """First what the user chose; it may speak for the project, whose own comes then."""
        from ludolf.engine.project_trust import keep_imports, verify_code

        verify_code(self._parts)
        errors = await self._load_found(extensions)
        if not self._parts.settings_files.trusted and await self._project_is_trusted(extensions):
            self._parts.trust_project()
            verify_code(self._parts)
            errors += await self._load_found(extensions)
        keep_imports(self._parts)
        for error in errors:
            if error.explicit:
                raise ConfigError(str(error))
            self._parts.warn(f"Warning: {error}")
            self.report(error.path, "load", error.error)

    def _guard_code(self, reason: Reason) -> None:
        """Protect what was imported. A start ends if that fails; a session only reports it."""
        parts = self._parts
        if parts.safety is None:
            return
        try:
            parts.safety.guard_code(parts)
        except ConfigError as error:
            if reason == "startup":
                raise
            parts.report(f"What guards the machine stays as it was: {error}")

    async def _load_found(self, extensions: "Extensions") -> list[Any]:
        from ludolf.extensions.extension import factory_origin
        from ludolf.extensions.finding import find_extensions

        options = self._parts.options
        found: Found = find_extensions(
            self._parts.home,
            self._parts.settings_files,
            paths=options.extensions,
            discover=not options.no_extensions,
        )
        for text in found.warnings():
            self._parts.warn(f"Warning: {text}")
        own = [factory_origin(factory) for factory in options.factories]
        return [*found.errors, *await extensions.load([*own, *found.origins])]

    async def _project_is_trusted(self, extensions: "Extensions") -> bool:
        from ludolf.config.settings.trust import guarded_paths, save_decision
        from ludolf.extensions import points
        from ludolf.extensions.host import EarlyHost

        home, options = self._parts.home, self._parts.options
        if options.approve is not None or not guarded_paths(home):
            return False
        assert self._host is not None
        early = EarlyHost(self.mode, self._host.ui, home.cwd)
        answer = await points.project_trust(extensions.runner, early)
        if answer is not None and answer.remember:
            save_decision(home, trusted=answer.trusted)
        return answer is not None and answer.trusted

    async def _discover(self, reason: Literal["startup", "reload"]) -> None:
        from ludolf.extensions.payloads import ResourcesDiscover

        if not self.wants("resources_discover"):
            return
        payload = ResourcesDiscover(cwd=str(self._parts.home.cwd), reason=reason)
        found = await self.runner.transform(payload)
        self._parts.resources.add(found.skill_paths, found.prompt_paths)

    def possible(self) -> bool:
        """Whether there may be an extension at all, asked without loading anything of theirs."""
        parts = self._parts
        if parts.options.extensions or parts.options.factories:
            return True
        if parts.options.no_extensions:
            return False
        if parts.settings.extensions or (parts.home.agent / "extensions").is_dir():
            return True
        if self._project_may_bring_some():
            return True
        from ludolf.config.resources.entry_points import installed

        return next(iter(installed()), None) is not None

    def _project_may_bring_some(self) -> bool:
        """Also an untrusted one: the host may trust it later."""
        project = self._parts.home.project
        if (project / "extensions").is_dir():
            return True
        trusted = self._parts.settings_files.trusted
        return not trusted and (project / "settings.json").is_file()

    # ------------------------------------------------------------ stopping

    async def run(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Wait for handlers as long as nobody aborts; then they end, and None is returned."""
        scope = Scope()
        self._running.add(scope)
        if self._host is not None:
            self._host.on_abort(self.stop)
        limit = self._limit(scope)
        try:
            return await scope.run(work)
        except Aborted:
            return None
        finally:
            self._running.discard(scope)
            if limit is not None:
                limit.cancel()

    def _limit(self, scope: Scope) -> asyncio.TimerHandle | None:
        if self._host is None or not self._host.was_aborted:
            self._patience = None
            return None
        loop = asyncio.get_running_loop()
        self._patience = self._patience or loop.time() + AFTERMATH_SECONDS
        return loop.call_at(self._patience, self._cut, scope)

    def _cut(self, scope: Scope) -> None:
        self.report("<runtime>", "abort", "a handler was cut: it took too long after an abort")
        scope.abort()

    def stop(self) -> None:
        """End the handlers that are waited for now."""
        for scope in tuple(self._running):
            scope.abort()

    # ------------------------------------------------------------ telling

    async def _ask(self, event: Event) -> None:
        """Called before an event is told: handlers come first."""
        name = self._note(event)
        if name is not None and self.wants(name):
            await self._emit(event)

    def _later(self, event: Event) -> None:
        """Called for an event that was told without waiting: handlers follow in their own task."""
        name = self._note(event)
        if name is not None and self.wants(name):
            self._tasks.start(self._emit(event))

    def _note(self, event: Event) -> str | None:
        from ludolf.extensions.hook_events import NAMES

        assert self._teller is not None
        self._teller.note(event)
        return NAMES.get(type(event))

    async def _emit(self, event: Event) -> None:
        if self.current is not None and self._teller is not None:
            await self.run(self.current.runner.emit(self._teller.payload(event)))

    def collect(self, event: Any) -> None:
        """A piece of an answer: kept as it stands now, for `flush`."""
        assert self._teller is not None
        self._updates.append(self._teller.payload(event))

    async def flush(self) -> None:
        updates, self._updates = self._updates, []
        for payload in updates:
            if self.current is not None:
                await self.run(self.current.runner.emit(payload))

    def soon(self, payload: "Payload") -> None:
        """Tell handlers of something from a plain function."""
        if self.current is not None and self.current.runner.wants(payload.type):
            self._tasks.start(self.current.runner.emit(payload))

    @property
    def turn_index(self) -> int:
        return self._teller.turn_index if self._teller is not None else 0

    # ------------------------------------------------------------ trouble

    def report(self, path: str, event: str, text: str) -> None:
        self._parts.hub.post(ExtensionError(extension_path=path, event=event, error=text))
        if self.mode in ("json", "print"):
            sys.stderr.write(f"Extension error ({path}, {event}): {text}\n")


def _seconds(limit: int | Mapping[str, int]) -> "Limit":
    if isinstance(limit, int):
        return limit / 1000 or None
    return {name: ms / 1000 for name, ms in limit.items() if ms}


def _bare(flags: Mapping[str, str | bool]) -> dict[str, str | bool]:
    return {name.removeprefix("--"): value for name, value in flags.items()}
