"""`ludolf mcp check`: start one server and list its tools, as a session would have them."""

from argparse import Namespace
from collections.abc import Sequence

from ludolf.base import CommandError
from ludolf.cli.subcommands.mcp_list import find_server, read_servers
from ludolf.cli.terminal import one_line, say, table
from ludolf.client.errors import ClientError
from ludolf.client.sync import Client
from ludolf.config.settings.home import Home
from ludolf.protocol.results import McpServerStatus, McpToolStatus

_LONGEST_DESCRIPTION = 60


def check_server(home: Home, arguments: Namespace) -> int:
    """Start a server and print what it offers; its list of tools is stored for later sessions.

    Raises:
        CommandError: there is no server of this name, or it cannot be used.
    """
    entry = find_server(read_servers(home), arguments.name)
    name = entry.name
    if not entry.enabled:
        path = entry.override_path or entry.path
        raise CommandError(f'The MCP server "{name}" is disabled. Set "enabled": true in {path}')
    with Client("--no-session") as client:
        try:
            servers = client.mcp_reconnect(name)
            tools = client.get_mcp_tools(name)
        except ClientError as error:
            [state] = [one.state for one in client.get_mcp_servers() if one.name == name]
            hint = f". Log in with: ludolf mcp login {name}" if state == "needs_login" else ""
            raise CommandError(f"{_reason(error)}{hint}") from error
    [server] = [one for one in servers if one.name == name]
    say(_summary(server))
    if tools:
        say(table([("tool", "exposure", "description"), *_rows(tools)]))
    return 0


def _reason(error: ClientError) -> str:
    """Return the text of an error without the name of the command that was refused."""
    return str(error).removeprefix("mcp_reconnect: ").removesuffix(".")


def _summary(server: McpServerStatus) -> str:
    about = server.server_info or {}
    words = " ".join(filter(None, (about.get("name"), about.get("version"))))
    counts = ((server.tools, "tool"), (server.prompts, "prompt"), (server.resources, "resource"))
    offers = ", ".join(f"{count} {word}{'' if count == 1 else 's'}" for count, word in counts)
    return f"{server.name} works: {one_line(words or 'a server without a name', 100)}, {offers}"


def _rows(tools: Sequence[McpToolStatus]) -> list[tuple[str, ...]]:
    return [
        (tool.name, tool.exposure, one_line(tool.description, _LONGEST_DESCRIPTION))
        for tool in tools
    ]
