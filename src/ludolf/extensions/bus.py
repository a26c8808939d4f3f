"""`api.events`: an event bus between extensions, with named channels and any value as data."""

from collections.abc import Callable
from typing import Any

from ludolf.extensions.runtime import Runtime
from ludolf.functions.isolation import Failed, call

Listener = Callable[[Any], Any]
# By channel: the extensions' paths and their listeners, in order of registration.
Listeners = dict[str, tuple[tuple[str, Listener], ...]]


class Events:
    """The bus of one session for one extension. Errors of a listener are reported."""

    def __init__(self, listeners: Listeners, runtime: Runtime, path: str) -> None:
        self._listeners = listeners
        self._runtime = runtime
        self._path = path

    def emit(self, channel: str, data: Any = None) -> None:
        """Send data to all listeners; they run in the background, in order of registration."""
        self._runtime.do(lambda host: self._publish(channel, data))

    def on(self, channel: str, listener: Listener | None = None) -> Any:
        """Add a listener, by call or as a decorator; the call returns the function to remove it."""
        self._runtime.check_fresh()
        if listener is not None:
            return self._listen(channel, listener)

        def decorate(function: Listener) -> Listener:
            self._listen(channel, function)
            return function

        return decorate

    def _listen(self, channel: str, listener: Listener) -> Callable[[], None]:
        item = (self._path, listener)
        self._listeners[channel] = (*self._listeners.get(channel, ()), item)

        def remove() -> None:
            left = tuple(one for one in self._listeners.get(channel, ()) if one is not item)
            self._listeners[channel] = left

        return remove

    def _publish(self, channel: str, data: Any) -> None:
        for path, listener in self._listeners.get(channel, ()):
            self._runtime.start(self._call(channel, listener, data, path))

    async def _call(self, channel: str, listener: Listener, data: Any, path: str) -> None:
        try:
            await call(listener, data)
        except Failed as error:
            self._runtime.runner.report(path, f"events:{channel}", str(error))
