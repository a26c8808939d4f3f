"""Check addresses of MCP servers."""

from urllib.parse import SplitResult, urlsplit

from ludolf.base import ConfigError

_LOOPBACK = ("localhost", "127.0.0.1", "::1")


def check_address(url: str) -> None:
    """Check the address of a server.

    Raises:
        ConfigError: it is not an http or https address.
    """
    parts = _parts(url)
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError("`url` must be an http or https address")


def is_loopback(url: str) -> bool:
    """Return whether an address is http on this machine."""
    parts = _parts(url)
    return parts is not None and parts.scheme == "http" and parts.hostname in _LOOPBACK


def is_private_address(url: str) -> bool:
    """Return whether secrets may be sent to an address: https, or http on this machine."""
    parts = _parts(url)
    return parts is not None and (parts.scheme == "https" or is_loopback(url))


def _parts(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises for a number that is not a port
    except ValueError:
        return None
    return parts if url.isprintable() and " " not in url else None
