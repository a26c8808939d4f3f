"""Cache of values by the identity of an object, such as a message."""

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")
_LIMIT = 20_000


class IdentityCache(Generic[T]):
    """Values by identity. The entry keeps its object alive, so ids stay unique."""

    def __init__(self, limit: int = _LIMIT) -> None:
        self._limit = limit
        self._entries: dict[int, tuple[object, T]] = {}

    def get(self, message: object, build: Callable[[], T]) -> T:
        """Return the value of a message; call `build` if it is not cached."""
        entry = self._entries.get(id(message))
        if entry is None:
            if len(self._entries) >= self._limit:
                self._entries.clear()
            entry = self._entries[id(message)] = (message, build())
        return entry[1]

    def clear(self) -> None:
        self._entries.clear()

    def keep_for(self, first: object) -> None:
        """Clear the cache if the conversation does not start with a cached message."""
        if id(first) not in self._entries:
            self._entries.clear()
