"""Installs MCP servers of others into a folder: `python -m tests.mcp.install FOLDER`.

Needs npm and access to PyPI and npm. No script of an npm package is run.
"""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from ludolf.base import dumps, loads
from tests.mcp import versions


def main() -> None:
    folder = Path(sys.argv[1]).absolute()
    stamp = folder / "installed.json"
    wanted = {"python": versions.PYTHON, "npm": versions.NPM}
    if stamp.exists() and loads(stamp.read_bytes()) == wanted:
        return
    sys.stderr.write(f"Installing MCP servers of others into {folder} ...\n")
    if stamp.exists():
        shutil.rmtree(folder)
    elif folder.exists() and any(folder.iterdir()):
        sys.exit(f"{folder} is not empty, and was not made by this program")
    folder.mkdir(parents=True, exist_ok=True)
    stamp.write_bytes(b"{}\n")
    _install_python_packages(folder / "python")
    _install_node_packages(folder)
    stamp.write_bytes(dumps(wanted))


def _install_python_packages(folder: Path) -> None:
    _run([sys.executable, "-m", "venv", str(folder)], folder.parent)
    pins = [f"{name}=={version}" for name, version in versions.PYTHON.items()]
    pip = (str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet")
    _run([*pip, "--disable-pip-version-check", *pins], folder.parent)


def _install_node_packages(folder: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        sys.exit("npm is not on PATH: three of the servers come from it")
    pins = [f"{name}@{version}" for name, version in versions.NPM.items()]
    quiet = ("--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
    _run([npm, "install", "--prefix", str(folder), *quiet, *pins], folder)


def _run(words: Sequence[str], cwd: Path) -> None:
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)} failed:\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    main()
