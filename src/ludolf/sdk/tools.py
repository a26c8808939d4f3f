"""Tools of a program: check the functions that it passes, and make tools from them."""

from collections.abc import Callable, Sequence
from typing import Any

from ludolf.agent.tool import Tool
from ludolf.base import ConfigError
from ludolf.functions.schema import NoSchema
from ludolf.functions.tool import make_tool


def read_tools(given: Sequence[Callable[..., Any]]) -> list[Tool]:
    """Return the tools of the option `tools`.

    Raises:
        ConfigError: an item cannot be a tool, or two tools have the same name.
    """
    if isinstance(given, str) or callable(given):
        raise ConfigError("tools takes a list of functions: write tools=[function].")
    tools = [_tool(each) for each in given]
    names = [tool.name for tool in tools]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(f"Several tools have the name {', '.join(twice)}. Rename all but one.")
    return tools


def _tool(function: Any) -> Tool:
    if hasattr(function, "execute"):
        tool: Tool = function
        return tool
    if isinstance(function, str):
        raise ConfigError(
            f'tools takes functions, not the text "{function}". '
            f'To choose built-in tools, write builtin_tools=["{function}"].'
        )
    if not callable(function):
        raise ConfigError(f"tools takes functions, not {type(function).__name__}.")
    try:
        return make_tool(function)
    except (ValueError, NoSchema) as error:
        name = getattr(function, "__name__", type(function).__name__)
        raise ConfigError(f"The function {name} cannot be a tool: {error}") from error
