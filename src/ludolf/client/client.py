"""The client: the agent in a child process, with typed commands and typed events."""

from typing import Unpack

from ludolf.client.connection import ClientConnection
from ludolf.client.events import EventReader
from ludolf.client.options import ClientOptions
from ludolf.client.typed import TIMEOUT, TypedExchange


class Client(TypedExchange, ClientConnection):
    """Starts the program and sends commands to it; `ClientOptions` lists its options.

    Each command of the protocol has a method with its name. `prompt_and_wait`, `stream` and
    `stream_text` read the events themselves: to read them elsewhere, with `typed_events` or
    `events`, send `prompt`.
    """

    def __init__(self, *arguments: str, **options: Unpack[ClientOptions]) -> None:
        super().__init__(*arguments, **options)
        self._reader = EventReader(self.wire)
        self._timeout = options.get("timeout", TIMEOUT)
