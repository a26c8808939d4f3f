"""The process that speaks to Ray for a driver: Ray may abort or block the process that uses it.

`python -m ludolf.fleet.ray_bridge CONTROL LOCK ADDRESS MARKER`. The driver sends a socket for each
worker through the control socket; the bridge starts an actor and relays bytes between both.
"""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import Any, TypeVar

from ludolf import __version__
from ludolf.agent.scope import Tasks
from ludolf.base import LudolfError, dumps
from ludolf.config.auth.keys import ALSO_NEEDED, IDENTITIES, KEY_VARIABLES, OTHER_SECRETS
from ludolf.fleet.pipes import MOST_MESSAGE_BYTES, WorkerReady, WorkerWarned
from ludolf.fleet.ray_actor import GATHER_SECONDS, RayWorkerActor

TOKEN_ADVICE = (
    "Set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN_PATH to the file with the token of the cluster."
)
BEAT, FAILED, WORKER = b"+", b"!", b"W"
BEAT_SECONDS = 3.0
# After this time without a place for an actor, the user is warned.
PLACE_SECONDS = 20.0
# Seconds for storing sessions when the driver has ended.
LAST_SECONDS = 8.0
_MOST_BYTES = 4 << 20
_RETRY_SECONDS = 0.5
# Actors of one worker whose nodes are lost before they answer.
_MOST_STARTS = 5
T = TypeVar("T")


class UnusableNode(LudolfError):
    """A node cannot run workers, and the others could not either; the text says why."""


class RayBridge:
    """Relays messages between a driver and the actors of its workers."""

    def __init__(self, ray: Any, control: socket.socket, marker: str) -> None:
        self._ray = ray
        self._errors = ray.exceptions
        self._control = control
        self._marker = marker
        self._tasks = Tasks()
        # Those that wait for a place in the cluster.
        self._pings = Tasks()
        self._ended = asyncio.Event()
        # A worker that is lost gets a new actor; a restarted one would not know its items.
        self._actor = ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0)(RayWorkerActor)

    async def serve(self) -> None:
        """Serve until the driver has ended."""
        loop = asyncio.get_running_loop()
        self._control.setblocking(False)
        loop.add_reader(self._control, self._receive)
        beats = Tasks()
        beats.start(self._beat())
        await self._ended.wait()
        loop.remove_reader(self._control)
        await beats.close()
        await self._pings.close()
        # Their sockets are closed too: the workers store their sessions.
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_SECONDS):
                await self._tasks.ended()
        await self._tasks.close()

    def _receive(self) -> None:
        try:
            data, files, _, _ = socket.recv_fds(self._control, 1, 1)
        except OSError:
            data, files = b"", []
        if not data:
            self._ended.set()
        for file in files:
            self._tasks.start(self._relay(socket.socket(fileno=file)))

    async def _beat(self) -> None:
        """Show the driver that Ray answers."""
        while True:
            await asyncio.to_thread(self._ray.nodes)
            await asyncio.get_running_loop().sock_sendall(self._control, BEAT)
            await asyncio.sleep(BEAT_SECONDS)

    # ------------------------------------------------------------ one worker

    async def _relay(self, end: socket.socket) -> None:
        reader, writer = await asyncio.open_unix_connection(sock=end, limit=MOST_MESSAGE_BYTES)
        try:
            for _ in range(_MOST_STARTS):
                if self._ended.is_set():
                    return
                actor = self._actor.remote()
                try:
                    if await self._is_alive(actor, writer):
                        await self._exchange(actor, reader, writer)
                        return
                finally:
                    self._ray.kill(actor)
                await asyncio.sleep(_RETRY_SECONDS)
        except UnusableNode as error:
            writer.write(dumps(WorkerReady(problem=str(error))) + b"\n")
        finally:
            writer.close()

    async def _is_alive(self, actor: Any, writer: asyncio.StreamWriter) -> bool:
        """Wait until the actor answers; return False if its node was lost before.

        Raises:
            UnusableNode: every actor on its node would fail.
        """
        try:
            ping = self._pings.start(_wait_for(actor.ping.remote()))
            done, _ = await asyncio.wait((ping,), timeout=PLACE_SECONDS)
            if not done:
                text = "Ray has no free CPU for a worker yet. Add nodes, or use fewer --workers."
                writer.write(dumps(WorkerWarned(text=text)) + b"\n")
                await asyncio.wait((ping,))
            if ping.cancelled():
                return False
            version = ping.result()
        except self._errors.RayActorError as error:
            if "creation task" in str(error):
                raise UnusableNode(_why_dead(error)) from error
            return False
        if version != __version__:
            raise UnusableNode(
                f"A node of Ray has Ludolf {version}, this is {__version__}. Install the same "
                "version on all nodes."
            )
        return True

    async def _exchange(
        self, actor: Any, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Relay messages until the worker or the driver has ended."""
        posting = Tasks()
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            first = await reader.readuntil(b"\n")
            try:
                opening = partial(actor.open.remote, first, self._marker, sent_environment())
                await self._call(opening)
                posting.start(self._post(actor, reader))
                await self._take(actor, writer)
            except self._errors.RayError as error:
                sys.stderr.write(f"An actor was lost: {type(error).__name__}\n")
            finally:
                await posting.close()

    async def _post(self, actor: Any, reader: asyncio.StreamReader) -> None:
        number, rest = 0, b""
        while True:
            try:
                data = await reader.read(_MOST_BYTES)
            except ConnectionError:
                data = b""
            whole, newline, last = (rest + data).rpartition(b"\n")
            rest = last
            if data and not newline:
                continue
            number += 1
            lines = whole + newline if data else b""
            try:
                await self._call(partial(actor.post.remote, number, lines))
                await asyncio.sleep(GATHER_SECONDS)
            except self._errors.RayError:
                return  # the other direction reports it
            if not data:
                return

    async def _take(self, actor: Any, writer: asyncio.StreamWriter) -> None:
        number = 0
        while True:
            data = await self._call(partial(actor.take.remote, number))
            if data is None:
                return
            number += 1
            writer.write(data)
            try:
                await writer.drain()
            except ConnectionError:
                continue  # the driver has ended, and the worker is about to

    async def _call(self, start: Callable[[], Awaitable[T]]) -> T:
        """Call an actor; repeat the call while its node cannot be reached."""
        while True:
            try:
                return await start()
            except self._errors.ActorUnavailableError:
                await asyncio.sleep(_RETRY_SECONDS)


async def _wait_for(answer: Awaitable[T]) -> T:
    return await answer


def _why_dead(error: Exception) -> str:
    text = str(error)
    if "No module named" in text:
        return (
            "A node of Ray cannot import Ludolf. Install the same version of ludolf on all nodes "
            "of the cluster."
        )
    return f"An actor of Ray cannot start: {text[:500]}"


def sent_environment() -> dict[str, str]:
    """Return the variables that workers on other machines need: keys, and settings of Ludolf.

    They are arguments of a call to an actor. Ray logs the environment of jobs, but no arguments.
    """
    names = {name for group in KEY_VARIABLES.values() for name in group} | OTHER_SECRETS
    for table in (ALSO_NEEDED, IDENTITIES):
        names |= {name for groups in table.values() for group in groups for name in group}
    return {
        name: value
        for name, value in os.environ.items()
        if name in names or name.startswith(("LUDOLF_", "PI_"))
    }


def _connected(address: str) -> Any:
    """Import Ray and connect.

    Raises:
        OSError: the text says why not.
    """
    try:
        ray: Any = import_module("ray")
    except ImportError as error:
        raise OSError(
            f"Ray is not installed ({error}). Install it with: pip install 'ludolf[ray]'"
        ) from error
    try:
        ray.init(
            address=address,
            log_to_driver=False,
            logging_level="ERROR",
            configure_logging=False,
        )
    except ImportError as error:
        raise OSError(
            f"An address that starts with ray:// needs the client of Ray ({error}). Install it "
            "with: pip install 'ray[client]'"
        ) from error
    except ray.exceptions.AuthenticationError as error:
        raise OSError(f"Ray asks for a token. {TOKEN_ADVICE}") from error
    except (ray.exceptions.RayError, ConnectionError, ValueError, RuntimeError) as error:
        raise OSError(
            f"Ray ({address}) cannot be reached: {str(error).rstrip('.')}. Start a cluster with "
            "`ray start --head`, or name its address: --on ray:HOST:PORT. If the cluster uses "
            f"tokens: {TOKEN_ADVICE}"
        ) from error
    return ray


def main(words: list[str]) -> None:
    """Serve a driver: descriptors of the control socket and of the lock, address, marker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    file, lock, (address, marker) = int(words[0]), int(words[1]), words[2:]
    os.set_inheritable(lock, False)
    with socket.socket(fileno=file) as control:
        os.set_inheritable(file, False)
        try:
            ray = _connected(address)
        except OSError as error:
            control.sendall(FAILED + str(error).encode())
            return

        async def serve() -> None:
            await RayBridge(ray, control, marker).serve()

        control.sendall(BEAT)
        asyncio.run(serve())
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
