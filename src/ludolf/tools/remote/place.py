"""Paths, files and scripts of a workplace, with the errors that tools report."""

import asyncio
import errno
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Literal

from ludolf.agent.tool import ToolFailure
from ludolf.agent.workplace import Workplace
from ludolf.tools.files import error_text
from ludolf.tools.paths import name_lock, resolve
from ludolf.tools.ripgrep import SEARCH_SECONDS

PathKind = Literal["folder", "file", "other"]

_HOME = 'printf %s "$HOME"'
_KIND = """
if [ -d "$1" ]; then printf folder
elif [ -f "$1" ]; then printf file
elif [ -e "$1" ]; then printf other
fi
"""
_KINDS: dict[bytes, PathKind] = {b"folder": "folder", b"file": "file", b"other": "other"}
# Numbers of errors that are raised without one.
_NUMBERS: tuple[tuple[type[OSError], int], ...] = (
    (FileNotFoundError, errno.ENOENT),
    (IsADirectoryError, errno.EISDIR),
    (NotADirectoryError, errno.ENOTDIR),
    (PermissionError, errno.EACCES),
    (FileExistsError, errno.EEXIST),
)


class RemotePlace:
    """A workplace as its tools use it."""

    def __init__(self, workplace: Workplace) -> None:
        self.workplace = workplace
        self._home: Path | None = None

    async def resolve(self, path: str) -> Path:
        """Return the absolute path; accepts `@`, `~` and `file://`.

        Raises:
            ToolFailure: the path is not valid for any file.
        """
        if path.removeprefix("@").startswith("~") and self._home is None:
            _, output = await self.script(_HOME)
            self._home = Path(output.decode("utf-8", "replace") or "/")
        return resolve(path, Path(self.workplace.cwd), self._home or Path("/"))

    def lock(self, path: Path) -> asyncio.Lock:
        """Return the lock of a file in this place."""
        return name_lock(f"{id(self.workplace)}:{path}")

    async def read(self, path: Path, most: int) -> bytes:
        """Return the first bytes of a file.

        Raises:
            OSError: it cannot be read; it has a number.
        """
        try:
            return await self.workplace.read(str(path), most)
        except OSError as error:
            raise _numbered(error) from error

    async def write(self, path: Path, data: bytes) -> None:
        """Replace a file.

        Raises:
            ToolFailure: it cannot be written.
        """
        try:
            await self.workplace.write(str(path), data)
        except OSError as error:
            raise ToolFailure(error_text(_numbered(error), "open", path)) from error

    async def kind(self, path: Path) -> PathKind | None:
        """Return what a path denotes; None if there is nothing."""
        _, output = await self.script(_KIND, str(path))
        return _KINDS.get(output)

    async def script(self, text: str, *args: str) -> tuple[int, bytes]:
        """Run a short shell script with arguments; return its exit code and output.

        Raises:
            ToolFailure: it could not start, or took too long.
        """
        output = bytearray()

        async def take(data: bytes) -> None:
            output.extend(data)

        return await self.stream(take, text, *args), bytes(output)

    async def stream(self, take: Callable[[bytes], Awaitable[None]], text: str, *args: str) -> int:
        """Run a shell script, pass its output to `take`, and return its exit code.

        Raises:
            ToolFailure: it could not start, or took too long.
        """
        try:
            return await self.workplace.run(("sh", "-c", text, "sh", *args), take, SEARCH_SECONDS)
        except TimeoutError:
            raise ToolFailure(
                f"Stopped after {SEARCH_SECONDS:g} seconds. Use a narrower path or pattern."
            ) from None
        except OSError as error:
            raise ToolFailure(f"Cannot run commands in {self.workplace.cwd}: {error}") from error


def _numbered(error: OSError) -> OSError:
    """Return the error with the number that its class implies, if it has none."""
    if error.errno:
        return error
    number = next((number for kind, number in _NUMBERS if isinstance(error, kind)), errno.EIO)
    return OSError(number, str(error))
