"""The server of one terminal: how long it lives after the terminal has left."""

import asyncio
import socket

from ludolf.agent.scope import Tasks
from ludolf.serve.lines import serve_stream
from ludolf.serve.options import PrivateOptions
from ludolf.serve.server import SessionServer


async def serve_terminal(server: SessionServer, private: PrivateOptions) -> None:
    """Serve the terminal and other clients until the rules of a private server end it.

    A terminal that detaches leaves the server until its sessions were unused for the time of
    `--unload-after`. One that hangs up leaves it until nothing runs, no dialog waits for an answer
    and no other client is attached; or stops the run.
    """
    tasks = Tasks()
    try:
        tasks.start(_live(server, private))
        await server.serve()
    finally:
        await tasks.close()


async def _live(server: SessionServer, private: PrivateOptions) -> None:
    connection = server.connect(remote=False, trusted=True)
    reader, writer = await asyncio.open_unix_connection(sock=socket.socket(fileno=private.fd))
    await serve_stream(connection, reader, writer, server.limits.stuck_seconds)
    has_detached = connection.has_detached
    if has_detached or not private.aborts:
        idle_seconds = server.options.unload_seconds if has_detached else 0.0
        await _unused(server, idle_seconds, private.watch_seconds)
    server.finish(0.0)


async def _unused(server: SessionServer, idle_seconds: float, watch_seconds: float) -> None:
    while True:
        if _is_unused(server, idle_seconds):
            return
        await asyncio.sleep(watch_seconds)


def _is_unused(server: SessionServer, seconds: float) -> bool:
    since = asyncio.get_running_loop().time() - seconds
    is_alone = not server.connections
    return is_alone and all(slot.is_unused and slot.used_at <= since for slot in server.slots)
