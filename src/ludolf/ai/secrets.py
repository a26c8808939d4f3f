"""Remove keys from texts: a server's response may contain the key that was sent to it."""

from collections.abc import Iterable, Iterator, Mapping

from ludolf.ai.access import AUTH_HEADERS, Access
from ludolf.ai.http.proxy import proxy_secrets
from ludolf.ai.record.scrubbing import Scrubber, parts_of, secrets_of_url
from ludolf.ai.secret_names import is_secret_name

HIDDEN = "[redacted]"
_OPEN_HEADERS = frozenset(
    ("accept", "content-type", "user-agent", "editor-version", "editor-plugin-version")
)


def secrets_in(access: Access, url: str = "") -> Iterator[str]:
    """Return all credentials that a request to this address carries."""
    yield access.key or ""
    yield from (value for name, value in access.environment.items() if is_secret_name(name))
    for name, value in access.headers.items():
        if name.lower() not in _OPEN_HEADERS:
            yield from parts_of(name, value)
    yield from secrets_of_url(access.base_url or url)


def credentials_in(access: Access) -> Iterator[str]:
    """Return key, tokens and authorization headers, without other headers of a request."""
    yield access.key or ""
    yield from (value for name, value in access.environment.items() if is_secret_name(name))
    for name, value in access.headers.items():
        if name.lower() in AUTH_HEADERS or is_secret_name(name):
            yield from parts_of(name, value)


def scrubber_for(access: Access, url: str, environ: Mapping[str, str]) -> Scrubber:
    """Return the scrubber for responses from this address."""
    return Scrubber((*secrets_in(access, url), *proxy_secrets(environ)), HIDDEN)


def redact(text: str, secrets: Iterable[str], environ: Mapping[str, str]) -> str:
    """Return the text without the secrets, complete, partial or encoded.

    Values of less than eight characters stay. User and password in a URL are removed even if they
    are unknown, and so are those of the proxies that the environment names.
    """
    return Scrubber((*secrets, *proxy_secrets(environ)), HIDDEN).text(text)
