"""Restrict commands by Landlock: a launcher drops its own rights, then executes the command."""

import os
import stat
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from ludolf.tools.sandbox import launcher
from ludolf.tools.sandbox import sensitive_paths as places
from ludolf.tools.sandbox.file_access import Tmp
from ludolf.tools.sandbox.links import follow
from ludolf.tools.sandbox.policy import (
    Argv,
    Enclosed,
    Ground,
    Policy,
    agent_sockets,
    program_places,
)


class Landlock:
    name = "landlock"

    def __init__(self, tmp: Tmp) -> None:
        self.tmp = tmp
        # Read once at the start: a command may be able to change the file.
        self._source = Path(launcher.__file__).read_text("utf-8")
        self._python = os.path.realpath(sys.executable)

    def enclose(self, policy: Policy, argv: Argv, cwd: Path, env: Mapping[str, str]) -> Enclosed:
        plan = {
            "hidden": [str(path) for path in (*policy.hidden, self.tmp.base)],
            "read": [str(self.tmp.kept)],
            "write": [str(path) for path in (*policy.writable, self.tmp.real)],
            "network": policy.ground.network,
        }
        argument = msgspec.json.encode(plan).decode()
        begin = (self._python, "-I", "-S", "-X", "utf8", "-c", self._source, argument)
        return (*begin, *argv), cwd, dict(env)

    def sweep(self) -> tuple[Path, ...]:
        """Remove nothing: commands may change the whole repository."""
        return ()

    def close(self) -> None:
        """Do nothing: Landlock leaves no files."""


def lacking(policy: Policy) -> str | None:
    """Return why Landlock cannot enforce the policy here; None if it can."""
    if not sys.platform.startswith("linux") or launcher.abi() < launcher.LEAST_ABI:
        return "this kernel has no Landlock (Linux 6.2 or newer)"
    within = [path for path in policy.hidden if policy.is_writable(path)]
    if within:
        return f"Landlock cannot hide {within[0]} in a folder that is open to commands"
    # A change of .pi revokes the trust in the project; a change of other code goes unnoticed.
    run = [path for path in _run(policy) if not path.is_relative_to(policy.folder / ".pi")]
    if run:
        return f"Landlock cannot protect {run[0]}, from which this program runs"
    if not policy.ground.network:
        supported = launcher.can_cut_network()
        return None if supported else f"Landlock cannot cut the network on {os.uname().machine}"
    open_one = next(_control_sockets(policy.ground), None)
    if open_one:
        return f"Landlock cannot keep commands from {open_one}; cut the network, or remove it"
    return None


def _run(policy: Policy) -> Iterator[Path]:
    """Yield code of this program in folders that commands can write."""
    ground = policy.ground
    for path in (*ground.guarded, *program_places(), ground.agent):
        followed = follow(path.absolute())
        yield from (each for each in (followed.path, *followed.links) if policy.is_writable(each))


def _control_sockets(ground: Ground) -> Iterator[str]:
    own = ground.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}"
    users = [os.path.join(own, name) for name in places.USER_SOCKETS]
    others = (
        str(ground.home / ".docker/run/docker.sock"),
        *map(str, agent_sockets(ground.environ)),
    )
    displays = map(str, Path(places.X_SOCKETS).glob("X*"))
    for path in (*places.CONTROL_SOCKETS, *users, *others, *displays):
        try:
            is_socket = stat.S_ISSOCK(os.stat(path).st_mode)
        except OSError:
            continue
        if is_socket and os.access(path, os.W_OK):
            yield path
