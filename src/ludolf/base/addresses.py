"""Addresses of servers: `unix:PATH`, `ws://HOST:PORT` and `wss://HOST:PORT`.

A program that has started its own server has the address `fd:NUMBER`: a connected socket.
"""

from typing import Literal

import msgspec

from ludolf.base import ConfigError

FORMS = "unix:PATH, ws://HOST:PORT or wss://HOST:PORT"
PATH = "/ws"


class Address(msgspec.Struct, frozen=True):
    """`place` is the path of a Unix socket, the number of a connected one, or the URL of a
    WebSocket, which has a `host`."""

    kind: Literal["unix", "fd", "ws", "wss"]
    place: str
    host: str = ""

    def __str__(self) -> str:
        return f"{self.kind}:{self.place}" if self.kind in ("unix", "fd") else self.place

    @property
    def is_loopback(self) -> bool:
        """Whether it is a TCP address of this machine."""
        if self.kind in ("unix", "fd"):
            return False
        if self.host == "localhost":
            return True
        import ipaddress  # not for the addresses of most programs

        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def parse_address(text: str) -> Address:
    """Return the address in a text; the path of a WebSocket is `/ws` unless it has another.

    Raises:
        ConfigError: the text is not an address, or a URL holds a user, a query or a fragment.
    """
    kind, colon, rest = text.strip().partition(":")
    if colon and kind == "unix":
        if not rest or "\0" in rest:
            raise ConfigError(f'Invalid address "{text}": a path is missing. Use {FORMS}.')
        return Address("unix", rest)
    if colon and kind in ("ws", "wss") and rest.startswith("//"):
        return _web_address(text.strip())
    raise ConfigError(f'Invalid address "{text}". Use {FORMS}.')


def _web_address(text: str) -> Address:
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise ConfigError(f'Invalid address "{text}": {error}. Use {FORMS}.') from error
    if not host or any(mark.isspace() or mark < " " for mark in text):
        raise ConfigError(f'Invalid address "{text}": a host is missing. Use {FORMS}.')
    if parts.query or parts.fragment or parts.username is not None:
        reason = "a server takes its token from `hello`, never from a URL"
        raise ConfigError(f"Invalid address: it holds a user, a query or a fragment, and {reason}.")
    shown = f"[{host}]" if ":" in host else host
    end = "" if port is None else f":{port}"
    path = parts.path if parts.path not in ("", "/") else PATH
    kind: Literal["ws", "wss"] = "ws" if parts.scheme == "ws" else "wss"
    return Address(kind, f"{kind}://{shown}{end}{path}", host)
