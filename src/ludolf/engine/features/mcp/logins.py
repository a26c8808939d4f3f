"""Logins of MCP servers: tokens for connections, and the flow with the host's user."""

import asyncio
from collections.abc import Mapping

from ludolf.agent.scope import Aborted, Scope
from ludolf.ai.errors import ProviderError
from ludolf.ai.http.oauth import LoginError
from ludolf.base import CommandError, ConfigError
from ludolf.config.auth.credentials import gateway_of
from ludolf.config.auth.oauth import callback_host
from ludolf.config.auth.renewal import renew
from ludolf.config.mcp.auth_file import ServerLogin
from ludolf.config.mcp.entries import McpEntry
from ludolf.config.mcp.resolution import ResolvedEntry, resolve_entry
from ludolf.engine.bundles import Bundles, Component
from ludolf.engine.feature import Send
from ludolf.engine.host.logins import CANCELLED, HostAsker
from ludolf.mcp.login import BrowserLogin, log_out
from ludolf.mcp.oauth import read_oauth_settings
from ludolf.mcp.tokens import StoredTokens
from ludolf.mcp.wire import HttpServer, McpError, Tokens
from ludolf.protocol.commands import UiAnswer
from ludolf.protocol.ui import UiRequest

NOT_HTTP = 'The MCP server "{name}" is a program on this machine; only HTTP servers have logins.'


class ProviderTokens(Component):
    """The token of a model provider's login, which `auth` of an entry asks for."""

    def __init__(self, bundles: Bundles, provider: str) -> None:
        super().__init__(bundles)
        self._provider = provider

    async def current(self) -> str | None:
        registry = self.models.registry
        if registry.keyring.ends_soon(self._provider):
            try:
                await renew(registry.keyring, self._provider, gateway_of(registry, self._provider))
            except ProviderError as error:
                raise McpError(str(error)) from error
        access = registry.keyring.access(self._provider)
        if access is None or access.key is None:
            raise McpError(f'No key or login is stored for the provider "{self._provider}"')
        return access.key

    async def refused(self, token: str | None, challenge: str) -> bool:
        return False

    async def close(self) -> None:
        """Nothing is renewed here."""


def tokens_for(bundles: Bundles, resolved: ResolvedEntry) -> Tokens | None:
    """Return where a connection gets its token; None if a header of the entry has one."""
    entry = resolved.entry
    if entry.auth is not None:
        return ProviderTokens(bundles, entry.auth.provider)
    if resolved.has_own_token:
        return None
    url = resolved.url or ""
    settings = read_oauth_settings(resolved.oauth_fields)
    store, environ = _store(bundles, entry.name, url), bundles.workspace.environ
    return StoredTokens(url, store, settings, environ)


class ServerLogins(Component):
    """Logs in through the dialogs of the host, one server at a time."""

    def __init__(self, bundles: Bundles) -> None:
        super().__init__(bundles)
        self._work = Scope()
        self._asker: HostAsker | None = None

    async def login(self, entry: McpEntry, send: Send | None) -> None:
        """Raises:
        CommandError: it is refused, failed, or was cancelled.
        """
        resolved = await _resolved(entry, self.workspace.environ)
        if send is None:
            raise CommandError(f'Run "ludolf mcp login {entry.name}" in a terminal to log in.')
        if self._asker is not None:
            raise CommandError("A login to an MCP server is under way already")
        url, environ = resolved.url or "", self.workspace.environ
        store = _store(self.bundles, entry.name, url)
        server = HttpServer(url=url, headers=resolved.headers, environ=environ)
        settings = read_oauth_settings(resolved.oauth_fields)
        asker = self._asker = HostAsker(send, self.conversation.answer_clock)
        host = callback_host(environ)
        attempt = BrowserLogin(server, store, settings, asker, host=host)
        try:
            with self._work.open() as scope:
                await scope.run(attempt.run())
        except Aborted:
            raise CommandError(CANCELLED) from None
        except (LoginError, ProviderError, ConfigError) as error:
            text = str(error)
            raise CommandError(text if text == CANCELLED else f"Login failed: {text}") from error
        finally:
            self._asker = None

    async def logout(self, entry: McpEntry) -> bool:
        """Remove a stored login; False if there was none.

        Raises:
            CommandError: the server has no logins.
        """
        resolved = await _resolved(entry, self.workspace.environ)
        store = _store(self.bundles, entry.name, resolved.url or "")
        settings = read_oauth_settings(resolved.oauth_fields)
        removed, problem = await log_out(store, settings, self.workspace.environ)
        if problem:
            text = f'The tokens of "{entry.name}" were not revoked at the server: {problem}'
            self.conversation.hub.report(text)
        return removed

    def answer_dialog(self, answer: UiAnswer) -> None:
        if self._asker is not None:
            self._asker.dialogs.answer(answer)

    def open_dialogs(self) -> tuple[UiRequest, ...]:
        return () if self._asker is None else self._asker.dialogs.waiting()

    def abort(self) -> None:
        """Cancel a running login."""
        self._work.abort_open()


async def _resolved(entry: McpEntry, environ: Mapping[str, str]) -> ResolvedEntry:
    if entry.url is None:
        raise CommandError(NOT_HTTP.format(name=entry.name))
    try:
        return await asyncio.to_thread(resolve_entry, entry, environ)
    except ConfigError as error:
        raise CommandError(str(error)) from error


def _store(bundles: Bundles, name: str, url: str) -> ServerLogin:
    return ServerLogin(bundles.workspace.home.agent, name, url)
