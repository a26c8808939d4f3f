"""Which tools of MCP servers the requests of a session declare.

What the first request of a session declares stays declared, so that the provider's cache of the
prefix stays valid. Later tools are found by a search, which declares them at the end of the list.
Which tools were found is read from the results of searches on the path of the session.
"""

from collections.abc import Iterable, Sequence

from msgspec import structs

from ludolf.agent.tool import Tool
from ludolf.ai.messages import ToolResultMessage
from ludolf.engine.bundles import Bundles, Component
from ludolf.engine.features.mcp.offers import ServerOffers
from ludolf.engine.features.mcp.resources import resource_tools
from ludolf.engine.features.mcp.server_set import ServerSet
from ludolf.engine.features.mcp.tools import MOST_INSTRUCTIONS, SEARCH, ToolSearch
from ludolf.engine.toolset import MCP_PREFIX, is_listed, mcp_patterns, permits
from ludolf.mcp.cleaning import clean_text
from ludolf.mcp.definitions import ToolDefinition
from ludolf.mcp.exposure import ExposedTools, expose
from ludolf.protocol.results import McpToolExposure, McpToolStatus
from ludolf.session.entries import Entry, message_of, role_of
from ludolf.session.tree import Session

SOURCE = "mcp"
_LINE = 160
_NO_WINDOW = 128_000
_MARK = f'"{SEARCH}"'.encode()


class Declarations(Component):
    """The declared tools of one engine."""

    def __init__(self, bundles: Bundles, servers: ServerSet) -> None:
        super().__init__(bundles)
        self._servers = servers
        self.offers = ServerOffers(bundles, servers)
        self._session: Session | None = None
        # Names in the order in which they were declared; `None` before the first request.
        self._direct: tuple[str, ...] | None = None
        self._searches = False
        # Made once for a session: its description names the servers of the first request.
        self._search: Tool | None = None
        self._section = ""
        self._path = _LoadedNames()
        self._provided: object = None
        self._exposure: tuple[tuple[int, int], ExposedTools] | None = None
        self._resource_tools = resource_tools(self.offers)

    # ------------------------------------------------------------ before requests

    def begin(self) -> None:
        """Choose what this session declares, if its first request comes next."""
        session = self.conversation.session
        if self._session is session and self._direct is not None:
            return
        self._session, self._path = session, _LoadedNames()
        exposed = self._exposed()
        self._direct = tuple(tool.name for tool in exposed.direct)
        late = self._servers.has_starting and self._permits_some
        self._searches = bool(exposed.deferred or self._own_tools() or late)
        self._search = self._provided = None
        self._section = self._describe(exposed)
        self.resources.invalidate_prompt()
        self.sync()

    def sync(self) -> None:
        """Declare what searches found, and follow changes of the servers."""
        if self._direct is None or self._session is not self.conversation.session:
            self.begin()
            return
        loaded = self._path.follow(self.conversation.session.path_to_leaf())
        state = (self.offers.version, loaded, self._direct)
        if state == self._provided:
            return
        self._provided = state
        self._provide(loaded)

    def forget(self) -> None:
        """Choose again with the next request: the user changed what is exposed."""
        self._direct = None

    @property
    def section(self) -> str:
        """The lines about servers in the system prompt."""
        return self._section

    # ------------------------------------------------------------ for the search

    async def find(self, query: str, limit: int) -> Sequence[ToolDefinition]:
        exposed = self._exposed()
        own = map(_definition_of, self._own_tools())
        index = await self.offers.index((*exposed.direct, *exposed.deferred, *own))
        return index.search(query, limit)

    def introduce(self, servers: Sequence[str]) -> dict[str, str]:
        loaded = set(self._path.follow(self.conversation.session.path_to_leaf()))
        met = {tool.server for tool in self.offers.definitions() if tool.name in loaded}
        texts = {
            name: clean_text(self.offers.instructions(name), MOST_INSTRUCTIONS)
            for name in servers
            if name in self._servers.servers and name not in met
        }
        return {name: text for name, text in texts.items() if text}

    @property
    def server_names(self) -> Sequence[str]:
        return tuple(dict.fromkeys(tool.server for tool in self._exposed().deferred))

    # ------------------------------------------------------------ for the host

    def statuses(self, server: str) -> tuple[McpToolStatus, ...]:
        """Return the tools of a server and how they are exposed; excluded ones are hidden."""
        exposed = self._exposed()
        found: dict[str, McpToolExposure] = {tool.name: "direct" for tool in exposed.direct}
        found |= {tool.name: "deferred" for tool in exposed.deferred}
        return tuple(
            McpToolStatus(
                name=tool.name,
                tool=tool.tool,
                description=tool.description,
                exposure=found.get(tool.name, "hidden"),
                input_schema=tool.parameters,
                read_only=tool.read_only,
            )
            for tool in self.offers.definitions()
            if tool.server == server
        )

    # ------------------------------------------------------------ private

    def _exposed(self) -> ExposedTools:
        """Sort the tools that the options permit."""
        model, options = self.models.current, self.workspace.options
        window = model.context_window if model is not None else _NO_WINDOW
        state = (self.offers.version, window)
        if self._exposure is None or self._exposure[0] != state:
            permitted = (
                structs.replace(one, tools=tuple(t for t in one.tools if permits(options, t.name)))
                for one in self.offers.exposure_settings()
            )
            self._exposure = state, expose(permitted, window)
        return self._exposure[1]

    def _own_tools(self) -> tuple[Tool, ...]:
        """Return the tools for resources, if there are some and the options permit these tools."""
        if not self.offers.names():
            return ()
        return tuple(tool for tool in self._resource_tools if self._permits_own(tool.name))

    def _permits_own(self, name: str) -> bool:
        options = self.workspace.options
        if is_listed(name, options.exclude_tools):
            return False
        return is_listed(name, options.tools or ()) or permits(options, MCP_PREFIX + name)

    @property
    def _permits_some(self) -> bool:
        options = self.workspace.options
        if is_listed(MCP_PREFIX, options.exclude_tools):
            return False
        return permits(options, MCP_PREFIX) or bool(mcp_patterns(options.tools or ()))

    def _provide(self, loaded: tuple[str, ...]) -> None:
        assert self._direct is not None
        exposed = self._exposed()
        tools: dict[str, Tool] = {}
        for definition in (*exposed.direct, *exposed.deferred):
            tools[definition.name] = self.offers.tool(definition)
        tools |= {tool.name: tool for tool in self._own_tools()}
        self._searches |= len(tools) > len(self._direct)
        declared = [name for name in self._direct if name in tools]
        if self._searches and not is_listed(SEARCH, self.workspace.options.exclude_tools):
            tools[SEARCH] = self._search = self._search or ToolSearch(self)
            declared.append(SEARCH)
        found = tuple(name for name in loaded if name in tools and name not in declared)
        order = dict.fromkeys((*declared, *found, *tools))
        self.toolset.provide(
            SOURCE,
            [tools[name] for name in order],
            undeclared=frozenset(tools) - {*declared, *found},
            deferred=found,
            inherited=False,
        )

    def _describe(self, exposed: ExposedTools) -> str:
        deferred = {tool.server for tool in exposed.deferred}
        lines = []
        for name, server in self._servers.servers.items():
            about = clean_text(self.offers.about(name), _LINE).partition("\n")[0]
            if name in deferred or server.state == "starting":
                lines.append(f"- {name}: {about}" if about else f"- {name}")
        if not lines or not self._searches:
            return ""
        intro = f"Tools of these MCP servers are not declared; find them with {SEARCH}:"
        return "\n".join((intro, *lines))


def _definition_of(tool: Tool) -> ToolDefinition:
    """Return a tool of ours in the form that the search finds."""
    return ToolDefinition(
        server="",
        tool=tool.name,
        name=tool.name,
        description=tool.description,
        parameters=dict(tool.parameters),
        digest="",
    )


class _LoadedNames:
    """The tools that searches on the path have declared; only new entries are looked at."""

    def __init__(self) -> None:
        self._seen = 0
        self._last: Entry | None = None
        self._names: dict[str, None] = {}

    def follow(self, path: Sequence[Entry]) -> tuple[str, ...]:
        if self._seen > len(path) or (self._seen and path[self._seen - 1] is not self._last):
            self._seen, self._names = 0, {}
        for name in _found(path[self._seen :]):
            self._names[name] = None
        self._seen, self._last = len(path), path[-1] if path else None
        return tuple(self._names)


def _found(entries: Iterable[Entry]) -> Iterable[str]:
    for entry in entries:
        # Only results of searches are decoded.
        if _MARK not in entry.line or role_of(entry) != "toolResult":
            continue
        message = message_of(entry)
        if isinstance(message, ToolResultMessage) and message.tool_name == SEARCH:
            details = message.details if isinstance(message.details, dict) else {}
            loaded = details.get("loaded")
            yield from (name for name in loaded or () if isinstance(name, str))
