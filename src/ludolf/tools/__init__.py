"""The built-in tools: read, bash, edit, write, grep, find, ls."""

from typing import TYPE_CHECKING

from ludolf.tools.options import BuiltinToolOptions, ImageLimits, image_limits

if TYPE_CHECKING:
    from ludolf.agent.tool import Tool

__all__ = ["BuiltinToolOptions", "ImageLimits", "builtin_tools", "image_limits"]


def builtin_tools(options: BuiltinToolOptions) -> "dict[str, Tool]":
    """Return every built-in tool by name, in the order of the tool list that models receive."""
    from ludolf.tools.bash import BashTool
    from ludolf.tools.edit import EditTool
    from ludolf.tools.find import FindTool
    from ludolf.tools.grep import GrepTool
    from ludolf.tools.ls import LsTool
    from ludolf.tools.read import ReadTool
    from ludolf.tools.write import WriteTool

    tools: tuple[Tool, ...] = (
        ReadTool(options),
        BashTool(options),
        EditTool(),
        WriteTool(),
        GrepTool(path=options.path),
        FindTool(),
        LsTool(),
    )
    return {tool.name: tool for tool in tools}
