"""The MCP servers of an engine and its subagents: entries of all sources, and their servers."""

import asyncio
from collections.abc import Mapping
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import msgspec
from msgspec import structs

from ludolf.base import ConfigError
from ludolf.config.mcp.cache import mcp_cache_file, read_cached_servers, store_cached_server
from ludolf.config.mcp.entries import McpEntry, parse_entry, same_server
from ludolf.config.mcp.files import read_mcp_entries
from ludolf.engine.bundles import Bundles, Component
from ludolf.engine.features.mcp.asking import ServerQuestions
from ludolf.engine.features.mcp.launching import Launcher
from ludolf.engine.features.mcp.log import append_log
from ludolf.engine.features.mcp.servers import LINGER_SECONDS, Catalog, McpServer, server_pool
from ludolf.engine.features.mcp.status import server_status
from ludolf.mcp.wire import Json
from ludolf.protocol.events import McpServerChanged
from ludolf.protocol.results import McpServerSource


class _ReadServers(msgspec.Struct, frozen=True, kw_only=True):
    """Entries by name, the keys of the enabled ones, and what the cache knows, by key."""

    entries: dict[str, McpEntry]
    keys: dict[str, str]
    catalogs: dict[str, Catalog]
    warnings: tuple[str, ...]


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
        self._catalogs: dict[str, Catalog | None] = {}
        self._provided: dict[McpServerSource, dict[str, McpEntry]] = {}
        # What `set_mcp_server` changed for this session.
        self._changes: dict[str, dict[str, Any]] = {}
        self._loaded = False
        self._has_waited = False
        self._problems: set[str] = set()
        # The folder whose files were read last.
        self.folder = bundles.workspace.cwd
        # Counts changes of entries and catalogs.
        self.version = 0

    # ------------------------------------------------------------ entries

    def load(self) -> None:
        """Read the files, unless they have been read, and start the servers that are new."""
        if not self._loaded:
            self._take(self._read(trusted=self.workspace.files.trusted))

    async def load_in_thread(self) -> None:
        """Do the same as `load`, but let other tasks run while the files are read."""
        if not self._loaded:
            trusted = self.workspace.files.trusted
            read = await asyncio.to_thread(self._read, trusted=trusted)
            if not self._loaded:  # `load` may have been called in the meantime
                self._take(read)

    def _read(self, *, trusted: bool) -> "_ReadServers":
        options, cwd = self.workspace.options, self.workspace.cwd
        found = read_mcp_entries(
            self.workspace.home,
            trusted=trusted,
            files=options.mcp_config,
            use_files=not options.no_mcp,
        )
        entries = dict(found.entries)
        for provided in tuple(self._provided.values()):
            entries = {**_without(entries, provided), **provided}
        entries = {name: self._changed(entry) for name, entry in entries.items()}
        enabled = (entry for entry in entries.values() if entry.enabled)
        keys = {entry.name: self._launcher.key(entry, cwd) for entry in enabled}
        return _ReadServers(
            entries=entries,
            keys=keys,
            catalogs=read_cached_servers(self._cache, keys.values(), Catalog) if keys else {},
            warnings=found.warnings,
        )

    def reload(self) -> None:
        """Read the files again; servers whose entries have not changed continue to run."""
        self._loaded = False
        self._problems.clear()
        self.load()

    def provide(self, source: McpServerSource, raw: Mapping[str, Any]) -> None:
        """Replace the entries of a source that is not a file.

        Raises:
            ConfigError: an entry is invalid; nothing has changed then.
        """
        entries = {name: parse_entry(name, fields, source) for name, fields in raw.items()}
        names = {same_server(name): name for name in reversed(entries)}
        for name in entries:
            if names[same_server(name)] != name:
                other = names[same_server(name)]
                raise ConfigError(f'server "{name}": its name means the same as "{other}"')
        self._provided[source] = entries
        self.reload()

    def _changed(self, entry: McpEntry) -> McpEntry:
        return structs.replace(entry, **self._changes.get(entry.name, {}))

    def _take(self, read: "_ReadServers") -> None:
        for text in read.warnings:
            self.on_problem(text)
        pool, servers = server_pool(), {}
        for name, key in read.keys.items():
            make = partial(self._make, read.entries[name], key, read.catalogs.get(key))
            servers[name] = pool.take(key, self, make)
        before, self._keys, self._servers = self._keys, read.keys, servers
        # A session of the other folder may be opened again; what the user removed ends now.
        seconds = 0.0 if self.folder == self.workspace.cwd else LINGER_SECONDS
        for name, key in before.items():
            if read.keys.get(name) != key:
                pool.give_back(key, self, seconds)
        self._loaded, self.folder = True, self.workspace.cwd
        self._entries = read.entries
        self._catalogs = {name: server.catalog for name, server in servers.items()}
        self.version += 1
        self.begin_new()

    def _make(self, entry: McpEntry, key: str, catalog: Catalog | None) -> McpServer:
        launch = self._launcher.launching(entry, self.workspace.cwd)
        return McpServer(entry.name, launch, catalog, partial(self._keep, key))

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
        return [
            server.begin()
            for name, server in self._servers.items()
            if server.connection is None
            and (server.is_new or (self._entries[name].start == "eager" and not server.gave_up))
        ]

    async def ready(self) -> None:
        """Wait for servers that are new, once and not longer than the settings say."""
        await self.load_in_thread()
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
        self.version += 1
        await pool.close_unused()

    # ------------------------------------------------------------ as a user of servers

    def on_server(self, server: McpServer) -> None:
        if self._servers.get(server.name) is not server:
            return
        if self._catalogs.get(server.name) is not server.catalog:
            self._catalogs[server.name] = server.catalog
            self.version += 1
        self._announce(self._entries[server.name])

    def _announce(self, entry: McpEntry) -> None:
        status = server_status(entry, self._servers.get(entry.name))
        self.conversation.hub.post(McpServerChanged(server=status))

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

    # ------------------------------------------------------------ servers

    @property
    def servers(self) -> Mapping[str, McpServer]:
        """The enabled servers by name."""
        self.load()
        return self._servers

    @property
    def entries(self) -> Mapping[str, McpEntry]:
        """All entries by name, those of disabled servers too."""
        self.load()
        return self._entries

    @property
    def has_starting(self) -> bool:
        return any(server.state == "starting" for server in self._servers.values())

    def override(self, name: str, changes: Mapping[str, Any]) -> None:
        """Change keys of an entry for this session."""
        was_enabled = name in self._servers
        self._changes.setdefault(name, {}).update(changes)
        self.reload()
        if was_enabled != (name in self._servers):
            self._announce(self._entries[name])


def _without(entries: dict[str, McpEntry], others: Mapping[str, McpEntry]) -> dict[str, McpEntry]:
    taken = {same_server(name) for name in others}
    return {name: entry for name, entry in entries.items() if same_server(name) not in taken}
