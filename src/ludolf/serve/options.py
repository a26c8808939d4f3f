"""How the server was started."""

from pathlib import Path

import msgspec

from ludolf.config.settings.options import Options


class RingLimits(msgspec.Struct, frozen=True):
    """How much of a session's frames is kept for clients that come back."""

    size: int = 2 << 20
    frames: int = 8192


class ClientLimits(msgspec.Struct, frozen=True):
    """Limits of clients. `silence_seconds`: a remote client that sends nothing is disconnected.

    `stuck_seconds`: a client that takes nothing that is sent to it is disconnected. `away_seconds`:
    calls of its tools wait so long for a client that has left. `away_clients` and `away_bytes`: so
    many clients that have left are remembered, and so much of replies to them. `last_seconds`: a
    client that sends nothing more gets its replies within this time.
    """

    clients: int = 64
    per_session: int = 16
    in_flight: int = 256
    unsent: int = 32 << 20
    remote_frame: int = 16 << 20
    local_frame: int = 128 << 20
    silence_seconds: float = 60.0
    stuck_seconds: float = 300.0
    away_seconds: float = 30.0
    away_clients: int = 256
    away_bytes: int = 16 << 20
    last_seconds: float = 5.0


class PrivateOptions(msgspec.Struct, frozen=True):
    """The server of one terminal: its connection is the descriptor `fd`.

    `aborts`: when the terminal hangs up, the run is stopped.
    """

    fd: int
    aborts: bool = False
    # Seconds between two looks at the sessions, after the terminal has left.
    watch_seconds: float = 0.5


class ServeOptions(msgspec.Struct, kw_only=True):
    """`options` are those of every session, unless a client chooses others.

    `roots` are the folders that sessions may work in; without any, every folder. `words` are the
    options of sessions as they stood on the command line.
    """

    options: Options
    agent_dir: Path
    words: tuple[str, ...] = ()
    socket: Path | None = None
    http: tuple[str, int] | None = None
    stdio: bool = False
    private: PrivateOptions | None = None
    roots: tuple[Path, ...] = ()
    unload_seconds: float = 900.0
    max_loaded: int = 256
    drain_seconds: float = 0.0
    origins: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    tls: tuple[Path, Path] | None = None
    tls_by_proxy: bool = False
    new_token: bool = False
    ring: RingLimits = RingLimits()
    all_rings: int = 64 << 20
    limits: ClientLimits = ClientLimits()
