"""The sandbox of a sample as a workplace."""

import math
from collections.abc import Awaitable, Callable, Sequence

from inspect_ai.util import OutputLimitExceededError, SandboxEnvironment

_CUT = "\n[The sandbox cut the output: it is over its limit]\n"


class SandboxWorkplace:
    """Runs commands and moves files by the methods of a sandbox, which record them."""

    def __init__(self, sandbox: SandboxEnvironment, cwd: str) -> None:
        self._sandbox = sandbox
        self._cwd = cwd

    @property
    def cwd(self) -> str:
        return self._cwd

    async def read(self, path: str, most: int) -> bytes:
        try:
            data: bytes = await self._sandbox.read_file(path, text=False)
        except OutputLimitExceededError as error:
            raise OSError(str(error)) from error
        return data[:most]

    async def write(self, path: str, data: bytes) -> None:
        await self._sandbox.write_file(path, data)

    async def run(
        self,
        argv: Sequence[str],
        take: Callable[[bytes], Awaitable[None]],
        timeout: float | None,
    ) -> int:
        seconds = None if timeout is None else math.ceil(timeout)
        try:
            result = await self._sandbox.exec(
                list(argv), cwd=self._cwd, timeout=seconds, timeout_retry=False
            )
        except OutputLimitExceededError as error:
            await take(((error.truncated_output or "") + _CUT).encode())
            return 0
        except TimeoutError as error:
            await take((getattr(error, "truncated_output", None) or "").encode())
            raise
        await take((result.stdout + result.stderr).encode("utf-8", "surrogateescape"))
        return int(result.returncode)


async def open_workplace(sandbox: SandboxEnvironment, cwd: str | None) -> SandboxWorkplace:
    """Return the workplace in a folder; None: the working folder of the sample."""
    if cwd is None:
        result = await sandbox.exec(["pwd"])
        cwd = result.stdout.strip() or "/"
    return SandboxWorkplace(sandbox, cwd)
