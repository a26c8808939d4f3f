"""The base class of the typed commands."""

from typing import Any


class CommandSender:
    """A client fills this in; groups of commands are laid over it."""

    async def _call(self, command: str, /, **params: Any) -> Any:
        """The answer to a command, as the struct that its dialect has for it.

        Parameters that are None are left out.
        """
        raise NotImplementedError
