"""A small engine for extensions under test: a real session and registry, and a list of acts."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ludolf.agent.tool import Tool
from ludolf.ai.messages import CustomMessage, Part, ThinkingLevel
from ludolf.ai.models import Model, ModelCost
from ludolf.ai.provider import Provider, Request
from ludolf.base import CommandError
from ludolf.config.auth.keyring import Keyring
from ludolf.config.models.models_file import ProviderEntry, make_model
from ludolf.config.models.registry import ModelRegistry
from ludolf.extensions.dialogs import Dialogs
from ludolf.extensions.extensions import Extensions
from ludolf.extensions.host import (
    Delivery,
    Host,
    HostMode,
    Setup,
    Signal,
    Then,
)
from ludolf.extensions.loader import ExtensionFile, LoadError
from ludolf.extensions.payloads import PromptOptions
from ludolf.extensions.providers import Registration
from ludolf.protocol.events import CompactionResult
from ludolf.session.entries import CustomBody
from ludolf.session.tree import Session, new_session

MODEL = Model(
    id="m",
    name="M",
    api="ludolf-scripted",
    provider="p",
    base_url="",
    reasoning=True,
    input=("text",),
    cost=ModelCost(),
    context_window=1000,
    max_tokens=100,
)


class TestProviders:
    """What extensions registered, by name."""

    __test__ = False

    def __init__(self) -> None:
        self.added: dict[str, tuple[ProviderEntry, Provider | None]] = {}

    def add(self, provider: Registration) -> None:
        for model in provider.entry.models:
            make_model(provider.name, provider.entry, model, None)
        self.added[provider.name] = (provider.entry, provider.backend)

    def remove(self, name: str) -> None:
        del self.added[name]

    async def refresh(
        self, providers: Sequence[str] | None = None, *, network: bool | None, force: bool = False
    ) -> dict[str, str]:
        return {}


class TestHost:
    """`done` lists the actions in order. A busy one refuses to be spoken to."""

    __test__ = False

    def __init__(self, folder: Path, *, ui: Dialogs | None = None, mode: HostMode = "rpc") -> None:
        self.mode: HostMode = mode
        self.ui = ui or Dialogs(None)
        self.cwd = folder
        self.trusted = True
        self.session: Session = new_session(str(folder), None, lambda text: None)
        self.registry = ModelRegistry(
            folder / "models.json", Keyring(folder / "auth.json", os.environ)
        )
        self.model: Model | None = MODEL
        self.scoped_models: tuple[Model, ...] = ()
        self.thinking_level: ThinkingLevel = "off"
        self.signal: Signal | None = None
        self.is_idle = True
        self.has_pending_messages = False
        self.system_prompt = "Be good."
        self.prompt_options = PromptOptions(cwd=str(folder))
        self.commands: tuple[Any, ...] = ()
        self.environment: Mapping[str, str] = {"PATH": "/usr/bin:/bin"}
        self.done: list[tuple[Any, ...]] = []
        self.providers = TestProviders()
        self.then: Then | None = None
        self.aborted = asyncio.Event()

    def send_message(
        self, message: CustomMessage, *, trigger_turn: bool | None, deliver_as: Delivery | None
    ) -> None:
        self.done.append(("send_message", message, trigger_turn, deliver_as))

    def send_user_message(
        self,
        content: str | tuple[Part, ...],
        *,
        deliver_as: Literal["steer", "followUp"] | None,
        expand: bool,
    ) -> None:
        if not self.is_idle and deliver_as is None:
            raise CommandError("Agent is already processing.")
        self.done.append(("send_user_message", content, deliver_as, expand))

    def append_entry(self, custom_type: str, data: Any) -> str:
        return self.session.append(CustomBody(custom_type=custom_type, data=data)).id

    def set_session_name(self, name: str) -> None:
        self.session.set_name(name)

    def set_model(self, model: Model) -> bool:
        self.model = model
        return True

    def set_thinking_level(self, level: str) -> None:
        self.done.append(("set_thinking_level", level))

    async def request(self, model: Model) -> Request:
        provider = self.providers.added[model.provider][1]
        access = self.registry.access(model)
        assert provider is not None and access is not None
        return Request(provider=provider, model=model, access=access, system="", messages=())

    def provide_mcp_servers(self, servers: Mapping[str, Mapping[str, Any]]) -> None:
        self.mcp_servers = dict(servers)

    @property
    def tools(self) -> Mapping[str, Tool]:
        return {}

    @property
    def active_tools(self) -> tuple[str, ...]:
        return ("read",)

    def set_active_tools(self, names: Sequence[str]) -> None:
        self.done.append(("set_active_tools", names))

    def tools_changed(self, added: str) -> None:
        self.done.append(("tools_changed", added))

    def abort(self) -> None:
        self.done.append(("abort",))
        self.aborted.set()

    def shutdown(self) -> None:
        self.done.append(("shutdown",))

    async def compact(self, instructions: str | None) -> CompactionResult:
        if instructions is None:
            raise CommandError("Nothing to compact (session too small)")
        return CompactionResult(summary=instructions, first_kept_entry_id="e", tokens_before=1)

    async def wait_for_idle(self) -> None:
        self.done.append(("wait_for_idle",))

    async def new_session(self, parent: str | None, setup: Setup | None, then: Then | None) -> bool:
        self.done.append(("new", parent))
        self.then = then
        return True

    async def switch_session(self, path: str, then: Then | None) -> bool:
        self.done.append(("switch", path))
        return False

    async def fork(
        self, entry_id: str, position: Literal["before", "at"], then: Then | None
    ) -> bool:
        self.done.append(("fork", entry_id, position))
        return True

    async def navigate(
        self,
        target_id: str,
        *,
        summarize: bool,
        instructions: str | None,
        replace: bool,
        label: str | None,
    ) -> bool:
        self.done.append(("navigate", target_id, summarize))
        return True

    async def reload(self) -> None:
        self.done.append(("reload",))


class Bench:
    """Extensions written on the spot, loaded for real; `reports` are their reported failures."""

    def __init__(
        self,
        folder: Path,
        *,
        limit: float | None = None,
        flags: Mapping[str, str | bool] | None = None,
    ) -> None:
        self.folder = folder
        self.reports: list[tuple[str, str, str]] = []
        self.extensions = Extensions(self._report, limit=limit, flags=flags)
        self.runner = self.extensions.runner
        self.host = TestHost(folder)

    async def load(self, *sources: str, bind: bool = True) -> tuple[LoadError, ...]:
        """Each source is the text of one extension."""
        origins = []
        for number, source in enumerate(sources):
            path = self.folder / f"x{number}.py"
            path.write_text(source)
            origins.append(ExtensionFile(path=path))
        errors = await self.extensions.load(origins)
        if bind:
            self.extensions.bind(self.host)
        return errors

    def told(self) -> list[tuple[str, str]]:
        """Event and text of each report."""
        return [(event, text) for _, event, text in self.reports]

    def _report(self, path: str, event: str, text: str, cause: object = None) -> None:
        self.reports.append((path, event, text))


if TYPE_CHECKING:

    def _proof(host: TestHost) -> Host:
        return host
