"""The engine as extensions use it."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import UNSET

from ludolf.agent.events import MessageEnd, MessageStart
from ludolf.agent.scope import StartedCoroutine
from ludolf.agent.tool import Tool
from ludolf.ai.access import Access
from ludolf.ai.messages import CustomMessage, Image, Part, ThinkingLevel, text_of
from ludolf.ai.models import Model
from ludolf.ai.provider import Provider, Request
from ludolf.base import CommandError
from ludolf.base.programs import safe_path
from ludolf.config.models.models_file import ProviderEntry, make_model
from ludolf.config.models.registry import ModelRegistry
from ludolf.engine.engine import Engine
from ludolf.engine.feature import PromptInput, TreeMove, Vetoed
from ludolf.engine.run.prompting import BUSY
from ludolf.extensions.dialogs import Dialogs
from ludolf.extensions.host import (
    Delivery,
    Host,
    MoveResult,
    NavigateOptions,
    SessionChanges,
    Setup,
    Signal,
    Then,
    Ui,
)
from ludolf.extensions.no_ui import NoUi
from ludolf.extensions.payloads import PromptOptions
from ludolf.protocol.commands import UiAnswer
from ludolf.protocol.events import CompactionResult, EntryStored, ExtensionError
from ludolf.session.entries import CustomBody, LabelBody, entry_json
from ludolf.session.stats import ContextUsage, context_usage
from ludolf.session.tree import Session


def report_error(engine: Engine, path: str, event: str, text: str) -> None:
    """Report a failure of an extension to the host, and on stderr in the modes without a host."""
    error = ExtensionError(extension_path=path, event=event, error=text)
    engine.conversation.hub.post(error)
    if engine.mode in ("json", "print"):
        sys.stderr.write(f"Extension error ({path}, {event}): {text}\n")


class EngineHost:
    """One per engine; `dialogs` are those of the host, if it shows some."""

    def __init__(self, engine: Engine, dialogs: Dialogs | None) -> None:
        self._engine = engine
        self._dialogs = dialogs
        self.ui: Ui = dialogs or NoUi()
        self.sessions: SessionChanges = HostSessions(engine)
        self._signal: tuple[Any, Signal] | None = None

    # ------------------------------------------------------------ dialogs

    def answer_dialog(self, answer: UiAnswer) -> None:
        if self._dialogs is not None:
            self._dialogs.answer(answer)

    def dismiss_dialogs(self) -> None:
        if self._dialogs is not None:
            self._dialogs.dismiss_all()

    def disconnect(self) -> None:
        if self._dialogs is not None:
            self._dialogs.close()

    # ------------------------------------------------------------ facts

    @property
    def mode(self) -> Literal["rpc", "json", "print", "sdk"]:
        return self._engine.mode

    @property
    def cwd(self) -> Path:
        return self._engine.workspace.cwd

    @property
    def trusted(self) -> bool:
        return self._engine.workspace.files.trusted

    @property
    def session(self) -> Session:
        return self._engine.conversation.session

    @property
    def registry(self) -> ModelRegistry:
        return self._engine.models.registry

    @property
    def model(self) -> Model | None:
        return self._engine.models.current

    @property
    def scoped_models(self) -> tuple[Model, ...]:
        return tuple(item.model for item in self._engine.models.scoped)

    @property
    def thinking_level(self) -> ThinkingLevel:
        return self._engine.models.level

    @property
    def signal(self) -> Signal | None:
        scope = self._engine.runner.scope
        if scope is None:
            return None
        if self._signal is None or self._signal[0] is not scope:
            self._signal = (scope, Signal(scope))
        return self._signal[1]

    @property
    def is_idle(self) -> bool:
        return not self._engine.runner.running

    @property
    def has_pending_messages(self) -> bool:
        return len(self._engine.conversation.queue) > 0

    @property
    def context_usage(self) -> ContextUsage | None:
        model = self.model
        return context_usage(self.session.context, model.context_window if model else None)

    @property
    def system_prompt(self) -> str:
        return self._engine.resources.system_prompt()

    @property
    def prompt_options(self) -> PromptOptions:
        return self._engine.resources.prompt_options()

    @property
    def commands(self) -> tuple[Any, ...]:
        return self._engine.commands()

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment of programs that extensions run, which are outside the sandbox."""
        environment = self._engine.toolset.environment()
        writable = self._engine.features.writable(self._engine.workspace.cwd)
        if writable:
            environment["PATH"] = safe_path(environment["PATH"], writable)
        return environment

    # ------------------------------------------------------------ the conversation

    def send_message(
        self, message: CustomMessage, *, trigger_turn: bool | None, deliver_as: Delivery | None
    ) -> None:
        runner, queue = self._engine.runner, self._engine.conversation.queue
        if deliver_as == "nextTurn":
            queue.next_prompt.append(message)
        elif runner.running and trigger_turn is False:
            queue.after_turn.append(message)
        elif runner.running:
            line: Literal["steering", "follow_up"]
            line = "follow_up" if deliver_as == "followUp" else "steering"
            queue.add(line, message)
        elif trigger_turn:
            self._engine.models.require()
            runner.start((message,))
        else:
            hub = self._engine.conversation.hub
            hub.post(MessageStart(message=message))
            hub.post(MessageEnd(message=message))

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
        prompt = PromptInput(
            text=text_of(content),
            extra=images,
            when_busy=deliver_as,
            source="extension",
            expand=expand,
        )
        submitted = StartedCoroutine(self._engine.prompting.submit(prompt))
        if not submitted.done:
            self._engine.tasks.start(self._finish(submitted))

    async def _finish(self, submitted: StartedCoroutine[Any]) -> None:
        try:
            await submitted
        except CommandError as error:
            report_error(self._engine, "<runtime>", "send_user_message", str(error))

    def append_entry(self, custom_type: str, data: Any) -> str:
        body = CustomBody(custom_type=custom_type, data=UNSET if data is UNSET else data)
        entry = self.session.append(body)
        self._engine.conversation.hub.post(EntryStored(entry=msgspec.Raw(entry_json(entry))))
        return entry.id

    def set_session_name(self, name: str) -> None:
        self._engine.set_session_name(name)

    def set_label(self, entry_id: str, label: str | None) -> None:
        if self.session.get(entry_id) is None:
            raise CommandError(f"Entry not found: {entry_id}")
        self.session.append(LabelBody(target_id=entry_id, label=label or None))

    # ------------------------------------------------------------ model and tools

    def set_model(self, model: Model) -> bool:
        if not self.registry.admits(model):
            return False
        self._engine.models.set_model(model.provider, model.id)
        return True

    def set_thinking_level(self, level: str) -> None:
        self._engine.models.set_level(level)

    async def request(self, model: Model) -> Request:
        return await self._engine.requests.empty(model)

    def register_provider(self, name: str, entry: ProviderEntry, backend: Provider | None) -> None:
        if backend is not None:
            self._engine.models.providers.register(backend)
        made = [make_model(name, entry, one, None) for one in entry.models]
        headers = {header: value for header, value in entry.headers.items() if value is not None}
        removed = tuple(header for header in entry.headers if header not in headers)
        access = Access(key=entry.api_key, headers=headers, without=removed)
        self.registry.register(made, Access() if backend is not None else access)

    def unregister_provider(self, name: str) -> None:
        self.registry.unregister(name)

    def tools(self) -> Mapping[str, Tool]:
        return self._engine.toolset.tools

    def active_tools(self) -> tuple[str, ...]:
        return tuple(tool.name for tool in self._engine.toolset.active())

    def set_active_tools(self, names: Sequence[str]) -> None:
        self._engine.toolset.set_active(names)
        self._engine.resources.invalidate_prompt()

    def tools_changed(self, added: str) -> None:
        active = self.active_tools()
        self._engine.toolset.invalidate()
        self._engine.toolset.set_active((*active, added))
        self._engine.resources.invalidate_prompt()

    # ------------------------------------------------------------ stopping

    def abort(self) -> None:
        self._engine.abort_run()

    def shutdown(self) -> None:
        self._engine.shutdown()

    async def compact(self, instructions: str | None) -> CompactionResult:
        return await self._engine.compact(instructions)


class HostSessions:
    """Changes of session that a command asks for."""

    def __init__(self, engine: "Engine") -> None:
        self._engine = engine

    async def wait_for_idle(self) -> None:
        await self._engine.runner.idle()

    async def new(self, parent: str | None, setup: Setup | None, then: Then | None) -> MoveResult:
        try:
            await self._engine.sessions.new(parent, setup=setup, then=then)
        except Vetoed:
            return MoveResult(cancelled=True)
        return MoveResult(cancelled=False)

    async def switch(self, path: str, then: Then | None) -> MoveResult:
        try:
            await self._engine.sessions.switch(path, then=then)
        except Vetoed:
            return MoveResult(cancelled=True)
        return MoveResult(cancelled=False)

    async def fork(
        self, entry_id: str, position: Literal["before", "at"], then: Then | None
    ) -> MoveResult:
        sessions = self._engine.sessions
        text = None if position == "at" else sessions.text_at(entry_id)
        try:
            if position == "at":
                self._engine.conversation.session.branch_to(entry_id)
                await sessions.clone(then=then)
            else:
                text = await sessions.fork(entry_id, then=then)
        except Vetoed:
            return MoveResult(cancelled=True, text=text)
        return MoveResult(cancelled=False, text=text)

    async def navigate(self, target_id: str, options: NavigateOptions) -> MoveResult:
        if self._engine.runner.running:
            raise CommandError("Cannot navigate while the agent is working. Abort it or wait.")
        moved = await self._engine.tree.go(
            TreeMove(
                target_id=target_id,
                summarize=options.summarize,
                instructions=options.custom_instructions,
                replace=options.replace_instructions,
                label=options.label,
            )
        )
        return MoveResult(
            cancelled=moved.cancelled, text=moved.text, summary_entry_id=moved.summary_entry_id
        )

    async def reload(self) -> None:
        await self._engine.reload()


def _images(content: tuple[Part, ...]) -> tuple[Image, ...]:
    return tuple(part for part in content if isinstance(part, Image))


if TYPE_CHECKING:

    def _proof(host: EngineHost) -> Host:
        return host
