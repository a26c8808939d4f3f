"""Install the peers of the benchmark: `python -m bench.install_peers [FOLDER] [--python PYTHON]`.

It needs Linux, npm with its registry, and for tau a Python of 3.12 or newer. No script of a package
is run. It prints what was installed, or why not, and writes the list that
`python -m bench --peers-dir FOLDER` reads. Everything stays in the folder.
"""

import argparse
import os
import platform
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from bench.programs import PEERS_FILE, Kind, Program, version_of

_MACHINE = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
_QUIET = ("--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
_SECONDS = 900
_NODE = f"node-linux-{_MACHINE}"
_PI = "@earendil-works/pi-coding-agent"
_GOOSE = f"@aaif/goose-binary-linux-{_MACHINE}"


class Peer(msgspec.Struct, frozen=True):
    """A pinned program. `entry` is a pattern below its folder, `runtime` the program that runs it.

    A `tarball` is unpacked without its dependencies, for a package that contains a bundle.
    """

    name: str
    kind: Kind
    package: str
    version: str
    entry: str
    runtime: str = ""
    source: Literal["npm", "tarball", "pip"] = "npm"


RUNTIMES = {
    "node": ((_NODE, "24.21.0"), f"node_modules/{_NODE}/bin/node"),
    "bun": (("bun", "1.4.4"), "node_modules/@oven/bun-linux-*/bin/bun"),
}
# The first pi with short deltas is the base of most budgets.
PEERS_OF_BENCH = (
    Peer("goose", "goose", _GOOSE, "1.52.0", f"node_modules/{_GOOSE}/bin/goose"),
    Peer("codex", "codex", "@openai/codex", "0.166.0", "node_modules/@openai/codex-*/**/bin/codex"),
    Peer("pi", "pi", _PI, "0.87.1", f"node_modules/{_PI}/dist/bundle/cli.js", "node"),
    Peer("pi-1.5", "pi", _PI, "1.5.0", "package/dist/bundle/cli.js", "node", "tarball"),
    Peer(
        *("claude", "claude", "@anthropic-ai/claude-code", "2.1.325"),
        "node_modules/@anthropic-ai/claude-code-*/claude",
    ),
    Peer(
        *("opencode", "opencode", "opencode-ai", "1.18.33"),
        f"node_modules/opencode-linux-{_MACHINE}/bin/opencode",
    ),
    Peer(
        *("omp", "omp", "@oh-my-pi/pi-coding-agent", "18.2.3"),
        *("node_modules/@oh-my-pi/pi-coding-agent/dist/cli.js", "bun"),
    ),
    Peer("tau", "tau", "tau-ai", "0.4.8", "bin/tau", source="pip"),
    Peer("pi-0.79", "pi", _PI, "0.79.10", f"node_modules/{_PI}/dist/cli.js", "node"),
)


class NotInstalled(RuntimeError):
    """Raised with the reason."""


def main() -> None:
    arguments = _arguments()
    folder: Path = arguments.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    found = []
    for peer in PEERS_OF_BENCH:
        _say(f"{peer.name:10} {peer.package} {peer.version} ...")
        try:
            found.append(_install(folder, peer, arguments.python))
        except NotInstalled as problem:
            _say(f"{peer.name:10} not installed: {problem}")
        else:
            _say(f"{peer.name:10} installed, {found[-1].version}")
    (folder / PEERS_FILE).write_bytes(msgspec.json.format(msgspec.json.encode(found)))
    _say(f"{len(found)} of {len(PEERS_OF_BENCH)} are in {folder / PEERS_FILE}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.install_peers", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("build/peers"))
    parser.add_argument("--python", help="an interpreter of 3.12 or newer, for tau")
    return parser.parse_args()


def _install(folder: Path, peer: Peer, python: str | None) -> Program:
    """Install a program, unless its folder has this version; returns how to start it."""
    command = []
    if peer.runtime:
        (package, version), entry = RUNTIMES[peer.runtime]
        home = folder / peer.runtime
        if _is_new(home, f"{package} {version}"):
            _npm_install(home, package, version)
            _mark(home, f"{package} {version}")
        command.append(str(_entry(home, entry)))
    home, pin = folder / peer.name, f"{peer.package} {peer.version}"
    if _is_new(home, pin):
        match peer.source:
            case "npm":
                _npm_install(home, peer.package, peer.version)
            case "tarball":
                _unpack(home, peer.package, peer.version)
            case "pip":
                _pip_install(home, f"{peer.package}=={peer.version}", python)
        _mark(home, pin)
    words = (*command, str(_entry(home, peer.entry)))
    return Program(peer.name, peer.kind, words, _checked_version(words, folder / "home"))


def _is_new(folder: Path, pin: str) -> bool:
    """Empty the folder, unless it has this package."""
    stamp = folder / "installed"
    if stamp.is_file() and stamp.read_text() == pin:
        return False
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    return True


def _mark(folder: Path, pin: str) -> None:
    (folder / "installed").write_text(pin)


def _entry(folder: Path, pattern: str) -> Path:
    found = sorted(folder.glob(pattern))
    if not found:
        raise NotInstalled(f"the package has no {pattern}")
    return found[0]


def _checked_version(words: Sequence[str], home: Path) -> str:
    home.mkdir(exist_ok=True)
    try:
        version = version_of(words, {**os.environ, "HOME": str(home)})
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise NotInstalled(f"it does not start: {problem}") from None
    if version == "?":
        raise NotInstalled("it does not print its version")
    return version


# ---------------------------------------------------------------- package managers


def _npm_install(folder: Path, package: str, version: str) -> None:
    (folder / "package.json").write_text('{"private": true}\n')
    _run([_npm(), "install", *_QUIET, f"{package}@{version}"], folder)


def _unpack(folder: Path, package: str, version: str) -> None:
    _run([_npm(), "pack", "--silent", f"{package}@{version}"], folder)
    with tarfile.open(_entry(folder, "*.tgz")) as archive:
        archive.extractall(folder, filter="data")


def _pip_install(folder: Path, pin: str, python: str | None) -> None:
    _run([python or _newer_python(), "-m", "venv", str(folder)], folder)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    _run([*pip, "--disable-pip-version-check", pin], folder)


def _npm() -> str:
    found = shutil.which("npm")
    if found is None:
        raise NotInstalled("npm is not on PATH")
    return found


def _newer_python() -> str:
    for name in (sys.executable, "python3.14", "python3.13", "python3.12"):
        path = shutil.which(name)
        check = "import sys; sys.exit(sys.version_info < (3, 12))"
        if path and not subprocess.run([path, "-c", check], capture_output=True).returncode:
            return path
    raise NotInstalled("no Python of 3.12 or newer is on PATH; name one with --python")


def _run(command: Sequence[str], folder: Path) -> None:
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, check=False, timeout=_SECONDS
        )
    except subprocess.TimeoutExpired:
        raise NotInstalled(f"{Path(command[0]).name} took more than {_SECONDS} s") from None
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        raise NotInstalled(f"{Path(command[0]).name} failed: {' '.join(lines[-3:])[:300]}")


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
