"""The handlers of all commands, in files by subject; their table is `protocol/commands.py`."""

from ludolf.protocol.commands import COMMANDS
from ludolf.rpc.connection import FUNCTIONS, Handler
from ludolf.rpc.handlers import (  # noqa: F401  # each registers its functions
    connection,
    host,
    logins,
    mcp,
    models,
    prompts,
    sessions,
    state,
    subagents,
)

# Calls of these commands that run in a task of their own, whatever the order of the command.
_OWN_TASK_IF = {"prompt": prompts.calls_extension, "login": logins.needs_user}

HANDLERS: dict[str, Handler] = {
    name: Handler(spec, FUNCTIONS[spec.name], _OWN_TASK_IF.get(name))
    for name, spec in COMMANDS.items()
}
