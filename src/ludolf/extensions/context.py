"""`ctx`: state and actions for a handler, tool or command of an extension."""

from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import UNSET

from ludolf.ai.messages import ThinkingLevel
from ludolf.ai.models import Model
from ludolf.base import LudolfError
from ludolf.extensions.actions import Actions, PendingMessage, custom_message
from ludolf.extensions.host import Delivery, HostMode, NavigateOptions, Setup, Signal, Then, Ui
from ludolf.extensions.models_view import ModelsView
from ludolf.extensions.payloads import PromptOptions
from ludolf.extensions.runtime import Runtime
from ludolf.extensions.session_view import SessionView
from ludolf.extensions.ui import ExtensionUi
from ludolf.functions.isolation import Failed, call
from ludolf.functions.results import ExecResult
from ludolf.session.stats import ContextUsage

T = TypeVar("T")


class TrustContext(msgspec.Struct, frozen=True):
    """Context of a `project_trust` handler, which runs before there is a session."""

    mode: HostMode
    ui: Ui
    cwd: Path

    @property
    def has_ui(self) -> bool:
        return self.mode in ("tui", "rpc")


class Context:
    """Context of handlers and tools.

    Every property is read when it is used, so a stored `ctx` stays current. After a change of
    session any use raises `NotReady`.
    """

    def __init__(self, runtime: Runtime, path: str) -> None:
        self._runtime = runtime
        self._path = path
        self._actions = Actions(runtime)

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
        return self._runtime.host.context_usage

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

    @property
    def thinking_level(self) -> ThinkingLevel:
        return self._runtime.host.thinking_level

    @property
    def active_tools(self) -> tuple[str, ...]:
        return self._runtime.do(lambda host: host.active_tools())

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

    def send_message(  # the options of a message are its interface
        self,
        custom_type: str,
        content: Any,
        *,
        display: bool = True,
        details: Any = UNSET,
        trigger_turn: bool | None = None,
        deliver_as: Delivery | None = None,
    ) -> PendingMessage:
        """Add a custom message to the conversation; see `Api.send_message`."""
        message = custom_message(custom_type, content, display, details)
        return self._actions.send_message(message, trigger_turn, deliver_as)

    def send_user_message(
        self,
        content: Any,
        *,
        deliver_as: Literal["steer", "followUp"] | None = None,
        expand_prompt_templates: bool = False,
    ) -> PendingMessage:
        """Send a message as the user; see `Api.send_user_message`."""
        return self._actions.send_user_message(content, deliver_as, expand_prompt_templates)

    def append_entry(self, custom_type: str, data: Any = UNSET) -> str:
        """Store state in the session that is not sent to models; returns the entry's id."""
        return self._actions.append_entry(custom_type, data)

    def set_model(self, model: Model | str) -> bool:
        """Select a model, or `provider/id`; returns False without credentials."""
        return self._actions.set_model(model)

    def set_thinking_level(self, level: ThinkingLevel) -> None:
        self._runtime.do(lambda host: host.set_thinking_level(level))

    def set_active_tools(self, names: Sequence[str]) -> None:
        """Activate exactly these tools; unknown names are ignored."""
        self._runtime.do(lambda host: host.set_active_tools(tuple(names)))

    async def exec(
        self,
        command: str,
        args: Sequence[str] = (),
        *,
        cwd: str | None = None,
        timeout: float | None = None,
    ) -> ExecResult:
        """Run a program, without a shell; `timeout` in milliseconds."""
        return await self._actions.exec(command, args, cwd, timeout)

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
        await self._runtime.host.sessions.wait_for_idle()

    async def new_session(
        self,
        parent_session: str | None = None,
        *,
        setup: Setup | None = None,
        with_session: Then | None = None,
    ) -> dict[str, Any]:
        sessions = self._runtime.host.sessions
        return _result(await sessions.new(parent_session, setup, with_session))

    async def switch_session(
        self, path: str, *, with_session: Then | None = None
    ) -> dict[str, Any]:
        return _result(await self._runtime.host.sessions.switch(path, with_session))

    async def fork(
        self,
        entry_id: str,
        *,
        position: Literal["before", "at"] = "before",
        with_session: Then | None = None,
    ) -> dict[str, Any]:
        return _result(await self._runtime.host.sessions.fork(entry_id, position, with_session))

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
        options = NavigateOptions(
            summarize=summarize,
            custom_instructions=custom_instructions,
            replace_instructions=replace_instructions,
            label=label,
        )
        return _result(await self._runtime.host.sessions.navigate(target_id, options))

    async def reload(self) -> None:
        """Load settings, resources and extensions again."""
        await self._runtime.host.sessions.reload()


def _result(change: Any) -> dict[str, Any]:
    return {"cancelled": change.cancelled}
