"""What one request needs to be let in: the key, extra headers, another address."""

import msgspec

from ludolf.base import Value


class Access(Value):
    """`key` is None where the headers or the surroundings (a cloud identity) do the work.

    `base_url` replaces the model's own; `environment` lays over the process environment.
    """

    key: str | None = None
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    base_url: str | None = None
    environment: dict[str, str] = msgspec.field(default_factory=dict)
