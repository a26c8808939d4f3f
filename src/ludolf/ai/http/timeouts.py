"""Timeouts of requests to model servers."""

import msgspec


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """Timeouts in seconds; 0 disables a limit. Pings do not count as events."""

    connect: float = 30.0
    first: float = 300.0
    between: float = 180.0
