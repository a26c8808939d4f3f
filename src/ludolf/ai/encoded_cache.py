"""The form that a provider made of each message, kept as bytes: a request is a join of them."""

from collections.abc import Callable

_LIMIT = 20_000


class Pieces:
    """Keyed by the identity of the message, which is kept alive beside its form."""

    def __init__(self, limit: int = _LIMIT) -> None:
        self._limit = limit
        self._made: dict[int, tuple[object, bytes]] = {}

    def get(self, message: object, build: Callable[[], bytes]) -> bytes:
        """The form of a message; `build` is called for one that was not seen before."""
        known = self._made.get(id(message))
        if known is None:
            if len(self._made) >= self._limit:
                self._made.clear()
            known = self._made[id(message)] = (message, build())
        return known[1]

    def keep_for(self, first: object) -> None:
        """Forget all if the conversation does not begin with a message known here."""
        if id(first) not in self._made:
            self._made.clear()
