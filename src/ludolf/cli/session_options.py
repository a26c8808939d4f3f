"""Options of the command line as parameters of a session on a server."""

from collections.abc import Mapping
from typing import Any

import msgspec

from ludolf.config.settings.options import Options

# Chosen by other parameters of `open`, or only from Python.
_NOT_SENT = (
    *("agent_dir", "continue_last", "cwd", "default_approval", "environ", "factories"),
    *("session", "settings"),
)


def session_choices(arguments: Options) -> Mapping[str, Any]:
    """Return the options of the command line that concern a session, in camelCase."""
    chosen = {}
    for field in msgspec.structs.fields(Options):
        if field.name in _NOT_SENT:
            continue
        value = getattr(arguments, field.name)
        if value not in (None, (), {}, False) or (field.name == "approve" and value is False):
            first, *more = field.name.split("_")
            chosen[first + "".join(map(str.capitalize, more))] = value
    return chosen
