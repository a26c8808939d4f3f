"""Where workers run: processes of this machine, or actors of a Ray cluster."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Protocol

from ludolf.ai.gate import RequestGate
from ludolf.base import ConfigError
from ludolf.fleet.folder import BatchFolder
from ludolf.fleet.pipes import ToDriver, ToWorker
from ludolf.fleet.worker_process import WorkerProcess

LOG_NAME = "workers.log"


class FleetWorker(Protocol):
    """A worker that was started, wherever it runs."""

    is_ready: bool
    # Ids of the items that run in it.
    running: set[str]

    @property
    def pid(self) -> int:
        """A number for the journal."""
        ...

    def send(self, message: ToWorker) -> None: ...

    def messages(self) -> AsyncIterator[ToDriver]:
        """Yield the messages of the worker until it has ended."""
        ...

    def kill(self) -> None: ...

    async def ended(self, seconds: float) -> None:
        """Wait for the end of the worker; kill it after some seconds."""

    async def close(self) -> None: ...


class WorkerHost(Protocol):
    """Starts workers."""

    async def start_worker(self) -> FleetWorker:
        """Raises:
        ConfigError: no worker can be started.
        """
        ...

    async def close(self) -> None:
        """Called when all workers have ended."""


class LocalHost:
    """Workers are processes of this machine."""

    def __init__(self, folder: BatchFolder, gate: RequestGate) -> None:
        self._folder = folder
        self._gate = gate

    async def start_worker(self) -> FleetWorker:
        log = self._folder.path / LOG_NAME
        return await WorkerProcess.start(self._folder.lock, log, self._gate)

    async def close(self) -> None:
        """Nothing is left to close."""


def worker_host(on: str | None, folder: BatchFolder, gate: RequestGate) -> WorkerHost:
    """Return the host that `--on` names.

    Raises:
        ConfigError: the name is unknown.
    """
    if on is None:
        return LocalHost(folder, gate)
    from ludolf.fleet.ray import RayHost

    return RayHost(ray_address(on), folder, gate)


def ray_address(on: str) -> str:
    """Return the address of the cluster; `auto` finds one on this machine.

    Raises:
        ConfigError: this is not an engine that a batch runs on.
    """
    if on == "ray":
        return "auto"
    if on.startswith("ray://"):
        return on
    name, _, address = on.partition(":")
    if name == "ray" and address:
        return address
    raise ConfigError(f'--on takes ray, ray:HOST:PORT or ray://HOST:PORT, not "{on}".')


if TYPE_CHECKING:

    def _proof(worker: WorkerProcess, host: LocalHost) -> tuple[FleetWorker, WorkerHost]:
        return worker, host
