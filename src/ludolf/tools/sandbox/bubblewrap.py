"""Commands shut in by bubblewrap: namespaces of their own, and a file system laid out for them."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from ludolf.tools.sandbox import places
from ludolf.tools.sandbox.policy import Policy, agent_sockets, program_places, real
from ludolf.tools.sandbox.walls import Tmp

SHOWN_TMP = Path("/tmp")
_APART = ("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try")
_RUN = ("/run/", "/var/run/")


class Bubblewrap:
    name = "bwrap"

    def __init__(self, program: str, tmp: Tmp) -> None:
        self._program = program
        self.tmp = tmp
        # Folders of settings that were not there: bubblewrap leaves an empty one to lay its own on.
        self.left: set[Path] = set()
        # Files that lead git to other settings: none was there before, and none may stay.
        self._foreign: set[Path] = set()

    def enclose(
        self, policy: Policy, argv: tuple[str, ...], cwd: Path, env: Mapping[str, str]
    ) -> tuple[tuple[str, ...], Path, dict[str, str]]:
        network = () if policy.ground.network else ("--unshare-net",)
        # Root would otherwise keep the power to undo it all.
        begin = (self._program, "--die-with-parent", *_APART, *network, "--cap-drop", "ALL")
        laid = (*_system(), *self._own_tmp(), *self._project(policy), *self._hidden(policy))
        return (*begin, *laid, "--chdir", str(cwd), "--", *argv), Path("/"), dict(env)

    def sweep(self) -> tuple[Path, ...]:
        """Remove what commands made to lead git elsewhere; returns what that was."""
        found = [path for path in self._foreign if os.path.lexists(path)]
        return tuple(path for path in found if _unlinked(path))

    def close(self) -> None:
        self.sweep()
        for folder in self.left:
            try:
                os.rmdir(folder)
            except OSError:
                continue  # somebody put something into it

    def _own_tmp(self) -> Iterator[str]:
        yield from ("--bind", str(self.tmp.real), str(self.tmp.shown))
        # Of what lies in the real one, commands see what tools tell them of and run.
        for kept in (self.tmp.kept, *real(program_places())):
            if kept.is_relative_to(self.tmp.shown):
                yield from ("--ro-bind-try", str(kept), str(kept))

    def _project(self, policy: Policy) -> Iterator[str]:
        folder = policy.folder
        # A folder below the private temporary one must be laid there to be seen at all.
        yield from ("--ro-bind", str(folder), str(folder))
        for place in policy.writable:
            yield from ("--bind", str(place), str(place))
        if policy.ground.mode != "workspace":
            return
        git = folder / ".git"
        if git.is_dir() and not git.is_symlink():
            # What is mounted cannot be moved away to make room for another.
            yield from ("--bind", str(git), str(git))
            yield from self._absent(git / "hooks")
            # An empty file in its place would be an error to git: it can only be swept away.
            if not os.path.lexists(git / "commondir"):
                self._foreign.add(git / "commondir")
        for place in policy.protected:
            # What we laid ourselves stays as it was laid.
            if place not in self.left:
                yield from ("--ro-bind", str(place), str(place))
        yield from self._absent(folder / ".pi")

    def _absent(self, own: Path) -> Iterator[str]:
        """Settings and hooks run code later, also those made just now."""
        if os.path.lexists(own) and own not in self.left:
            return
        self.left.add(own)
        yield from ("--tmpfs", str(own), "--remount-ro", str(own))

    def _hidden(self, policy: Policy) -> Iterator[str]:
        # Those below /run are gone with it.
        known = (*map(Path, places.CONTROL_SOCKETS), *agent_sockets())
        sockets = [path for path in known if not str(path).startswith(_RUN) and path.is_socket()]
        for path in (*policy.hidden, *sockets):
            if not self._is_seen(path, policy):
                continue
            if path.is_dir():
                yield from ("--tmpfs", str(path))
            else:
                yield from ("--ro-bind", os.devnull, str(path))

    def _is_seen(self, path: Path, policy: Policy) -> bool:
        if not path.is_relative_to(self.tmp.shown):
            return True
        return any(path.is_relative_to(place) for place in (policy.folder, *policy.writable))


def _unlinked(path: Path) -> bool:
    try:
        os.unlink(path)
    except OSError:
        return False  # gone already, or a folder, which leads nowhere
    return True


def _system() -> Iterator[str]:
    yield from ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc")
    # The sockets of services lie there; whoever may speak to one may be outside by it.
    for folder in ("/run", "/var/run"):
        if os.path.isdir(folder) and not os.path.islink(folder):
            yield from ("--tmpfs", folder)
    names = os.path.realpath("/etc/resolv.conf")
    for kept in (*places.KEPT_IN_RUN, names):
        if kept.startswith(_RUN):
            yield from ("--ro-bind-try", kept, kept)
