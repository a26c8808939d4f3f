"""One session of the client: an engine, its updates, its questions, its options and its prompts."""

import asyncio
import sys
from collections.abc import Callable, Sequence
from typing import Any

from ludolf.acp.link import ClientLink
from ludolf.acp.options import SessionChoices
from ludolf.acp.permission import SessionDialogs, text_on_disk
from ludolf.acp.slash_commands import available_commands
from ludolf.acp.turn import Turns
from ludolf.acp.update_sink import UpdateSink
from ludolf.agent.events import ToolStart
from ludolf.agent.scope import Tasks
from ludolf.base import CommandError, ConfigError
from ludolf.engine.engine import WARM_UP_SECONDS, Engine
from ludolf.engine.feature import Feature, SessionMove
from ludolf.protocol.acp.call_sources import CallSources, ToolFacts
from ludolf.protocol.acp.structs import McpServerParams, OpenedSessionResult
from ludolf.protocol.acp.updates import UpdateWriter

_REPLAYED_AT_ONCE = 200
# The first prompt waits no longer for servers of the client that are still starting.
FIRST_WAIT_MS = 1000
TRUST_TITLE = "Trust {folder}?"
TRUST_TEXT = (
    "The folder has settings, extensions, skills or prompts for the agent, and their code would "
    "run with your rights. Accept to use them; decline to ignore them."
)


class StartWarnings:
    """Takes warnings: all are written to stderr, those of the start are kept for the client."""

    def __init__(self) -> None:
        self.kept: list[str] | None = []

    def __call__(self, text: str) -> None:
        sys.stderr.write(text + "\n")
        if self.kept is not None:
            self.kept.append(text.removeprefix("Warning: "))


class CommandWatch(Feature):
    """Calls `changed` when a reload may have changed the list of slash commands."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed

    async def enter_session(self, move: SessionMove) -> None:
        self._changed()


class AcpSession:
    """Made around an engine that has not started; `open` starts it."""

    def __init__(self, engine: Engine, link: ClientLink, warnings: StartWarnings) -> None:
        self.engine = engine
        self.id = engine.session.id
        self._link = link
        self._warnings = warnings
        self._tasks = Tasks()
        cwd = engine.workspace.cwd
        sources = CallSources(facts=self._facts, read=text_on_disk, asks=self._asks)
        self.writer = UpdateWriter(self.id, cwd, link.client, self._window, sources)
        self.dialogs = SessionDialogs(
            link, self.writer, self.id, cwd, engine.answer_dialog, lambda: engine.session.id
        )
        self.choices = SessionChoices(engine, link.client, self.report_options)
        self.turns = Turns(engine, self._tasks, self)
        self._sink = UpdateSink(self.writer, link.stdio, self.report_commands)
        self._commands: tuple[Any, ...] | None = None
        self._begun = False
        self._timers: list[asyncio.TimerHandle] = []

    # ------------------------------------------------------------ life

    async def open(self, servers: Sequence[McpServerParams]) -> None:
        """Start the engine and the servers of the client; nothing is sent before `begin`."""
        engine, client = self.engine, self._link.client
        if client.reads_files or client.writes_files:
            self._use_editor()
        if client.terminal and engine.workspace.settings.acp.terminal == "client":
            self._use_terminals()
        engine.forms = self.dialogs
        await engine.start("acp", self.dialogs.send)
        self._follow_subagents()
        self.use_servers(servers)
        self.writer.title = engine.session.name or ""
        if engine.session.leaf is not None:
            self.writer.cost = engine.stats().cost

    def _use_editor(self) -> None:
        from ludolf.acp.editor import READ_FILE, WRITE_FILE, EditorFiles

        client, engine = self._link.client, self.engine
        offered = {READ_FILE: client.reads_files, WRITE_FILE: client.writes_files}
        methods = [name for name, is_there in offered.items() if is_there]
        report, cwd = engine.conversation.hub.notify, engine.workspace.cwd
        files = EditorFiles(self.id, methods, self._link.ask, cwd, report)
        engine.toolset.files = self.dialogs.files = files

    def _use_terminals(self) -> None:
        from ludolf.acp.terminals import ClientTerminals

        report = self.engine.conversation.hub.notify
        self.engine.toolset.terminals = ClientTerminals(self.id, self._link, report)

    def begin(self) -> None:
        """Send what follows the answer that opened the session: commands, warnings, events."""
        if self._begun:
            self._commands = None
            self.report_commands()
            return
        self._begun = True
        self.engine.features.add(CommandWatch(self.report_commands))
        hub = self.engine.conversation.hub
        hub.attach(self._sink)
        hub.attach(self.turns)
        hub.begin()
        early, self._warnings.kept = self._warnings.kept or [], None
        for text in early:
            if text not in self._sink.warned:
                self._link.stdio.send(self.writer.notice("warning", text))
        self.report_commands()
        loop = asyncio.get_running_loop()
        self._timers.append(loop.call_later(WARM_UP_SECONDS, self.engine.warm_up))
        self.rest()
        self._tasks.start(self._ask_for_trust())

    async def close(self) -> None:
        """Stop everything, store the session, and free what it holds."""
        for timer in self._timers:
            timer.cancel()
        self.engine.disconnect()
        await self.turns.close()
        await self.dialogs.close()
        await self._tasks.close()
        self._sink.close()
        await self.engine.close()

    def rest(self) -> None:
        """Let other programs continue the session while nothing runs in it."""
        if not self.turns.busy and self.engine.is_settled:
            self.engine.session.release()

    async def replay(self) -> None:
        """Send the whole conversation up to the leaf."""
        from ludolf.protocol.acp.history import replay

        path = tuple(self.engine.session.path_to_leaf())
        self.writer.cost = 0.0
        for place, frame in enumerate(replay(path, self.writer)):
            self._link.stdio.send(frame)
            if place % _REPLAYED_AT_ONCE == 0:
                await self._link.stdio.room()

    # ------------------------------------------------------------ for the client

    @property
    def shows_forms(self) -> bool:
        return self._link.client.forms

    def say(self, text: str) -> None:
        """Send a text of the program as a message of the agent."""
        self._link.stdio.send(self.writer.message(text))

    def state(self, *, named: bool) -> OpenedSessionResult:
        """Return the answer to the request that opened the session."""
        return OpenedSessionResult(
            session_id=self.id if named else None,
            modes=self.choices.modes(),
            config_options=self.choices.config_options(),
        )

    def choose(self, name: str, value: Any) -> None:
        """Change an option for the client.

        Raises:
            InvalidParams: the option or the value is not offered.
            CommandError: the model cannot be used.
        """
        self.choices.set(name, value)
        self.rest()

    def report_commands(self) -> None:
        """Send the list of commands if it has changed."""
        found = available_commands(self.engine) if self._begun else None
        if found is not None and found != self._commands:
            self._commands = found
            self._link.stdio.send(self.writer.commands(found))

    def report_mode(self) -> None:
        self._link.stdio.send(self.writer.mode(self.choices.mode))

    def report_options(self) -> None:
        if self._begun:
            self._link.stdio.send(self.writer.config_options(self.choices.config_options()))

    def use_servers(self, servers: Sequence[McpServerParams]) -> None:
        """Start the MCP servers of the client in the background; a wrong one is only reported."""
        if not servers and not self.engine.has_mcp:
            return
        from ludolf.acp.client_servers import read_servers

        files = self.engine.workspace.files
        if files.stated(("mcp", "firstWaitMs")) is None:
            files.override({"mcp": {"firstWaitMs": FIRST_WAIT_MS}})
        report = self.engine.conversation.hub.report
        try:
            self.engine.mcp.administration.provide("host", read_servers(servers, report))
        except CommandError as error:
            report(f"MCP servers of the client are not used: {error}")

    # ------------------------------------------------------------ trust

    async def _ask_for_trust(self) -> None:
        """Ask once whether to use what the project brings; without an answer it is not used."""
        workspace = self.engine.workspace
        folder = str(workspace.cwd)
        if not self._link.client.forms or folder in self._link.asked_folders:
            return
        files, home = workspace.files, workspace.home
        if files.trusted or files.user.default_project_trust != "ask":
            return
        if not home.project.exists() and not home.shared_mcp_file.exists():
            return
        from ludolf.config.settings.trust import guarded_paths, save_decision, trust_state

        try:
            if trust_state(home) not in ("undecided", "changed"):
                return
            if workspace.options.approve is not None or not guarded_paths(home):
                return
            self._link.asked_folders.add(folder)
            is_trusted = await self.dialogs.confirm(TRUST_TITLE.format(folder=folder), TRUST_TEXT)
            if is_trusted:
                await self.engine.settled()
                await self.engine.set_project_trust(True, remember=True)
            elif is_trusted is False:
                save_decision(home, trusted=False)
        except (CommandError, ConfigError) as error:
            self.engine.conversation.hub.report(f"Trust in {folder} was not changed: {error}")

    # ------------------------------------------------------------ what updates need to know

    def _window(self) -> int:
        model = self.engine.models.current
        return model.context_window or 0 if model is not None else 0

    def _facts(self, name: str) -> ToolFacts:
        tool = self.engine.toolset.find(name)
        return ToolFacts() if tool is None else ToolFacts(tool.label, tool.read_only)

    def _asks(self, start: ToolStart) -> bool:
        """Return whether a call that starts has to be approved by the user."""
        tool = self.engine.toolset.find(start.tool_name)
        if tool is None:
            return False
        return self.engine.approvals.judge(tool, start.args, self.engine.bundles) == "ask"

    def _follow_subagents(self) -> None:
        """Show the calls of subagents too."""
        if "ludolf.engine.features.subagents.subagents" in sys.modules:
            from ludolf.engine.features.subagents.subagents import SubagentSpawner

            spawner = self.engine.features.find(SubagentSpawner)
            if spawner is not None:
                spawner.registry.subscription.level = "events"
