"""How long a model server may be silent before its answer counts as failed."""

import msgspec


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds; 0 is no limit. Pings are not events."""

    connect: float = 30.0
    first: float = 300.0
    between: float = 180.0
