"""Tools that list and read the resources of MCP servers."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import chain
from typing import Any, Protocol

import msgspec

from ludolf.agent.tool import Tool, ToolContext, ToolDefaults, ToolFailure, ToolOutput, text_output
from ludolf.engine.features.mcp.forms import shown_text
from ludolf.mcp.definitions import server_key
from ludolf.mcp.results import resource_parts
from ludolf.mcp.wire import Json, McpError
from ludolf.tools.listing import listing
from ludolf.tools.options import image_limits, parameter_schema
from ludolf.tools.output import spill_folder

PAGE = 200
_MOST_ADDRESS = 2048
_MOST_NAME = 200
_MOST_DESCRIPTION = 300
_SERVER = ("string", "Name of the server (default: all servers)")


class ResourceListing(Protocol):
    """A list of a server; `cut` says why entries are missing, if some are."""

    @property
    def items(self) -> Sequence[Json]: ...
    @property
    def cut(self) -> str: ...


class ResourceConnection(Protocol):
    """A connected server. Each method raises McpError."""

    async def list_resources(self) -> ResourceListing: ...
    async def list_resource_templates(self) -> ResourceListing: ...
    async def read_resource(self, uri: str) -> Json: ...


class ResourceServers(Protocol):
    """The servers of a session, as far as resources need them."""

    def names(self) -> Sequence[str]:
        """Return the servers that have resources."""

    async def connection(self, server: str) -> ResourceConnection:
        """Return the connection of a server, and start it if needed.

        Raises:
            McpError: it cannot be used.
        """


ReadListing = Callable[[ResourceConnection], Awaitable[ResourceListing]]


class ServerLines(msgspec.Struct, frozen=True, kw_only=True):
    """Lines for the entries of one server, and why some or all are missing."""

    lines: tuple[str, ...] = ()
    notice: str = ""


def resource_tools(servers: ResourceServers) -> tuple[Tool, ...]:
    """Return the tools for the resources of these servers."""
    return (ListResourcesTool(servers), ListTemplatesTool(servers), ReadResourceTool(servers))


class ListResourcesTool(ToolDefaults):
    name = "list_mcp_resources"
    label = "List MCP resources"
    description = (
        "List the resources of MCP servers: documents and data that read_mcp_resource reads. "
        "Each line has the server and the address of a resource."
    )
    parameters = parameter_schema(
        server=_SERVER, cursor=("string", "Where to continue: nextCursor of the previous result")
    )
    read_only = True

    def __init__(self, servers: ResourceServers) -> None:
        self._servers = servers

    async def execute(self, args: Mapping[str, Any], ctx: ToolContext) -> ToolOutput:
        start = _offset(args.get("cursor"))
        listed = await _list(self._servers, args.get("server"), lambda one: one.list_resources())
        return _page(listed, start, "No MCP server has resources.")


class ListTemplatesTool(ToolDefaults):
    name = "list_mcp_resource_templates"
    label = "List MCP resource templates"
    description = (
        "List the templates of MCP servers for addresses of resources. Replace the names in braces "
        "by values, then read the address with read_mcp_resource."
    )
    parameters = parameter_schema(server=_SERVER)
    read_only = True

    def __init__(self, servers: ResourceServers) -> None:
        self._servers = servers

    async def execute(self, args: Mapping[str, Any], ctx: ToolContext) -> ToolOutput:
        listed = await _list(
            self._servers, args.get("server"), lambda one: one.list_resource_templates()
        )
        return _page(listed, 0, "No MCP server has resource templates.")


class ReadResourceTool(ToolDefaults):
    name = "read_mcp_resource"
    label = "Read MCP resource"
    description = (
        "Read a resource of an MCP server. Content that is neither text nor an image is saved as "
        "a file."
    )
    parameters = parameter_schema(
        "server",
        "uri",
        server=("string", "Name of the server"),
        uri=("string", "Address of the resource, as list_mcp_resources shows it"),
    )
    read_only = True

    def __init__(self, servers: ResourceServers) -> None:
        self._servers = servers

    async def execute(self, args: Mapping[str, Any], ctx: ToolContext) -> ToolOutput:
        server, uri = _known(self._servers, args["server"]), args["uri"]
        try:
            connection = await self._servers.connection(server)
            result = await connection.read_resource(uri)
        except McpError as error:
            raise ToolFailure(f"Cannot read {uri} from {server}: {error}") from error
        folder = ctx.walls.output_folder if ctx.walls is not None else spill_folder()
        parts = await resource_parts(
            result, server=server, folder=folder, limits=image_limits(ctx.input_limits)
        )
        return ToolOutput(content=parts, details={"server": server, "uri": uri})


# ---------------------------------------------------------------- lists


def _known(servers: ResourceServers, name: str) -> str:
    """Return the server that a model names.

    Raises:
        ToolFailure: there is none.
    """
    names = servers.names()
    for server in names:
        if server_key(server) == server_key(name):
            return server
    have = ", ".join(names) or "none"
    raise ToolFailure(f"No MCP server {name} with resources. Servers with resources: {have}")


async def _list(
    servers: ResourceServers, name: str | None, read: ReadListing
) -> tuple[ServerLines, ...]:
    """Return the entries of one server, or of all; then a server that fails becomes a notice.

    Raises:
        ToolFailure: the server that `name` names is unknown or failed.
    """
    if not name:
        return tuple(
            await asyncio.gather(*(_list_one(servers, each, read) for each in servers.names()))
        )
    listed = await _list_one(servers, _known(servers, name), read)
    if listed.notice and not listed.lines:
        raise ToolFailure(listed.notice)
    return (listed,)


async def _list_one(servers: ResourceServers, server: str, read: ReadListing) -> ServerLines:
    try:
        found = await read(await servers.connection(server))
    except McpError as error:
        return ServerLines(notice=f"{server}: {error}")
    lines = tuple(filter(None, (_line(server, item) for item in found.items)))
    return ServerLines(lines=lines, notice=f"{server}: {found.cut}" if found.cut else "")


def _line(server: str, item: Any) -> str:
    """Return one line about an entry; empty if it has no address."""
    if not isinstance(item, Mapping):
        return ""
    address = shown_text(item.get("uri") or item.get("uriTemplate"), _MOST_ADDRESS)
    if not address:
        return ""
    name = shown_text(item.get("title") or item.get("name"), _MOST_NAME)
    mime_type = shown_text(item.get("mimeType"), _MOST_NAME)
    about = shown_text(item.get("description"), _MOST_DESCRIPTION)
    words = (f"{server}: {address}", name and f"- {name}", mime_type and f"({mime_type})", about)
    return " ".join(filter(None, words))


def _offset(cursor: Any) -> int:
    if not cursor:
        return 0
    if not isinstance(cursor, str) or not cursor.isascii() or not cursor.isdigit():
        raise ToolFailure("The cursor is not one of a previous result. Call without it to start.")
    return int(cursor[:9])


def _page(listed: Sequence[ServerLines], start: int, nothing: str) -> ToolOutput:
    lines = list(chain.from_iterable(one.lines for one in listed))
    notices = [one.notice for one in listed if one.notice]
    details: dict[str, Any] = {"count": len(lines)}
    if len(lines) > start + PAGE:
        details["nextCursor"] = cursor = str(start + PAGE)
        notices.append(f'{start + PAGE} of {len(lines)} shown. Use cursor="{cursor}" for more')
    shown = lines[start : start + PAGE]
    if not shown and not notices:
        return text_output(nothing, details)
    return listing(shown or [nothing], notices, details)
