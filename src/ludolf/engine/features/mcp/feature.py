"""MCP servers as a feature of an engine. The client is imported when the files are first read."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from importlib import import_module
from threading import Thread
from typing import TYPE_CHECKING, Any

from ludolf.agent.scope import Tasks
from ludolf.engine.bundles import Bundles, Component
from ludolf.engine.feature import Feature, History, HostForms, PromptInput, Send, SessionMove

if TYPE_CHECKING:
    from ludolf.engine.features.mcp.administration import ServerAdministration
    from ludolf.engine.features.mcp.asking import ServerQuestions
    from ludolf.engine.features.mcp.declarations import Declarations
    from ludolf.engine.features.mcp.prompts import McpPrompts
    from ludolf.engine.features.mcp.server_set import ServerSet
    from ludolf.protocol.commands import UiAnswer
    from ludolf.protocol.ui import UiRequest

# What the first prompt needs.
_CLIENT = (
    "concurrent.futures.thread",
    "ludolf.engine.features.mcp.asking",
    "ludolf.engine.features.mcp.declarations",
    "ludolf.engine.host.renewals",
    "ludolf.engine.run.requests",
)


class SharedMcp(Component, Feature):
    """The servers of a host as one engine uses them: its own engine, or that of a subagent."""

    @cached_property
    def servers(self) -> "ServerSet":
        raise NotImplementedError

    @cached_property
    def declarations(self) -> "Declarations":
        from ludolf.engine.features.mcp.declarations import Declarations

        return Declarations(self.bundles, self.servers)

    async def prepare_run(self) -> None:
        await self.import_client()
        await self.servers.ready()
        self.declarations.begin()

    async def import_client(self) -> None:
        """Import the client in a thread: that takes longer than a host should wait for a reply."""
        if "declarations" not in vars(self):
            loop, done = asyncio.get_running_loop(), asyncio.Event()
            # `asyncio.to_thread` would import its executor in the thread of the event loop.
            Thread(target=_import_client, args=(loop, done), daemon=True).start()
            await done.wait()

    async def before_request(self, system: str, messages: History) -> tuple[str, History]:
        self.declarations.sync()
        return system, messages

    def prompt_sections(self, tools: Iterable[str]) -> Mapping[str, str]:
        section = self.declarations.section
        return {"mcp_servers": section} if section else {}

    def for_subagent(self, bundles: Bundles) -> Feature:
        return SubagentMcp(bundles, self.servers)


class SubagentMcp(SharedMcp):
    """The servers of the parent, with declarations of its own."""

    def __init__(self, bundles: Bundles, servers: "ServerSet") -> None:
        super().__init__(bundles)
        self.servers = servers


class McpFeature(SharedMcp):
    """The servers of a host: their files, their life, and what the host asks of them."""

    def __init__(self, bundles: Bundles) -> None:
        super().__init__(bundles)
        self._send: Send | None = None
        self._forms: HostForms | None = None
        self._tasks = Tasks()

    @cached_property
    def questions(self) -> "ServerQuestions":
        from ludolf.engine.features.mcp.asking import ServerQuestions
        from ludolf.engine.host.renewals import Renewals
        from ludolf.engine.run.requests import Requests

        renewals = Renewals(self.models.registry, self.conversation.hub, self._tasks)
        requests = Requests(self.bundles, renewals.renew)
        questions = ServerQuestions(requests, lambda: self.workspace.settings.mcp.sampling)
        questions.connect(self._send)
        questions.forms = self._forms
        return questions

    @cached_property
    def servers(self) -> "ServerSet":
        from ludolf.engine.features.mcp.server_set import ServerSet

        return ServerSet(self.bundles, self.questions)

    @cached_property
    def administration(self) -> "ServerAdministration":
        from ludolf.engine.features.mcp.administration import ServerAdministration

        return ServerAdministration(self.bundles, self.servers, self.declarations)

    @cached_property
    def _prompts(self) -> "McpPrompts":
        from ludolf.engine.features.mcp.prompts import McpPrompts

        return McpPrompts(self.declarations.offers, self.declarations.offers.output_folder)

    # ------------------------------------------------------------ life

    def connect(self, send: Send | None) -> None:
        self._send = send
        if "questions" in vars(self):
            self.questions.connect(send)

    def use_forms(self, forms: HostForms | None) -> None:
        self._forms = forms
        if "questions" in vars(self):
            self.questions.forms = forms

    def answer_dialog(self, answer: "UiAnswer") -> None:
        if "questions" in vars(self):
            self.questions.answer_dialog(answer)
        if "administration" in vars(self):
            self.administration.answer_dialog(answer)

    def open_dialogs(self) -> "Iterator[UiRequest]":
        if "questions" in vars(self):
            yield from self.questions.open_dialogs()
        if "administration" in vars(self):
            yield from self.administration.open_dialogs()

    def disconnect(self) -> None:
        self._send = None
        if "questions" in vars(self):
            self.questions.disconnect()

    def abort(self) -> None:
        if "questions" in vars(self):
            self.questions.abort()
        if "administration" in vars(self):
            self.administration.abort()

    def warm_up(self) -> None:
        self._tasks.start(self._begin())

    async def _begin(self) -> None:
        await self.import_client()
        await self.servers.load_in_thread()

    def reload(self) -> None:
        if "servers" in vars(self):
            self.servers.reload()
            self.declarations.forget()

    async def enter_session(self, move: SessionMove) -> None:
        # In another folder, the project's files are others.
        if "servers" in vars(self) and self.servers.folder != self.workspace.cwd:
            self.reload()

    async def close(self) -> None:
        await self._tasks.close()
        if "servers" in vars(self):
            await self.servers.close()

    # ------------------------------------------------------------ prompts as commands

    def commands(self) -> tuple[Any, ...]:
        self.servers.load()
        return self._prompts.items()

    def handles_input(self, text: str) -> bool:
        return text.startswith("/mcp") and self._prompts.matches(text)

    async def before_input(self, prompt: PromptInput) -> PromptInput | None:
        expands = prompt.expand and self.handles_input(prompt.text)
        return await self._prompts.expand(prompt) if expands else prompt


def _import_client(loop: asyncio.AbstractEventLoop, done: asyncio.Event) -> None:
    try:
        for name in _CLIENT:
            import_module(name)
    finally:
        with suppress(RuntimeError):  # the loop was closed in the meantime
            loop.call_soon_threadsafe(done.set)
