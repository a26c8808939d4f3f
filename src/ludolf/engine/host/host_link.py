"""The way from an engine to one of its hosts."""

from collections.abc import Awaitable, Callable

import msgspec

from ludolf.protocol.events import Event

# The error of a call whose host did not come back.
LEFT = "{what}: its host has left"
_SOURCE = "host"


class HostLink(msgspec.Struct, frozen=True):
    """The way to one host. `owner` is its name if an engine has several, unique among them.

    `emit` may wait for a slow host, but not for one that has left; `post` never waits.
    """

    emit: Callable[[Event], Awaitable[None]]
    post: Callable[[Event], None]
    owner: str = ""

    @property
    def source(self) -> str:
        """Return the source of the tools that the host provides."""
        return f"{_SOURCE}:{self.owner}" if self.owner else _SOURCE

    @property
    def title(self) -> str:
        """Return how errors name the host."""
        return title_of(self.source) or "the host"


def title_of(source: str) -> str | None:
    """Return how errors name the host that provides the tools of a source; None if none does."""
    kind, _, owner = source.partition(":")
    if kind != _SOURCE:
        return None
    return f'the client "{owner}"' if owner else "the host"
