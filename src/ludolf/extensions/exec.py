"""Run a program for an extension, without a shell and with a timeout."""

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from ludolf.base import CommandError
from ludolf.functions.results import ExecResult

GRACE_SECONDS = 5.0


async def execute(
    argv: Sequence[str], cwd: Path, env: Mapping[str, str], timeout: float | None
) -> ExecResult:
    """Run a program and return its output; after `timeout` ms send TERM, 5 s later KILL.

    Cancelling kills at once. The program and its children form one process group.

    Raises:
        CommandError: the program could not be started.
    """
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            cwd=cwd,
            env=dict(env),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise CommandError(f"Cannot start {argv[0]}: {error}") from error
    try:
        return await _finish(process, timeout)
    finally:
        if process.returncode is None:
            _signal(process.pid, signal.SIGKILL)
            await process.wait()


async def _finish(process: asyncio.subprocess.Process, timeout: float | None) -> ExecResult:
    killed = False
    async with asyncio.TaskGroup() as group:
        output = group.create_task(process.communicate())
        if timeout is not None:
            done, _ = await asyncio.wait((output,), timeout=timeout / 1000)
            killed = not done
        if killed:
            _signal(process.pid, signal.SIGTERM)
            done, _ = await asyncio.wait((output,), timeout=GRACE_SECONDS)
            if not done:
                _signal(process.pid, signal.SIGKILL)
    stdout, stderr = (text.decode("utf-8", "replace") for text in output.result())
    code = process.returncode or 0
    return ExecResult(stdout, stderr, 128 - code if code < 0 else code, killed)


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)
