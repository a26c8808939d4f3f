"""Workplace that is reached by a command: `docker exec`, `kubectl exec`, `ssh`."""

import asyncio
import errno
import os
import shlex
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, Self

from ludolf.agent.scope import Tasks

_READ_SIZE = 64 * 1024
# Seconds until a command that does not end with its connection is killed.
_GRACE_SECONDS = 2.0
# Seconds that output is waited for after the end of its command.
_QUIET_SECONDS = 0.2
# Ends the command with all its processes when the connection ends: stdin is then at its end.
_RUN = """
cd -- "$1" || exit 126
shift
exec 3<&0 </dev/null
if command -v setsid >/dev/null 2>&1; then
    setsid "$@" 3<&- & child=$!
    group=-$child
else
    "$@" 3<&- & child=$!
    group=$child
fi
{ cat <&3; kill -s KILL -- "$group"; } >/dev/null 2>&1 &
watcher=$!
wait "$child"
code=$?
kill -s KILL "$watcher" 2>/dev/null
exit "$code"
"""
_READ = """
[ -e "$1" ] || exit 61
[ -d "$1" ] && exit 62
[ -f "$1" ] || exit 63
[ -r "$1" ] || exit 64
exec head -c "$2" <"$1"
"""
# The new content is complete before the file changes; mode, owner and links are kept.
_WRITE = """
[ -d "$1" ] && exit 62
mkdir -p -- "$(dirname -- "$1")" 2>/dev/null || exit 64
new=$(mktemp) || exit 65
trap 'rm -f "$new"' EXIT
cat >"$new" || exit 65
[ "$(wc -c <"$new")" -eq "$2" ] || exit 65
cat "$new" 2>/dev/null >"$1" || exit 64
"""
_ERRORS = {
    61: errno.ENOENT,
    62: errno.EISDIR,
    63: errno.EINVAL,
    64: errno.EACCES,
    65: errno.EIO,
}


class CommandWorkplace:
    """A folder in which programs are started by a command such as `docker exec -i NAME`.

    The command must pass stdin on (`-i`). `quoted` is for commands such as `ssh HOST` that take
    one command line for a shell instead of separate arguments.

    >>> import asyncio
    >>> from ludolf import create_session
    >>> async def main() -> str:
    ...     place = CommandWorkplace(["env"], "/")  # env starts programs on this machine
    ...     async with create_session(model="ludolf/offline", workplace=place) as session:
    ...         return (await session.bash("pwd")).output
    >>> asyncio.run(main())
    '/\\n'
    """

    def __init__(self, command: Sequence[str], cwd: str, *, quoted: bool = False) -> None:
        self._command = tuple(command)
        self._cwd = cwd
        self._quoted = quoted

    @property
    def cwd(self) -> str:
        return self._cwd

    async def run(
        self,
        argv: Sequence[str],
        take: Callable[[bytes], Awaitable[None]],
        timeout: float | None,
    ) -> int:
        async with _Output() as output:
            process = await self._start(output.write_end, _RUN, self._cwd, *argv)
            output.close_write_end()
            tasks = Tasks()
            try:
                async with asyncio.timeout(timeout):
                    code = await _followed(process, output.pass_to(take), tasks)
            finally:
                await tasks.close()
                await _end(process)
        return 128 - code if code < 0 else code

    async def read(self, path: str, most: int) -> bytes:
        process = await self._start(PIPE, _READ, path, str(most))
        return await _finish(process, b"", path)

    async def write(self, path: str, data: bytes) -> None:
        process = await self._start(PIPE, _WRITE, path, str(len(data)))
        await _finish(process, data, path)

    async def _start(self, output: int, script: str, *args: str) -> Process:
        argv = ("sh", "-c", script, "sh", *args)
        words = (shlex.join(argv),) if self._quoted else argv
        return await asyncio.create_subprocess_exec(
            *self._command, *words, stdin=PIPE, stdout=output, stderr=output, start_new_session=True
        )


class _Output:
    """A pipe for the output of a command, which may be left before its end."""

    def __init__(self) -> None:
        read_end, self.write_end = os.pipe()
        self._file = os.fdopen(read_end, "rb", buffering=0)

    async def __aenter__(self) -> Self:
        self._reader = asyncio.StreamReader()
        self._transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(self._reader), self._file
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close_write_end()
        self._transport.close()

    def close_write_end(self) -> None:
        if self.write_end >= 0:
            os.close(self.write_end)
            self.write_end = -1

    async def pass_to(self, take: Callable[[bytes], Awaitable[None]]) -> None:
        while data := await self._reader.read(_READ_SIZE):
            await take(data)


async def _followed(process: Process, work: Coroutine[Any, Any, None], tasks: Tasks) -> int:
    """Wait for the end of a command and of its output; return its exit code.

    A process that the command left may hold the output open: it is not waited for.
    """
    reading, exited = tasks.start(work), tasks.start(process.wait())
    await asyncio.wait({reading, exited}, return_when=asyncio.FIRST_COMPLETED)
    await asyncio.wait({reading}, timeout=_QUIET_SECONDS)
    if reading.done():
        reading.result()
    await asyncio.wait({exited})
    return int(exited.result())


async def _finish(process: Process, data: bytes, path: str) -> bytes:
    try:
        output, errors = await process.communicate(data)
    finally:
        await _end(process)
    code = process.returncode
    if code:
        number = _ERRORS.get(code, errno.EIO)
        text = os.strerror(number) if code in _ERRORS else errors.decode("utf-8", "replace")
        raise OSError(number, text.strip() or f"exit code {code}", path)
    return output


async def _end(process: Process) -> None:
    """Close the connection; a script that still runs there ends its command then."""
    if process.stdin is not None:
        process.stdin.close()
        with suppress(BrokenPipeError, ConnectionResetError):
            await process.stdin.wait_closed()
    with suppress(TimeoutError):
        async with asyncio.timeout(_GRACE_SECONDS):
            await process.wait()
            return
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
