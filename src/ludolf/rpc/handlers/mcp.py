"""Commands about MCP servers."""

from typing import Any

from ludolf.rpc.connection import Call, ReplyData, Result, forwards, handles


def _change(call: Call) -> Any:
    wanted = call.command
    return call.engine.mcp.administration.change(
        wanted.name, enabled=wanted.enabled, exposure=wanted.exposure, save=wanted.save
    )


def _provide(call: Call) -> Any:
    return call.engine.mcp.administration.provide("host", call.command.servers)


forwards(
    get_mcp_servers=lambda call: {"servers": call.engine.mcp.administration.statuses()},
    get_mcp_tools=lambda call: {"tools": call.engine.mcp.administration.tools(call.command.name)},
    set_mcp_server=lambda call: {"server": _change(call)},
    set_mcp_servers=lambda call: {"servers": _provide(call)},
)


@handles
async def mcp_reconnect(call: Call) -> Result:
    return ReplyData({"servers": await call.engine.mcp.administration.reconnect(call.command.name)})


@handles
async def mcp_login(call: Call) -> Result:
    administration, name = call.engine.mcp.administration, call.command.name
    return ReplyData({"server": await administration.login(name, call.engine.send)})


@handles
async def mcp_logout(call: Call) -> Result:
    name = call.command.name
    removed = await call.engine.mcp.administration.logout(name)
    return ReplyData({"name": name, "removed": removed})
