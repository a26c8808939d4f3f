"""A server in the process of the test, next to a scripted model server."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from ludolf.agent.scope import Tasks
from ludolf.config.settings.options import Options
from ludolf.serve.lines import UnixDoor
from ludolf.serve.options import ServeOptions
from ludolf.serve.server import SessionServer
from tests.process.harness import Lab


@asynccontextmanager
async def serving(lab: Lab, socket: Path, **options: Any) -> AsyncIterator[SessionServer]:
    """A server on a Unix socket, with the home of the lab."""
    base = Options(cwd=lab.work, environ=lab.env)
    server = SessionServer(
        ServeOptions(options=base, agent_dir=lab.agent, socket=socket, **options)
    )
    door = UnixDoor(server, socket)
    await door.open()
    tasks = Tasks()
    tasks.start(server.serve())
    try:
        yield server
    finally:
        await tasks.close()
        await server.close(0)
        await door.close()
        await server.tasks.close()
