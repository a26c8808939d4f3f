"""The connection of the terminal to its session: its own server, or one that others share."""

import asyncio
import importlib
import os
from typing import TYPE_CHECKING, Any

from ludolf.base import LudolfError
from ludolf.config.settings.session_request import session_environment
from ludolf.tui.own_server import OwnServer, start_own_server
from ludolf.tui.start_options import StartOptions

if TYPE_CHECKING:
    from ludolf.client import RemoteClient, RemoteSession

CLIENT_NAME = "terminal"
# So long the end of a server is waited for: it stores the session first.
END_SECONDS = 8.0
_NO_PINGS = 1e6
_TIMEOUT = 60.0


class OpenRefused(LudolfError):
    """The engine runs, and does not open the session: the text says why."""


def _load() -> Any:
    """Import what the first screen does not need: the client, and the rows of entries."""
    importlib.import_module("ludolf.tui.rows")
    return importlib.import_module("ludolf.client")


class EngineLink:
    """Opens the session, and opens it again after the server was lost."""

    def __init__(self, start: StartOptions) -> None:
        self._start = start
        # The name of this client for the server, also after a new connection.
        self._id = f"{CLIENT_NAME}-{os.getpid()}-{os.urandom(4).hex()}"
        self._own: OwnServer | None = None
        self._client: RemoteClient | None = None
        self.session: RemoteSession | None = None

    @property
    def is_own(self) -> bool:
        """Whether the server belongs to this terminal."""
        return self._start.address is None

    def prepare(self) -> None:
        """Start the server of this terminal, unless there is one."""
        if self.is_own and self._own is None:
            start = self._start
            self._own = start_own_server(start.environ, start.cwd, aborts=start.aborts)

    async def open(self, session: str) -> "RemoteSession":
        """Connect and open a session.

        Raises:
            OpenRefused: the session or an option cannot be used.
            LudolfError: the server does not start or cannot be reached.
        """
        self.prepare()
        # In a thread, since it takes a while, and keys are drawn meanwhile.
        module = await asyncio.to_thread(_load)
        self._client = module.RemoteClient(self._address(), **self._options())
        try:
            await self._client.connect()
            self.session = await self._join(self._client, session)
        except module.Refused as error:
            raise OpenRefused(str(error).partition(": ")[2]) from error
        except LudolfError as error:
            raise LudolfError(self._explained(error)) from error
        return self.session

    async def _join(self, client: "RemoteClient", session: str) -> "RemoteSession":
        start = self._start
        role: Any = {"role": "view"} if start.view else {}
        if start.attaches:
            return await client.attach(session, **role)
        env: Any = {} if self.is_own else {"env": session_environment(start.environ)}
        return await client.open(
            session=session, cwd=start.cwd, options=dict(start.choices), **env, **role
        )

    async def others(self) -> dict[str, str]:
        """Return the names of the other clients of the session."""
        if self._client is None or self.session is None:
            return {}
        found = await self._client.clients(self.session)
        return {each.client: each.name or each.client for each in found if each.client != self._id}

    def _address(self) -> Any:
        return self._own.address if self._own is not None else self._start.address

    def _options(self) -> dict[str, Any]:
        common = {"name": CLIENT_NAME, "timeout": _TIMEOUT}
        common["client"] = self._id
        if self._own is not None:
            return {**common, "patience": 0.0, "ping_seconds": _NO_PINGS}
        return common

    def _explained(self, error: LudolfError) -> str:
        """Return why there is no session; a server that did not start has said it on stderr."""
        reason = self._own.reason() if self._own and self._own.process.poll() is not None else ""
        return reason or str(error)

    async def lose(self) -> str:
        """Forget a server that is gone; returns why, if it is known."""
        if self._client is not None:
            await self._client.aclose()
        self._client = self.session = None
        reason = ""
        own, self._own = self._own, None
        if own is not None:
            reason = await asyncio.to_thread(own.reason)
            own.clean_up()
        return reason

    async def close(self, *, stays: bool) -> None:
        """Leave: the server of this terminal ends, unless the session `stays`."""
        client, session = self._client, self.session
        if client is not None and session is not None:
            try:
                async with asyncio.timeout(END_SECONDS):
                    await (session.detach() if stays or not self.is_own else client.shutdown())
            except (LudolfError, TimeoutError):
                pass  # it is gone already, or ends later
        if client is not None:
            await client.aclose()
        if self._own is not None and not stays:
            await asyncio.to_thread(self._wait_for_end)

    def _wait_for_end(self) -> None:
        import subprocess

        assert self._own is not None
        if self.session is None:  # it is still starting
            self._own.process.terminate()
        try:
            self._own.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            return
        self._own.clean_up()
