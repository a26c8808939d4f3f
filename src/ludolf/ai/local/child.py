"""Start, wait for and stop the child process that runs a GGUF file."""

import asyncio
import os
import sys
from pathlib import Path
from typing import IO, Self

import msgspec

import ludolf
from ludolf.ai.local.runtime import Launch, RuntimeAnswer
from ludolf.base import LudolfError, dumps

MODULE = "ludolf.ai.local.runtime"
LOAD_SECONDS = 600.0
TAIL_BYTES = 8192
# Variables that llama.cpp and its drivers may need; no keys.
_ENVIRONMENT_NAMES = ("PATH", "HOME", "USER", "LANG", "TMPDIR", "LD_LIBRARY_PATH", "SYSTEMROOT")
_ENVIRONMENT_PREFIXES = ("CUDA_", "GGML_", "HIP_", "HSA_", "LC_", "NVIDIA_", "OMP_", "ROCR_", "VK_")
_LOAD_ERROR = "error loading model: "


class ChildError(LudolfError):
    """The model could not be run; the text is the reason."""


class Child:
    """One process with one model. It ends with `stop`, or when the parent process ends."""

    def __init__(self, process: asyncio.subprocess.Process, order: Launch, log: IO[bytes]) -> None:
        self._process = process
        self._log = log
        self.order = order
        self.url = ""
        self.users = 0

    @classmethod
    async def start(cls, order: Launch, seconds: float = LOAD_SECONDS) -> Self:
        """Start the process and wait until the model is loaded; cancelling stops the process.

        Raises:
            ChildError: the model was not loaded.
        """
        from tempfile import TemporaryFile

        log = TemporaryFile()  # noqa: SIM115 - for as long as the child lives
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", MODULE),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env=_environment(),
                start_new_session=True,
            )
        except BaseException:
            log.close()
            raise
        child = cls(process, order, log)
        try:
            await child._loaded(seconds)
        except BaseException:
            await child.stop()
            raise
        return child

    async def _loaded(self, seconds: float) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(dumps(self.order) + b"\n")
        try:
            async with asyncio.timeout(seconds):
                line = await self._process.stdout.readline()
        except TimeoutError:
            raise ChildError(f"{self.order.model} was not loaded within {seconds:.0f} s") from None
        try:
            reply = msgspec.json.decode(line, type=RuntimeAnswer)
        except msgspec.DecodeError:
            reply = RuntimeAnswer()
        if reply.url is None:
            raise ChildError(
                f"llama.cpp cannot load {self.order.model}: {await self.reason(reply)}"
            )
        self.url = reply.url

    @property
    def alive(self) -> bool:
        return self._process.returncode is None

    async def reason(self, reply: RuntimeAnswer | None = None) -> str:
        """Return why the process ended, in the words of llama.cpp if it printed any."""
        code = await self._process.wait()
        self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, self._log.tell() - TAIL_BYTES))
        lines = self._log.read().decode("utf-8", "replace").splitlines()
        errors = [line.partition(_LOAD_ERROR)[2] for line in lines if _LOAD_ERROR in line]
        if errors:
            return errors[-1]
        if reply is not None and reply.error:
            return reply.error
        if code == -9:
            return "it was killed; the machine may be out of memory"
        return lines[-1] if lines else f"it ended with code {code}"

    async def stop(self) -> None:
        """Stop the process and wait for its end."""
        if self.alive:
            self._process.kill()
        await self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._log.close()


def _environment() -> dict[str, str]:
    env = {
        name: value
        for name, value in os.environ.items()
        if name in _ENVIRONMENT_NAMES or name.startswith(_ENVIRONMENT_PREFIXES)
    }
    source = str(Path(ludolf.__file__).parents[1])
    paths = (source, os.environ.get("PYTHONPATH", ""))
    return {**env, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
