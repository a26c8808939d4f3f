"""Options of a client of a server, and of its sessions."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict

from ludolf.client.errors import ClientError
from ludolf.protocol.server import ClientRole


class RemoteOptions(TypedDict, total=False):
    """Everything is optional.

    client         a name for this client, which the server remembers for ten minutes; default: a
                   random one
    name           a name that other clients see
    token          the token of the server; default: `serve-token` in the agent folder, if the
                   address is a TCP address of this machine
    ca             a file of certificate authorities for `wss://`; default: those of the system
    tools          functions that the model may call, in every session of this client
    on_dialog      answers dialogs and approvals: gets the request, returns the chosen option, the
                   text, or yes and no; None dismisses. Without it they are events
    timeout        seconds to wait for replies that come at once; default 30, None: no limit
    first_delay    seconds before the first attempt to connect again; default 0.1
    longest_delay  seconds that the delay doubles up to; default 10
    patience       seconds without a connection after which the client gives up; default: never
    ping_seconds   seconds between pings; default 20
    unread_bytes   size of the unread events of a session after which `Resynced` replaces them;
                   default 32 MiB
    trace          sees every line as it is read
    """

    client: str
    name: str
    token: str
    ca: str
    tools: Sequence[Callable[..., Any]]
    on_dialog: Callable[..., Any]
    timeout: float | None
    first_delay: float
    longest_delay: float
    patience: float | None
    ping_seconds: float
    unread_bytes: int
    trace: Callable[[bytes], None]


class OpenParams(TypedDict, total=False):
    """Everything is optional.

    session   `new` (default), `last` (the latest of the folder), an id or a path
    cwd       the folder of a new session; default over a Unix socket: the current one
    options   options of the command line for this session, in camelCase: {"model": ...}
    env       the environment of its tools and keys; default: that of the server
    role      `control` (default) or `view`
    isolated  True runs the session in a process of its own
    traceparent  trace context of prompts that carry none, with telemetry
    tracestate   the same: state of tracing systems
    baggage      the same: fields for other programs
    """

    session: str
    cwd: str | os.PathLike[str]
    options: Mapping[str, Any]
    env: Mapping[str, str]
    role: ClientRole
    isolated: bool
    traceparent: str
    tracestate: str
    baggage: str


class AttachParams(TypedDict, total=False):
    """Everything is optional.

    cursor  the `cursor` of an earlier attachment: its later events follow if the server has them
    entry   the last known entry: the snapshot holds those after it
    last    how many entries the snapshot holds otherwise; default 100
    env     the environment of its tools and keys, if the session has to be loaded
    role    `control` (default) or `view`
    """

    cursor: str
    entry: str
    last: int
    env: Mapping[str, str]
    role: ClientRole


def check_options(options: RemoteOptions) -> None:
    """Raises:
    ClientError: an option is unknown.
    """
    unknown = set(options) - RemoteOptions.__optional_keys__
    if unknown:
        known = ", ".join(sorted(RemoteOptions.__optional_keys__))
        raise ClientError(f"Unknown option: {', '.join(sorted(unknown))}. Known: {known}.")
