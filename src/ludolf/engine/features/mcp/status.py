"""The state of an MCP server as hosts see it."""

from ludolf.config.mcp.entries import McpEntry
from ludolf.engine.features.mcp.servers import McpServer
from ludolf.protocol.results import McpServerStatus

_STDERR_SHOWN = 2000


def server_status(entry: McpEntry, server: McpServer | None) -> McpServerStatus:
    """Return the status of an entry; `server` is None if it is disabled."""
    catalog = server.catalog if server is not None else None
    connection = server.connection if server is not None else None
    facts = catalog.facts if catalog is not None else None
    named = {"name": facts.name, "version": facts.server_version} if facts is not None else None
    return McpServerStatus(
        name=entry.name,
        source=entry.source,
        path=entry.path,
        transport=entry.transport,
        state=server.state if server is not None else "disabled",
        exposure=entry.exposure,
        tools=len(catalog.tools) if catalog is not None else 0,
        prompts=len(catalog.prompts) if catalog is not None else 0,
        resources=catalog.resources if catalog is not None else 0,
        protocol_version=facts.version if facts is not None else None,
        server_info=named,
        pid=connection.pid if connection is not None else None,
        error=server.error if server is not None else None,
        stderr=(connection.stderr[-_STDERR_SHOWN:] or None) if connection is not None else None,
    )
