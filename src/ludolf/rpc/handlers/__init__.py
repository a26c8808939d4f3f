"""The handlers of all commands, in files by subject; their table is `protocol/commands.py`.

The first reply needs only `state`; the first command of another file loads all of them.
"""

from ludolf.protocol.commands import COMMANDS
from ludolf.rpc.connection import Handler, calls_extension, find_function, needs_user
from ludolf.rpc.handlers import state  # noqa: F401  # registers its functions


def load_handlers() -> None:
    """Load the files of all handlers, which register their functions."""
    from ludolf.rpc.handlers import (  # noqa: F401
        connection,
        host,
        logins,
        mcp,
        models,
        prompts,
        sessions,
        subagents,
    )


# Calls of these commands that run in a task of their own, whatever the order of the command.
_OWN_TASK_IF = {"prompt": calls_extension, "login": needs_user}

HANDLERS: dict[str, Handler] = {
    name: Handler(spec, find_function(spec.name, load_handlers), _OWN_TASK_IF.get(name))
    for name, spec in COMMANDS.items()
}
