"""Credentials of one request: the key, extra headers, another base URL."""

from collections.abc import Mapping

import msgspec

from ludolf.base import Value


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """Timeouts in seconds; 0 disables a limit. Pings do not count as events."""

    connect: float = 30.0
    first: float = 300.0
    between: float = 180.0


# Headers that authenticate a request in place of a key.
AUTH_HEADERS = frozenset(
    ("authorization", "x-api-key", "api-key", "x-goog-api-key", "cf-aig-authorization")
)


class Access(Value):
    """Credentials of a request. `key` is None if headers or a cloud identity authenticate it.

    `base_url` replaces the model's URL; `environment` overrides the environment of the session.
    `without` names headers that must not be sent.
    """

    key: str | None = None
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    base_url: str | None = None
    environment: dict[str, str] = msgspec.field(default_factory=dict)
    without: tuple[str, ...] = ()

    @property
    def by_header(self) -> bool:
        """Return whether a configured header authenticates the request."""
        return any(name.lower() in AUTH_HEADERS for name in self.headers)

    def over(self, ours: Mapping[str, str]) -> dict[str, str]:
        """Merge the configured headers over ours, without those that must not be sent."""
        names = {name.lower() for name in (*self.headers, *self.without)}
        own_headers = {name: value for name, value in ours.items() if name.lower() not in names}
        return own_headers | self.headers
