"""Restrict this process by Landlock, then execute the command: a program, standard library only.

Arguments: a JSON object `{"hidden": [paths], "read": [paths], "write": [paths], "network": bool}`,
then the command. Paths to read and write may be inside hidden ones.
Any error before the restrictions apply ends the program; the command never runs without them.
"""

import ctypes
import errno
import json
import os
import stat
import struct
import sys
from collections.abc import Iterator

LEAST_ABI = 3  # earlier versions do not restrict truncation
FAILED = 126

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
TRUNCATE, IOCTL_DEV = 1 << 14, 1 << 15
READ = EXECUTE | READ_FILE | READ_DIR
_MAKE_DEVICES = 1 << 6 | 1 << 11
_ON_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
# Others are hidden: disks, cameras, keyboards. So are terminals: Landlock can only allow the whole
# folder, with the terminals of other programs.
_DEVICES = ("null", "zero", "full", "tty", "random", "urandom")
_BIND_TCP, _CONNECT_TCP = 1 << 0, 1 << 1
_SCOPES = 1 << 0 | 1 << 1  # abstract sockets, signals

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_VERSION_FLAG = 1
_PATH_BENEATH = 1
_PR_CAPBSET_READ, _PR_CAPBSET_DROP, _CAPABILITY_VERSION = 23, 24, 0x20080522
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _SECCOMP_FILTER = 38, 22, 2

# By machine: the architecture constant of seccomp filters, and the number of `socket`.
_MACHINES = {"x86_64": (0xC000003E, 41), "aarch64": (0xC00000B7, 198)}
_IO_URING_SETUP = 425
_X32 = 0x40000000
_ALLOW, _KILL, _REFUSE = 0x7FFF0000, 0x80000000, 0x00050000 | errno.EACCES
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06

_libc = ctypes.CDLL(None, use_errno=True)


def abi() -> int:
    """Return the Landlock version of the kernel; 0 if it has none."""
    return max(0, int(_libc.syscall(_CREATE, None, 0, _VERSION_FLAG)))


def can_cut_network() -> bool:
    return os.uname().machine in _MACHINES


def all_rights(version: int) -> int:
    last = 15 if version >= 5 else 14
    return (1 << last + 1) - 1


def readable(hidden: frozenset[str]) -> Iterator[tuple[str, int]]:
    """Yield the rights that allow reading everything except hidden paths.

    Rights apply to everything below a folder, so the folders above a hidden path are allowed entry
    by entry. Names can be listed anywhere.
    """
    if not hidden:
        yield "/", READ
        return
    yield "/", READ_DIR
    yield from _around("/", hidden)


def _around(folder: str, hidden: frozenset[str]) -> Iterator[tuple[str, int]]:
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        path = os.path.join(folder, name)
        if path in hidden:
            continue
        if any(one.startswith(f"{path}/") for one in hidden):
            yield from _around(path, hidden)
        else:
            yield path, READ


def shut_in(hidden: frozenset[str], read: list[str], write: list[str], *, network: bool) -> None:
    """Restrict this process.

    Raises:
        OSError: a restriction cannot be applied.
    """
    version = abi()
    if version < LEAST_ABI:
        raise OSError(errno.ENOSYS, "the Landlock version of this kernel is too old")
    rights = all_rights(version)
    cut = _BIND_TCP | _CONNECT_TCP if version >= 4 and not network else 0
    scopes = _SCOPES if version >= 6 else 0
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    attributes = struct.pack("=QQQ", rights, cut, scopes)[:size]
    rules = _check(_libc.syscall(_CREATE, attributes, ctypes.c_size_t(size), 0))
    for path, allowed in readable(hidden | {"/dev"}):
        _allow(rules, path, allowed & rights)
    for path in read:
        _allow(rules, path, READ & rights)
    for path in write:
        _allow(rules, path, rights & ~_MAKE_DEVICES)
    for name in _DEVICES:
        _allow(rules, f"/dev/{name}", (READ | WRITE_FILE | TRUNCATE | IOCTL_DEV) & rights)
    _drop_capabilities()
    _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    _check(_libc.syscall(_RESTRICT, rules, 0))
    os.close(rules)
    if not network:
        _cut_network()


def _allow(rules: int, path: str, rights: int) -> None:
    try:
        # Links are not followed: the target is allowed under its own name, or hidden.
        file = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return  # removed, or not accessible to us
    try:
        mode = os.fstat(file).st_mode
        if stat.S_ISLNK(mode):
            return
        rights = rights if stat.S_ISDIR(mode) else rights & _ON_FILES
        if rights:
            rule = struct.pack("=Qi", rights, file)
            _check(_libc.syscall(_ADD, rules, _PATH_BENEATH, rule, 0))
    finally:
        os.close(file)


def _drop_capabilities() -> None:
    """Drop capabilities: with them root can inspect other processes despite Landlock."""
    for number in range(64):
        if _libc.prctl(_PR_CAPBSET_READ, number, 0, 0, 0) == 1 and os.geteuid() == 0:
            _check(_libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0))
    _check(_libc.capset(struct.pack("=Ii", _CAPABILITY_VERSION, 0), bytes(24)))


def _cut_network() -> None:
    """Forbid new sockets of any kind: even local ones reach services outside the sandbox."""
    machine = os.uname().machine
    if machine not in _MACHINES:
        raise OSError(errno.ENOSYS, f"cannot cut the network on {machine}")
    architecture, socket = _MACHINES[machine]
    steps = [
        (_LOAD, 0, 0, 4),
        (_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, 0),
        (_AT_LEAST, 2, 0, _X32),
        (_EQUAL, 1, 0, socket),
        (_EQUAL, 0, 1, _IO_URING_SETUP),
        (_RETURN, 0, 0, _REFUSE),
        (_RETURN, 0, 0, _ALLOW),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
    program = struct.pack("@HP", len(steps), ctypes.addressof(code))
    _check(_libc.prctl(_PR_SET_SECCOMP, _SECCOMP_FILTER, program, 0, 0))


def _check(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def main(words: list[str]) -> int:
    """Execute the command; return an exit code only on an error."""
    try:
        plan = json.loads(words[0])
        hidden, network = frozenset(plan["hidden"]), plan["network"]
        shut_in(hidden, plan["read"], plan["write"], network=network)
        os.execvp(words[1], words[1:])
    except (OSError, ValueError, KeyError, IndexError) as error:
        sys.stderr.write(f"sandbox: the command was not run: {error}\n")
    return FAILED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
