"""The MCP servers of an engine and its subagents: entries of all sources, and their servers."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from ludolf.agent.tool import Tool
from ludolf.base import CommandError, ConfigError
from ludolf.config.mcp.cache import mcp_cache_file, read_cached_servers, store_cached_server
from ludolf.config.mcp.edit import set_entry_key
from ludolf.config.mcp.entries import McpEntry, parse_entry, same_server
from ludolf.config.mcp.files import read_mcp_entries
from ludolf.engine.bundles import Bundles, Component
from ludolf.engine.features.mcp.asking import ServerQuestions
from ludolf.engine.features.mcp.launching import Launcher
from ludolf.engine.features.mcp.log import append_log
from ludolf.engine.features.mcp.servers import Catalog, McpServer, server_pool
from ludolf.engine.features.mcp.tools import McpTool
from ludolf.mcp.connection import Connection
from ludolf.mcp.definitions import ToolDefinition, distinct_names
from ludolf.mcp.exposure import ServerTools
from ludolf.mcp.search import ToolIndex
from ludolf.mcp.wire import Json, McpError
from ludolf.protocol.events import McpServerChanged
from ludolf.protocol.results import McpExposure, McpServerStatus, McpSource
from ludolf.tools.output import spill_folder

_STDERR_SHOWN = 2000
UNKNOWN = 'Unknown MCP server: "{name}". Servers: {names}.'


class ServerSet(Component):
    """The servers of a session. It answers what servers ask, with the questions of the engine."""

    def __init__(self, bundles: Bundles, questions: ServerQuestions) -> None:
        super().__init__(bundles)
        self._questions = questions
        self._launcher = Launcher(bundles)
        self._cache = mcp_cache_file(bundles.workspace.home)
        self._entries: dict[str, McpEntry] = {}
        self._servers: dict[str, McpServer] = {}
        self._keys: dict[str, str] = {}
        self._provided: dict[McpSource, dict[str, McpEntry]] = {}
        # What `set_mcp_server` changed for this session.
        self._changes: dict[str, dict[str, Any]] = {}
        self._loaded = False
        self._has_waited = False
        self._problems: set[str] = set()
        self._tools: dict[tuple[str, str, str], McpTool] = {}
        self._definitions: tuple[ToolDefinition, ...] = ()
        self._index: ToolIndex | None = None
        # Counts changes of entries and catalogs.
        self.version = 0

    # ------------------------------------------------------------ entries

    def load(self) -> None:
        """Read the files, unless they have been read; known servers do not start."""
        if self._loaded:
            return
        self._loaded = True
        options, home = self.workspace.options, self.workspace.home
        found = read_mcp_entries(
            home,
            trusted=self.workspace.files.trusted,
            files=options.mcp_config,
            use_files=not options.no_mcp,
        )
        for text in found.warnings:
            self.on_problem(text)
        entries = dict(found.entries)
        for provided in self._provided.values():
            entries = {**_without(entries, provided), **provided}
        self._apply({name: self._changed(entry) for name, entry in entries.items()})

    def reload(self) -> None:
        """Read the files again; servers whose entries have not changed continue to run."""
        self._loaded = False
        self._problems.clear()
        self.load()

    def provide(self, source: McpSource, raw: Mapping[str, Any]) -> None:
        """Replace the entries of a source that is not a file.

        Raises:
            ConfigError: an entry is invalid; nothing has changed then.
        """
        self._provided[source] = {
            name: parse_entry(name, fields, source) for name, fields in raw.items()
        }
        self.reload()

    def _changed(self, entry: McpEntry) -> McpEntry:
        return structs.replace(entry, **self._changes.get(entry.name, {}))

    def _apply(self, entries: dict[str, McpEntry]) -> None:
        pool, cwd = server_pool(), self.workspace.cwd
        enabled = {name: entry for name, entry in entries.items() if entry.enabled}
        keys = {name: self._launcher.key(entry, cwd) for name, entry in enabled.items()}
        cached = read_cached_servers(self._cache, keys.values()) if keys else {}
        servers = {}
        for name, entry in enabled.items():
            make = partial(self._make, entry, keys[name], cached.get(keys[name]))
            servers[name] = pool.take(keys[name], self, make)
            servers[name].entry = entry
        before, self._keys, self._servers = self._keys, keys, servers
        for name, key in before.items():
            if keys.get(name) != key:
                pool.give_back(key, self)
        self._entries = entries
        self._note_change()

    def _make(self, entry: McpEntry, key: str, stored: Json | None) -> McpServer:
        catalog = None
        if stored is not None:
            with suppress(msgspec.ValidationError):  # written by another version
                catalog = msgspec.convert(stored, Catalog)
        launch = self._launcher.launching(entry, self.workspace.cwd)
        return McpServer(entry, launch, catalog, partial(self._keep, key))

    async def _keep(self, key: str, catalog: Catalog) -> None:
        """Store a catalog, so that the next program need not start the server."""
        record = msgspec.to_builtins(catalog)
        try:
            await asyncio.to_thread(store_cached_server, self._cache, key, record)
        except ConfigError as error:
            self.on_problem(str(error))

    # ------------------------------------------------------------ life

    def begin_new(self) -> "list[asyncio.Task[Any]]":
        """Start the servers of which nothing is known yet, and those that start eagerly."""
        self.load()
        return [
            server.begin()
            for server in self._servers.values()
            if server.connection is None
            and (server.is_new or (server.entry.start == "eager" and not server.gave_up))
        ]

    async def ready(self) -> None:
        """Wait for servers that are new, once and not longer than the settings say."""
        starts = self.begin_new()
        if starts and not self._has_waited:
            self._has_waited = True
            await asyncio.wait(starts, timeout=self.workspace.settings.mcp.first_wait_ms / 1000)

    async def close(self) -> None:
        """End the use of all servers; those that no other session uses end now."""
        pool = server_pool()
        for key in self._keys.values():
            pool.give_back(key, self)
        self._keys, self._servers = {}, {}
        await pool.close_unused()

    # ------------------------------------------------------------ as a user of servers

    def on_server(self, server: McpServer) -> None:
        if self._servers.get(server.name) is not server:
            return
        self._note_change()
        self.conversation.hub.post(McpServerChanged(server=self._status(server)))

    def on_problem(self, text: str) -> None:
        if text not in self._problems:
            self._problems.add(text)
            self.conversation.hub.report(text)

    def calling(self, server: str) -> AbstractContextManager[None]:
        return self._questions.calling(server)

    def on_log(self, server: str, params: Json) -> None:
        append_log(self.workspace.home.agent, server, params)

    def capabilities(self) -> Json:
        return self._questions.capabilities()

    async def answer(self, server: str, method: str, params: Json) -> Json:
        return await self._questions.answer(server, method, params)

    def _note_change(self) -> None:
        self.version += 1
        self._index = None
        known = (server.catalog for server in self._servers.values())
        tools = [tool for catalog in known if catalog is not None for tool in catalog.tools]
        self._definitions = distinct_names(tools, frozenset(self.toolset.tools))

    # ------------------------------------------------------------ what servers offer

    @property
    def servers(self) -> Mapping[str, McpServer]:
        """The enabled servers by name."""
        return self._servers

    @property
    def has_starting(self) -> bool:
        return any(server.state == "starting" for server in self._servers.values())

    def definitions(self) -> tuple[ToolDefinition, ...]:
        """Return the known tools of all servers, with distinct names."""
        return self._definitions

    def exposure_settings(self) -> list[ServerTools]:
        """Return the tools of each server with its exposure settings."""
        own: dict[str, list[ToolDefinition]] = {name: [] for name in self._servers}
        for tool in self._definitions:
            own[tool.server].append(tool)
        return [
            ServerTools(
                tools=tuple(tools),
                exposure=self._servers[name].entry.exposure,
                tool_exposure=self._servers[name].entry.tool_exposure,
            )
            for name, tools in own.items()
        ]

    def about(self, name: str) -> str:
        """Return the description of a server, else its instructions."""
        return self._servers[name].entry.description or self.instructions(name)

    def instructions(self, name: str) -> str:
        catalog = self._servers[name].catalog
        return "" if catalog is None else catalog.facts.instructions

    def tool(self, definition: ToolDefinition) -> Tool:
        """Return the tool of a definition."""
        key = (definition.server, definition.name, definition.digest)
        tool = self._tools.get(key)
        if tool is None or tool.server is not self._servers[definition.server]:
            server = self._servers[definition.server]
            tool = self._tools[key] = McpTool(definition, server, self, self.output_folder)
        return tool

    def output_folder(self) -> Path:
        """Return the folder for files that results contain."""
        return self.features.output_folder() or spill_folder()

    async def index(self, tools: Sequence[ToolDefinition]) -> ToolIndex:
        """Return the search index of these tools."""
        if self._index is None:
            index = ToolIndex()
            await index.add(tools)
            self._index = index
        return self._index

    # ------------------------------------------------------------ prompts and resources

    def names(self) -> Sequence[str]:
        """Return the servers that have resources."""
        known = ((name, server.catalog) for name, server in self._servers.items())
        return [name for name, one in known if one and (one.resources or one.templates)]

    async def connection(self, server: str) -> Connection:
        """Raises:
        McpError: the server cannot be used.
        """
        return await self._servers[server].use()

    def known_prompts(self) -> Mapping[str, Sequence[Json]]:
        """Return the prompts of each server, as far as they are known."""
        self.load()
        return {
            name: () if server.catalog is None else server.catalog.prompts
            for name, server in self._servers.items()
        }

    async def list_prompts(self, server: str) -> Sequence[Json]:
        """Raises:
        McpError: the server cannot be used.
        """
        return (await (await self.connection(server)).list_prompts()).items

    async def get_prompt(self, server: str, name: str, args: Json) -> Json:
        """Raises:
        McpError: the server cannot be used, or refused.
        """
        return await (await self.connection(server)).get_prompt(name, args)

    # ------------------------------------------------------------ commands of the host

    def statuses(self) -> tuple[McpServerStatus, ...]:
        self.load()
        return tuple(self.status(name) for name in self._entries)

    def status(self, name: str) -> McpServerStatus:
        """Raises:
        CommandError: there is no such server.
        """
        self.load()
        entry = self.entry(name)
        server = self._servers.get(entry.name)
        if server is not None:
            return self._status(server)
        return McpServerStatus(
            name=entry.name,
            source=entry.source,
            path=entry.path,
            transport=entry.transport,
            state="disabled",
            exposure=entry.exposure,
            tools=0,
            prompts=0,
            resources=0,
        )

    def entry(self, name: str) -> McpEntry:
        """Raises:
        CommandError: there is no such server.
        """
        self.load()
        for known, entry in self._entries.items():
            if same_server(known) == same_server(name):
                return entry
        names = ", ".join(self._entries) or "none"
        raise CommandError(UNKNOWN.format(name=name, names=names))

    def _status(self, server: McpServer) -> McpServerStatus:
        entry, catalog, connection = server.entry, server.catalog, server.connection
        facts = None if catalog is None else catalog.facts
        return McpServerStatus(
            name=entry.name,
            source=entry.source,
            path=entry.path,
            transport=entry.transport,
            state=server.state,
            exposure=entry.exposure,
            tools=0 if catalog is None else len(catalog.tools),
            prompts=0 if catalog is None else len(catalog.prompts),
            resources=0 if catalog is None else catalog.resources,
            protocol_version=None if facts is None else facts.version,
            server_info=None
            if facts is None
            else {"name": facts.name, "version": facts.server_version},
            pid=None if connection is None else connection.pid,
            error=server.error,
            stderr=(connection.stderr[-_STDERR_SHOWN:] or None) if connection else None,
        )

    def change(self, name: str, *, enabled: bool | None, exposure: McpExposure | None) -> None:
        """Change a server for this session.

        Raises:
            CommandError: there is no such server.
        """
        entry = self.entry(name)
        asked = {"enabled": enabled, "exposure": exposure}
        wanted = {key: value for key, value in asked.items() if value is not None}
        self._changes.setdefault(entry.name, {}).update(wanted)
        self.reload()

    def save(self, name: str, *, enabled: bool | None, exposure: McpExposure | None) -> None:
        """Write a change to the user's file.

        Raises:
            CommandError: the server is not one of the user's file, or it cannot be written.
        """
        entry = self.entry(name)
        if entry.source != "user":
            where = entry.path or f"the {entry.source}"
            raise CommandError(
                f'The MCP server "{entry.name}" comes from {where}; only servers of '
                f"{self.workspace.home.mcp_file} can be saved."
            )
        asked = {"enabled": enabled, "exposure": exposure}
        wanted = {key: value for key, value in asked.items() if value is not None}
        home = self.workspace.home
        set_entry_key(home, home.mcp_file, entry.name, wanted)

    async def reconnect(self, name: str | None) -> None:
        """Start a server again; without a name, all that failed or run.

        Raises:
            CommandError: there is no such server, it is disabled, or it cannot be started.
        """
        self.load()
        if name is None:
            chosen = [s for s in self._servers.values() if s.connection or s.state == "failed"]
            await asyncio.gather(*(_tried(server) for server in chosen))
            return
        server = self._servers.get(self.entry(name).name)
        if server is None:
            raise CommandError(f'The MCP server "{name}" is disabled. Enable it first.')
        try:
            await server.reconnect()
        except McpError as error:
            raise CommandError(str(error)) from error


async def _tried(server: McpServer) -> None:
    try:
        await server.reconnect()
    except McpError:
        return  # the state and the warning say why


def _without(entries: dict[str, McpEntry], others: Mapping[str, McpEntry]) -> dict[str, McpEntry]:
    taken = {same_server(name) for name in others}
    return {name: entry for name, entry in entries.items() if same_server(name) not in taken}
