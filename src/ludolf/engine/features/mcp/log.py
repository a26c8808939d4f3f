"""The log file of MCP servers."""

import os
from pathlib import Path

from ludolf.base import dumps, iso_time, now_ms
from ludolf.mcp.wire import Json

MOST_BYTES = 5 << 20
_MOST_LINE = 16 << 10


def append_log(agent: Path, server: str, params: Json) -> None:
    """Append a log message of a server to `mcp.log`; the older half goes when the file is full.

    A file that cannot be written loses the message.
    """
    line = dumps({"time": iso_time(now_ms()), "server": server, **params})[:_MOST_LINE] + b"\n"
    path = agent / "mcp.log"
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            size = os.fstat(file).st_size
            if size + len(line) > MOST_BYTES:
                kept = os.pread(file, size, size // 2).partition(b"\n")[2]
                os.ftruncate(file, 0)
                os.write(file, kept)
            os.write(file, line)
        finally:
            os.close(file)
    except OSError:
        return
