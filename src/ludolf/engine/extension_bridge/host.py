"""The engine as extensions use it."""

import sys
from collections.abc import Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from ludolf.agent.events import MessageEnd, MessageStart
from ludolf.agent.scope import StartedCoroutine
from ludolf.agent.tool import Tool
from ludolf.ai.messages import CustomMessage, Image, Part, ThinkingLevel, text_of
from ludolf.ai.models import Model
from ludolf.base import CommandError
from ludolf.base.programs import safe_path
from ludolf.config.models.registry import ModelRegistry
from ludolf.engine.engine import Engine
from ludolf.engine.extension_bridge.provider_catalogs import ProviderCatalogs
from ludolf.engine.feature import PromptInput, TreeMove, Vetoed
from ludolf.engine.run.prompting import BUSY
from ludolf.extensions.dialogs import Dialogs
from ludolf.extensions.host import (
    Delivery,
    Host,
    HostMode,
    Setup,
    Signal,
    Then,
)
from ludolf.extensions.loader import explained
from ludolf.extensions.payloads import PromptOptions
from ludolf.functions.isolation import Failed
from ludolf.protocol.events import EntryStored, ExtensionError
from ludolf.protocol.ui import UiRequest
from ludolf.session.entries import CustomBody, entry_json


def report_error(
    engine: Engine, path: str, event: str, text: str, cause: Failed | None = None
) -> None:
    """Report a failure of an extension to the host, and as a warning in modes without a host.

    The warning also names the type and the line of the error.
    """
    error = ExtensionError(extension_path=path, event=event, error=text)
    engine.conversation.hub.post(error)
    if event == "load":  # the caller warns of it, in every mode
        return
    shown = text if cause is None else explained(cause, path)
    line = f"Extension error ({path}, {event}): {shown}"
    if engine.mode in ("json", "print"):
        sys.stderr.write(f"{line}\n")
    elif engine.mode == "sdk":
        engine.workspace.warn(line)


def host_mode(engine: Engine) -> HostMode:
    """Return the mode that extensions see: they know a host with dialogs as `rpc`."""
    match engine.mode:
        case "acp" | "serve":
            return "rpc"
        case mode:
            return mode


def print_notice(notice: UiRequest) -> None:
    """Write a notice of an extension to stderr, in print mode."""
    mark = {"warning": "Warning: ", "error": "Error: "}.get(notice.notify_type or "info", "")
    sys.stderr.write(f"{mark}{notice.message}\n")


class EngineHost:
    """Acts on one engine during one session.

    `ui` are the dialogs of the engine's host, `catalogs` the providers of extensions.
    """

    def __init__(self, engine: Engine, ui: Dialogs, catalogs: ProviderCatalogs) -> None:
        self._engine = engine
        self.providers = catalogs
        self.ui = ui
        self.mode = host_mode(engine)
        self.cwd = engine.workspace.cwd
        self.session = engine.conversation.session
        self.set_session_name = engine.set_session_name
        self.set_thinking_level = engine.models.set_level
        self.request = engine.requests.empty
        self.abort = engine.abort_run
        self.shutdown = engine.shutdown
        self.compact = engine.compact
        self.wait_for_idle = engine.runner.idle
        self.reload = engine.reload
        self._signal: tuple[Any, Signal] | None = None

    # ------------------------------------------------------------ facts

    @property
    def trusted(self) -> bool:
        return self._engine.workspace.files.trusted

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
        writable = self._engine.features.writable(self.cwd)
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
        images = tuple(part for part in content if isinstance(part, Image))
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
        body = CustomBody(custom_type=custom_type, data=data)
        entry = self.session.append(body)
        self._engine.conversation.hub.post(EntryStored(entry=msgspec.Raw(entry_json(entry))))
        return entry.id

    # ------------------------------------------------------------ model and tools

    def set_model(self, model: Model) -> bool:
        if not self.registry.admits(model):
            return False
        self._engine.models.set_model(model.provider, model.id)
        return True

    def provide_mcp_servers(self, servers: Mapping[str, Mapping[str, Any]]) -> None:
        if servers or self._engine.has_mcp:
            self._engine.mcp.administration.provide("extension", servers)

    @property
    def tools(self) -> Mapping[str, Tool]:
        return self._engine.toolset.tools

    @property
    def active_tools(self) -> tuple[str, ...]:
        return tuple(tool.name for tool in self._engine.toolset.active())

    def set_active_tools(self, names: Sequence[str]) -> None:
        self._engine.toolset.set_active(names)
        self._engine.resources.invalidate_prompt()

    def tools_changed(self, added: str) -> None:
        active = self.active_tools
        self._engine.toolset.invalidate()
        self._engine.toolset.set_active((*active, added))
        self._engine.resources.invalidate_prompt()

    # ------------------------------------------------------------ changes of session

    async def new_session(self, parent: str | None, setup: Setup | None, then: Then | None) -> bool:
        return await _not_vetoed(self._engine.sessions.new(parent, setup=setup, then=then))

    async def switch_session(self, path: str, then: Then | None) -> bool:
        return await _not_vetoed(self._engine.sessions.switch(path, then=then))

    async def fork(
        self, entry_id: str, position: Literal["before", "at"], then: Then | None
    ) -> bool:
        if position == "before":
            return await _not_vetoed(self._engine.sessions.fork(entry_id, then=then))
        self.session.branch_to(entry_id)
        return await _not_vetoed(self._engine.sessions.clone(then=then))

    async def navigate(
        self,
        target_id: str,
        *,
        summarize: bool,
        instructions: str | None,
        replace: bool,
        label: str | None,
    ) -> bool:
        if self._engine.runner.running:
            raise CommandError("Cannot navigate while the agent is working. Abort it or wait.")
        move = TreeMove(
            target_id=target_id,
            summarize=summarize,
            instructions=instructions,
            replace=replace,
            label=label,
        )
        return not (await self._engine.tree.go(move)).cancelled


async def _not_vetoed(change: Coroutine[Any, Any, object]) -> bool:
    """Wait for a change of session; returns False if a handler vetoed it."""
    try:
        await change
    except Vetoed:
        return False
    return True


if TYPE_CHECKING:

    def _proof(host: EngineHost) -> Host:
        return host
