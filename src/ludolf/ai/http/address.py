"""Split the URL of a request into what a connection and a request line need."""

from urllib.parse import quote, unquote, urlsplit

import msgspec

from ludolf.ai.errors import ProviderError

DEFAULT_PORTS = {"http": 80, "https": 443}
# Characters of a request target that are sent as written, escapes included: a signature covers
# them, and `%3A` is not a colon.
_AS_WRITTEN = "/?%:@!$&'()*+,;=-._~[]|"


class UrlParts(msgspec.Struct, frozen=True):
    """The server of a URL and what is asked of it.

    `host` is ASCII and without brackets. `authority` is the host with a port that is not the
    default of the scheme. `login` is user and password of the URL, as the header `Authorization`.
    """

    scheme: str
    host: str
    port: int
    authority: str
    target: str
    login: str | None = None

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{self.authority}"

    @property
    def is_secure(self) -> bool:
        return self.scheme == "https"

    @property
    def endpoint(self) -> str:
        """Host and port, as a proxy expects them in CONNECT."""
        return f"{_bracketed(self.host)}:{self.port}"


def split_url(url: str) -> UrlParts:
    """Split the URL of an HTTP server.

    Raises:
        ProviderError: it is not a URL, or names no HTTP server.
    """
    try:
        # `urlsplit` removes line breaks silently.
        if not url.isprintable():
            raise ValueError("it contains control characters")
        parts = urlsplit(url)
        host, port = ascii_host(parts.hostname or ""), parts.port
        if parts.scheme not in DEFAULT_PORTS or port == 0:
            raise ValueError("it names no HTTP server")
        target = quote(parts.path or "/", safe=_AS_WRITTEN)
        if parts.query:
            target += "?" + quote(parts.query, safe=_AS_WRITTEN)
    except ValueError as error:
        raise ProviderError(f"Not a valid URL: {url}", kind="bad_request") from error
    default = DEFAULT_PORTS[parts.scheme]
    authority = _bracketed(host) if port in (None, default) else f"{_bracketed(host)}:{port}"
    login = None
    if parts.username is not None:
        login = _basic(unquote(parts.username), unquote(parts.password or ""))
    return UrlParts(parts.scheme, host, port or default, authority, target, login)


def ascii_host(host: str) -> str:
    """Return the form of a host name that is looked up and sent.

    Raises:
        ValueError: it is not a host name.
    """
    if not host.isascii():
        from idna import IDNAError, encode

        try:
            host = encode(host, uts46=True).decode()
        except IDNAError as error:
            raise ValueError("the host is not a domain name") from error
    if not host or any(char in " <>\\^`{|}\"'" for char in host):
        raise ValueError("the host is not a host name")
    return host


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _basic(user: str, password: str) -> str:
    from base64 import b64encode

    return "Basic " + b64encode(f"{user}:{password}".encode()).decode()
