"""Extract the description of a function and of its parameters from a docstring."""

import re
from textwrap import dedent
from typing import Any

_SECTION = re.compile(
    r"(Args|Arguments|Parameters|Attributes|Returns?|Yields?|Raises|Examples?|Notes?):\s*$"
)
_DESCRIBES = ("Args", "Arguments", "Parameters", "Attributes")
_ITEM = re.compile(r"(\s+)\*{0,2}(\w+)(?:\s*\([^)]*\))?\s*:\s*(.*)$")
_FIELD = re.compile(r"(\s*):param\s+(?:\S+\s+)?(\w+):\s*(.*)$")
_OTHER_FIELD = re.compile(r"\s*:\w+")


def summary(text: str | None) -> str:
    """Return the text before the first section of a docstring."""
    lines: list[str] = []
    for line in _lines(text):
        if _SECTION.match(line) or _OTHER_FIELD.match(line):
            break
        lines.append(line)
    return "\n".join(lines).strip()


def parameters(text: str | None) -> dict[str, str]:
    """Return the descriptions of parameters from an `Args:` section or `:param name:` lines."""
    descriptions: dict[str, str] = {}
    name, indent, inside = "", 0, False
    for line in _lines(text):
        section = _SECTION.match(line)
        if section:
            name, inside = "", section[1] in _DESCRIBES
            continue
        deeper = bool(name) and len(line) - len(line.lstrip()) > indent
        item = _FIELD.match(line) or (_ITEM.match(line) if inside and not deeper else None)
        if item:
            indent, name = len(item[1]), item[2]
            descriptions[name] = item[3].strip()
        elif deeper:
            descriptions[name] = f"{descriptions[name]} {line.strip()}".strip()
        else:
            name = ""
    return descriptions


def describe_fields(kind: Any) -> dict[str, str]:
    """Return the descriptions of the fields of a class, from its docstring."""
    return parameters(kind.__dict__.get("__doc__"))


def _lines(text: str | None) -> list[str]:
    """Split into lines without the indentation of the code."""
    first, _, rest = (text or "").expandtabs().partition("\n")
    return [first.strip(), *dedent(rest).splitlines()]
