"""Who may enter over TCP: the token, and the names in the headers of a request."""

import os
import re
import stat
from collections.abc import Iterable
from hmac import compare_digest
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Literal, NamedTuple

from ludolf.base import ConfigError, short_id
from ludolf.config.settings.server_places import TOKEN_FILE
from ludolf.serve.options import ServeOptions

_TOKEN_BYTES = 32  # 256 bits
_TOKEN_TEXT = re.compile(r"[!-~]{32,512}")
_NAME = re.compile(r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*")
_PORT = re.compile(r"[0-9]{1,5}")
_MOST_CHARACTERS = 300
_DEFAULT_PORTS = {"http": 80, "https": 443}
_FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW
# How a request stands to the server: no Origin or the server's own, or one that was allowed.
Standing = Literal["own", "allowed"]


class TokenFile:
    """The secret of the server, in a file that only its user can read."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / TOKEN_FILE

    def load(self, *, new: bool = False) -> str:
        """Return the token; make one if there is none yet, or if a new one is wanted.

        Raises:
            ConfigError: the file cannot be used.
        """
        try:
            if new:
                return self._make(replace=True)
            try:
                return self._read()
            except FileNotFoundError:
                return self._make(replace=False)
        except OSError as problem:
            reason = problem.strerror or str(problem)
            raise ConfigError(f"Cannot use the token file {self.path}: {reason}") from problem

    def _read(self) -> str:
        descriptor = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | _FLAGS)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            self._check_access(status)
            text = file.read(1024).decode("utf-8", "replace").strip()
        if not _TOKEN_TEXT.fullmatch(text):
            raise ConfigError(
                f"{self.path} holds no token of at least 32 characters. "
                "Make a new one with --new-token."
            )
        return text

    def _check_access(self, status: os.stat_result) -> None:
        if not stat.S_ISREG(status.st_mode):
            raise ConfigError(f"{self.path} is not a file. Remove it; the server makes a new one.")
        if status.st_uid != os.geteuid():
            raise ConfigError(
                f"{self.path} belongs to another user. Remove it or change its owner."
            )
        mode = stat.S_IMODE(status.st_mode)
        if mode & 0o077:
            raise ConfigError(
                f"Other users have access to {self.path} (mode {mode:04o}), so its token may be "
                f"known. Make a new one with --new-token, or run: chmod 600 {self.path}"
            )

    def _make(self, *, replace: bool) -> str:
        """Write the whole file under another name first: no reader sees a part of it."""
        import secrets

        token = secrets.token_urlsafe(_TOKEN_BYTES)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self.path.with_name(f"{TOKEN_FILE}.{short_id()}")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS, 0o600)
        try:
            with os.fdopen(descriptor, "w") as file:
                os.fchmod(descriptor, 0o600)
                file.write(f"{token}\n")
            if replace:
                os.replace(fresh, self.path)
                return token
            try:
                os.link(fresh, self.path)
            except FileExistsError:
                return self._read()  # another server was faster
            return token
        finally:
            fresh.unlink(missing_ok=True)


class AccessGuard:
    """Decide about a token, and about the names that a request gives.

    `listening` is the address that the server listens on. `hosts` are further names of the server,
    `origins` those of pages that may use it. The port of a `Host` does not matter, since a tunnel
    may change it; the name does, since a web page can bind its own name to this address.

    Raises:
        ConfigError: a host or an origin cannot be used.
    """

    def __init__(
        self, token: str, hosts: Iterable[str], origins: Iterable[str], listening: str
    ) -> None:
        self._token = token.encode("utf-8", "surrogatepass")
        self._hosts = {_allowed_host(text) for text in hosts}
        self._origins = {_allowed_origin(text) for text in origins}
        self._listening = _usual_form(listening.lower().strip("[]"))

    def accepts(self, token: str | None) -> bool:
        """Return whether this is the token; the time does not depend on where it differs."""
        given = (token or "").encode("utf-8", "surrogatepass")
        return compare_digest(given, self._token) and bool(self._token)

    def accepts_header(self, authorization: str) -> bool:
        """Return whether the value of an `Authorization` header has the token."""
        scheme, _, token = authorization.partition(" ")
        return scheme.lower() == "bearer" and self.accepts(token.strip())

    def check_names(self, headers: Iterable[tuple[str, str]]) -> str | None:
        """Return why a request with these headers is refused; None if it is not."""
        found = _by_name(headers)
        place = read_host(found["host"][0]) if len(found["host"]) == 1 else None
        if place is None or not self._is_ours(place.host):
            return "This server does not have the name in the Host header. Allow it with --host."
        standing = self._standing(found["origin"], place)
        if standing is None:
            return "Pages of this origin may not use the server. Allow them with --origin."
        sites = {site.strip().lower() for site in found["sec-fetch-site"]}
        if "cross-site" in sites and standing != "allowed":
            return "Pages of other sites may not use the server."
        return None

    def allowed_origin(self, origin: str | None) -> str | None:
        """Return the origin if it is one of `origins`, in the form in which it was sent."""
        known = origin is not None and read_origin(origin) in self._origins
        return origin if known else None

    def _standing(self, origins: list[str], place: "Place") -> Standing | None:
        if not origins:
            return "own"
        origin = read_origin(origins[0]) if len(origins) == 1 else None
        if origin is None:
            return None
        if origin in self._origins:
            return "allowed"
        default = _DEFAULT_PORTS[origin.scheme]
        return "own" if origin.place == place.with_default(default) else None

    def _is_ours(self, host: str) -> bool:
        if host == "localhost" or host in self._hosts or host == self._listening:
            return True
        address = _address(host)
        # A page can bind its name to an address, but it cannot make the browser send an address
        # that the browser is not connected to.
        return address is not None and (_is_loopback(address) or _is_any(self._listening))


def load_guard(options: ServeOptions) -> AccessGuard:
    """Return the guard of a server over HTTP; its token is made if there is none yet.

    Raises:
        ConfigError: the token file, a host or an origin cannot be used.
    """
    assert options.http is not None
    token = TokenFile(options.agent_dir).load(new=options.new_token)
    return AccessGuard(token, options.hosts, options.origins, options.http[0])


class Place(NamedTuple):
    """A host in lower case, IPv6 addresses without brackets, and a port."""

    host: str
    port: int | None

    def with_default(self, port: int) -> "Place":
        return self if self.port is not None else Place(self.host, port)


class Origin(NamedTuple):
    """The origin of a web page; its port is always set."""

    scheme: str
    place: Place


def read_host(text: str) -> Place | None:
    """Return the parts of a `Host` header; None if it is not exactly a host and a port."""
    if len(text) > _MOST_CHARACTERS:
        return None
    text = text.lower()
    if text.startswith("["):
        host, closed, rest = text[1:].partition("]")
        is_host = bool(closed) and isinstance(_address(host), IPv6Address)
        host = _usual_form(host)
        port = rest.removeprefix(":") if rest.startswith(":") else None
        is_host &= rest.startswith(":") or not rest
    else:
        host, colon, after = text.partition(":")
        is_host = _NAME.fullmatch(host) is not None
        port = after if colon else None
    if not is_host:
        return None
    if port is None:
        return Place(host, None)
    return Place(host, int(port)) if _PORT.fullmatch(port) and int(port) < 1 << 16 else None


def read_origin(text: str) -> Origin | None:
    """Return the parts of an `Origin` header; None if it is `null` or not one origin."""
    scheme, separator, rest = text[: _MOST_CHARACTERS + 1].partition("://")
    scheme = scheme.lower()
    if not separator or scheme not in _DEFAULT_PORTS or len(text) > _MOST_CHARACTERS:
        return None
    place = read_host(rest)
    return Origin(scheme, place.with_default(_DEFAULT_PORTS[scheme])) if place else None


def is_loopback_host(host: str) -> bool:
    """Return whether only programs of this machine reach a server that listens on this host."""
    address = _address(host.strip("[]"))
    return host.lower() == "localhost" or (address is not None and _is_loopback(address))


def _by_name(headers: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {"host": [], "origin": [], "sec-fetch-site": []}
    for name, value in headers:
        if (key := name.lower()) in found:
            found[key].append(value)
    return found


def _address(text: str) -> IPv4Address | IPv6Address | None:
    """Return the address that the text is; None for a name."""
    if not text.isascii() or "%" in text:
        return None
    try:
        return ip_address(text)
    except ValueError:
        return None


def _usual_form(host: str) -> str:
    """Return an address as it is usually written, and a name as it is."""
    return str(_address(host) or host)


def _is_loopback(address: IPv4Address | IPv6Address) -> bool:
    # Not `is_loopback`: Python versions differ about IPv4 addresses inside IPv6 ones.
    if isinstance(address, IPv4Address):
        return address.packed[0] == 127
    return int(address) == 1


def _is_any(listening: str) -> bool:
    address = _address(listening)
    return address is not None and int(address) == 0


def _allowed_host(text: str) -> str:
    place = read_host(text) or read_host(f"[{text}]")
    if place is None or place.port is not None:
        raise ConfigError(f"Not a host name: --host {text[:80]}. Give a name without a port.")
    return place.host


def _allowed_origin(text: str) -> Origin:
    origin = read_origin(text.removesuffix("/"))
    if origin is None:
        raise ConfigError(
            f"Not an origin: --origin {text[:80]}. Give scheme and host, as in https://app.example"
        )
    return origin
