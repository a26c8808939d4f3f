"""Keeps keys out of texts: what a server sends back may hold the very key that was sent to it."""

from collections.abc import Iterable, Iterator

from ludolf.ai.access import Access
from ludolf.ai.proxy import proxy_secrets
from ludolf.ai.scrubbing import SHORTEST, USERINFO, is_telling, parts_of, secrets_of_url

HIDDEN = "[redacted]"
# So much of a key's beginning gives it away where a text was cut in the middle of the key.
_GIVEAWAY = 16
_OPEN_HEADERS = frozenset(
    ("accept", "content-type", "user-agent", "editor-version", "editor-plugin-version")
)


def secrets_in(access: Access, url: str = "") -> Iterator[str]:
    """All that a request to this address carries to be let in."""
    yield access.key or ""
    yield from (value for name, value in access.environment.items() if is_telling(name))
    for name, value in access.headers.items():
        if name.lower() not in _OPEN_HEADERS:
            yield from parts_of(name, value)
    yield from secrets_of_url(access.base_url or url)


def redact(text: str, secrets: Iterable[str]) -> str:
    """The text without the secrets, whole or cut off; too short ones are no secrets.

    User and password of an address are removed in every case, and those of the proxy.
    """
    text = USERINFO.sub(f"{HIDDEN}@", text)
    for secret in sorted({*secrets, *proxy_secrets()}, key=len, reverse=True):
        if len(secret) >= SHORTEST:
            text = _hide(text, secret)
    return text


def _hide(text: str, secret: str) -> str:
    start, rest = secret[:_GIVEAWAY], secret[_GIVEAWAY:]
    pieces = text.split(start)
    for place in range(1, len(pieces)):
        piece = pieces[place]
        pieces[place] = piece[_common(piece, rest) :]
    return HIDDEN.join(pieces)


def _common(first: str, second: str) -> int:
    """How many characters two texts begin with together."""
    for place, (one, other) in enumerate(zip(first, second, strict=False)):
        if one != other:
            return place
    return min(len(first), len(second))
