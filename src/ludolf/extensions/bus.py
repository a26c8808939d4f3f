"""Event bus between extensions: named channels, any value as data."""

from collections.abc import Callable
from typing import Any

from ludolf.extensions.runtime import Runtime
from ludolf.functions.isolation import Failed, call

Listener = Callable[[Any], Any]


class Bus:
    """Bus of one session. Listeners may be async; the errors of a listener are reported."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._listeners: dict[str, tuple[tuple[str, Listener], ...]] = {}

    def listen(self, channel: str, listener: Listener, path: str) -> Callable[[], None]:
        item = (path, listener)
        self._listeners[channel] = (*self._listeners.get(channel, ()), item)

        def remove() -> None:
            left = tuple(one for one in self._listeners.get(channel, ()) if one is not item)
            self._listeners[channel] = left

        return remove

    def publish(self, channel: str, data: Any) -> None:
        for path, listener in self._listeners.get(channel, ()):
            self._runtime.start(self._call(channel, listener, data, path))

    def forget(self, path: str) -> None:
        """Remove the listeners of one extension."""
        for channel, listeners in self._listeners.items():
            self._listeners[channel] = tuple(one for one in listeners if one[0] != path)

    async def _call(self, channel: str, listener: Listener, data: Any, path: str) -> None:
        try:
            await call(listener, data)
        except Failed as error:
            self._runtime.runner.report(path, f"events:{channel}", str(error))


class Events:
    """The bus for one extension: `api.events.emit(…)`, `api.events.on(…)`."""

    def __init__(self, bus: Bus, runtime: Runtime, path: str) -> None:
        self._bus = bus
        self._runtime = runtime
        self._path = path

    def emit(self, channel: str, data: Any = None) -> None:
        """Send data to all listeners; they run in the background, in order of registration."""
        self._runtime.do(lambda host: self._bus.publish(channel, data))

    def on(self, channel: str, listener: Listener | None = None) -> Any:
        """Add a listener, by call or as a decorator; the call returns the function to remove it."""
        self._runtime.check_fresh()
        if listener is not None:
            return self._bus.listen(channel, listener, self._path)

        def decorate(function: Listener) -> Listener:
            self._bus.listen(channel, function, self._path)
            return function

        return decorate
