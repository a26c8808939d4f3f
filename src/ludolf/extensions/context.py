"""`ctx`: state and actions for a handler, tool or command of an extension."""

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from ludolf.ai.models import Model
from ludolf.base import LudolfError
from ludolf.extensions.actions import Actions
from ludolf.extensions.dialogs import Dialogs, Read, UiMethods
from ludolf.extensions.host import HostMode, Setup, Signal, Then
from ludolf.extensions.models_view import ModelsView
from ludolf.extensions.payloads import PromptOptions, UiPromptEnd, UiPromptStart
from ludolf.extensions.runtime import Runtime
from ludolf.extensions.session_view import SessionView
from ludolf.functions.isolation import Failed, call, clock_stopped
from ludolf.protocol.ui import UiRequest
from ludolf.session.stats import ContextUsage, context_usage

T = TypeVar("T")


class ExtensionUi(UiMethods):
    """User interface for extensions.

    While a dialog is open, the timeout of the calling handler is paused; `ui_prompt_start` and
    `ui_prompt_end` are sent to other extensions. Methods without a result may be called from
    worker threads.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def _ask(self, request: UiRequest, read: Read, timeout: float | None) -> Any:
        runtime, runner = self._runtime, self._runtime.runner
        kind: Any = request.method
        outermost = runtime.open_dialogs == 0
        runtime.open_dialogs += 1
        try:
            with clock_stopped():
                if outermost and runner.wants("ui_prompt_start"):
                    await runner.emit(UiPromptStart(kind=kind, title=request.title))
                return await runtime.host.ui._ask(request, read, timeout)
        finally:
            runtime.open_dialogs -= 1
            if outermost and runner.wants("ui_prompt_end"):
                await runner.emit(UiPromptEnd(kind=kind, title=request.title))

    def _send(self, request: UiRequest) -> None:
        self._runtime.do(lambda host: host.ui._send(request))

    def __getattr__(self, name: str) -> Any:
        """Return a method that needs a terminal; without one it returns a constant."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._runtime.host.ui, name)


class TrustContext(msgspec.Struct, frozen=True):
    """Context of a `project_trust` handler, which runs before there is a session."""

    mode: HostMode
    ui: Dialogs
    cwd: Path

    @property
    def has_ui(self) -> bool:
        return self.mode in ("tui", "rpc")


class Context(Actions):
    """Context of handlers and tools.

    Every property is read when it is used, so a stored `ctx` stays current. After a change of
    session any use raises `NotReady`.
    """

    def __init__(self, runtime: Runtime, path: str) -> None:
        super().__init__(runtime)
        self._path = path

    # ------------------------------------------------------------ environment

    @property
    def ui(self) -> ExtensionUi:
        return ExtensionUi(self._runtime)

    @property
    def mode(self) -> HostMode:
        return self._runtime.host.mode

    @property
    def has_ui(self) -> bool:
        """Return whether a host can answer dialogs."""
        return self.mode in ("tui", "rpc")

    @property
    def cwd(self) -> Path:
        return self._runtime.host.cwd

    @property
    def is_project_trusted(self) -> bool:
        return self._runtime.host.trusted

    # ------------------------------------------------------------ the session

    @property
    def session(self) -> SessionView:
        return SessionView(self._runtime.host.session)

    @property
    def is_idle(self) -> bool:
        return self._runtime.host.is_idle

    @property
    def has_pending_messages(self) -> bool:
        return self._runtime.host.has_pending_messages

    @property
    def signal(self) -> Signal | None:
        """Return the abort signal of the active run; None when idle."""
        return self._runtime.host.signal

    @property
    def context_usage(self) -> ContextUsage | None:
        host, model = self._runtime.host, self.model
        return context_usage(host.session.context, model.context_window if model else None)

    @property
    def system_prompt(self) -> str:
        return self._runtime.host.system_prompt

    # ------------------------------------------------------------ models and tools

    @property
    def models(self) -> ModelsView:
        return ModelsView(self._runtime)

    @property
    def model(self) -> Model | None:
        return self._runtime.host.model

    @property
    def scoped_models(self) -> tuple[Model, ...]:
        return self._runtime.host.scoped_models

    # ------------------------------------------------------------ actions

    def abort(self) -> None:
        """Abort the active run."""
        self._runtime.do(lambda host: host.abort())

    def shutdown(self) -> None:
        """Exit the program when the agent is idle."""
        self._runtime.do(lambda host: host.shutdown())

    def compact(
        self,
        custom_instructions: str | None = None,
        *,
        on_complete: Callable[[Any], Any] | None = None,
        on_error: Callable[[str], Any] | None = None,
    ) -> None:
        """Start a compaction in the background."""
        work = self._compact(custom_instructions, on_complete, on_error)
        self._runtime.do(lambda host: self._runtime.start(work))

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine from a worker thread and return its result.

        Example: `ctx.wait(ctx.ui.confirm(…))`.
        """
        return self._runtime.wait(work)

    async def _compact(
        self,
        instructions: str | None,
        on_complete: Callable[[Any], Any] | None,
        on_error: Callable[[str], Any] | None,
    ) -> None:
        try:
            try:
                result = await self._runtime.host.compact(instructions)
            except LudolfError as error:
                if on_error is not None:
                    await call(on_error, str(error))
            else:
                if on_complete is not None:
                    await call(on_complete, result)
        except Failed as error:
            self._runtime.runner.report(self._path, "compact", str(error))


class CommandContext(Context):
    """Context of commands, which may also replace the session they run in.

    Afterwards this context is stale; `with_session` is called with a new one.
    """

    @property
    def system_prompt_options(self) -> PromptOptions:
        return self._runtime.host.prompt_options

    async def wait_for_idle(self) -> None:
        await self._runtime.host.wait_for_idle()

    async def new_session(
        self,
        parent_session: str | None = None,
        *,
        setup: Setup | None = None,
        with_session: Then | None = None,
    ) -> dict[str, Any]:
        return _result(await self._runtime.host.new_session(parent_session, setup, with_session))

    async def switch_session(
        self, path: str, *, with_session: Then | None = None
    ) -> dict[str, Any]:
        return _result(await self._runtime.host.switch_session(path, with_session))

    async def fork(
        self,
        entry_id: str,
        *,
        position: Literal["before", "at"] = "before",
        with_session: Then | None = None,
    ) -> dict[str, Any]:
        return _result(await self._runtime.host.fork(entry_id, position, with_session))

    async def navigate_tree(
        self,
        target_id: str,
        *,
        summarize: bool = False,
        custom_instructions: str | None = None,
        replace_instructions: bool = False,
        label: str | None = None,
    ) -> dict[str, Any]:
        """Continue from another entry of the tree."""
        moved = await self._runtime.host.navigate(
            target_id,
            summarize=summarize,
            instructions=custom_instructions,
            replace=replace_instructions,
            label=label,
        )
        return _result(moved)

    async def reload(self) -> None:
        """Load settings, resources and extensions again."""
        await self._runtime.host.reload()


def _result(changed: bool) -> dict[str, Any]:
    return {"cancelled": not changed}
