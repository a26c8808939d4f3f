"""Select the proxy of a request: from an environment, or else from the setting `httpProxy`.

The setting applies to the whole process, like the variables: to model requests, logins, renewals
and model lists.
"""

import re
from collections.abc import Iterator, Mapping

import msgspec

from ludolf.ai.errors import ProviderError

LOOPBACK = ("127.0.0.1", "localhost", "::1")
_PORTS = {"http": 80, "https": 443}
_setting: str | None = None


class Proxy(msgspec.Struct, frozen=True):
    """Address and credentials of a proxy; `url` contains no credentials, so texts may show it."""

    url: str
    user: str | None = None
    password: str = ""

    @property
    def headers(self) -> dict[str, str]:
        """Return the headers that authenticate to the proxy."""
        return {} if self.user is None else {"Proxy-Authorization": f"Basic {self.login}"}

    @property
    def login(self) -> str:
        from base64 import b64encode

        return b64encode(f"{self.user}:{self.password}".encode()).decode()


def use_proxy(address: str | None) -> None:
    """Set the proxy for requests for which the environment names none."""
    global _setting
    _setting = (address or "").strip() or None


def proxy_for(url: str, environ: Mapping[str, str]) -> Proxy | None:
    """Return the proxy of an address, or None for a direct connection.

    Connections to this machine and to hosts in `NO_PROXY` are always direct.

    Raises:
        ProviderError: the address of the proxy is invalid.
    """
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return None  # reported by the code that sends the request
    address = _address(parts.scheme, environ)
    if address is None or host in LOOPBACK:
        return None
    if _is_exempt(host, port or _PORTS.get(parts.scheme), environ):
        return None
    return _read(address)


def setting_in_use() -> bool:
    """Return whether the setting names a proxy; libraries read the environment themselves."""
    return _setting is not None


def proxies(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the proxies by scheme, with user and password, for libraries that expect them.

    Raises:
        ProviderError: the address of the proxy is invalid.
    """
    from urllib.parse import quote

    by_scheme = {}
    for scheme in _PORTS:
        address = _address(scheme, environ)
        if address is None:
            continue
        proxy = _read(address)
        login = ""
        if proxy.user is not None:
            login = f"{quote(proxy.user, safe='')}:{quote(proxy.password, safe='')}@"
        by_scheme[scheme] = proxy.url.replace("://", f"://{login}", 1)
    return by_scheme


def proxy_secrets(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the passwords of all proxies in use, in the encodings in which they are sent."""
    for scheme in _PORTS:
        address = _address(scheme, environ)
        try:
            proxy = _read(address) if address else None
        except ProviderError:
            continue
        if proxy is not None and proxy.user is not None:
            yield from (proxy.password, f"{proxy.user}:{proxy.password}", proxy.login)


def _address(scheme: str, environ: Mapping[str, str]) -> str | None:
    return _variable(scheme, environ) or _variable("all", environ) or _setting


def _variable(scheme: str, environ: Mapping[str, str]) -> str | None:
    """Return the value of `http_proxy` or, if that is not set, `HTTP_PROXY`."""
    value = environ.get(f"{scheme}_proxy")
    # A CGI server puts a header of its client into HTTP_PROXY.
    if value is None and not (scheme == "http" and "REQUEST_METHOD" in environ):
        value = environ.get(f"{scheme.upper()}_PROXY")
    return value


def _is_exempt(host: str, port: int | None, environ: Mapping[str, str]) -> bool:
    """Return whether `NO_PROXY` matches a host by name, parent domain, port or `*`."""
    no_proxy = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    for entry in re.split(r"[\s,]+", no_proxy):
        if entry == "*":
            return True
        name, _, number = entry.lower().rpartition(":")
        if not name or not number.isdecimal() or (":" in name and not name.endswith("]")):
            name, number = entry.lower(), ""
        name = name.strip("[]").removeprefix("*").removeprefix(".")
        fits = host == name or host.endswith(f".{name}")
        if name and fits and (not number or int(number) == port):
            return True
    return False


def _read(address: str) -> Proxy:
    from urllib.parse import unquote, urlsplit

    full_address = address if "://" in address else f"http://{address}"
    try:
        parts = urlsplit(full_address)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port, parts = None, None, urlsplit("")
    if not host or parts.scheme not in _PORTS:
        raise ProviderError(
            "The address of the proxy cannot be used: it must be http://[USER:PASSWORD@]HOST:PORT "
            "or https://… Check httpProxy in settings.json, HTTP_PROXY, HTTPS_PROXY and ALL_PROXY.",
            kind="bad_request",
        )
    netloc = f"[{host}]" if ":" in host else host
    url = f"{parts.scheme}://{netloc}:{port or _PORTS[parts.scheme]}"
    if parts.username is None:
        return Proxy(url)
    return Proxy(url, unquote(parts.username), unquote(parts.password or ""))
