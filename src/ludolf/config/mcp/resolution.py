"""Expand the values of an entry, and build the environment of its server."""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from ludolf.ai.secret_names import is_secret_name
from ludolf.base import ConfigError, Value, dumps
from ludolf.config.mcp.addresses import check_address, is_private_address
from ludolf.config.mcp.entries import VARIABLE, McpEntry
from ludolf.config.settings.home import expand
from ludolf.config.settings.value_syntax import run_command


class ResolvedEntry(Value):
    """An entry with all values expanded; `cwd` may be relative to the folder of the session."""

    entry: McpEntry
    command: str | None = None
    args: tuple[str, ...] = ()
    env: dict[str, str] = msgspec.field(default_factory=dict)
    cwd: str | None = None
    url: str | None = None
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    client_secret: str | None = None

    @property
    def has_own_token(self) -> bool:
        """Return whether the entry says which token is sent, in place of that of a login."""
        names = (name.lower() for name in self.headers)
        return self.entry.auth is not None or "authorization" in names

    @property
    def oauth_fields(self) -> dict[str, Any]:
        """Return the key `oauth` of the entry, with its secret expanded."""
        oauth: dict[str, Any] = msgspec.to_builtins(self.entry.oauth) or {}
        secret = {"clientSecret": self.client_secret} if self.client_secret else {}
        return {**oauth, **secret}

    def folder(self, cwd: Path) -> Path:
        """Return the folder that the server is started in, for a session in `cwd`."""
        return cwd / self.cwd if self.cwd else cwd


def resolve_entry(
    entry: McpEntry, environ: Mapping[str, str], *, runs_commands: bool = True
) -> ResolvedEntry:
    """Expand the values of an entry; blocks while a `!command` runs.

    `${NAME}` and `${NAME:-default}` are environment variables; a value that begins with `!` is the
    output of a shell command; `$${NAME}` and `$!` are literal text. A leading `~/` of the command,
    its arguments and `cwd` is the user's home directory. Without `runs_commands`, commands stay as
    they are written.

    Raises:
        ConfigError: a variable is not set, a command failed, or a value cannot be used.
    """
    values = _Values(entry.name, environ, runs_commands=runs_commands)
    secret = None if entry.oauth is None else entry.oauth.client_secret
    return ResolvedEntry(
        entry=entry,
        command=_mapped(entry.command, values.place, "command"),
        args=tuple(values.place(each, "args") for each in entry.args),
        env={name: values.text(text, f"env.{name}") for name, text in entry.env.items()},
        cwd=_mapped(entry.cwd, values.place, "cwd"),
        url=_resolved_url(entry, values.text),
        headers={name: values.header(text, name) for name, text in entry.headers.items()},
        client_secret=_mapped(secret, values.text, "oauth.clientSecret"),
    )


class _Values:
    """Expands the values of one entry. Each method raises ConfigError, which names the key."""

    def __init__(self, server: str, environ: Mapping[str, str], *, runs_commands: bool) -> None:
        self._server = server
        self._environ = environ
        self._runs_commands = runs_commands

    def text(self, text: str, key: str) -> str:
        if text.startswith("!") and not self._runs_commands:
            return text
        try:
            return _checked_text(_expanded(text, self._environ))
        except ConfigError as error:
            raise self._error(key, str(error)) from error

    def place(self, text: str, key: str) -> str:
        """Expand a leading `~/` too."""
        expanded = self.text(text, key)
        is_home = expanded.startswith("~")
        return str(expand(expanded, self._environ)) if is_home else expanded

    def header(self, text: str, name: str) -> str:
        expanded = self.text(text, f"headers.{name}")
        if not expanded.replace("\t", " ").isprintable():
            reason = "a header cannot have line ends or control characters"
            raise self._error(f"headers.{name}", reason)
        return expanded

    def _error(self, key: str, reason: str) -> ConfigError:
        return ConfigError(f'server "{self._server}": `{key}`: {reason}')


def entry_digest(resolved: ResolvedEntry, cwd: Path) -> str:
    """Return a digest of everything that decides which server answers, for a session in `cwd`.

    Entries with equal digests share a process and a record of the cache.
    """
    from hashlib import sha256

    entry = resolved.entry
    parts: dict[str, Any] = {"name": entry.name, "protocol": entry.protocol}
    if entry.transport == "http":
        parts |= {"url": resolved.url, "headers": resolved.headers}
        parts["auth"] = None if entry.auth is None else entry.auth.provider
        parts["oauth"] = msgspec.to_builtins(entry.oauth)
    else:
        parts |= {"command": resolved.command, "args": resolved.args, "env": resolved.env}
        parts["cwd"] = str(resolved.folder(cwd))
        # What decides about the environment and the walls of the process.
        parts |= {"inheritEnv": entry.inherit_env, "sandbox": entry.sandbox}
        parts["project"] = entry.source == "project"
    return sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def server_cache_key(entry: McpEntry, environ: Mapping[str, str], cwd: Path) -> str:
    """Return the key of a server in the cache, for a session in `cwd`. No command is run."""
    try:
        return entry_digest(resolve_entry(entry, environ, runs_commands=False), cwd)
    except ConfigError:
        from hashlib import sha256

        return sha256(dumps(entry)).hexdigest()  # its start will fail and say why


def server_environment(
    resolved: ResolvedEntry, environ: Mapping[str, str], secret_names: frozenset[str]
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the environment of a server process, and the names that were withheld.

    Names of secrets are withheld, and `secret_names`, unless `inheritEnv` passes them.
    """
    passed = resolved.entry.inherit_env
    if passed is True:
        return {**environ, **resolved.env}, ()
    named = frozenset(passed or ())
    withheld = {
        name
        for name in environ
        if (name in secret_names or is_secret_name(name)) and name not in named
    }
    inherited = {name: text for name, text in environ.items() if name not in withheld}
    return {**inherited, **resolved.env}, tuple(sorted(withheld - resolved.env.keys()))


def _mapped(text: str | None, change: Callable[[str, str], str], key: str) -> str | None:
    return None if text is None else change(text, key)


def _resolved_url(entry: McpEntry, value: Callable[[str, str], str]) -> str | None:
    if entry.url is None:
        return None
    url = value(entry.url, "url")
    if url.startswith("!"):
        return url
    try:
        check_address(url)
        if entry.auth is not None and not is_private_address(url):
            raise ConfigError("`auth` needs an https address")
    except ConfigError as error:
        raise ConfigError(f'server "{entry.name}": {error}') from error
    return url


def _expanded(text: str, environ: Mapping[str, str]) -> str:
    if text.startswith("!"):
        output = run_command(text[1:], environ)
        if output is None:
            program = text[1:].strip().split(" ", 1)[0]
            raise ConfigError(f"the command {program} failed or printed nothing")
        return output

    def fill(match: re.Match[str]) -> str:
        escaped, name, default = match.groups()
        if escaped:
            return match[0][1:]
        found = environ.get(name)
        if default is not None:
            return found or default
        if found is None:
            reason = f"the environment variable {name} is not set"
            raise ConfigError(f"{reason}. Set it, or write ${{{name}:-default}}")
        return found

    return VARIABLE.sub(fill, text[1:] if text.startswith("$!") else text)


def _checked_text(text: str) -> str:
    """Return a text that a process can take."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ConfigError("the value has a lone surrogate") from None
    if "\0" in text:
        raise ConfigError("the value has a NUL character")
    return text
