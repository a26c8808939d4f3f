"""Commands and frames of `ludolf serve`, in addition to those of RPC mode.

Every frame of a session begins with the keys `session` and, if it is numbered, `seq`.
"""

from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from ludolf.base import Value
from ludolf.protocol.commands import Bare, CommandSpec
from ludolf.protocol.results import State

PROTOCOL_VERSION = 1
ClientRole = Literal["control", "view"]
SessionActivity = Literal["running", "waiting", "idle", "stored"]

# ---------------------------------------------------------------- commands


class Hello(Value):
    """The first command of a connection; over TCP it is required.

    `client` is a name that the client makes up for itself and uses again when it reconnects.
    `bare`: frames come without `session` and `seq`, and those of the server itself not at all.
    """

    client: str | None = None
    name: str | None = None
    token: str | None = None
    dialect: str = "pi-delta"
    bare: bool = False
    protocol: Any = PROTOCOL_VERSION


class Open(Value):
    """Open a session: `new`, `last` (the latest of the folder), an id or a path.

    `env` replaces the server's environment for keys, tools and commands of this session.
    `options` are those of the command line that concern a session, in camelCase.
    `wait`: the run waits for this client if it reads too slowly. `isolated`: the session runs in a
    process of its own. `traceparent`, `tracestate` and `baggage` are the trace context of prompts
    that carry none.
    """

    cwd: str | None = None
    session: str = "new"
    env: dict[str, str] | None = None
    options: dict[str, Any] | None = None
    role: ClientRole = "control"
    wait: bool | None = None
    isolated: bool = False
    traceparent: str | None = None
    tracestate: str | None = None
    baggage: str | None = None


class Attach(Value):
    """Attach to a session. `cursor` is the last one seen; without it, or if its frames are gone,
    the answer is a snapshot with the entries after `entry`, or the `last` ones.
    """

    session: str
    cursor: Any = None
    entry: str | None = None
    last: int = 100
    role: ClientRole = "control"
    wait: bool | None = None
    env: dict[str, str] | None = None


class SessionOnly(Value):
    """Without `session`: the current session of the connection."""

    session: str | None = None


class ListSessionStates(Value):
    """`all`: sessions of every folder; else those that are loaded."""

    all: bool = False


class Shutdown(Value):
    """`drain`: seconds that runs have to end."""

    drain: float | None = None


# ---------------------------------------------------------------- answers


class ServerLimits(Value):
    """`frame` is the longest line in bytes, `inFlight` the number of unanswered commands."""

    frame: int
    in_flight: int
    clients: int
    clients_per_session: int


class Welcome(Value):
    """`boot` changes when the server restarts. `known`: the server remembers this client."""

    server: str
    protocol: int
    boot: str
    client: str
    known: bool
    limits: ServerLimits


class RunningTool(Value):
    """A tool call without a stored result. One that has ended has `result` and `isError`."""

    tool_call_id: str
    tool_name: str
    args: Any
    partial_result: Any = UNSET
    result: Any = UNSET
    is_error: bool = False


class RunningShell(Value):
    """A shell command of a client; `output` is its end so far."""

    id: Any = None
    output: str = ""


class Underway(Value):
    """What has begun and not ended."""

    message: Any = None
    tools: tuple[RunningTool, ...] = ()
    bash: tuple[RunningShell, ...] = ()
    steering: tuple[str, ...] = ()
    follow_up: tuple[str, ...] = ()
    dialogs: tuple[Any, ...] = ()
    retry: Any = None
    compaction: Any = None
    statuses: dict[str, str] | None = None
    widgets: tuple[Any, ...] = ()
    title: str | None = None


class Attached(Value):
    """The answer to `open` and `attach`.

    `replay`: the missed frames follow, `replayed` of them. `snapshot`: the other fields describe
    the session at the cursor. `more`: older entries exist; `get_entries` with `before` reads them.
    `interrupted`: the last message waits for an answer, and no run makes it.
    """

    session: str
    role: ClientRole
    mode: Literal["replay", "snapshot"]
    cursor: str
    replayed: int | UnsetType = UNSET
    state: State | UnsetType = UNSET
    leaf_id: str | UnsetType | None = UNSET
    entries: tuple[Any, ...] | UnsetType = UNSET
    more: bool = False
    underway: Underway | UnsetType = UNSET
    interrupted: bool = False


class SessionSummary(Value):
    """`title` is the name, else the beginning of the first prompt."""

    session: str
    path: str | None
    cwd: str
    name: str | None
    state: SessionActivity
    clients: int
    dialogs: int
    updated: str
    title: str | None = None


class SessionSummaries(Value):
    sessions: tuple[SessionSummary, ...]


class AttachedClient(Value):
    """`behind` counts the frames that the client has not been sent yet."""

    client: str
    name: str | None
    role: ClientRole
    behind: int


class AttachedClients(Value):
    clients: tuple[AttachedClient, ...]


# ---------------------------------------------------------------- frames without a number


class ClientJoined(Value, tag_field="type", tag="client_joined"):
    client: str
    name: str | None
    role: ClientRole


class ClientLeft(Value, tag_field="type", tag="client_left"):
    client: str


class SessionMoved(Value, tag_field="type", tag="session_moved", rename={"origin": "from"}):
    """The session that the client is attached to has another id from now on."""

    origin: str
    to: str


class SessionClosed(Value, tag_field="type", tag="session_closed"):
    """The session was closed, and the client is not attached to it any more."""


class Resync(Value, tag_field="type", tag="resync"):
    """The client was too far behind; `data` is a snapshot, and live frames follow it."""

    data: msgspec.Raw


class ServerClosing(Value, tag_field="type", tag="server_closing"):
    """The server ends; runs have this many seconds."""

    seconds: float


SERVER_ROWS: tuple[CommandSpec, ...] = (
    CommandSpec("hello", Hello, "Welcome"),
    CommandSpec("open", Open, "Attached"),
    CommandSpec("attach", Attach, "Attached"),
    CommandSpec("detach", SessionOnly),
    CommandSpec("close", SessionOnly),
    CommandSpec("list", ListSessionStates, "SessionSummaries"),
    CommandSpec("clients", SessionOnly, "AttachedClients"),
    CommandSpec("ping", Bare),
    CommandSpec("shutdown", Shutdown),
)
SERVER_COMMANDS: dict[str, CommandSpec] = {spec.name: spec for spec in SERVER_ROWS}
