"""Keeps keys out of texts: what a server sends back may hold the very key that was sent to it."""

from collections.abc import Iterable

from ludolf.ai.access import Access

HIDDEN = "[redacted]"
SHORTEST = 8
# So much of a key's beginning gives it away where a text was cut in the middle of the key.
_GIVEAWAY = 16
_SCHEMES = ("bearer ", "basic ", "token ")
_OPEN_HEADERS = frozenset(
    ("accept", "content-type", "user-agent", "editor-version", "editor-plugin-version")
)


def secrets_in(access: Access) -> tuple[str, ...]:
    """All that a request carries to be let in."""
    found = [access.key or "", *access.environment.values()]
    for name, value in access.headers.items():
        if name.lower() not in _OPEN_HEADERS:
            found.append(_without_scheme(value))
    return tuple(found)


def redact(text: str, secrets: Iterable[str]) -> str:
    """The text without the secrets, whole or cut off; too short ones are no secrets."""
    for secret in sorted(set(secrets), key=len, reverse=True):
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


def _without_scheme(value: str) -> str:
    for scheme in _SCHEMES:
        if value.lower().startswith(scheme):
            return value[len(scheme) :]
    return value
