"""All schemas that are published, by file name."""

from ludolf.base import Schema
from ludolf.protocol.dialects import NAMES
from ludolf.protocol.wire.schema import schema_in, schema_out
from ludolf.protocol.wire.server_schema import server_in, server_out

SERVER_SCHEMAS = ("server-in", "server-out")


def schemas() -> dict[str, Schema]:
    """Return the schemas of RPC mode and of the server."""
    out = {f"out-{name}": schema_out(name) for name in NAMES}
    return {"in": schema_in(), **out, "server-in": server_in(), "server-out": server_out()}
