"""One session of the client: an engine, its updates, its questions, its options and its prompts."""

import asyncio
import re
import sys
from collections.abc import Callable, Iterable
from typing import Any

from ludolf.acp.editor import READ_FILE, WRITE_FILE, EditorFiles
from ludolf.acp.link import ClientLink
from ludolf.acp.options import SessionChoices
from ludolf.acp.permission import SessionDialogs, text_on_disk
from ludolf.acp.slash_commands import available_commands
from ludolf.acp.turn import Turns
from ludolf.agent.events import ToolStart
from ludolf.agent.scope import Tasks
from ludolf.base import CommandError, ConfigError
from ludolf.config.mcp.entries import literal_value, parse_entry
from ludolf.engine.engine import Engine
from ludolf.engine.feature import Feature, SessionMove
from ludolf.engine.hub import Sink
from ludolf.protocol.acp.call_updates import CallSources
from ludolf.protocol.acp.history import replay
from ludolf.protocol.acp.structs import McpServerParams, OpenedSessionResult
from ludolf.protocol.acp.tool_view import ToolFacts
from ludolf.protocol.acp.updates import UpdateWriter
from ludolf.protocol.events import Event, McpServerChanged, Warned

WARM_UP_SECONDS = 0.2
_REPLAYED_AT_ONCE = 200
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]+")


class StartWarnings:
    """Takes warnings: all are written to stderr, those of the start are kept for the client."""

    def __init__(self) -> None:
        self.kept: list[str] | None = []

    def __call__(self, text: str) -> None:
        sys.stderr.write(text + "\n")
        if self.kept is not None:
            self.kept.append(text.removeprefix("Warning: "))


class UpdateSink(Sink):
    """Sends the events of an engine as updates.

    `commands_changed` is called when an MCP server may offer other prompts.
    """

    def __init__(
        self, writer: UpdateWriter, link: ClientLink, commands_changed: Callable[[], None]
    ) -> None:
        self._writer = writer
        self._stdio = link.stdio
        self._commands_changed = commands_changed
        self._timer: asyncio.TimerHandle | None = None
        # Warnings that the client has got.
        self.warned: set[str] = set()

    def take(self, event: Event) -> None:
        for frame in self._writer.frames(event):
            self._stdio.send(frame)
        if isinstance(event, Warned):
            self.warned.add(event.message)
        elif isinstance(event, McpServerChanged):
            self._commands_changed()
        if self._timer is None and self._writer.due is not None:
            self._wait(self._writer.due)

    def has_room(self) -> bool:
        return self._stdio.has_room()

    async def room(self) -> None:
        await self._stdio.room()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _wait(self, due: float) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(max(0.0, due - loop.time()), self._flush)

    def _flush(self) -> None:
        self._timer = None
        for frame in self._writer.flush():
            self._stdio.send(frame)
        if self._writer.due is not None:
            self._wait(self._writer.due)


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
        self.choices = SessionChoices(engine, link.client, self._report_options)
        self.turns = Turns(engine, self._tasks, self.say, self.rest)
        self._sink = UpdateSink(self.writer, link, self.report_commands)
        self._commands: tuple[Any, ...] | None = None
        self._begun = False
        self._timers: list[asyncio.TimerHandle] = []

    # ------------------------------------------------------------ life

    async def open(self, servers: Iterable[McpServerParams]) -> None:
        """Start the engine and the servers of the client; nothing is sent before `begin`."""
        engine, client = self.engine, self._link.client
        offered = {READ_FILE: client.reads_files, WRITE_FILE: client.writes_files}
        methods = [name for name, is_there in offered.items() if is_there]
        if methods:
            engine.toolset.files = EditorFiles(
                self.id,
                methods,
                self._link.ask,
                engine.workspace.cwd,
                engine.conversation.hub.notify,
            )
        await engine.start("acp", self.dialogs.send)
        self._follow_subagents()
        self.use_servers(servers)
        self.writer.title = engine.session.name or ""
        self.writer.cost = engine.stats().cost

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

    async def close(self) -> None:
        """Stop everything, store the session, and free what it holds."""
        for timer in self._timers:
            timer.cancel()
        self.engine.disconnect()
        await self.turns.close()
        await self._tasks.ended()
        await self.dialogs.close()
        self._sink.close()
        await self.engine.close()

    def rest(self) -> None:
        """Let other programs continue the session while nothing runs in it."""
        if not self.turns.busy and self.engine.is_settled:
            self.engine.session.release()

    async def replay(self) -> None:
        """Send the whole conversation up to the leaf."""
        path = tuple(self.engine.session.path_to_leaf())
        self.writer.cost = 0.0
        for place, frame in enumerate(replay(path, self.writer)):
            self._link.stdio.send(frame)
            if place % _REPLAYED_AT_ONCE == 0:
                await self._link.stdio.room()

    # ------------------------------------------------------------ for the client

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

    def report_commands(self) -> None:
        """Send the list of commands if it has changed."""
        found = available_commands(self.engine) if self._begun else None
        if found is not None and found != self._commands:
            self._commands = found
            self._link.stdio.send(self.writer.commands(found))

    def report_mode(self) -> None:
        self._link.stdio.send(self.writer.mode(self.choices.mode))

    def _report_options(self) -> None:
        if self._begun:
            self._link.stdio.send(self.writer.config_options(self.choices.config_options()))

    def report_options(self) -> None:
        self._report_options()

    def use_servers(self, servers: Iterable[McpServerParams]) -> None:
        """Start the MCP servers of the client in the background; a wrong one is only reported."""
        entries: dict[str, Any] = {}
        for server in servers:
            name = _NOT_IN_NAMES.sub("_", server.name).strip("_") or "server"
            try:
                entry = _entry_of(server)
                parse_entry(name, entry, "host")
                entries[name] = entry
            except ConfigError as error:
                text = f"The MCP server {server.name!r} of the client is not used: {error}"
                self.engine.conversation.hub.report(text)
        if entries or self.engine.has_mcp:
            try:
                self.engine.mcp.administration.provide("host", entries)
            except CommandError as error:
                self.engine.conversation.hub.report(f"MCP servers of the client: {error}")

    # ------------------------------------------------------------ what updates need to know

    def _window(self) -> int:
        model = self.engine.models.current
        return model.context_window or 0 if model is not None else 0

    def _facts(self, name: str) -> ToolFacts:
        tool = self.engine.toolset.find(name)
        return ToolFacts() if tool is None else ToolFacts(tool.label, tool.read_only)

    def _asks(self, start: ToolStart) -> bool:
        """Return whether a call that starts has to be approved by the user."""
        from ludolf.engine.features.safety import Safety

        safety = self.engine.features.find(Safety)
        tool = self.engine.toolset.find(start.tool_name)
        if safety is None or safety.approvals is None or tool is None:
            return False
        return safety.approvals.judge(tool, start.args, self.engine.bundles) == "ask"

    def _follow_subagents(self) -> None:
        """Show the calls of subagents too."""
        if "ludolf.engine.features.subagents.subagents" in sys.modules:
            from ludolf.engine.features.subagents.subagents import SubagentSpawner

            spawner = self.engine.features.find(SubagentSpawner)
            if spawner is not None:
                spawner.registry.subscription.level = "events"


def _entry_of(server: McpServerParams) -> dict[str, Any]:
    """Return the entry of a server as in a file; values of the client are literal.

    Raises:
        ConfigError: the transport is not supported.
    """
    if server.type == "stdio":
        return {
            "command": server.command,
            "args": [literal_value(word) for word in server.args],
            "env": {one.name: literal_value(one.value) for one in server.env},
        }
    if server.type == "http":
        headers = {one.name: literal_value(one.value) for one in server.headers}
        return {"type": "http", "url": literal_value(server.url), "headers": headers}
    raise ConfigError(f"the transport {server.type[:40]!r} is not supported; use stdio or http")
