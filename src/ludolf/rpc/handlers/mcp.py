"""Commands about MCP servers."""

from typing import Any

from ludolf.rpc.connection import Call, ReplyData, Result, forwards, handles


def _change(call: Call) -> Any:
    wanted = call.command
    return call.engine.mcp.change(
        wanted.name, enabled=wanted.enabled, exposure=wanted.exposure, save=wanted.save
    )


forwards(
    get_mcp_servers=lambda call: {"servers": call.engine.mcp.statuses()},
    get_mcp_tools=lambda call: {"tools": call.engine.mcp.tool_statuses(call.command.name)},
    set_mcp_server=lambda call: {"server": _change(call)},
    set_mcp_servers=lambda call: {"servers": call.engine.mcp.provide("host", call.command.servers)},
)


@handles
async def mcp_reconnect(call: Call) -> Result:
    return ReplyData({"servers": await call.engine.mcp.reconnect(call.command.name)})


@handles
async def mcp_login(call: Call) -> Result:
    return ReplyData({"server": await call.engine.mcp.login(call.command.name)})


@handles
async def mcp_logout(call: Call) -> Result:
    name = call.command.name
    return ReplyData({"name": name, "removed": await call.engine.mcp.logout(name)})
