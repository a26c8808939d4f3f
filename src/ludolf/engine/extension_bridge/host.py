"""The engine as extensions use it."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import UNSET

from ludolf.agent.events import MessageEnd, MessageStart
from ludolf.agent.tool import Tool
from ludolf.ai.access import Access
from ludolf.ai.messages import CustomMessage, Image, Part, ThinkingLevel, text_of
from ludolf.ai.models import Model
from ludolf.ai.provider import Provider, Request
from ludolf.base import CommandError
from ludolf.base.programs import safe_path
from ludolf.config.models.models_file import ProviderEntry, make_model
from ludolf.config.models.registry import ModelRegistry
from ludolf.engine.run.prompting import BUSY
from ludolf.engine.toolbox import tool_environment
from ludolf.extensions.host import (
    Change,
    Delivery,
    Host,
    NavigateOptions,
    SessionChanges,
    Setup,
    Signal,
    Then,
    Ui,
)
from ludolf.extensions.payloads import PromptOptions
from ludolf.protocol.events import CompactionResult, EntryAppended
from ludolf.session.entries import CustomEntry, Label, entry_json
from ludolf.session.stats import ContextUsage, context_usage
from ludolf.session.tree import Session

if TYPE_CHECKING:
    from ludolf.engine.engine import Engine


class EngineHost:
    """One per engine; what belongs to a session it asks for each time."""

    def __init__(self, engine: "Engine", ui: Ui) -> None:
        self._engine = engine
        self._parts = engine.parts
        self.ui = ui
        self.sessions: SessionChanges = HostSessions(engine)
        self._signal: tuple[Any, Signal] | None = None

    # ------------------------------------------------------------ facts

    @property
    def mode(self) -> Literal["rpc", "json", "print", "sdk"]:
        return self._parts.extending.mode

    @property
    def cwd(self) -> Path:
        return self._parts.home.cwd

    @property
    def trusted(self) -> bool:
        return self._parts.settings_files.trusted

    @property
    def session(self) -> Session:
        return self._parts.session

    @property
    def registry(self) -> ModelRegistry:
        return self._parts.registry

    @property
    def model(self) -> Model | None:
        return self._parts.models.current

    @property
    def scoped_models(self) -> tuple[Model, ...]:
        return tuple(item.model for item in self._parts.models.scoped)

    @property
    def thinking_level(self) -> ThinkingLevel:
        return self._parts.models.level

    @property
    def signal(self) -> Signal | None:
        scope = self._engine.runner.scope
        if scope is None:
            return None
        if self._signal is None or self._signal[0] is not scope:
            signal = Signal()
            self._signal = (scope, signal)
            self._engine.runner.on_abort.append(signal.abort)
        return self._signal[1]

    @property
    def is_idle(self) -> bool:
        return not self._engine.runner.running

    @property
    def has_pending_messages(self) -> bool:
        return len(self._parts.queue) > 0

    @property
    def context_usage(self) -> ContextUsage | None:
        model = self.model
        return context_usage(self.session.context, model.context_window if model else None)

    @property
    def system_prompt(self) -> str:
        return self._parts.resources.system_prompt()

    @property
    def prompt_options(self) -> PromptOptions:
        return self._parts.resources.prompt_options()

    @property
    def commands(self) -> tuple[Any, ...]:
        return self._engine.commands()

    @property
    def environment(self) -> Mapping[str, str]:
        """For programs that extensions run, which are outside the sandbox."""
        environment = dict(tool_environment(self._parts, self.model))
        safety = self._parts.safety
        writable = safety.writable(self._parts.home.cwd) if safety is not None else ()
        if writable:
            environment["PATH"] = safe_path(environment["PATH"], writable)
        return environment

    # ------------------------------------------------------------ the conversation

    def send_message(
        self, message: CustomMessage, *, trigger_turn: bool | None, deliver_as: Delivery | None
    ) -> None:
        runner = self._engine.runner
        if deliver_as == "nextTurn":
            self._engine.prompting.next_turn.append(message)
        elif runner.running and trigger_turn is False:
            runner.after_turn.append(message)
        elif runner.running:
            line: Literal["steering", "follow_up"]
            line = "follow_up" if deliver_as == "followUp" else "steering"
            self._parts.queue.add(line, message)
        elif trigger_turn:
            self._parts.models.require()
            runner.start((message,))
        else:
            self._parts.hub.post(MessageStart(message=message))
            self._parts.hub.post(MessageEnd(message=message))

    def send_user_message(
        self,
        content: str | tuple[Part, ...],
        *,
        deliver_as: Literal["steer", "followUp"] | None,
        expand: bool,
    ) -> None:
        if self._engine.runner.running and deliver_as is None:
            raise CommandError(BUSY)
        images = () if isinstance(content, str) else _images(content)
        work = self._engine.prompting.say(
            text_of(content), images, deliver_as, source="extension", expand=expand
        )
        if not isinstance(work, str):
            self._engine.tasks.start(self._say(work))

    async def _say(self, work: Any) -> None:
        try:
            await work
        except CommandError as error:
            self._parts.extending.report("<runtime>", "send_user_message", str(error))

    def append_entry(self, custom_type: str, data: Any) -> str:
        body = CustomEntry(custom_type=custom_type, data=UNSET if data is UNSET else data)
        entry = self.session.append(body)
        self._parts.hub.post(EntryAppended(entry=msgspec.Raw(entry_json(entry))))
        return entry.id

    def set_session_name(self, name: str) -> None:
        self._engine.set_session_name(name)

    def set_label(self, entry_id: str, label: str | None) -> None:
        if self.session.get(entry_id) is None:
            raise CommandError(f"Entry not found: {entry_id}")
        self.session.append(Label(target_id=entry_id, label=label or None))

    # ------------------------------------------------------------ model and tools

    def set_model(self, model: Model) -> bool:
        if not self.registry.admits(model):
            return False
        self._parts.models.set_model(model.provider, model.id)
        return True

    def set_thinking_level(self, level: str) -> None:
        self._parts.models.set_level(level)

    async def request(self, model: Model) -> Request:
        return await self._engine.requests.fresh(model)

    def register_provider(self, name: str, entry: ProviderEntry, backend: Provider | None) -> None:
        if backend is not None:
            self._parts.providers.register(backend)
        made = [make_model(name, entry, one, None) for one in entry.models]
        headers = {header: value for header, value in entry.headers.items() if value is not None}
        removed = tuple(header for header in entry.headers if header not in headers)
        access = Access(key=entry.api_key, headers=headers, without=removed)
        self.registry.register(made, Access() if backend is not None else access)

    def unregister_provider(self, name: str) -> None:
        self.registry.unregister(name)

    def tools(self) -> Mapping[str, Tool]:
        return self._parts.toolbox.tools

    def active_tools(self) -> tuple[str, ...]:
        return tuple(tool.name for tool in self._parts.toolbox.active())

    def set_active_tools(self, names: Sequence[str]) -> None:
        self._parts.toolbox.set_active(names)
        self._parts.resources.forget_prompt()

    def tools_changed(self, added: str) -> None:
        active = self.active_tools()
        self._parts.toolbox.forget()
        self._parts.toolbox.set_active((*active, added))
        self._parts.resources.forget_prompt()

    # ------------------------------------------------------------ stopping

    def abort(self) -> None:
        self._engine.runner.abort()
        if self._parts.jobs is not None:
            self._parts.jobs.abort()

    @property
    def was_aborted(self) -> bool:
        """Whether the present run is on its way to an early end."""
        scope = self._engine.runner.scope
        return scope is not None and scope.aborted

    def on_abort(self, action: Callable[[], None]) -> None:
        """Do this too when the present run is aborted."""
        if action not in self._engine.runner.on_abort:
            self._engine.runner.on_abort.append(action)

    def shutdown(self) -> None:
        self._engine.shutdown()

    async def compact(self, instructions: str | None) -> CompactionResult:
        return await self._engine.compact(instructions)


class HostSessions:
    """Changes of session that a command asks for."""

    def __init__(self, engine: "Engine") -> None:
        self._engine = engine

    async def wait_for_idle(self) -> None:
        await self._engine.runner.settled()

    async def new(self, parent: str | None, setup: Setup | None, then: Then | None) -> Change:
        return Change(cancelled=await self._engine.sessions.new(parent, setup=setup, then=then))

    async def switch(self, path: str, then: Then | None) -> Change:
        return Change(cancelled=await self._engine.sessions.switch(path, then=then))

    async def fork(
        self, entry_id: str, position: Literal["before", "at"], then: Then | None
    ) -> Change:
        if position == "at":
            self._engine.parts.session.branch_to(entry_id)
            return Change(cancelled=await self._engine.sessions.clone(then=then))
        cancelled, text = await self._engine.sessions.fork(entry_id, then=then)
        return Change(cancelled=cancelled, text=text)

    async def navigate(self, target_id: str, options: NavigateOptions) -> Change:
        if self._engine.runner.running:
            raise CommandError("Cannot navigate while the agent is working. Abort it or wait.")
        moved = await self._engine.tree.go(
            target_id,
            summarize=options.summarize,
            instructions=options.custom_instructions,
            replace=options.replace_instructions,
            label=options.label,
        )
        return Change(
            cancelled=moved.cancelled, text=moved.text, summary_entry_id=moved.summary_entry_id
        )

    async def reload(self) -> None:
        await self._engine.reload()


def _images(content: tuple[Part, ...]) -> tuple[Image, ...]:
    return tuple(part for part in content if isinstance(part, Image))


def make_host(engine: "Engine", ui: Ui) -> Host:
    return EngineHost(engine, ui)
