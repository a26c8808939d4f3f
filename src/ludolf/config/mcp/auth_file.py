"""Logins of MCP servers in `mcp-auth.json`, a file that pi reads and writes too."""

import hashlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

from ludolf.base import ConfigError
from ludolf.config.settings.files import Stamp, read_object, stamp, write_object
from ludolf.config.settings.lock import FileLock, auth_lock, growing_pauses

FILE_NAME = "mcp-auth.json"
_RENEWAL_STALE = 20.0
_RENEWAL_PATIENCE = 25.0
_WRITE_PATIENCE = 1.0
_DEFAULT_PORTS = {"http": 80, "https": 443}
# Characters of a path or a query that the WHATWG URL parser leaves alone.
_PLAIN = "!$&'()*+,-./:;=?@[]_~%|^"


class ServerLogin:
    """The login of one server: its tokens and the registered client, as one JSON object.

    Logins belong to the name and the address of a server: two names for one address log in
    separately.
    """

    def __init__(self, folder: Path, name: str, url: str) -> None:
        self.path = folder / FILE_NAME
        self.url = standard_address(url)
        self._key = f"mcp__{name.replace('-', '_')}|{self.url}"
        digest = hashlib.sha256(self._key.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        self._renewal = folder / f"mcp-auth-refresh-{digest}"
        self._stamp: Stamp | None = None
        self._loaded: dict[str, Any] | None = None

    def load(self) -> dict[str, Any] | None:
        """Return what is stored; None without a login. The file is read again after a change.

        Raises:
            ConfigError: the file cannot be used.
        """
        current = stamp(self.path)
        if current is None or current != self._stamp:
            self._loaded = self._find(self._settled())[1]
            self._stamp = current
        return self._loaded

    def change(self, edit: Callable[[dict[str, Any] | None], dict[str, Any] | None]) -> None:
        """Replace what is stored by the result of `edit`; None removes it.

        Raises:
            ConfigError: the file is invalid, locked, or cannot be written.
        """
        try:
            os.makedirs(self.path.parent, mode=0o700, exist_ok=True)
            with auth_lock(self.path) as lock:
                everything = self._read()
                old_key, stored = self._find(everything)
                fresh = edit(stored)
                if fresh == stored:
                    return
                everything.pop(old_key, None)
                if fresh is not None:
                    everything[self._key] = {"serverUrl": self.url, **fresh}
                lock.check()
                if self.path.exists():
                    os.chmod(self.path, 0o600)
                write_object(self.path, everything)
        except OSError as error:
            raise ConfigError(f"{self.path}: {error.strerror or error}") from error

    def renewal_lock(self) -> FileLock:
        """Return the lock under which one process at a time renews the tokens of this server."""
        try:
            os.makedirs(self.path.parent, mode=0o700, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"{self.path.parent}: {error.strerror or error}") from error
        pauses = growing_pauses(_RENEWAL_PATIENCE)
        return FileLock(self._renewal, stale=_RENEWAL_STALE, pauses=pauses)

    # ------------------------------------------------------------ private

    def _find(self, everything: Mapping[str, Any]) -> tuple[str, dict[str, Any] | None]:
        """Return the key and the value of the login; early versions of pi used the address."""
        for key in (self._key, self.url):
            stored = everything.get(key)
            if isinstance(stored, dict) and stored.get("serverUrl", self.url) == self.url:
                return key, stored
        return self._key, None

    def _settled(self) -> dict[str, Any]:
        """Read the file; pi writes it in place, so a broken one is read again under its lock."""
        try:
            return self._read()
        except ConfigError:
            with auth_lock(self.path, patience=_WRITE_PATIENCE):
                return self._read()

    def _read(self) -> dict[str, Any]:
        try:
            return read_object(self.path)
        except ConfigError as error:
            text = f"Invalid file of logins {self.path}: {error}. It was not changed."
            raise ConfigError(text) from error


def standard_address(url: str) -> str:
    """Return the address in the form that the URL class of JavaScript gives it.

    Raises:
        ConfigError: it is not an address of a server.
    """
    try:
        parts = urlsplit(url.strip())
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port, parts = "", None, urlsplit("")
    scheme = parts.scheme.lower()
    if scheme not in _DEFAULT_PORTS or not host:
        raise ConfigError(f"Not an http(s) address: {url!r}")
    shown = f"[{host}]" if ":" in host else host
    if port is not None and port != _DEFAULT_PORTS[scheme]:
        shown = f"{shown}:{port}"
    user = parts.netloc.rpartition("@")[0]
    place = f"{user}@{shown}" if user else shown
    path, query = quote(parts.path or "/", safe=_PLAIN), quote(parts.query, safe=_PLAIN)
    return urlunsplit((scheme, place, path, query, parts.fragment))
