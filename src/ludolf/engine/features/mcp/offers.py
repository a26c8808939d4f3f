"""What the MCP servers of an engine offer: tools, prompts and resources."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from ludolf.agent.tool import Tool
from ludolf.engine.bundles import Bundles, Component
from ludolf.engine.features.mcp.server_set import ServerSet
from ludolf.engine.features.mcp.tools import McpTool
from ludolf.mcp.connection import Connection
from ludolf.mcp.definitions import ToolDefinition, distinct_names
from ludolf.mcp.exposure import ServerTools
from ludolf.mcp.search import ToolIndex
from ludolf.mcp.wire import Json
from ludolf.tools.output import spill_folder


class ServerOffers(Component):
    """Reads the catalogs of the servers; what it derives is made again after a change."""

    def __init__(self, bundles: Bundles, servers: ServerSet) -> None:
        super().__init__(bundles)
        self._set = servers
        self._tools: dict[tuple[str, str, str], McpTool] = {}
        self._definitions: tuple[ToolDefinition, ...] = ()
        self._index: tuple[int, ToolIndex] | None = None
        self._seen = -1

    @property
    def version(self) -> int:
        """A number that changes with the entries and catalogs."""
        return self._set.version

    def definitions(self) -> tuple[ToolDefinition, ...]:
        """Return the known tools of all servers, with distinct names."""
        if self._seen != self.version:
            self._seen = self.version
            known = (server.catalog for server in self._set.servers.values())
            tools = [tool for catalog in known if catalog is not None for tool in catalog.tools]
            self._definitions = distinct_names(tools, frozenset(self.toolset.tools))
        return self._definitions

    def exposure_settings(self) -> list[ServerTools]:
        """Return the tools of each server with its exposure settings."""
        own: dict[str, list[ToolDefinition]] = {name: [] for name in self._set.servers}
        for tool in self.definitions():
            own[tool.server].append(tool)
        return [
            ServerTools(
                tools=tuple(tools),
                exposure=self._set.entries[name].exposure,
                tool_exposure=self._set.entries[name].tool_exposure,
            )
            for name, tools in own.items()
        ]

    def about(self, name: str) -> str:
        """Return the description of a server, else its instructions."""
        return self._set.entries[name].description or self.instructions(name)

    def instructions(self, name: str) -> str:
        catalog = self._set.servers[name].catalog
        return "" if catalog is None else catalog.facts.instructions

    def tool(self, definition: ToolDefinition) -> Tool:
        """Return the tool of a definition."""
        key = (definition.server, definition.name, definition.digest)
        server, entry = self._set.servers[definition.server], self._set.entries[definition.server]
        tool = self._tools.get(key)
        if tool is None or tool.server is not server or tool.entry != entry:
            tool = McpTool(definition, server, entry, self._set, self.output_folder)
            self._tools[key] = tool
        return tool

    def output_folder(self) -> Path:
        """Return the folder for files that results contain."""
        return self.features.output_folder() or spill_folder()

    async def index(self, tools: Sequence[ToolDefinition]) -> ToolIndex:
        """Return the search index of these tools."""
        if self._index is None or self._index[0] != self.version:
            index = ToolIndex()
            await index.add(tools)
            self._index = self.version, index
        return self._index[1]

    # ------------------------------------------------------------ prompts and resources

    def names(self) -> Sequence[str]:
        """Return the servers that have resources."""
        known = ((name, server.catalog) for name, server in self._set.servers.items())
        return [name for name, one in known if one and (one.resources or one.templates)]

    async def connection(self, server: str) -> Connection:
        """Raises:
        McpError: the server cannot be used.
        """
        return await self._set.servers[server].use()

    def known_prompts(self) -> Mapping[str, Sequence[Json]]:
        """Return the prompts of each server, as far as they are known."""
        self._set.load()
        return {
            name: () if server.catalog is None else server.catalog.prompts
            for name, server in self._set.servers.items()
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
