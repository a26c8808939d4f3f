"""Tools of MCP servers, and the tool by which the model finds those that are not declared."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from ludolf.agent.tool import ToolContext, ToolDefaults, ToolFailure, ToolOutput, text_output
from ludolf.ai.messages import Text
from ludolf.base import dumps
from ludolf.config.mcp.entries import McpEntry
from ludolf.engine.features.mcp.servers import McpServer, ServerUser
from ludolf.mcp.catalog import check_arguments, without_placeholders
from ludolf.mcp.cleaning import clean_text
from ludolf.mcp.definitions import ToolDefinition
from ludolf.mcp.results import tool_output
from ludolf.mcp.wire import Json, LoginNeeded, McpError
from ludolf.tools.options import image_limits

SEARCH = "tool_search"
CALL_SECONDS = 60.0
MOST_INSTRUCTIONS = 4096
_MOST_HITS = 25
_NEXT = "None of these tools has been run. Call the one that you need now."


class McpTool(ToolDefaults):
    """One tool of a server. `folder` is called for the place of files that a result contains."""

    def __init__(
        self,
        definition: ToolDefinition,
        server: McpServer,
        entry: McpEntry,
        user: ServerUser,
        folder: Callable[[], Path],
    ) -> None:
        self.definition = definition
        self.name = definition.name
        self.label = definition.title or definition.tool
        self.description = definition.description
        self.parameters: Mapping[str, Any] = definition.parameters
        # Approvals of a session do not cover another version of the tool.
        self.version = definition.digest
        self.read_only = definition.read_only and entry.trusts_annotations
        self.server = server
        self.entry = entry
        self._user = user
        self._folder = folder

    async def prepare(self, args: Mapping[str, Any]) -> Mapping[str, Any]:
        return without_placeholders(self.definition.parameters, args)

    async def execute(self, args: Mapping[str, Any], ctx: ToolContext) -> ToolOutput:
        given = check_arguments(self.definition, args)
        try:
            result = await self._call(given, ctx)
        except LoginNeeded as error:
            await self.server.lose_login(error)
            advice = f'The user can run "ludolf mcp login {self.server.name}".'
            raise ToolFailure(f'MCP server "{self.server.name}": {error}. {advice}') from error
        except McpError as error:
            raise ToolFailure(f'MCP server "{self.server.name}": {error}') from error
        return await tool_output(
            result,
            definition=self.definition,
            folder=self._folder(),
            limits=image_limits(ctx.input_limits),
        )

    async def _call(self, args: Mapping[str, Any], ctx: ToolContext) -> Json:
        server = self.server
        if server.connection is None:
            await ctx.update(text_output(f'Starting MCP server "{server.name}"...'))
        connection = await server.use()
        with server.called_by(self._user):
            return await connection.call_tool(
                self.definition.tool,
                args,
                timeout=self.entry.timeout or CALL_SECONDS,
                on_progress=_progress(ctx),
                meta=ctx.trace(),
            )


def _progress(ctx: ToolContext) -> Callable[[Json], None] | None:
    post = ctx.post
    if post is None:
        return None

    def show(params: Json) -> None:
        post(text_output(_progress_text(params)))

    return show


def _progress_text(params: Json) -> str:
    """Return progress in words: "3 of 10: message"."""
    done, total, message = params.get("progress"), params.get("total"), params.get("message")
    words = [f"{number:g}" for number in (done, total) if isinstance(number, int | float)]
    counted = " of ".join(words)
    said = clean_text(message, 500) if isinstance(message, str) else ""
    return ": ".join(text for text in (counted, said) if text) or "working"


class SearchedTools(Protocol):
    """The tools that a search looks at."""

    async def find(self, query: str, limit: int) -> Sequence[ToolDefinition]:
        """Return the tools that fit, the best first."""

    def introduce(self, servers: Sequence[str]) -> dict[str, str]:
        """Return the instructions of servers of which no tool has been found before."""

    @property
    def server_names(self) -> Sequence[str]:
        """The names of the servers whose tools can be found."""


class ToolSearch(ToolDefaults):
    """Finds tools that are not declared, and declares them from the next request on."""

    name = SEARCH
    label = SEARCH
    read_only = True
    snippet = "Find tools of MCP servers that are not in the list of tools"
    parameters: Mapping[str, Any] = {
        "type": "object",
        "properties": {
            "query": {
                "type": "string",
                "description": "Words of the name or purpose of the tool, or its whole name",
            },
            "limit": {"type": "integer", "description": "Most tools to return; default 8"},
        },
        "required": ["query"],
    }

    def __init__(self, tools: SearchedTools) -> None:
        self._tools = tools
        names = ", ".join(tools.server_names)
        self.description = (
            "Search the tools of MCP servers that are not declared here. The tools that are found "
            "can be called from then on." + (f" Servers: {names}." if names else "")
        )

    async def execute(self, args: Mapping[str, Any], ctx: ToolContext) -> ToolOutput:
        query = str(args["query"])
        limit = max(1, min(_MOST_HITS, int(args.get("limit") or 8)))
        found = await self._tools.find(query, limit)
        if not found:
            names = ", ".join(self._tools.server_names) or "none"
            raise ToolFailure(f"No tool matches {query!r}. Servers with tools: {names}.")
        servers = dict.fromkeys(tool.server for tool in found if tool.server)
        about = self._tools.introduce(tuple(servers))
        # The first part describes the tools: some providers get references in its place.
        texts = ["\n\n".join(map(_described, found))]
        texts += [f'Instructions of "{server}":\n{text}' for server, text in about.items()]
        texts.append(_NEXT)  # last, since small models answer what they read last
        return ToolOutput(
            content=tuple(Text(text=text) for text in texts),
            details={"loaded": [tool.name for tool in found]},
        )


def _described(tool: ToolDefinition) -> str:
    schema = dumps(tool.parameters).decode()
    return f"{tool.name}\n{tool.description}\nParameters: {schema}"
