"""Run commands in bubblewrap, in separate namespaces with a restricted file system."""

import errno
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from ludolf.agent.tool import ToolFailure
from ludolf.tools.sandbox import sensitive_paths as places
from ludolf.tools.sandbox.file_access import Tmp
from ludolf.tools.sandbox.guard import Guard, GuardedPath
from ludolf.tools.sandbox.leftovers import Leftovers
from ludolf.tools.sandbox.policy import Argv, Enclosed, Policy, agent_sockets, program_places, real

SHOWN_TMP = Path("/tmp")
_APART = ("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try")
# Errors that mean that no process of this user can create a file in a folder.
_NO_FILES_HERE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ELOOP, errno.ENOTDIR)


class Bubblewrap:
    name = "bwrap"

    def __init__(self, program: str, tmp: Tmp, guard: Guard) -> None:
        """`guard` must be computed before any command runs."""
        self._program = program
        self.tmp = tmp
        self._entries, self._pinned = guard.entries, guard.pinned
        self._left = Leftovers(tmp.base)
        self._left.forbid(guard.foreign)
        self._of_kernel = tuple(_of_kernel())

    def enclose(self, policy: Policy, argv: Argv, cwd: Path, env: Mapping[str, str]) -> Enclosed:
        network = () if policy.ground.network else ("--unshare-net",)
        # Root would otherwise keep the capabilities to undo the restrictions.
        begin = (self._program, "--die-with-parent", *_APART, *network, "--cap-drop", "ALL")
        system = (*_system(), *self._of_kernel, "--bind", str(self.tmp.real), str(self.tmp.shown))
        laid = (*system, *self._project(policy), *self._own_files(), *self._hidden(policy))
        return (*begin, *laid, "--chdir", str(cwd), "--", *argv), Path("/"), dict(env)

    def sweep(self) -> tuple[Path, ...]:
        """Remove files that commands created to redirect git; return these files."""
        return self._left.sweep()

    def close(self) -> None:
        self._left.close()

    def _own_files(self) -> Iterator[str]:
        """Mount the output of earlier commands and this program over replaced folders."""
        base, shown = self.tmp.base, self.tmp.shown
        if not base.is_relative_to(shown):
            yield from ("--tmpfs", str(base))
        for kept in (self.tmp.kept, *real(program_places())):
            if kept.is_relative_to(shown) or kept.is_relative_to(base):
                yield from ("--ro-bind-try", str(kept), str(kept))

    def _project(self, policy: Policy) -> Iterator[str]:
        # A folder below the private temporary folder is visible only if it is mounted there.
        yield from ("--ro-bind", str(policy.folder), str(policy.folder))
        for place in policy.writable:
            yield from ("--bind", str(place), str(place))
        # A mounted folder cannot be moved and replaced. Only folders from before the first
        # command: a later one could become a link before it is mounted.
        self._pinned = tuple(folder for folder in self._pinned if folder.is_same())
        for folder in self._pinned:
            yield from ("--bind-try", str(folder.path), str(folder.path))
        for entry in self._entries:
            kept = self._present(entry)
            if kept is not None:
                yield from ("--ro-bind-try", str(kept), str(kept))

    def _present(self, entry: GuardedPath) -> Path | None:
        """Return the path to mount, created empty if absent; None if no process can create it."""
        path, is_folder = entry
        if not os.path.lexists(path) and (stand_in := self._left.stands_for(path)) is not None:
            return stand_in
        while not os.path.lexists(path.parent):
            path, is_folder = path.parent, True
        if os.path.lexists(path):
            self._left.adopt(path)
            return path
        try:
            self._left.make(path, folder=is_folder)
        except FileExistsError:
            return path
        except OSError as error:
            if error.errno in _NO_FILES_HERE:
                return None
            raise ToolFailure(f"The sandbox cannot protect {path}: {error.strerror}.") from error
        return path

    def _hidden(self, policy: Policy) -> Iterator[str]:
        sockets = (*map(Path, places.CONTROL_SOCKETS), *agent_sockets(policy.ground.environ))
        for path in (*policy.hidden, *(path for path in sockets if path.is_socket())):
            if not self._is_seen(path, policy):
                continue
            if path.is_dir():
                yield from ("--tmpfs", str(path))
            else:
                yield from ("--ro-bind", os.devnull, str(path))

    def _is_seen(self, path: Path, policy: Policy) -> bool:
        replaced = (self.tmp.shown, self.tmp.base, *map(Path, places.PRIVATE))
        if not any(path.is_relative_to(place) for place in replaced):
            return True
        return any(path.is_relative_to(place) for place in (policy.folder, *policy.writable))


def shown_in_private() -> tuple[Path, ...]:
    """Return the files in private folders that commands can still see."""
    names = os.path.realpath("/etc/resolv.conf")
    kept = (*places.KEPT_IN_RUN, names)
    return tuple(Path(path) for path in kept if path.startswith(("/run/", "/var/run/")))


def _system() -> Iterator[str]:
    yield from ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc")
    # Contains the sockets of services, through which code could leave the sandbox.
    for folder in ("/run", "/var/run"):
        if os.path.isdir(folder) and not os.path.islink(folder):
            yield from ("--tmpfs", folder)
    for kept in map(str, shown_in_private()):
        yield from ("--ro-bind-try", kept, kept)


def _of_kernel() -> Iterator[str]:
    """Protect files of /proc that affect the machine: root can write them without capabilities.

    For example, `kernel.core_pattern` names a program that the kernel runs outside the sandbox.
    bubblewrap protects only folders that are writable themselves, and /proc/sys is not.
    """
    if os.geteuid() != 0:
        return
    for entry in os.scandir("/proc"):
        if entry.name.isdigit() or entry.is_symlink():
            continue
        if entry.is_dir() or entry.stat().st_mode & 0o222:
            yield from ("--ro-bind-try", entry.path, entry.path)
