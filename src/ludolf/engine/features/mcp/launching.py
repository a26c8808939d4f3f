"""Turn an entry into the address, environment and tokens of a server."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from ludolf.base import ConfigError
from ludolf.config.mcp.entries import McpEntry
from ludolf.config.mcp.resolution import (
    ResolvedEntry,
    resolve_entry,
    server_cache_key,
    server_environment,
)
from ludolf.engine.bundles import Component
from ludolf.engine.features.mcp.servers import ServerLaunch
from ludolf.mcp.wire import HttpServer, McpError, StdioServer

_MOST_NAMED = 12


class Launcher(Component):
    """Knows the folder, the sandbox and the secrets of an engine."""

    def key(self, entry: McpEntry, cwd: Path) -> str:
        """Return what identifies a server: equal keys mean one process. No command is run."""
        return server_cache_key(entry, self.workspace.environ, cwd)

    def launching(self, entry: McpEntry, cwd: Path) -> Callable[[], Awaitable[ServerLaunch]]:
        """Return the function that prepares one start of the server."""

        async def launch() -> ServerLaunch:
            try:
                resolved = await asyncio.to_thread(resolve_entry, entry, self.workspace.environ)
            except ConfigError as error:
                reason = str(error).removeprefix(f'server "{entry.name}": ')
                raise McpError(reason) from error
            if resolved.url is not None:
                return self._over_http(resolved, resolved.url)
            return self._over_stdio(resolved, cwd)

        return launch

    def _over_http(self, resolved: ResolvedEntry, url: str) -> ServerLaunch:
        from ludolf.engine.features.mcp.logins import tokens_for

        entry = resolved.entry
        return ServerLaunch(
            address=HttpServer(url=url, headers=resolved.headers, environ=self.workspace.environ),
            tokens=tokens_for(self.bundles, resolved),
            protocol=entry.protocol,
        )

    def _over_stdio(self, resolved: ResolvedEntry, cwd: Path) -> ServerLaunch:
        entry = resolved.entry
        secrets = self.models.registry.secret_names()
        env, withheld = server_environment(resolved, self.workspace.environ, secrets)
        argv, folder = (resolved.command or "", *resolved.args), resolved.folder(cwd)
        walls = self.features.walls(cwd)
        if walls is not None and (entry.source == "project" or entry.sandbox):
            argv, folder, env = walls.enclose(argv, folder, env)
        return ServerLaunch(
            address=StdioServer(argv=argv, env=env, cwd=folder),
            protocol=entry.protocol,
            advice=_advice(withheld),
        )


def _advice(withheld: tuple[str, ...]) -> str:
    if not withheld:
        return ""
    names = ", ".join(withheld[:_MOST_NAMED])
    more = len(withheld) - _MOST_NAMED
    names += f" and {more} more" if more > 0 else ""
    return (
        f"These variables were withheld from it: {names}. Set what it needs in `env` of its entry."
    )
