"""The files of an editor, whose text may not be saved yet: requests to the client."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ludolf.agent.tool import Files
from ludolf.base import LudolfError
from ludolf.base.jsonrpc import RpcFault

READ_FILE, WRITE_FILE = "fs/read_text_file", "fs/write_text_file"
ANSWER_SECONDS = 5.0
NOT_FOUND = -32002
# A client that ignored so many requests in a row is not asked again: each costs seconds.
_MOST_IGNORED = 2
_DISK = "Ludolf uses the files on disk where the editor fails."
ClientRequest = Callable[[str, Mapping[str, Any]], Awaitable[Any]]


class EditorFiles:
    """Text files of one session, in the editor of the client.

    `offered` are the methods that the client supports, of `READ_FILE` and `WRITE_FILE`. `report`
    gets the text of the first failure; the tools use the disk after each.
    """

    def __init__(
        self,
        session_id: str,
        offered: Collection[str],
        request: ClientRequest,
        cwd: Path,
        report: Callable[[str], None],
        seconds: float = ANSWER_SECONDS,
    ) -> None:
        self._session_id = session_id
        self._offered = frozenset(offered)
        self._request = request
        self._cwd = cwd
        self._report = report
        self._seconds = seconds
        self._ignored = 0
        self._reported = False

    async def read(self, path: Path) -> str | None:
        answer = await self._ask(READ_FILE, path, {})
        if answer is None:
            return None
        content = answer.get("content")
        if isinstance(content, str):
            return content
        self._fail(READ_FILE, path, "its answer has no text in the field content")
        return None

    async def write(self, path: Path, text: str) -> bool:
        return await self._ask(WRITE_FILE, path, {"content": text}) is not None

    async def _ask(
        self, method: str, path: Path, more: Mapping[str, Any]
    ) -> Mapping[str, Any] | None:
        """Return the answer, which may be empty; None if the disk is to be used."""
        if method not in self._offered or self._ignored >= _MOST_IGNORED:
            return None
        if not path.is_relative_to(self._cwd):
            return None
        params = {"sessionId": self._session_id, "path": str(path), **more}
        try:
            async with asyncio.timeout(self._seconds):
                answer = await self._request(method, params)
        except TimeoutError:
            self._ignored += 1
            self._fail(method, path, f"it did not answer within {self._seconds:g} seconds")
            return None
        except LudolfError as error:
            # Files that exist nowhere are no failure of the editor.
            if not _is_missing(method, path, error):
                self._fail(method, path, str(error))
            return None
        self._ignored = 0
        return answer if isinstance(answer, dict) else {}

    def _fail(self, method: str, path: Path, cause: str) -> None:
        if not self._reported:
            self._reported = True
            name = path.relative_to(self._cwd)
            self._report(f"The editor failed in {method} for {name}: {cause}. {_DISK}")


def _is_missing(method: str, path: Path, error: LudolfError) -> bool:
    if method != READ_FILE:
        return False
    return (isinstance(error, RpcFault) and error.code == NOT_FOUND) or not os.path.lexists(path)


if TYPE_CHECKING:

    def _proof(files: EditorFiles) -> Files:
        return files
