"""Installs the clients of others into a folder: `python -m tests.clients.install FOLDER`.

Needs npm and a Python of 3.12 or newer (`CLIENTS_PYTHON` names one). No package's script is run.
"""

import os
import platform
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from ludolf.base import dumps, loads
from tests.clients import versions
from tests.newer_python import newer_python

_MACHINES = {"x86_64": ("x64", "x64"), "amd64": ("x64", "x64"), "aarch64": ("arm64", "aarch64")}


def main() -> None:
    folder = Path(sys.argv[1]).absolute()
    stamp = folder / "installed.json"
    wanted = {name: _plain(value) for name, value in vars(versions).items() if name.isupper()}
    if stamp.exists() and loads(stamp.read_bytes()) == wanted:
        return
    _say(f"Installing the clients of others into {folder} ...")
    _clear(folder, stamp)
    _install_node_packages(folder)
    for version in versions.PI:
        _unpack(f"{versions.PI_PACKAGE}@{version}", folder / f"pi-{version}")
    for version in versions.OMP:
        _install_omp(folder / f"omp-{version}", version)
    _install_python_packages(folder / "python")
    stamp.write_bytes(dumps(wanted))


def _clear(folder: Path, stamp: Path) -> None:
    """An empty folder with a mark; whatever has no mark of ours is not ours to remove."""
    if stamp.exists():
        shutil.rmtree(folder)
    elif folder.exists() and any(folder.iterdir()):
        sys.exit(f"{folder} is not empty, and was not made by this")
    folder.mkdir(parents=True, exist_ok=True)
    stamp.write_bytes(b"{}\n")


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


# ---------------------------------------------------------------- npm


def _install_node_packages(folder: Path) -> None:
    for_node, for_bun = _MACHINES.get(platform.machine().lower(), ("arm64", "aarch64"))
    system = platform.system().lower()
    runtimes = {
        f"node-{system}-{for_node}": versions.NODE,
        f"@oven/bun-{system}-{for_bun}": versions.BUN,
    }
    _npm_install(folder / "npm", {**runtimes, **versions.NPM})
    runners = folder / "bin"
    runners.mkdir()
    modules = folder / "npm" / "node_modules"
    for name, package in zip(("node", "bun"), runtimes, strict=True):
        (runners / name).symlink_to(modules / package / "bin" / name)


def _install_omp(folder: Path, version: str) -> None:
    """Its client needs one part of it; the whole program has a hundred."""
    _npm_install(folder, {versions.OMP_PARTS: version})
    _unpack(f"{versions.OMP_PACKAGE}@{version}", folder / "node_modules" / versions.OMP_PACKAGE)


def _npm_install(folder: Path, packages: Mapping[str, str]) -> None:
    folder.mkdir()
    (folder / "package.json").write_bytes(dumps({"private": True, "dependencies": packages}))
    quiet = ("--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
    _run([_npm(), "install", *quiet], folder)


def _unpack(package: str, folder: Path) -> None:
    """A package alone, without those it depends on: a client needs none of them."""
    folder.mkdir(parents=True)
    _run([_npm(), "pack", "--loglevel=error", package], folder)
    (archive,) = folder.glob("*.tgz")
    with tarfile.open(archive) as file:
        for member in file.getmembers():
            member.name = member.name.partition("/")[2]
            file.extract(member, folder, filter="data")
    archive.unlink()


def _npm() -> str:
    found = shutil.which("npm")
    if found is None:
        sys.exit("npm is not on PATH: the clients for TypeScript and ACP come from it")
    return found


# ---------------------------------------------------------------- Python


def _install_python_packages(folder: Path) -> None:
    python = _python()
    if python is None:
        _say("No Python of 3.12 or newer: pidriver is left out (CLIENTS_PYTHON may name one)")
    _run([python or sys.executable, "-m", "venv", str(folder)], folder.parent)
    pins = [
        f"{name}=={version}"
        for name, version in versions.PYTHON.items()
        if python or name != "pidriver"
    ]
    pip = (str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet")
    _run([*pip, "--disable-pip-version-check", *pins], folder.parent)


def _python() -> str | None:
    if sys.version_info >= versions.PYTHON_LEAST:
        return os.environ.get("CLIENTS_PYTHON") or sys.executable
    return os.environ.get("CLIENTS_PYTHON") or newer_python()


def _run(words: Sequence[str], cwd: Path) -> None:
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)} failed:\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    main()
