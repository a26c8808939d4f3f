"""The built-in tools: read, bash, edit, write, grep, find, ls."""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from ludolf.tools.options import BuiltinToolOptions, ImageLimits, image_limits

if TYPE_CHECKING:
    from ludolf.agent.tool import Tool

__all__ = ["BUILTIN_NAMES", "BuiltinToolOptions", "BuiltinTools", "ImageLimits", "image_limits"]


class BuiltinTools(Mapping[str, "Tool"]):
    """Built-in tools by name, in the order of the tool list that models receive, then others.

    Each is made when it is first used: most sessions use four of them. Of two tools with one name,
    the other one counts.
    """

    def __init__(
        self, options: BuiltinToolOptions, others: "Mapping[str, Tool] | None" = None
    ) -> None:
        self._options = options
        self._made = dict(others or {})
        self._names = dict.fromkeys((*_MAKERS, *self._made))

    def __getitem__(self, name: str) -> "Tool":
        if name not in self._made:
            self._made[name] = _MAKERS[name](self._options)
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _read(options: BuiltinToolOptions) -> "Tool":
    from ludolf.tools.read import ReadTool

    return ReadTool(options)


def _bash(options: BuiltinToolOptions) -> "Tool":
    from ludolf.tools.bash import BashTool

    return BashTool(options)


def _edit(_options: BuiltinToolOptions) -> "Tool":
    from ludolf.tools.edit import EditTool

    return EditTool()


def _write(_options: BuiltinToolOptions) -> "Tool":
    from ludolf.tools.write import WriteTool

    return WriteTool()


def _grep(options: BuiltinToolOptions) -> "Tool":
    from ludolf.tools.grep import GrepTool

    return GrepTool(path=options.path)


def _find(_options: BuiltinToolOptions) -> "Tool":
    from ludolf.tools.find import FindTool

    return FindTool()


def _ls(_options: BuiltinToolOptions) -> "Tool":
    from ludolf.tools.ls import LsTool

    return LsTool()


_MAKERS: "dict[str, Callable[[BuiltinToolOptions], Tool]]" = {
    "read": _read,
    "bash": _bash,
    "edit": _edit,
    "write": _write,
    "grep": _grep,
    "find": _find,
    "ls": _ls,
}
BUILTIN_NAMES = tuple(_MAKERS)
