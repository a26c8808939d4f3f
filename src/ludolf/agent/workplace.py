"""Interface to a folder that is not on this machine, in which the built-in tools work."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol


class Workplace(Protocol):
    """A working folder in a container, a virtual machine or on another host.

    It runs a POSIX shell. Paths are absolute. Several calls may be active at the same time.
    """

    @property
    def cwd(self) -> str:
        """Return the absolute path of the working folder."""

    async def read(self, path: str, most: int) -> bytes:
        """Return the first `most` bytes of a regular file.

        Raises:
            OSError: it cannot be read; `errno` or the subclass says why.
        """

    async def write(self, path: str, data: bytes) -> None:
        """Create a file with its missing parent folders, or replace its content.

        Raises:
            OSError: it cannot be written; `errno` or the subclass says why.
        """

    async def run(
        self,
        argv: Sequence[str],
        take: Callable[[bytes], Awaitable[None]],
        timeout: float | None,
    ) -> int:
        """Run a program in the working folder, without input; return its exit code.

        The code is 128 + n if signal n killed it. `take` is awaited with each piece of stdout, or
        once with all of it. If the task is cancelled or `take` raises, the program must be ended.

        Raises:
            TimeoutError: the program was ended after `timeout` seconds.
            OSError: it cannot be started, or the connection is lost.
        """
