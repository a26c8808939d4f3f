"""Where `ludolf serve` keeps its sockets and its token."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from ludolf.base.addresses import Address
from ludolf.config.settings.home import agent_dir

TOKEN_FILE = "serve-token"
_MOST_TOKEN_BYTES = 4096


def socket_folders(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the folders that hold sockets of this user's servers, the usual one first."""
    runtime = environ.get("XDG_RUNTIME_DIR")
    own = agent_dir(environ) / "run"
    return (Path(runtime, "ludolf"), own) if runtime else (own,)


def default_socket(environ: Mapping[str, str]) -> Path:
    """Return the path of the socket if no other is chosen."""
    folders = socket_folders(environ)
    folder = next((each for each in folders[:-1] if each.parent.is_dir()), folders[-1])
    return folder / "serve.sock"


def find_sockets(environ: Mapping[str, str]) -> list[Path]:
    """Return the sockets in the folders of this user; a server may have left one behind."""
    found: list[Path] = []
    for folder in socket_folders(environ):
        with suppress(OSError):
            found += sorted(path for path in folder.glob("*.sock") if path.is_socket())
    return found


def token_for(address: Address, environ: Mapping[str, str]) -> str | None:
    """Return the token of the server on this machine; None for other addresses or without one."""
    if not address.is_loopback:
        return None
    with suppress(OSError, UnicodeDecodeError), (agent_dir(environ) / TOKEN_FILE).open("rb") as f:
        return f.read(_MOST_TOKEN_BYTES).decode().strip() or None
    return None
