"""The base class of the typed commands without asyncio."""

from typing import Any


class BlockingCommandSender:
    """A client fills this in; groups of commands are laid over it."""

    def _call(self, command: str, /, **params: Any) -> Any:
        """The answer to a command, as the struct that its dialect has for it."""
        raise NotImplementedError
