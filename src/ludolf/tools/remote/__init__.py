"""The built-in tools for a workplace: a folder in a container or on another machine."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ludolf.agent.tool import Tool
    from ludolf.agent.workplace import Workplace
    from ludolf.tools.options import BuiltinToolOptions

__all__ = ["remote_tools"]


def remote_tools(options: "BuiltinToolOptions", workplace: "Workplace") -> "dict[str, Tool]":
    """Return the tools of `BuiltinTools`, in the same order, for a workplace."""
    from ludolf.tools.remote.commands import RemoteBashTool
    from ludolf.tools.remote.files import (
        RemoteEditTool,
        RemoteLsTool,
        RemoteReadTool,
        RemoteWriteTool,
    )
    from ludolf.tools.remote.place import RemotePlace
    from ludolf.tools.remote.searches import RemoteFindTool, RemoteGrepTool

    place = RemotePlace(workplace)
    tools: tuple[Tool, ...] = (
        RemoteReadTool(options, place),
        RemoteBashTool(options, place),
        RemoteEditTool(place),
        RemoteWriteTool(place),
        RemoteGrepTool(place),
        RemoteFindTool(place),
        RemoteLsTool(place),
    )
    return {tool.name: tool for tool in tools}
