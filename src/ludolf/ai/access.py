"""What one request needs to be let in: the key, extra headers, another address."""

from collections.abc import Mapping

import msgspec

from ludolf.base import Value

# Headers that let a request in as a key would.
AUTH_HEADERS = frozenset(
    ("authorization", "x-api-key", "api-key", "x-goog-api-key", "cf-aig-authorization")
)


class Access(Value):
    """`key` is None where the headers or the surroundings (a cloud identity) do the work.

    `base_url` replaces the model's own; `environment` lays over the process environment.
    `without` names headers that must not be sent.
    """

    key: str | None = None
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    base_url: str | None = None
    environment: dict[str, str] = msgspec.field(default_factory=dict)
    without: tuple[str, ...] = ()

    @property
    def by_header(self) -> bool:
        """Whether a stated header does what a key would do."""
        return any(name.lower() in AUTH_HEADERS for name in self.headers)

    def over(self, ours: Mapping[str, str]) -> dict[str, str]:
        """The headers stated here, over our own ones, without those that must not be sent."""
        taken = {name.lower() for name in (*self.headers, *self.without)}
        kept = {name: value for name, value in ours.items() if name.lower() not in taken}
        return kept | self.headers
