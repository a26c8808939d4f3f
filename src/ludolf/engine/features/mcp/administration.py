"""Commands of the host about MCP servers: list, change, reconnect, log in."""

import asyncio
from collections.abc import Mapping
from typing import Any

from ludolf.base import CommandError, ConfigError
from ludolf.config.mcp.edit import set_entry_key
from ludolf.config.mcp.entries import McpEntry, same_server
from ludolf.engine.bundles import Bundles, Component
from ludolf.engine.feature import Send
from ludolf.engine.features.mcp.declarations import Declarations
from ludolf.engine.features.mcp.logins import ServerLogins
from ludolf.engine.features.mcp.server_set import ServerSet
from ludolf.engine.features.mcp.servers import McpServer
from ludolf.engine.features.mcp.status import server_status
from ludolf.mcp.wire import McpError
from ludolf.protocol.commands import UiAnswer
from ludolf.protocol.results import (
    McpServerSource,
    McpServerStatus,
    McpToolExposure,
    McpToolStatus,
)
from ludolf.protocol.ui import UiRequest

UNKNOWN = 'Unknown MCP server: "{name}". Servers: {names}.'


class ServerAdministration(Component):
    """What a host may ask of the servers of its session."""

    def __init__(self, bundles: Bundles, servers: ServerSet, declarations: Declarations) -> None:
        super().__init__(bundles)
        self._servers = servers
        self._declarations = declarations
        self._logins = ServerLogins(bundles)

    def statuses(self) -> tuple[McpServerStatus, ...]:
        entries = self._servers.entries
        return tuple(map(self._status, entries.values()))

    def tools(self, name: str) -> tuple[McpToolStatus, ...]:
        """Raises:
        CommandError: there is no such server.
        """
        return self._declarations.statuses(self._entry(name).name)

    def provide(
        self, source: McpServerSource, entries: Mapping[str, Any]
    ) -> tuple[McpServerStatus, ...]:
        """Replace the servers of a host or of extensions; those that are new start at once.

        Raises:
            CommandError: an entry is invalid; nothing has changed then.
        """
        try:
            self._servers.provide(source, entries)
        except ConfigError as error:
            raise CommandError(str(error)) from error
        return self.statuses()

    def change(
        self,
        name: str,
        *,
        enabled: bool | None = None,
        exposure: McpToolExposure | None = None,
        save: bool = False,
    ) -> McpServerStatus:
        """Change a server for this session, and in the user's file if asked to.

        Raises:
            CommandError: there is no such server, or it cannot be saved.
        """
        entry = self._entry(name)
        asked = {"enabled": enabled, "exposure": exposure}
        wanted = {key: value for key, value in asked.items() if value is not None}
        if save:
            self._save(entry, wanted)
        self._servers.override(entry.name, wanted)
        if exposure is not None:
            self._declarations.forget()
        return self._status(self._entry(name))

    async def reconnect(self, name: str | None) -> tuple[McpServerStatus, ...]:
        """Start a server again; without a name, all that run, failed or need a login.

        Raises:
            CommandError: there is no such server, it is disabled, or it cannot be started.
        """
        servers = self._servers.servers
        if name is None:
            chosen = [
                one
                for one in servers.values()
                if one.connection or one.state in ("failed", "needs_login")
            ]
            await asyncio.gather(*map(_reconnected, chosen))
            return self.statuses()
        server = servers.get(self._entry(name).name)
        if server is None:
            raise CommandError(f'The MCP server "{name}" is disabled. Enable it first.')
        try:
            await server.reconnect()
        except McpError as error:
            raise CommandError(f'MCP server "{server.name}": {error}') from error
        return self.statuses()

    async def login(self, name: str, send: Send | None) -> McpServerStatus:
        """Log in with the help of the host's user, then connect.

        Raises:
            CommandError: there is no such server, or the login failed.
        """
        await self._logins.login(self._entry(name), send)
        await self.reconnect(name)
        return self._status(self._entry(name))

    async def logout(self, name: str) -> bool:
        """Remove a stored login; False if there was none.

        Raises:
            CommandError: there is no such server, or it has no logins.
        """
        return await self._logins.logout(self._entry(name))

    def answer_dialog(self, answer: UiAnswer) -> None:
        self._logins.answer_dialog(answer)

    def open_dialogs(self) -> tuple[UiRequest, ...]:
        """Return the dialogs of a running login that have no answer yet."""
        return self._logins.open_dialogs()

    def abort(self) -> None:
        """Cancel a running login."""
        self._logins.abort()

    # ------------------------------------------------------------ private

    def _entry(self, name: str) -> McpEntry:
        for known, entry in self._servers.entries.items():
            if same_server(known) == same_server(name):
                return entry
        names = ", ".join(self._servers.entries) or "none"
        raise CommandError(UNKNOWN.format(name=name, names=names))

    def _status(self, entry: McpEntry) -> McpServerStatus:
        return server_status(entry, self._servers.servers.get(entry.name))

    def _save(self, entry: McpEntry, changes: Mapping[str, Any]) -> None:
        home = self.workspace.home
        if entry.source != "user":
            where = entry.path or f"the {entry.source}"
            raise CommandError(
                f'The MCP server "{entry.name}" comes from {where}; only servers of '
                f"{home.mcp_file} can be saved."
            )
        set_entry_key(home, home.mcp_file, entry.name, changes)


async def _reconnected(server: McpServer) -> None:
    try:
        await server.reconnect()
    except McpError:
        return  # the state of the server says why
