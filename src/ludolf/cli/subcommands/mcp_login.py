"""`ludolf mcp login` and `ludolf mcp logout`: the logins of MCP servers."""

import asyncio
import os
import sys
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from typing import Any

from ludolf.ai.errors import ProviderError
from ludolf.ai.http.oauth import LoginError
from ludolf.base import CommandError
from ludolf.base.near import did_you_mean
from ludolf.cli.terminal_login import TerminalAsker
from ludolf.config.auth.oauth import callback_host
from ludolf.config.mcp.auth_file import ServerLogin
from ludolf.config.mcp.entries import same_server
from ludolf.config.mcp.files import read_mcp_entries
from ludolf.config.mcp.resolution import ResolvedEntry, resolve_entry
from ludolf.config.settings.home import Home, find_home
from ludolf.config.settings.trust import trusted_settings
from ludolf.mcp.login import PATIENCE_SECONDS, BrowserLogin, log_out
from ludolf.mcp.oauth import read_oauth_settings
from ludolf.mcp.wire import HttpServer

LOCAL_HELP = "accepted as in pi; servers of the project's .pi/mcp.json always come first"
_CONFIGURED = (
    '"{name}" has an Authorization header or the key `auth` in its entry, which is sent in place '
    "of a login. Remove it to log in."
)


def login(words: Sequence[str]) -> int:
    """Run `ludolf mcp login WORDS`; returns the exit code.

    Raises:
        LudolfError: the login failed; the text is for the user.
    """
    parser = _parser("login", "Log in to an MCP server in a browser.")
    parser.add_argument(
        "--timeout",
        type=float,
        default=PATIENCE_SECONDS,
        metavar="SECONDS",
        help="time for the login in the browser (default: %(default).0f)",
    )
    arguments = parser.parse_args(words)
    home = find_home(None, os.environ)
    entry = _entry(home, arguments.name)
    if entry.has_own_token:
        raise CommandError(_CONFIGURED.format(name=entry.entry.name))
    server = HttpServer(url=entry.url or "", headers=entry.headers, environ=os.environ)
    path = log_in_to_server(
        home, entry.entry.name, server, entry.oauth_fields, patience=arguments.timeout
    )
    sys.stderr.write(f"Logged in to {entry.entry.name}. Stored in {path}\n")
    return 0


def logout(words: Sequence[str]) -> int:
    """Run `ludolf mcp logout WORDS`; returns the exit code.

    Raises:
        LudolfError: the stored login could not be removed; the text is for the user.
    """
    arguments = _parser("logout", "Remove the login of an MCP server.").parse_args(words)
    home = find_home(None, os.environ)
    entry = _entry(home, arguments.name)
    name = entry.entry.name
    store = ServerLogin(home.agent, name, entry.url or "")
    settings = read_oauth_settings(entry.oauth_fields)
    removed, problem = asyncio.run(log_out(store, settings, os.environ))
    if problem:
        sys.stderr.write(f"Warning: the tokens were not revoked at the server: {problem}\n")
    text = f"Logged out of {name}." if removed else f"No login of {name} is stored."
    sys.stderr.write(f"{text}\n")
    return 0 if removed else 1


def log_in_to_server(
    home: Home,
    name: str,
    server: HttpServer,
    oauth: Mapping[str, Any],
    *,
    patience: float = PATIENCE_SECONDS,
) -> str:
    """Log in with the help of the user at the terminal; return the path of the stored login.

    Raises:
        LudolfError: the login failed; the text is for the user.
    """
    store = ServerLogin(home.agent, name, server.url)
    settings = read_oauth_settings(oauth)
    attempt = BrowserLogin(
        server, store, settings, _LoginAsker(), host=callback_host(os.environ), patience=patience
    )
    try:
        asyncio.run(attempt.run())
    except (LoginError, ProviderError) as error:
        text = str(error).removesuffix(".")
        raise CommandError(f'The login to the MCP server "{name}" failed: {text}.') from error
    return str(store.path)


# ---------------------------------------------------------------- private


class _LoginAsker(TerminalAsker):
    """Prints the address on stdout, for scripts too; takes a pasted address at a terminal only."""

    def show(self, url: str, instructions: str, *, launch: str | None = None) -> None:
        sys.stderr.write(f"Open this address. {instructions}\n")
        sys.stderr.flush()
        sys.stdout.write(f"{launch or url}\n")
        sys.stdout.flush()

    async def paste(self, question: str, example: str) -> str | None:
        return await super().paste(question, example) if sys.stdin.isatty() else None


def _parser(word: str, about: str) -> ArgumentParser:
    parser = ArgumentParser(prog=f"ludolf mcp {word}", allow_abbrev=False, description=about)
    parser.add_argument("name", metavar="NAME", help="name of the server in mcp.json")
    parser.add_argument("-l", "--local", action="store_true", help=LOCAL_HELP)
    return parser


def _entry(home: Home, name: str) -> ResolvedEntry:
    """Return the entry of an HTTP server.

    Raises:
        CommandError: it does not exist, or is not an HTTP server.
        ConfigError: a value of it cannot be used.
    """
    settings = trusted_settings(home)  # sets the proxy, which logins use too
    found = read_mcp_entries(home, trusted=settings.trusted)
    same = (key for key in found.entries if same_server(key) == same_server(name))
    entry = found.entries.get(next(same, name))
    if entry is None:
        sys.stderr.writelines(f"Warning: {text}\n" for text in found.warnings)
        near = did_you_mean(name, found.entries)
        names = ", ".join(found.entries) or "none"
        raise CommandError(f'Unknown MCP server "{name}".{near} Configured servers: {names}')
    if entry.url is None:
        raise CommandError(f'"{name}" is a program on this machine; only HTTP servers have logins.')
    return resolve_entry(entry, os.environ)
