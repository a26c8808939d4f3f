"""Installs what runs Ludolf in other programs: `python -m tests.fleet.install FOLDER`.

Each program has an environment of its own, with the dependencies of Ludolf; its source is found by
PYTHONPATH. Needs access to PyPI.
"""

import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

from ludolf.base import dumps, loads

ROOT = Path(__file__).parents[2]
# The packages of each environment, by its folder.
PACKAGES = {"ray": ("ray==2.60.0",)}


def main() -> None:
    folder = Path(sys.argv[1]).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    with (ROOT / "pyproject.toml").open("rb") as file:
        own = tomllib.load(file)["project"]["dependencies"]
    for name, packages in PACKAGES.items():
        _install(folder / name, [*packages, *own])


def _install(folder: Path, packages: Sequence[str]) -> None:
    """Make an environment, unless it has these packages already."""
    stamp = folder / "installed.json"
    if stamp.exists() and loads(stamp.read_bytes()) == packages:
        return
    sys.stderr.write(f"Installing {packages[0]} into {folder} ...\n")
    if stamp.exists():
        shutil.rmtree(folder)
    elif folder.exists() and any(folder.iterdir()):
        sys.exit(f"{folder} is not empty, and was not made by this program")
    _run([sys.executable, "-m", "venv", str(folder)])
    stamp.write_bytes(b"[]\n")
    pip = (str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet")
    _run([*pip, "--disable-pip-version-check", *packages])
    stamp.write_bytes(dumps(packages))


def _run(words: Sequence[str]) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)} failed:\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    main()
